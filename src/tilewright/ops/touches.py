"""What loop-level code touches: the memory behind buffers, and loops that count from zero."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir.affine import Dim, Expr, as_expr, equal
from tilewright.ir.core import Operation, Value
from tilewright.ir.enums import Effect
from tilewright.ir.types import BufferType
from tilewright.ops import control, loop
from tilewright.ops.extents import expr_of

UNTOUCHING = (loop.view, loop.extent)


def root_of(buffer: Value) -> Value:
    """The parameter or allocation that a buffer is part of."""
    while buffer.op is not None and buffer.op.opdef is loop.view:
        buffer = buffer.op.operands[0]
    return buffer


def buffers_of(op: Operation) -> Iterator[Value]:
    """The buffers that `op` itself reads or writes."""
    if op.opdef not in UNTOUCHING and not op.opdef.terminator:
        yield from (value for value in op.inputs if isinstance(value.type, BufferType))


def touches(op: Operation) -> Iterator[tuple[Operation, Value]]:
    """Each operation in `op`, itself included, with each buffer that it reads or writes."""
    yield from ((op, buffer) for buffer in buffers_of(op))
    for region in op.regions:
        for inner in region.walk():
            yield from ((inner, buffer) for buffer in buffers_of(inner))


def roots_of(op: Operation) -> set[Value]:
    """The memory that `op`, or anything in it, reads or writes."""
    return {root_of(buffer) for _, buffer in touches(op)}


def counts(op: Operation, extent: Dim, *, reduces: bool = False) -> bool:
    """True for a loop over 0, 1, ... below `extent`; one that carries values only if it may."""
    if op.opdef is not control.for_ or (op.operands[3] and not reduces):
        return False
    low, high, step = map(expr_of, op.operands[:3])
    return low == 0 and step == 1 and equal(high, as_expr(extent)) is True


def indices_of(op: Operation) -> tuple[Expr, ...]:
    """The indices of a load or store."""
    return tuple(map(expr_of, op.operands[1]))


def walk_regions(op: Operation) -> Iterator[Operation]:
    """Everything inside `op`."""
    yield from (inner for region in op.regions for inner in region.walk())


def is_pure(op: Operation) -> bool:
    """True for an operation that no memory sees."""
    return op.opdef.effect is Effect.PURE and not op.regions
