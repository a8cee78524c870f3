"""Rows that are short and lie one after the other are written as one row.

Where each element of a row only meets the same element of other buffers, nothing sees where a row
ends, and vectors need not end there: the lanes go on into the rows that follow.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.codegen.emitter import Emitter
from tilewright.dataclass import dataclass
from tilewright.dtypes import INDEX
from tilewright.ir.affine import Symbol, as_expr, coefficient, symbols
from tilewright.ir.core import Operation, Value
from tilewright.ir.enums import ForKind
from tilewright.ir.types import ScalarType
from tilewright.ops import arith, control, loop
from tilewright.ops.extents import constant_of, expr_of
from tilewright.ops.touches import counts, indices_of, is_pure, root_of

SHORT_ROW, FULL_ROW = 512, 64
"""Rows are short below the one, unless they are a multiple of the other."""

KINDS = (ForKind.Sequential, ForKind.Parallel)
MOVING = (loop.load, loop.store)

Counters = tuple[Symbol, Symbol]


@dataclass(frozen=True, slots=True)
class FlatRows:
    """Rows of `width` elements that may be one; `accesses` go from element to element."""

    lanes: Operation
    width: int
    accesses: tuple[Operation, ...]

    def are_dense(self, e: Emitter) -> bool:
        """Whether the rows lie one after the other in each buffer that is here."""
        found = (e.buffer(op.operands[0]).strides[-2:] for op in self.accesses)
        return all(strides == (self.width, 1) for strides in found)


def find_flat_rows(op: Operation) -> FlatRows | None:
    """The rows of a loop, if nothing sees where one ends."""
    if op.attrs["kind"] not in KINDS or op.operands[3]:
        return None
    inner = [each for each in op.regions[0].ops if each.regions]
    low, step = constant_of(op.operands[0]), constant_of(op.operands[2])
    if (low, step) != (0, 1) or len(inner) != 1 or inner[0].opdef is not control.for_:
        return None
    (lanes,) = inner
    width = constant_of(lanes.operands[1])
    if width is None or not counts(lanes, int(width)) or lanes.attrs["kind"] is not ForKind.Lanes:
        return None
    if not 1 < width < SHORT_ROW or width % FULL_ROW == 0:
        return None
    accesses = moving_accesses(op, lanes)
    return None if accesses is None else FlatRows(lanes, int(width), accesses)


def moving_accesses(row: Operation, lanes: Operation) -> tuple[Operation, ...] | None:
    """The accesses that go from element to element; None where a row is not like the next."""
    counters = (row.regions[0].params[0].symbol, lanes.regions[0].params[0].symbol)
    around = [op for op in row.regions[0].ops[:-1] if op is not lanes]
    inside = lanes.regions[0].ops[:-1]
    written = {root_of(op.operands[0]) for op in inside if op.opdef is loop.store}
    found: list[Operation] = []
    for op in (*around, *inside):
        if is_same_for_all(op, counters) and root_of(op.operands[0]) not in written:
            continue
        if op.opdef in MOVING and op not in around:
            if not goes_on(op, counters):
                return None
            found.append(op)
        elif not is_word(op) or (uses_place(op.inputs, counters) and not finds_place(op)):
            return None
    return tuple(found)


def is_word(op: Operation) -> bool:
    """Whether an operation computes scalars and does nothing else."""
    return is_pure(op) and all(isinstance(value.type, ScalarType) for value in op.results)


def is_same_for_all(op: Operation, counters: Counters) -> bool:
    """Whether an operation loads one element for all rows."""
    if op.opdef is not loop.load or op.operands[2] is not None:
        return False
    return not any(symbol in counters for index in indices_of(op) for symbol in symbols(index))


def goes_on(op: Operation, counters: Counters) -> bool:
    """Whether an access is of the element at (row, lane), and stores no place."""
    where = indices_of(op)
    if op.operands[-1] is not None or len(where) < 2:
        return False
    if op.opdef is loop.store and uses_place(op.operands[2:3], counters):
        return False
    row, lane = counters
    moves = [(coefficient(index, row), coefficient(index, lane)) for index in where]
    return moves == [(0, 0)] * (len(where) - 2) + [(1, 0), (0, 1)] and where[-1] == as_expr(lane)


def uses_place(values: Iterable[Value], counters: Counters) -> bool:
    """Whether one of `values` is where an element is."""
    integers = (v for v in values if isinstance(v.type, ScalarType) and v.type.dtype.is_int())
    return any(symbol in counters for value in integers for symbol in symbols(expr_of(value)))


def finds_place(op: Operation) -> bool:
    """Whether an operation is arithmetic that indices are read through."""
    is_index = all(value.type == ScalarType(INDEX) for value in op.results)
    return op.opdef in (arith.add, arith.sub) and is_index
