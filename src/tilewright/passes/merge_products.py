"""Products that add up slice after slice along k are one product: its chains are the same.

A loop of products into one accumulator over consecutive slices, products in a row, and zeros that
an accumulator starts from become one product.

Before::

    @pl.program
    class example:
        @pl.function
        def main(
            self,
            a: pl.Buffer[[8, 32], pl.FP32],
            b: pl.Buffer[[32, 16], pl.FP32],
            out: pl.Out[pl.Buffer[[8, 16], pl.FP32]],
        ):
            for r in pl.parallel(8):
                for c in pl.loop.lanes(16):
                    pl.loop.store(out, [r, c], 0.0)
            for k in pl.range(0, 32, 8):
                x = pl.loop.view(a, [0, k], shape=[8, 8], strides=[32, 1])
                y = pl.loop.view(b, [k, 0], shape=[8, 16], strides=[16, 1])
                pl.loop.matmul(out, x, y, accumulate=True)

After::

    pl.loop.matmul(out, a, b)
"""

from __future__ import annotations

from dataclasses import replace
from math import copysign
from typing import Any

from tilewright.dataclass import dataclass
from tilewright.ir.affine import Expr, as_expr, coefficient, equal, simplify
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Operation, Program, Value
from tilewright.ir.enums import ForKind
from tilewright.ir.rewrite import map_functions
from tilewright.ir.types import Dim
from tilewright.ops import arith, control, loop
from tilewright.ops.extents import expr_of
from tilewright.ops.loop import buffer_type
from tilewright.ops.touches import counts, indices_of, is_pure
from tilewright.passes.loops import LoopCloner, Strip, exact_trip, has_products, rewritten, strip_of
from tilewright.source import Span


@dataclass(frozen=True, slots=True)
class Product:
    """A product to be written; `ops` are those that it stands for, `span` is the author's line."""

    c: Value
    a: Strip
    b: Strip
    attrs: dict[str, Any]
    ops: tuple[Operation, ...]
    span: Span | None

    @property
    def axes(self) -> tuple[int, int]:
        """The axis of a, and of b, that is k."""
        return (0 if self.attrs["a_trans"] else 1), (1 if self.attrs["b_trans"] else 0)

    @property
    def depth(self) -> Dim:
        """The extent of k."""
        return self.a.shape[self.axes[0]]

    def with_depth(self, depth: Dim, ops: tuple[Operation, ...]) -> Product:
        """This product over `depth` elements of k from its first on."""
        left, right = self.axes
        a, b = self.a.extended(left, depth), self.b.extended(right, depth)
        return replace(self, a=a, b=b, ops=ops)

    def then(self, later: Product) -> Product | None:
        """This product and then `later` as one."""
        left, right = self.axes
        same = self.c is later.c and self.axes == later.axes and later.attrs["accumulate"]
        if not same or not later.a.continues(self.a, left) or not later.b.continues(self.b, right):
            return None
        depth = simplify(as_expr(self.depth) + as_expr(later.depth))
        return self.with_depth(depth, self.ops + later.ops)


def product_of(op: Operation) -> Product | None:
    """The product that an operation is."""
    if op.opdef is loop.matmul:
        c, a, b = op.operands
        return Product(c, strip_of(a), strip_of(b), dict(op.attrs), (op,), op.span)
    return looped_product(op) if op.opdef is control.for_ else None


def looped_product(op: Operation) -> Product | None:
    """The product that a loop over consecutive slices along k is."""
    low, high, step = map(expr_of, op.operands[:3])
    trip = exact_trip(low, high, step)
    if op.attrs["kind"] is not ForKind.Sequential or op.operands[3] or trip is None:
        return None
    effects = [inner for inner in op.regions[0].ops[:-1] if not is_pure(inner)]
    if [inner.opdef for inner in effects] != [loop.matmul]:
        return None
    product = product_of(effects[0])
    assert product is not None
    counter = op.regions[0].params[0].symbol
    if not product.attrs["accumulate"] or product.c.op in op.regions[0].ops:
        return None
    for strip, axis in zip((product.a, product.b), product.axes, strict=True):
        pace = coefficient(strip.flat(), counter)
        if pace is None or equal(as_expr(pace) * step, strip.width(axis)) is not True:
            return None
    a, b = product.a.at(counter, low), product.b.at(counter, low)
    depth = simplify(as_expr(product.depth) * as_expr(trip))
    return replace(product, a=a, b=b).with_depth(depth, (op,))


