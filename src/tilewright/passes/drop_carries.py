"""What a loop hands on as it got it is no carry of the loop.

Helpers that are inlined under the names of their caller leave such carries behind.

Before::

    @pl.program
    class example:
        @pl.function
        def main(
            self, x: pl.Tensor[[4, 8], pl.FP32], y: pl.Tensor[[4, 8], pl.FP32]
        ) -> pl.Tensor[[4, 8], pl.FP32]:
            for i, (a, b) in pl.range(4, init_values=(x, y)):
                c, d = pl.yield_(pl.mul(a, b), b)
            return pl.mul(c, d)

After::

    for i, (a,) in pl.range(4, init_values=(x,)):
        c = pl.yield_(pl.mul(a, y))
    return pl.mul(c, y)
"""

from __future__ import annotations

from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Operation, Program, Value
from tilewright.ir.rewrite import Cloner, map_functions, rewrite_function
from tilewright.ir.types import ScalarType
from tilewright.ops import control
from tilewright.ops.extents import expr_of


def drop_carries(program: Program, entry: str) -> Program:
    """`program` without carries that no iteration changes."""
    return map_functions(program, without_carries)


def without_carries(function: Function) -> Function:
    """A copy of `function` without such carries; itself where there are none."""
    if not any(unchanged(op) for op in function.body.walk()):
        return function
    return rewrite_function(function, Dropper)


def unchanged(op: Operation) -> frozenset[int]:
    """Which carries of a loop every iteration hands on as it got them."""
    if op.opdef is not control.for_:
        return frozenset()
    return frozenset(k for k in range(len(op.results)) if is_unchanged(op, k))


def is_unchanged(op: Operation, position: int) -> bool:
    """True when a carry of a loop is the same in every iteration."""
    body = op.regions[0]
    return comes_from(body.terminator.operands[0][position], body.params[1 + position])


def comes_from(value: Value, param: Value) -> bool:
    """True when `value` is `param`, perhaps by way of loops that do not change it."""
    if value is param:
        return True
    op = value.op
    if op is None or op.opdef is not control.for_:
        return False
    position = op.results.index(value)
    return comes_from(op.operands[3][position], param) and is_unchanged(op, position)


class Dropper(Cloner):
    """Copies a function without carries that no iteration changes."""

    def __init__(self, builder: Builder) -> None:
        super().__init__(builder, fresh_symbols=True)

    def clone(self, op: Operation) -> Operation:
        dropped = unchanged(op)
        if not dropped:
            return super().clone(op)
        left = [k for k in range(len(op.results)) if k not in dropped]
        inits = tuple(map(self.value, op.operands[3]))
        counter, *carried = op.regions[0].params
        for k in dropped:
            self.stand_for(carried[k], inits[k])
            self.stand_for(op.results[k], inits[k])
        region = Block(tuple(map(self.copied, (counter, *(carried[k] for k in left)))))
        with self.builder.inside(region):
            for inner in op.regions[0].ops[:-1]:
                self.clone(inner)
            given = op.regions[0].terminator.operands[0]
            control.yield_(tuple(self.value(given[k]) for k in left))
        operands = (*map(self.entry, op.operands[:3]), tuple(inits[k] for k in left))
        new = self.builder.emit(op.opdef, operands, op.attrs, (region,), span=op.span)
        for k, result in zip(left, new.results, strict=True):
            self.bind(op.results[k], result)
        return new

    def copied(self, param: Value) -> Value:
        """A parameter of a copied block."""
        new = Value(self.type(param.type), param.name)
        self.bind(param, new)
        return new

    def stand_for(self, old: Value, value: Value) -> None:
        """`value`, which exists already, is what `old` is."""
        self.mapping[old] = value
        if old.has_symbol and isinstance(value.type, ScalarType):
            self.symbols[old.symbol] = expr_of(value)
