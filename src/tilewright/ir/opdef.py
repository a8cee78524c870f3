"""The page of an op: signature, rules, structure, spellings. One registry, filled at import."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, EnumMeta
from functools import cached_property
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numpy as np

import tilewright
from tilewright.dataclass import dataclass
from tilewright.errors import ArgumentTypeMismatch
from tilewright.ir import enums
from tilewright.ir.builder import Builder
from tilewright.ir.core import Operation, Value
from tilewright.ir.enums import Effect

P = ParamSpec("P")
R = TypeVar("R")
Rule = TypeVar("Rule", bound=Callable[..., Any])

_CHOICES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    **{name: (each,) for name, each in vars(enums).items() if isinstance(each, EnumMeta)},
}
FLAGS: tuple[type, ...] = (int, np.bool_)
"""What stands for True and False, where it is one of 0 and 1."""
OPS: dict[str, OpDef[..., Any]] = {}
SPELLINGS: dict[str, list[Spelling]] = {}


@dataclass(frozen=True)
class Spelling:
    """A public name of an op or macro: `path` ("pl.load"), exact signature, and what it emits.

    `accepts(*args, **kwargs)` selects among spellings that share a path. `arguments(op)` gives
    the call that prints `op` in this spelling as (parameter name, entry) pairs, or None.
    """

    path: str
    build: Callable[..., Any]
    target: OpDef[..., Any] | Macro
    accepts: Callable[..., bool] | None = None
    render: Callable[[Operation], dict[str, Any] | None] | None = None

    @cached_property
    def signature(self) -> inspect.Signature:
        """The parameters of the public name; found when first asked for."""
        return inspect.signature(self.build)

    @cached_property
    def positional(self) -> list[str]:
        """Names of the parameters that may be given by position."""
        parameters = self.signature.parameters.values()
        return [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The default of each parameter; `inspect.Parameter.empty` where there is none."""
        return {name: p.default for name, p in self.signature.parameters.items()}

    def arguments(self, op: Operation) -> dict[str, Any] | None:
        """Arguments by parameter name under which this spelling builds `op` again, or None."""
        given = self.render(op) if self.render else op_arguments(op)
        if given is None:
            return None
        defaults = self.defaults
        chosen: dict[str, Any] = {}
        for name, entry in given.items():
            if name not in defaults:
                if op.opdef.is_default(name, entry):
                    continue
                return None
            default = defaults[name]
            if default is inspect.Parameter.empty or default != entry:
                chosen[name] = entry
        return {name: chosen[name] for name in defaults if name in chosen}


