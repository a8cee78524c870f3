"""What the words that head loops and scopes take beside their bounds."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from tilewright.errors import ParserSyntaxError, ParserTypeError
from tilewright.frontend.operations import as_attr
from tilewright.frontend.parse.parser import FunctionParser
from tilewright.frontend.surface import LoopWord, Word
from tilewright.frontend.values import is_integer, is_scalar
from tilewright.frontend.words import (
    AT,
    CLUSTER,
    GRAPH,
    MANUAL_SCOPE,
    PARALLEL,
    PIPELINE,
    RANGE,
    SCOPE,
    SPLIT_AIV,
    SPMD,
    SPMD_SUBMIT,
    SUBMIT,
    UNROLL,
)
from tilewright.ir.conformance import described
from tilewright.ir.core import Value
from tilewright.ir.enums import Level, Role, ScopeMode, SplitMode
from tilewright.ir.hints import Optimization
from tilewright.ir.types import ShapedType
from tilewright.ops.extents import constant_of

Expected = tuple[Callable[[Any], bool], str]


def _instance(kind: type[Any]) -> Expected:
    return lambda given: isinstance(given, kind), f"a pl.{kind.__name__}"


def _is_count(given: Any) -> bool:
    known = constant_of(given) if isinstance(given, Value) else given
    return is_integer(given) and not (isinstance(known, int) and known < 1)


def _is_number(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given > 0


def _are_hints(given: Any) -> bool:
    entries: Any = () if given is None else given
    return isinstance(entries, (list, tuple)) and all(
        isinstance(entry, Optimization) for entry in cast("list[Any]", entries)
    )


def _are_words(given: Any) -> bool:
    return isinstance(given, (list, tuple)) and all(
        isinstance(word, str) for word in cast("list[Any]", given)
    )


def _are_tensors(given: Any) -> bool:
    """True for tensors and tiles; a text names them."""
    items: Any = [] if given is None else given
    return isinstance(items, (list, tuple)) and all(
        isinstance(item, str) or (isinstance(item, Value) and isinstance(item.type, ShapedType))
        for item in cast("list[Any]", items)
    )


_ANYTHING: Expected = (lambda _: True, "")
_FLAG: Expected = (lambda given: isinstance(given, bool), "True or False")
_TEXT: Expected = (lambda given: isinstance(given, str), "a string")
_HINTS: Expected = (_are_hints, "a list of pl.split(...) and pl.cross_core_slot(...)")
_TENSORS: Expected = (_are_tensors, "a list of tensors")
_COUNT: Expected = (_is_count, "a positive count")
_TASK = {
    "optimizations": _HINTS,
    "deps": _ANYTHING,
    "name_hint": _TEXT,
    "allow_early_resolve": _FLAG,
}
_SUBMITTED = {
    "device": _ANYTHING,
    "dumps": _TENSORS,
    "no_dep_args": _TENSORS,
    "predicate": _ANYTHING,
    **_TASK,
}
OPTIONS: Mapping[Word, Mapping[str, Expected]] = {
    RANGE: {},
    PARALLEL: {},
    UNROLL: {},
    PIPELINE: {"stage": (_is_number, "a positive constant")},
    SPMD: {
        "core_num": _COUNT,
        "sync_start": _FLAG,
        "predicate": _ANYTHING,
        **_TASK,
    },
    SPLIT_AIV: {
        "n": (lambda given: given == 2, "2, the number of vector lanes,"),
        "mode": _instance(SplitMode),
    },
    AT: {
        "level": _instance(Level),
        "role": (lambda given: given is None or isinstance(given, Role), "a pl.Role"),
        "no_dep_args": _TENSORS,
        "dumps": _TENSORS,
        "windowize": _FLAG,
        **_TASK,
    },
    CLUSTER: {"name_hint": _TEXT},
    SCOPE: {"mode": _instance(ScopeMode)},
    MANUAL_SCOPE: {},
    GRAPH: {"name": _TEXT},
    SUBMIT: _SUBMITTED,
    SPMD_SUBMIT: {"core_num": _COUNT, "sync_start": _FLAG, **_SUBMITTED},
}
POSITIONAL: Mapping[Word, tuple[str, ...]] = {
    AT: ("level", "role"),
    SCOPE: ("mode",),
    GRAPH: ("name",),
    SPMD: ("core_num",),
    SPLIT_AIV: ("n",),
}
"""The options that positions are for, where positions are not bounds."""

_PRINTED: Mapping[str, Expected] = {
    "combine": (_are_words, "a list of words"),
    "crew": _TEXT,
    **{name: expected for known in OPTIONS.values() for name, expected in known.items()},
}
"""What a printed loop may have kept of the word that it was."""

_NEEDED: Mapping[Word, str] = {AT: "level", PIPELINE: "stage", SPMD_SUBMIT: "core_num"}


def require_options(
    p: FunctionParser, word: Word, options: Mapping[str, Any], node: ast.expr
) -> None:
    """Raises ParserSyntaxError for an option that is unknown or missing, ParserTypeError for one
    of the wrong kind. Words of the lowest level, which nobody writes, take what is printed."""
    own = OPTIONS.get(word)
    is_printed = p.state.is_text and isinstance(word, LoopWord)
    known = {**(_PRINTED if is_printed else {}), **(own or {})}
    for name, given in options.items():
        if name not in known:
            raise ParserSyntaxError(
                f"{word.path} has no argument '{name}'",
                p.span(node),
                f"It takes {', '.join(sorted(own or known)) or 'none'}.",
            )
        fits, wanted = known[name]
        if not fits(given):
            raise ParserTypeError(
                f"{word.path}: {name} is {described(given)}; {wanted} is accepted", p.span(node)
            )
    needed = _NEEDED.get(word)
    if needed is not None and needed not in options:
        raise ParserSyntaxError(f"{word.path} needs {needed}=", p.span(node))


def option_attr(given: Any) -> Any:
    """An option as an attribute: tensors and tiles in it go by their names."""
    if isinstance(given, (list, tuple)):
        return tuple(map(option_attr, cast("Sequence[Any]", given)))
    if isinstance(given, Value) and not is_scalar(given):
        return given.name
    return as_attr(given)
