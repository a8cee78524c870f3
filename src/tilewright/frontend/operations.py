"""The operations behind the public names: finding them, emitting the one that fits a call.

Importing anything of `tilewright.ops` registers all of them.
"""

from __future__ import annotations

import difflib
import inspect
import keyword
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from tilewright.dtypes import DType
from tilewright.errors import InternalError, InvalidOperationError, TilewrightError
from tilewright.frontend.surface import EXTRA_NAMES, OpName, OpNamespace
from tilewright.frontend.values import constant, is_integer, is_number
from tilewright.ir.builder import Builder
from tilewright.ir.conformance import described, require_conforming
from tilewright.ir.core import Value
from tilewright.ir.enums import PadValue
from tilewright.ir.opdef import OPS, SPELLINGS, Spelling
from tilewright.ops.extents import as_dim


def canonical(path: str) -> str | None:
    """The op that a path names directly: `pl.op.memory.update`, `pl.loop.load`; else None."""
    parts = path.split(".")[1:]
    if parts and parts[0] == "op":
        parts = parts[1:]
    elif not parts or parts[0] != "loop":
        return None
    return ".".join(p[:-1] if p.endswith("_") and keyword.iskeyword(p[:-1]) else p for p in parts)


def find_name(path: str) -> OpName | OpNamespace | None:
    """The operation or namespace at a dotted path, or None."""
    if path in SPELLINGS or (canonical(path) or "") in OPS:
        return OpName(path)
    return OpNamespace(path) if any(True for _ in names_under(path)) else None


def names_under(path: str) -> Iterator[str]:
    """The names that stand directly under a dotted path."""
    prefix = path + "."
    for spelling in SPELLINGS:
        if spelling.startswith(prefix):
            yield spelling[len(prefix) :].partition(".")[0]
    inner = canonical(prefix + "x")
    if inner is None:
        return
    home = inner[:-1]
    for name in OPS:
        if name.startswith(home):
            word = name[len(home) :].partition(".")[0]
            yield word + "_" if keyword.iskeyword(word) else word