def parameter_names(function: Callable[..., Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of positional and of keyword-only parameters (`inspect.signature` is too slow here)."""
    code = function.__code__
    count, both = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    return code.co_varnames[:count], code.co_varnames[count:both]


def never(op: Operation) -> None:
    """The renderer of spellings that are read, not written."""


def op_arguments(op: Operation) -> dict[str, Any]:
    """Operands and attributes of `op` by the parameter names of its canonical form."""
    given: dict[str, Any] = dict(zip(op.opdef.operand_names, op.operands, strict=True))
    given.update(op.attrs)
    return given


def spelled(
    target: OpDef[..., Any] | Macro,
    *paths: str,
    accepts: Callable[..., bool] | None = None,
    render: Callable[[Operation], dict[str, Any] | None] | None = None,
) -> Callable[[Rule], Rule]:
    """Registers the decorated builder function as a public spelling of `target`."""

    def register(build: Rule) -> Rule:
        for path in paths:
            spelling = Spelling(path, build, target, accepts, render)
            SPELLINGS.setdefault(path, []).append(spelling)
            target.spellings.append(spelling)
            if render is not never:
                target.written.append(spelling)
        return build

    return register


class OpDef(Generic[P, R]):
    """An op. Calling it emits an operation through the current builder and gives its result."""

    def __init__(
        self,
        function: Callable[P, R],
        name: str,
        *,
        effect: Effect = Effect.PURE,
        tied: dict[int, int] | None = None,
        commutative: bool = False,
        infix: str = "",
        terminator: bool = False,
        has_regions: bool = False,
        instruction: str = "",
    ) -> None:
        self.function = function
        self.name = name
        self.effect = effect
        self.tied: dict[int, int] = tied or {}
        self.commutative = commutative
        self.infix = infix
        self.terminator = terminator
        self.has_regions = has_regions
        self.instruction = instruction
        self.ulp = 0.0
        self.__doc__ = function.__doc__
        self.operand_names, self.attr_names = parameter_names(function)
        self.attr_defaults: dict[str, Any] = getattr(function, "__kwdefaults__", None) or {}
        self.infer: Callable[..., Any] | None = None
        self.evaluate: Callable[..., Any] | None = None
        self.loops: Callable[..., Any] | None = None
        self.make_samples: Callable[[], Sequence[Any]] | None = None
        self.syntax: Callable[..., None] | None = None
        self.spellings: list[Spelling] = []
        self.written: list[Spelling] = []

    @cached_property
    def signature(self) -> inspect.Signature:
        """The canonical form."""
        return inspect.signature(self.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        builder = Builder.current()
        entries = list(args)
        for name in self.operand_names[len(entries) :]:
            entries.append(kwargs.pop(name, None))
        attrs = {**self.attr_defaults, **kwargs}
        operands = tuple([e if isinstance(e, Value) else builder.as_entry(e) for e in entries])
        results = builder.emit(self, operands, attrs).results
        return cast(R, results[0] if len(results) == 1 else results or None)

    @cached_property
    def choices(self) -> dict[str, tuple[type, ...]]:
        """The attributes that are flags or one of several names, and the types that they may have.

        An annotation that is one of `_CHOICES` says so, also with `| None`.
        """
        written: dict[str, str] = self.function.__annotations__
        kinds = ((name, written[name].partition(" | ")) for name in self.attr_names)
        return {
            name: (*_CHOICES[kind], *([type(None)] if rest == "None" else []))
            for name, (kind, _, rest) in kinds
            if kind in _CHOICES and rest in ("", "None")
        }

    @cached_property
    def flags(self) -> tuple[str, ...]:
        """The attributes that are True or False."""
        return tuple(name for name, kinds in self.choices.items() if bool in kinds)

    def with_flags(self, attrs: Mapping[str, Any]) -> Mapping[str, Any]:
        """`attrs` whose flags are True or False where they are numpy's, or 0 or 1."""
        for name in self.flags:
            given: Any = attrs.get(name)
            if type(given) is not bool and isinstance(given, FLAGS) and given in (0, 1):
                attrs = {**attrs, name: bool(given)}
        return attrs

    def require_choices(self, attrs: Mapping[str, Any]) -> None:
        """Raises ArgumentTypeMismatch for a flag, or a name of several, that is none."""
        for name, kinds in self.choices.items():
            if name in attrs and not isinstance(attrs[name], kinds):
                wanted = "True or False is accepted"
                if issubclass(kinds[0], Enum):
                    names = ", ".join(kinds[0].__members__)
                    wanted = f"a pl.{kinds[0].__name__} is accepted: {names}"
                short = self.name.rpartition(".")[2].rstrip("_")
                raise ArgumentTypeMismatch(f"{short}: {name} is {attrs[name]!r}; {wanted}")

    def is_default(self, name: str, entry: Any) -> bool:
        """True when `entry` is what `name` is when the caller leaves it out."""
        if name in self.operand_names:
            return entry is None
        return name in self.attr_defaults and self.attr_defaults[name] == entry

    def _check(self, rule: Callable[..., Any]) -> None:
        given = {name for names in parameter_names(rule) for name in names} - {"regions"}
        wanted = {*self.operand_names, *self.attr_names}
        assert given == wanted, f"{self.name}: rule {rule.__name__} takes {given}, not {wanted}"

    def type_rule(self, rule: Rule) -> Rule:
        """Registers the rule that gives the result type (a Type, a tuple of Types, or None)."""
        assert self.infer is None, f"{self.name} has two type rules"
        self._check(rule)
        self.infer = rule
        return rule

    def reference(self, rule: Rule) -> Rule:
        """Registers the numpy meaning: arrays in, arrays out; the oracle of every test."""
        assert self.evaluate is None, f"{self.name} has two references"
        self._check(rule)
        self.evaluate = rule
        return rule

    def structure(self, rule: Rule) -> Rule:
        """Registers the rule that gives the op's `Structure` from its operands and attributes."""
        assert self.loops is None, f"{self.name} has two structures"
        self._check(rule)
        self.loops = rule
        return rule

    def prints(self, rule: Rule) -> Rule:
        """Registers the statement syntax of an op that does not print as a call."""
        self.syntax = rule
        return rule

    def samples(self, make: Callable[[], Sequence[Any]]) -> None:
        """Registers the samples on which the derived tests run this op."""
        self.make_samples = make

    def spelling(self, *paths: str, **options: Any) -> Callable[[Rule], Rule]:
        """Registers the decorated function as a public name of this op."""
        return spelled(self, *paths, **options)

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (get_op, (self.name,))


class Macro:
    """A public name that stands for other ops; calling it emits them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = function.__name__
        self.__doc__ = function.__doc__
        self.evaluate: Callable[..., Any] | None = None
        self.make_samples: Callable[[], Sequence[Any]] | None = None
        self.spellings: list[Spelling] = []
        self.written: list[Spelling] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def reference(self, rule: Rule) -> Rule:
        """Registers the numpy meaning."""
        self.evaluate = rule
        return rule

    def samples(self, make: Callable[[], Sequence[Any]]) -> None:
        """Registers the samples of the derived tests."""
        self.make_samples = make


def op(name: str, **facts: Any) -> Callable[[Callable[P, R]], OpDef[P, R]]:
    """Declares an op; the decorated function is its canonical form and has no body."""

    def declare(function: Callable[P, R]) -> OpDef[P, R]:
        assert name not in OPS, f"op {name} is declared twice"
        opdef: OpDef[P, R] = OpDef(function, name, **facts)
        OPS[name] = opdef
        return opdef

    return declare


def macro(*paths: str, **options: Any) -> Callable[[Callable[..., Any]], Macro]:
    """Declares a public name in terms of other ops."""

    def declare(function: Callable[..., Any]) -> Macro:
        target = Macro(function)
        spelled(target, *paths, **options)(function)
        return target

    return declare


def get_op(name: str) -> OpDef[..., Any]:
    """The op called `name`, whether or not something has imported the ops yet; raises KeyError."""
    _ = tilewright.ops
    return OPS[name]


def ties_of(op: Operation) -> list[tuple[Value, Value]]:
    """(result, the operand whose next version it is) for each tied result of `op`.

    A result tied to a variadic operand is the first of as many.
    """
    pairs: list[tuple[Value, Value]] = []
    for result, operand in op.opdef.tied.items():
        pairs += zip(op.results[result:], values_of(op.operands[operand]))
    return pairs


def values_of(entry: Any) -> tuple[Value, ...]:
    """The values of one operand entry."""
    if isinstance(entry, Value):
        return (entry,)
    return () if entry is None else cast("tuple[Value, ...]", entry)
