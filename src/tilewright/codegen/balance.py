"""Which sums of a body are computed where its products are.

Processors have units for products, which also compare, and others for sums, which also find
extremes and round. A body with more sums than products waits for the latter, while x + y is also
x * 1 + y, rounded once: the same bits from the other unit.
"""

from __future__ import annotations

from tilewright.codegen.emitter import Emitter, dtype_name, spread
from tilewright.codegen.operands import LANES
from tilewright.codegen.words import word
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.types import ScalarType
from tilewright.ops import arith, loop
from tilewright.ops.extents import constant_of
from tilewright.ops.long_words import LONG_WORDS

MOVABLE = (arith.add, arith.sub)
SUMS = (*MOVABLE, arith.max_, arith.min_)
PRODUCTS = (arith.mul, arith.lt, arith.le, arith.gt, arith.ge, arith.eq, arith.ne)
MEMORY = (loop.load, loop.store)
LONG_PRODUCTS = 6
"""How many more products than sums a long word has, roughly."""

WORTHWHILE = 4
"""Sums fewer than this are not worth a register that holds one."""

FLOATS = {"FP32": "float", "FP64": "double"}


def moved_sums(body: Block) -> frozenset[Operation]:
    """The sums of a body that are written as products: as many as make both kinds equal.

    None where there are hardly more sums than accesses of memory, which take as long.
    """
    ops = [op for op in body.walk() if op.opdef in MEMORY or is_wide_float(op)]
    kinds = [op.opdef for op in ops]
    sums = sum(kind in SUMS for kind in kinds)
    products = len({same_value(op) for op in ops if op.opdef in PRODUCTS})
    products += LONG_PRODUCTS * sum(op.opdef in LONG_WORDS for op in ops)
    accesses = sum(kind in MEMORY for kind in kinds)
    movable = [op for op in ops if op.opdef in MOVABLE]
    count = min((sums - products) // 2, sums - accesses, len(movable))
    if count < WORTHWHILE:
        return frozenset()
    return frozenset(movable[k * len(movable) // count] for k in range(count))


def same_value(op: Operation) -> tuple[object, ...]:
    """What two words have in common that LLVM computes once."""
    constants = map(constant_of, op.operands)
    return (op.opdef, *(v if c is None else c for v, c in zip(op.operands, constants, strict=True)))


def is_wide_float(op: Operation) -> bool:
    """Whether an operation is a word on binary32 or binary64."""
    first = op.operands[0] if op.operands else None
    type_ = first.type if isinstance(first, Value) else None
    return isinstance(type_, ScalarType) and type_.dtype.name in FLOATS


def sum_as_product(e: Emitter, op: Operation, x: str, y: str) -> str:
    """One vector of x + y or x - y, as a fused multiply-add with one."""
    dtype = dtype_name(op.operands[0])
    one = e.hoist(("one", dtype), lambda: unforeseen_one(e, FLOATS[dtype]))
    if op.opdef is arith.add:
        return word(e.text, "fma", dtype, LANES, x, one, y)
    return word(e.text, "fma", dtype, LANES, word(e.text, "neg", dtype, LANES, y), one, x)


def unforeseen_one(e: Emitter, element: str) -> str:
    """One in every lane, such that LLVM cannot find out and make a sum of the product again."""
    holds = e.text.let("icmp ne ptr %ctx, null")
    return spread(e.text, e.text.let(f"select i1 {holds}, {element} 1.0, {element} 0.0"), element)