def is_zeroing(op: Operation, buffer: Value) -> bool:
    """True for a nest that fills `buffer` with zeros and does nothing else."""
    inner: Operation | None = op
    counters: list[Expr] = []
    for extent in buffer_type(buffer).shape:
        if inner is None or not counts(inner, extent):
            return False
        counters.append(as_expr(inner.regions[0].params[0].symbol))
        effects = [each for each in inner.regions[0].ops[:-1] if not is_pure(each)]
        inner = effects[0] if len(effects) == 1 else None
    if inner is None or inner.opdef is not loop.store or inner.operands[3] is not None:
        return False
    return (
        inner.operands[0] is buffer
        and indices_of(inner) == tuple(counters)
        and is_zero(inner.operands[2])
    )


def is_zero(value: Value) -> bool:
    """True for the constant that a fresh chain starts from."""
    if value.op is None or value.op.opdef is not arith.const:
        return False
    number = value.op.attrs["value"]
    return number == 0 and copysign(1.0, number) > 0


# ---------------------------------------------------------------------- rewriting


def merge_products(program: Program, entry: str) -> Program:
    """The loop-level `program` with products along k merged."""
    if not has_products(program, entry):
        return program
    return map_functions(program, lambda function: rewritten(function, Merger))


class Merger(LoopCloner):
    """Copies a function with products merged.

    `pending` is the product at hand, to be written when something else comes; `zeroing` a nest
    that perhaps only fills the accumulator of the next product.
    """

    def __init__(self, builder: Builder) -> None:
        super().__init__(builder)
        self.pending: Product | None = None
        self.zeroing: Operation | None = None

    def body(self, block: Block) -> None:
        for op in block.ops:
            product = product_of(op)
            if product is not None and self.knows((*product.a.offsets, *product.b.offsets)):
                self.take(product)
            elif op.opdef is control.for_ and op.regions[0].ops and self.may_zero(op):
                self.settle()
                self.zeroing = op
            else:
                if op.opdef.terminator or not is_pure(op):
                    self.settle()
                self.clone(op)

    def may_zero(self, op: Operation) -> bool:
        """True for a nest that fills some buffer with zeros."""
        stores = [inner for inner in op.regions[0].walk() if inner.opdef is loop.store]
        return len(stores) == 1 and is_zeroing(op, stores[0].operands[0])

    def take(self, product: Product) -> None:
        """One more product, joined to what is at hand where that is possible."""
        zeroing = self.zeroing if product.attrs["accumulate"] else None
        if zeroing is not None and is_zeroing(zeroing, product.c):
            self.zeroing = None
            product = replace(product, attrs={**product.attrs, "accumulate": False})
        joined = self.pending.then(product) if self.pending is not None else None
        if joined is None:
            self.settle()
        self.pending = joined or product

    def settle(self) -> None:
        """Writes what is at hand."""
        zeroing, self.zeroing = self.zeroing, None
        if zeroing is not None:
            super().clone(zeroing)
        product, self.pending = self.pending, None
        if product is not None:
            self.write(product)

    def write(self, product: Product) -> None:
        """One product; as it was, if nothing joined it."""
        op = product.ops[0]
        if product == product_of(op) and op.opdef is loop.matmul:
            super().clone(op)
            return
        a, b = self.strip(product.a), self.strip(product.b)
        with self.builder.located(product.span):
            loop.matmul(self.value(product.c), a, b, **product.attrs)
