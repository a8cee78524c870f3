"""Control flow and calls: loops, branches, scopes, calls, yields, returns. Every level has them.

A region is one block. Its parameters are the loop variable and the carried values; its terminator
`control.yield` gives the next carried values, or the results of a branch or scope.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.dtypes import BOOL, INDEX
from tilewright.errors import ParserTypeError
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import Effect, ForKind, MemorySpace
from tilewright.ir.opdef import op, ties_of
from tilewright.ir.types import ScalarType, ShapedType, TileType, Type


@op("control.yield", terminator=True)
def yield_(values: Sequence[Value]) -> None:
    """Ends a region and gives `values` to what encloses it."""


@yield_.type_rule
def yield_type(values: Sequence[Value]) -> None:
    del values


@op("control.return", terminator=True)
def return_(values: Sequence[Value], finals: Sequence[Value]) -> None:
    """Ends a function: `values` are what it returns, `finals` the last version of each Out or
    InOut parameter, in parameter order."""


@return_.type_rule
def return_type(values: Sequence[Value], finals: Sequence[Value]) -> None:
    del values, finals


@op("control.condition", terminator=True)
def condition(cond: Value) -> None:
    """Ends the first region of a while: the loop goes on while `cond` is True."""


@condition.type_rule
def condition_type(cond: Value) -> None:
    require_bool("while", cond)


def require_bool(name: str, cond: Value) -> None:
    """Raises ParserTypeError unless `cond` is a BOOL scalar."""
    if cond.type != ScalarType(BOOL):
        raise ParserTypeError(
            f"{name}: the condition is {cond.type}, not a pl.BOOL scalar",
            hint="use an explicit boolean comparison, such as `n != 0`",
        )


@op("control.for", has_regions=True)
def for_(
    lo: Value,
    hi: Value,
    step: Value,
    inits: Sequence[Value],
    *,
    kind: ForKind = ForKind.Sequential,
    combine: tuple[str, ...] = (),
    stage: int = 0,
    attrs: tuple[tuple[str, Any], ...] = (),
) -> Any:
    """Runs its region for lo, lo + step, ... below hi (above, when step is negative).

    The region takes (index, *carried) and yields the next carried values; the results are the
    last. `kind` Parallel and Spmd promise independent iterations. Kind Lanes exists at loop level
    only: step is 1, every carried value is a reduction and the region yields each lane's
    contribution, combined as `combine` names (see ops/loop.py for the fixed order).
    """
    ...


@for_.type_rule
def for_type(
    lo: Value,
    hi: Value,
    step: Value,
    inits: Sequence[Value],
    *,
    kind: ForKind,
    combine: tuple[str, ...],
    stage: int,
    attrs: tuple[tuple[str, Any], ...],
    regions: tuple[Block, ...],
) -> tuple[Type, ...]:
    for name, bound in (("start", lo), ("stop", hi), ("step", step)):
        if not (isinstance(bound.type, ScalarType) and bound.type.dtype.is_int()):
            raise ParserTypeError(f"the {name} of a loop is {bound.type}, not an integer scalar")
    return carried_types(inits, regions[0].terminator.operands[0])


def carried_types(inits: Sequence[Value], yielded: Sequence[Value]) -> tuple[Type, ...]:
    """Types of the results of a loop; raises ParserTypeError when a carry changes its type."""
    if len(inits) != len(yielded):
        raise ParserTypeError(
            f"Mismatch: {len(yielded)} yielded values but {len(inits)} init_values"
        )
    for init, value in zip(inits, yielded, strict=True):
        if init.type != value.type:
            raise ParserTypeError(
                f"the loop carries {init.name or 'a value'} as {init.type} "
                f"but an iteration yields {value.type}",
                hint=_as_one_type(value, init),
            )
    return tuple(value.type for value in inits)


@op("control.while", has_regions=True)
def while_(inits: Sequence[Value]) -> Any:
    """Repeats its second region while its first, ended by `control.condition`, gives True.

    Both regions take the carried values; the second yields the next ones.
    """
    ...


@while_.type_rule
def while_type(inits: Sequence[Value], *, regions: tuple[Block, ...]) -> tuple[Type, ...]:
    return carried_types(inits, regions[1].terminator.operands[0])


@op("control.if", has_regions=True)
def if_(cond: Value) -> Any:
    """Runs its first region when `cond` is True, its second otherwise; gives what that yields."""
    ...


@if_.type_rule
def if_type(cond: Value, *, regions: tuple[Block, ...]) -> tuple[Type, ...]:
    require_bool("if", cond)
    then, otherwise = (region.terminator.operands[0] for region in regions)
    if len(then) != len(otherwise):
        raise ParserTypeError(
            f"the arms of an `if` yield {len(then)} and {len(otherwise)} values; "
            "both must yield the same names"
        )
    for left, right in zip(then, otherwise, strict=True):
        if left.type != right.type:
            raise ParserTypeError(
                f"the arms of an `if` give {left.name or 'a value'} different types, "
                f"{left.type} and {right.type}",
                hint=_as_one_type(right, left),
            )
    return tuple(value.type for value in then)


def _as_one_type(value: Value, model: Value) -> str:
    """How `value` is given the type of `model`; what is in another memory goes to Vec."""
    given, wanted = value.type, model.type
    if not isinstance(given, (ScalarType, ShapedType)) or type(given) is not type(wanted):
        return "Yield values of one kind."
    assert isinstance(wanted, (ScalarType, ShapedType))
    if given.dtype is not wanted.dtype:
        return f"Yield pl.cast({value.name or 'it'}, {wanted.dtype})."
    if isinstance(given, TileType) and isinstance(wanted, TileType):
        if given.space is not wanted.space:
            moved = value if wanted.space is MemorySpace.Vec else model
            return f"Yield pl.move({moved.name or 'it'}, target_memory=pl.Mem.Vec)."
        if given.shape == wanted.shape and given.valid_shape != wanted.valid_shape:
            return "Make the same part of both valid: pl.fillpad or pl.set_validshape."
    return "Yield values of one shape."


@op("control.scope", has_regions=True)
def scope(deps: Sequence[Value], *, kind: str, attrs: tuple[tuple[str, Any], ...] = ()) -> Any:
    """A placement or dependency scope: `kind` is "at", "cluster", "spmd", "split_aiv" or "scope".

    `attrs` are the keyword arguments as written, by name. The region runs in place; what it
    yields are the names that it binds and that are used after it.
    """
    ...


@scope.type_rule
def scope_type(
    deps: Sequence[Value],
    *,
    kind: str,
    attrs: tuple[tuple[str, Any], ...],
    regions: tuple[Block, ...],
) -> tuple[Type, ...]:
    return tuple(value.type for value in regions[0].terminator.operands[0])


@op("control.call", effect=Effect.WRITE)
def call(
    args: Sequence[Value],
    *,
    callee: str,
    result_types: tuple[Type, ...],
    tied_args: tuple[int, ...] = (),
    attrs: tuple[tuple[str, Any], ...] = (),
) -> Any:
    """Calls function `callee` of the program.

    Results: one per type of `result_types` (what it returns), then the new version of each
    argument whose position is in `tied_args` (Out and InOut parameters), tied to it.
    """
    ...


@call.type_rule
def call_type(
    args: Sequence[Value],
    *,
    callee: str,
    result_types: tuple[Type, ...],
    tied_args: tuple[int, ...],
    attrs: tuple[tuple[str, Any], ...],
) -> tuple[Type, ...]:
    return (*result_types, *(args[position].type for position in tied_args))


LOOPS = (for_, while_)
"""Operations that carry values from one iteration to the next."""


def tied_pairs(op: Operation) -> list[tuple[Value, Value]]:
    """(result, the operand whose next version it is) for each tied result of any operation."""
    if op.opdef is not call:
        return ties_of(op)
    args, tied = op.operands[0], op.attrs["tied_args"]
    news = op.results[len(op.results) - len(tied) :]
    return [(new, args[position]) for new, position in zip(news, tied)]


INDEX_SCALAR = ScalarType(INDEX)