def call(path: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A call of a public name by Python: only while a kernel is built."""
    require_kernel(path)
    return emit_call(path, args, kwargs)


def require_kernel(what: str) -> Builder:
    """What is being built; raises InvalidOperationError where that is nothing."""
    try:
        return Builder.current()
    except InternalError:
        raise InvalidOperationError(
            f"{what} can be called only in a kernel",
            hint="Decorate the function with @pl.function, @pl.inline or @pl.jit.",
        ) from None


def documentation(path: str) -> str | None:
    """The documentation of the operation's page."""
    spellings = SPELLINGS.get(path)
    return spellings[0].target.__doc__ if spellings else None


def signature(path: str) -> inspect.Signature:
    """How a public name is called; the first of several ways."""
    spellings = SPELLINGS.get(path)
    return spellings[0].signature if spellings else OPS[canonical(path) or ""].signature


def emit_call(path: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Emits the operation that `path` names for these arguments and gives its results."""
    spellings = SPELLINGS.get(path)
    if spellings is None:
        return _emit_canonical(path, args, kwargs)
    spelling = spellings[0] if len(spellings) == 1 else _select(path, spellings, args, kwargs)
    try:
        return spelling.build(*args, **kwargs)
    except TilewrightError:
        raise
    except (TypeError, AttributeError, LookupError, ValueError) as error:
        raise _misfit(path, spelling, args, kwargs, error) from error


def _select(
    path: str, spellings: list[Spelling], args: Sequence[Any], kwargs: dict[str, Any]
) -> Spelling:
    for spelling in spellings:
        if _accepts(spelling, args, kwargs):
            return spelling
    for spelling in spellings:
        if _binds(spelling, args, kwargs):
            kinds = ", ".join(described(arg) for arg in (*args, *kwargs.values()))
            raise InvalidOperationError(
                f"{path} does not take arguments of these kinds: {kinds}", hint=usage(spellings)
            )
    return spellings[0]


def _accepts(spelling: Spelling, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    if spelling.accepts is None:
        return _binds(spelling, args, kwargs)
    try:
        return spelling.accepts(*args, **kwargs)
    except TypeError:
        return False


def _binds(spelling: Spelling, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    try:
        spelling.signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _misfit(
    path: str, spelling: Spelling, args: Sequence[Any], kwargs: dict[str, Any], error: Exception
) -> InvalidOperationError:
    """Why an operation could not be made of arguments that Python could do nothing with."""
    try:
        bound = spelling.signature.bind(*args, **kwargs).arguments
    except TypeError as mismatch:
        return InvalidOperationError(f"{path}: {mismatch}", hint=usage([spelling]))
    for name, given in bound.items():
        fits, wanted = EXPECTED.get(name, (None, ""))
        if fits is not None and given is not None and not fits(given):
            return InvalidOperationError(
                f"{path}: {name} is {described(given)}; {wanted} is accepted",
                hint=usage([spelling]),
            )
    if isinstance(error, ValueError):
        return InvalidOperationError(f"{path}: {error}")
    shown = ", ".join(f"{name}={described(given)}" for name, given in bound.items())
    return InvalidOperationError(
        f"{path} does not take these arguments: {shown}", hint=usage([spelling])
    )


def _are_integers(given: Any) -> bool:
    return isinstance(given, (list, tuple)) and all(map(is_integer, cast("list[Any]", given)))


_Expected = tuple[Callable[[Any], bool], str]
_LIST: _Expected = (_are_integers, "a list of integers")
_INTEGER: _Expected = (is_integer, "an integer")
_DTYPE: _Expected = (lambda given: isinstance(given, DType), "a dtype, such as pl.FP32,")
_PAD: _Expected = (lambda g: is_number(g) or isinstance(g, PadValue), "a pl.PadValue")
_SHAPES = ("shape", "shapes", "valid_shape", "indices")
_OFFSETS = ("offset", "offsets", "dst_offset", "dst_offsets", "src_offset", "src_offsets")
EXPECTED: Mapping[str, _Expected] = {
    **dict.fromkeys((*_SHAPES, *_OFFSETS), _LIST),
    **dict.fromkeys(("axis", "axis1", "axis2", "valid_rows", "valid_cols"), _INTEGER),
    **dict.fromkeys(("out_cols", "size", "block_size"), _INTEGER),
    **dict.fromkeys(("dtype", "target_type", "output_dtype", "out_dtype"), _DTYPE),
    "pad_value": _PAD,
}
"""What parameters of these names take, wherever they occur."""


def usage(spellings: Sequence[Spelling]) -> str:
    """How an operation is called."""
    forms = [f"{s.path}{_unannotated(s.signature)}" for s in spellings]
    return "Usage: " + " or ".join(dict.fromkeys(forms))


def usage_of(path: str) -> str | None:
    """How the operation of a public name is called, and where its page is."""
    spellings = SPELLINGS.get(path)
    return f"{usage(spellings)}; `tilewright ops {path}` shows its page." if spellings else None


def _unannotated(signature: inspect.Signature) -> inspect.Signature:
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return inspect.Signature(plain)


def _emit_canonical(path: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    opdef = OPS.get(canonical(path) or "")
    if opdef is None:
        raise unknown_operation(path)
    if opdef.has_regions or opdef.terminator:
        raise InvalidOperationError(f"{path} is a statement: it cannot be called")
    operands = [as_operand(arg) for arg in args]
    for name in opdef.operand_names[len(operands) :]:
        operands.append(as_operand(kwargs.pop(name, None)))
    attrs = {name: as_attr(given) for name, given in kwargs.items()}
    require_conforming(opdef, operands, attrs)
    return opdef(*operands, **attrs)


def as_operand(given: Any) -> Any:
    """One operand entry: numbers become constants, also inside lists."""
    if isinstance(given, (list, tuple)):
        return tuple(map(as_operand, cast("Sequence[Any]", given)))
    return constant(given) if is_number(given) else given


def as_attr(given: Any) -> Any:
    """One attribute: lists become tuples, scalars of the body become expressions."""
    if isinstance(given, (list, tuple)):
        return tuple(map(as_attr, cast("Sequence[Any]", given)))
    return as_dim(given) if isinstance(given, Value) else given


LOW_LEVEL = frozenset({"pl.tile.alloc", "pl.tensor.alloc", "pl.tile.MemRefType"})
"""What only the low-level text of another compiler has, whose memory is planned by then."""


def unknown_operation(path: str) -> InvalidOperationError:
    """The error for a name that `pl` does not have, with the nearest that it has."""
    home, _, name = path.rpartition(".")
    if path in LOW_LEVEL:
        return InvalidOperationError(
            f"'{path}' stands in low-level text only, where memory has been planned",
            hint="Make a tile with pl.create_tile; a pl.MemRef in its annotation says where it is.",
        )
    close = difflib.get_close_matches(name, list(_candidates(home)), n=1)
    hint = f"Did you mean '{home}.{close[0]}'?" if close else None
    return InvalidOperationError(f"Unknown operation '{path}'", hint=hint)


def _candidates(home: str) -> Iterator[str]:
    yield from names_under(home)
    if home in EXTRA_NAMES:
        yield from EXTRA_NAMES[home]()
