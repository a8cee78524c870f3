"""Values of other programs: what a program computes is recomputed for each program of an axis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from tilewright.errors.nki_control import PROGRAM_STATE
from tilewright.frontend.trace import access
from tilewright.frontend.trace.ambient import refusal
from tilewright.frontend.trace.loops import close_loop, open_loop
from tilewright.frontend.trace.scopes import LoopScope
from tilewright.frontend.trace.tensors import nki_tensor
from tilewright.ir.affine import Symbol, as_expr
from tilewright.ir.core import Operation, Value
from tilewright.ir.enums import ForKind
from tilewright.ir.rewrite import Cloner

if TYPE_CHECKING:
    from tilewright.frontend.trace.context import TraceContext

Combine = Callable[[Value, Value], Value]


def combined_over_programs(
    ctx: TraceContext, value: Value, axes: Sequence[LoopScope], total: nki_tensor, combine: Combine
) -> Value:
    """`value` of every program along `axes`, combined into `total`, which starts neutral."""
    several = [axis for axis in axes if axis.trip != 1]
    if not several:
        return value
    recipe = backward_slice(ctx, value, several)
    loops = [_open(ctx, axis) for axis in several]
    copy = _copied(ctx, recipe, value, dict(zip(several, loops)))
    sema = ctx.sema
    access.write(sema, total, combine(sema.version_of(total.root), copy))
    for loop in reversed(loops):
        assert loop.trip is not None
        close_loop(ctx, loop, loop.trip, ForKind.Sequential)
    return sema.version_of(total.root)


def _open(ctx: TraceContext, axis: LoopScope) -> LoopScope:
    assert axis.trip is not None
    symbol = Symbol(f"other_{axis.symbol.name}", 0, axis.trip - 1)
    return open_loop(ctx, symbol, axis.trip, is_affine=False)


def _copied(
    ctx: TraceContext,
    recipe: Iterable[Operation],
    value: Value,
    others: dict[LoopScope, LoopScope],
) -> Value:
    cloner = Cloner(ctx.sema, fresh_symbols=True)
    for own, other in others.items():
        cloner.mapping[own.block.params[0]] = other.block.params[0]
        cloner.symbols[own.symbol] = as_expr(other.symbol)
    for operation in recipe:
        cloner.clone(operation)
    return cloner.value(value)


def backward_slice(ctx: TraceContext, value: Value, axes: Sequence[LoopScope]) -> list[Operation]:
    """The operations inside the programs that `value` is made of, in order.

    Refuses what depends on state that an earlier iteration left.
    """
    outermost = min(ctx.regions.index(axis) for axis in axes)
    regions = ctx.regions[outermost:]
    blocks = [region.block for region in regions]
    inside = {op for block in blocks for op in block.ops}
    state = {value for region in regions for value in getattr(region, "params", {}).values()}
    found: set[Operation] = set()
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if each in state:
            raise refusal(PROGRAM_STATE, name=each.name or "a tensor")
        if each.op in inside and each.op not in found:
            assert each.op is not None
            found.add(each.op)
            waiting.extend(_all_inputs(each.op))
    return [op for block in blocks for op in block.ops if op in found]


def _all_inputs(operation: Operation) -> Iterable[Value]:
    yield from operation.inputs
    for region in operation.regions:
        for nested in region.walk():
            yield from nested.inputs
