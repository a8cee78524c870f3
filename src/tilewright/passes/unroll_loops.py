"""Loops that the author wants unrolled are their iterations, one after the other.

So that nests of different iterations may be one. A loop too long for that stays a loop.

Before::

    @pl.program
    class example:
        @pl.function
        def main(self, x: pl.Tensor[[4, 8], pl.FP32]) -> pl.Tensor[[4, 8], pl.FP32]:
            for i, (a,) in pl.unroll(2, init_values=(x,)):
                b = pl.mul(a, a)
                c = pl.yield_(b)
            return c

After::

    b = pl.mul(x, x)
    b_1 = pl.mul(b, b)
    return b_1
"""

from __future__ import annotations

from tilewright.ir.affine import as_expr
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Operation, Program, Value
from tilewright.ir.enums import ForKind
from tilewright.ir.rewrite import Cloner, map_functions, rewrite_function
from tilewright.ir.types import ScalarType
from tilewright.ops import control
from tilewright.ops.extents import constant_of

MOST_OPERATIONS = 1024
"""Of all iterations of a loop together."""


def unroll_loops(program: Program, entry: str) -> Program:
    """`program` without loops of kind Unroll, where they are short enough."""
    return map_functions(program, unrolled)


def unrolled(function: Function) -> Function:
    """A copy of `function` with its loops unrolled; itself where there are none."""
    if not any(iterations(op) for op in function.body.walk()):
        return function
    return rewrite_function(function, Unroller)


def iterations(op: Operation) -> range:
    """The values of the counter of a loop to unroll; none for any other operation."""
    if op.opdef is not control.for_ or op.attrs["kind"] is not ForKind.Unroll:
        return range(0)
    low, high, step = (constant_of(value) for value in op.operands[:3])
    if low is None or high is None or not step:
        return range(0)
    found = range(int(low), int(high), int(step))
    size = sum(1 for _ in op.regions[0].walk())
    return found if len(found) * size <= MOST_OPERATIONS else range(0)


class Unroller(Cloner):
    """Copies a function with its loops unrolled."""

    def __init__(self, builder: Builder) -> None:
        super().__init__(builder, fresh_symbols=True)

    def clone(self, op: Operation) -> Operation:
        found = iterations(op)
        if not found:
            return super().clone(op)
        carried = tuple(map(self.value, op.operands[3]))
        for number in found:
            carried = self.iteration(op.regions[0], number, carried)
        for result, value in zip(op.results, carried, strict=True):
            self.stand_for(result, value)
        return op

    def iteration(self, body: Block, number: int, carried: tuple[Value, ...]) -> tuple[Value, ...]:
        """One iteration; gives what it hands to the next."""
        counter, *params = body.params
        assert isinstance(counter.type, ScalarType)
        self.mapping[counter] = self.builder.constant(number, counter.type.dtype)
        if counter.has_symbol:
            self.symbols[counter.symbol] = as_expr(number)
        for param, value in zip(params, carried, strict=True):
            self.stand_for(param, value)
        for op in body.ops[:-1]:
            self.clone(op)
        return tuple(map(self.value, body.terminator.operands[0]))

    def stand_for(self, old: Value, value: Value) -> None:
        """`value`, which exists already, is what `old` is here."""
        self.mapping[old] = value
        value.name = value.name or old.name
        if old.has_symbol:
            self.symbols[old.symbol] = as_expr(value.symbol)
