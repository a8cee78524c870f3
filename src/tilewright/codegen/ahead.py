"""Which loops over lanes fetch what comes next while they work on what is here.

Machines foresee one long row. Of several loops that go through a row, though, the first waits for
memory; a later one that reads nothing but what has been read, and stores nothing, leaves memory
idle: it asks for the next row. And what machines do not foresee is asked for some way ahead: many
rows at once, and rows that are short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tilewright.codegen.fetches import Fetch, fetch_of
from tilewright.ir.affine import Expr, Symbol, as_expr, coefficient
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import ForKind
from tilewright.ir.types import BufferType
from tilewright.ops import control, loop
from tilewright.ops.extents import expr_of
from tilewright.ops.touches import indices_of

LARGE = 1 << 20
"""Bytes that may be anywhere but in the nearer caches."""

MANY_ROWS, SHORT_ROW = 4, 1024
"""Rows that are too many to be foreseen, bytes that are too few."""

ROWS_WAY, SHORT_WAY = 1024, 2048
"""Bytes to look ahead in many rows, and from one short row to others."""


def fetched_ahead(body: Block) -> Mapping[Operation, Sequence[Fetch]]:
    """What the loops over lanes in `body` ask for, where they leave memory idle."""
    found: dict[Operation, Sequence[Fetch]] = {}
    for op in body.walk():
        if op.opdef is control.for_ and op.attrs["kind"] is not ForKind.Lanes:
            lanes = [each for each in op.regions[0].ops if is_lanes(each)]
            idle = find_idle(op, lanes) if len(lanes) > 1 else None
            if idle is not None:
                found[idle[0]] = idle[1]
            elif len(lanes) == 1:
                found[lanes[0]] = unforeseen(op, lanes[0])
    return found


def is_lanes(op: Operation) -> bool:
    """Whether an operation is a loop over lanes."""
    return op.opdef is control.for_ and op.attrs["kind"] is ForKind.Lanes


def find_idle(row: Operation, lanes: list[Operation]) -> tuple[Operation, Sequence[Fetch]] | None:
    """The first loop of a row that reads nothing new and stores nothing; what others have read."""
    counter, step = row.regions[0].params[0].symbol, expr_of(row.operands[2])
    seen: dict[tuple[object, ...], Fetch] = {}
    for each in lanes:
        lane, before = each.regions[0].params[0], len(seen)
        for op in each.regions[0].ops:
            if op.opdef is loop.load and is_large(op.operands[0]):
                key = (op.operands[0], *(None if i is lane else i for i in op.operands[1]))
                seen.setdefault(key, fetch_of(op, lane.symbol, next_row(op, counter) * step))
        stores = any(op.opdef is loop.store for op in each.regions[0].ops)
        if len(seen) == before > 0 and not stores:
            return each, [fetch for fetch in seen.values() if fetch.distance != 0]
    return None


def unforeseen(row: Operation, lanes: Operation) -> Sequence[Fetch]:
    """What the only loop over the lanes of a row asks for: some way on in many rows, or others."""
    body, lane = lanes.regions[0].ops, lanes.regions[0].params[0].symbol
    loads = [op for op in body if op.opdef is loop.load and is_large(op.operands[0])]
    counter, step = row.regions[0].params[0].symbol, expr_of(row.operands[2])
    count = expr_of(lanes.operands[1])
    if len(loads) > MANY_ROWS:
        return [some_way_on(op, lane, count, next_row(op, counter) * step) for op in loads]
    found: list[Fetch] = []
    for op in loads:
        distance = next_row(op, counter) * step
        if count.is_constant and count.const * item_bytes(op) <= SHORT_ROW and distance.is_constant:
            rows = -(-SHORT_WAY // max(1, abs(distance.const) * item_bytes(op)))
            found.append(fetch_of(op, lane, distance * rows))
    return [fetch for fetch in found if fetch.distance != 0]


def some_way_on(op: Operation, lane: Symbol, count: Expr, rows: Expr) -> Fetch:
    """What is some way on in a row; near the end of `count` lanes, in the row that is `rows` on."""
    way = as_expr(ROWS_WAY // item_bytes(op))
    return Fetch(op.operands[0], indices_of(op), lane, way, count - way, rows - count)


def item_bytes(op: Operation) -> int:
    """The bytes of an element that an access touches."""
    type_ = op.operands[0].type
    assert isinstance(type_, BufferType)
    return type_.dtype.nbytes


def next_row(op: Operation, counter: Symbol) -> Expr:
    """How far the elements of the next iteration are; 0 where that is not known."""
    buffer: Value = op.operands[0]
    type_ = buffer.type
    assert isinstance(type_, BufferType)
    total = as_expr(0)
    for index, stride in zip(indices_of(op), type_.strides, strict=True):
        pace = coefficient(index, counter)
        if pace is None:
            return as_expr(0)
        total = total + as_expr(pace) * as_expr(stride)
    return total


def is_large(buffer: Value) -> bool:
    """Whether a buffer is perhaps far away: memory of the caller, and much."""
    type_ = buffer.type
    assert isinstance(type_, BufferType)
    known = [extent for extent in type_.shape if isinstance(extent, int)]
    is_given = buffer.op is None or buffer.op.opdef is not loop.alloc
    return is_given and (len(known) < type_.rank or prod(known) * type_.dtype.nbytes >= LARGE)
