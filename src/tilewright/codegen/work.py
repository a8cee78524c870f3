"""How long code takes, roughly: nanoseconds as a polynomial in the extents only run time knows.

The estimate decides who runs a loop (this thread or all) and whether the interpreter lock is kept;
nothing depends on it being exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir.affine import Atom, Expr, FloorDiv, Min, Operand, Product, Symbol, as_expr
from tilewright.ir.affine.expr import INFINITY
from tilewright.ir.affine.queries import subexpressions
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import ForKind
from tilewright.ir.opdef import OpDef
from tilewright.ir.types import BufferType
from tilewright.ops import arith, control, external, loop
from tilewright.ops.long_words import LONG_WORDS

Work = Mapping[tuple[Symbol, ...], float]

SCALAR_NS, LANE_NS = 0.5, 0.03
LONG_FACTOR, LOOP_NS, MULTIPLY_NS, COPY_NS = 10.0, 2.0, 0.01, 0.05
UNKNOWN_COUNT = 16.0
EXTERNAL_NS = 1e6
"""A kernel in C++: nobody knows, but others may run meanwhile and the interrupt key counts."""

LASTING_NS = 1e7
"""What a person who has pressed the interrupt key does not notice yet."""

REPEATED = 1e15
"""A while loop: long, but finite, so that differences of such estimates are numbers."""

INDEX_WORDS: Mapping[OpDef[..., Any], str] = {
    arith.add: "__add__",
    arith.sub: "__sub__",
    arith.mul: "__mul__",
}


def estimate(block: Block) -> Work:
    """The work of one run of `block`."""
    return _block(block, SCALAR_NS)


def estimate_call(block: Block) -> Work:
    """The work of a kernel: where a number of iterations is data, as long as code nobody knows."""
    loops = (op for op in block.walk() if op.opdef is control.for_)
    return plus(estimate(block), {} if all(map(is_counted, loops)) else constant(EXTERNAL_NS))


def estimate_loop(op: Operation) -> Work:
    """The work of a whole loop."""
    return times(trip_count(op), estimate(op.regions[0]))


def may_last(op: Operation) -> bool:
    """Whether a loop may take longer than a person waits."""
    if not is_counted(op):
        return True
    work = estimate_loop(op)
    is_open = any(work) and any(inner.regions for inner in op.regions[0].ops)
    return is_open or work.get((), 0.0) >= LASTING_NS


def estimate_one(op: Operation) -> Work:
    """The work of one scalar operation."""
    return _operation(op, SCALAR_NS)


def constant(value: float) -> Work:
    """A known amount of work."""
    return {(): value}


def plus(a: Work, b: Work) -> Work:
    """a + b."""
    total = dict(a)
    for symbols, value in b.items():
        total[symbols] = total.get(symbols, 0.0) + value
    return total


def times(a: Work, b: Work) -> Work:
    """a * b."""
    total: dict[tuple[Symbol, ...], float] = {}
    for left, x in a.items():
        for right, y in b.items():
            symbols = tuple(sorted((*left, *right), key=lambda s: s.serial))
            total[symbols] = total.get(symbols, 0.0) + (x * y if x and y else 0.0)
    return total


def extent_work(extent: Operand) -> Work:
    """An extent as a polynomial; what is not one is replaced by something near."""
    expr = as_expr(extent)
    total: Work = constant(float(expr.const))
    for atom, factor in expr.terms.items():
        total = plus(total, times(constant(float(factor)), _atom(atom)))
    return total


def _atom(atom: Atom) -> Work:
    if isinstance(atom, Symbol):
        return {(atom,): 1.0}
    parts = [extent_work(part) for part in subexpressions(atom)]
    if isinstance(atom, Product):
        total = constant(1.0)
        for part in parts:
            total = times(total, part)
        return total
    if isinstance(atom, FloorDiv) and isinstance(atom.divisor, int):
        return times(parts[0], constant(1.0 / atom.divisor))
    return parts[0] if isinstance(atom, Min) else parts[-1]


def index_expr(value: Value) -> Expr | None:
    """An index as an expression over extents; None if it depends on anything else."""
    op = value.op
    if op is None:
        return as_expr(value.symbol) if value.has_symbol else None
    if op.opdef is arith.const:
        return as_expr(int(op.attrs["value"]))
    if op.opdef is loop.extent:
        kind = op.operands[0].type
        assert isinstance(kind, BufferType)
        axis: int = op.attrs["axis"]
        return as_expr(kind.shape[axis])
    name = INDEX_WORDS.get(op.opdef)
    if name is None:
        return None
    sides = [index_expr(side) for side in op.operands]
    return None if None in sides else getattr(sides[0], name)(sides[1])


def is_counted(op: Operation) -> bool:
    """Whether the number of iterations follows from extents, so that memory bounds it."""
    return op.attrs["kind"] is ForKind.Lanes or all(map(_is_bounded, op.operands[:3]))


def _is_bounded(value: Value) -> bool:
    op = value.op
    if op is None:  # a counter, or a parameter
        return value.has_symbol and value.symbol.interval()[1] < INFINITY
    if op.opdef in (arith.const, loop.extent):
        return True
    return op.opdef in INDEX_WORDS and all(map(_is_bounded, op.operands))


def trip_count(op: Operation) -> Work:
    """How often the body of a loop runs."""
    low, high, step = (index_expr(value) for value in op.operands[:3])
    if low is None or high is None or step is None or not step.is_constant:
        return constant(UNKNOWN_COUNT)
    size = abs(step.const) or 1
    distance = high - low if step.const >= 0 else low - high
    return times(extent_work(distance), constant(1.0 / size))


def _block(block: Block, unit: float) -> Work:
    total: Work = {}
    for op in block.ops:
        total = plus(total, _operation(op, unit))
    return total


def _operation(op: Operation, unit: float) -> Work:
    if op.opdef is control.for_:
        return _loop(op, unit)
    if op.opdef is control.while_:
        return constant(REPEATED)
    if op.opdef is loop.matmul:
        return _matmul(op)
    if op.opdef is external.on_buffers:
        return constant(EXTERNAL_NS)
    if op.opdef is loop.copy:
        return times(_elements(op.operands[0]), constant(COPY_NS))
    if op.regions:
        total: Work = {}
        for region in op.regions:
            total = plus(total, _block(region, unit))
        return total
    if op.opdef is arith.const:
        return {}
    return constant(unit * LONG_FACTOR if op.opdef in LONG_WORDS else unit)


def _loop(op: Operation, unit: float) -> Work:
    if op.attrs["kind"] is ForKind.Lanes:
        body = _block(op.regions[0], LANE_NS)
        return plus(times(trip_count(op), body), constant(LOOP_NS))
    body = plus(_block(op.regions[0], unit), constant(LOOP_NS))
    return times(trip_count(op), body)


def _elements(value: Value) -> Work:
    kind = value.type
    assert isinstance(kind, BufferType)
    total = constant(1.0)
    for extent in kind.shape:
        total = times(total, extent_work(extent))
    return total


def _matmul(op: Operation) -> Work:
    a = op.operands[1].type
    assert isinstance(a, BufferType)
    depth = a.shape[0 if op.attrs["a_trans"] else 1]
    products = times(_elements(op.operands[0]), extent_work(depth))
    return times(products, constant(MULTIPLY_NS))
