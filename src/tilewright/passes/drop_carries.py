"""What a loop hands on as it got it is no carry of the loop; nor does a branch give it.

Helpers that are inlined under the names of their caller leave such carries behind, and barriers
that became meetings. In text they are no versions of what they hand on: passes that make such
carries drop them.

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

from collections.abc import Mapping, Sequence

from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Operation, Value
from tilewright.ir.rewrite import Cloner, rewrite_function
from tilewright.ir.types import ScalarType
from tilewright.ops import control
from tilewright.ops.extents import expr_of


def without_carries(function: Function) -> Function:
    """A copy of `function` without such carries and results; itself where there are none."""
    origins = find_origins(handed_on(function.body))
    if not origins:
        return function
    return rewrite_function(function, lambda builder: Dropper(builder, origins))


LOOPS = {control.for_: 1, control.while_: 0}
"""Loops, and how many parameters of their regions come before those that are carried."""
Handed = dict[Value, frozenset[Value]]
"""For results of loops and branches, and carries: the one or two values that each may be."""


def handed_on(block: Block, known: Handed | None = None) -> Handed:
    """What loops and branches in a block hand on, added to what is `known`."""
    handed: Handed = {} if known is None else known
    for op in block.ops:
        for region in op.regions:
            handed_on(region, handed)
        for position, result in enumerate(op.results):
            if op.opdef is control.if_:
                found = given_by(op, position, handed)
                if len(found) <= 2:
                    handed[result] = found
            elif op.opdef in LOOPS:
                first = LOOPS[op.opdef]
                params = {region.params[first + position] for region in op.regions}
                init = op.operands[-1][position]
                found = given_by(op, position, handed) - params | of(init, handed)
                if len(found) == 1:
                    handed.update(dict.fromkeys((result, *params), found))
    return handed


def of(value: Value, handed: Handed) -> frozenset[Value]:
    """What `value` always is one of."""
    return handed.get(value, frozenset((value,)))


def given_by(op: Operation, position: int, handed: Handed) -> frozenset[Value]:
    """What the regions of `op` yield at `position`."""
    ends = (region.terminator for region in op.regions)
    yielded = [end.operands[0][position] for end in ends if end.opdef is control.yield_]
    return frozenset[Value]().union(*(of(value, handed) for value in yielded))


def find_origins(handed: Handed) -> dict[Value, Value]:
    """The values that are always one other value, and that one."""

    def origin(value: Value) -> Value:
        while len(handed.get(value, ())) == 1:
            (value,) = handed[value]
        return value

    found = {value: set(map(origin, sources)) for value, sources in handed.items()}
    return {value: origins.pop() for value, origins in found.items() if len(origins) == 1}


class Dropper(Cloner):
    """Copies a function without the results that have `origins`."""

    def __init__(self, builder: Builder, origins: Mapping[Value, Value]) -> None:
        super().__init__(builder, fresh_symbols=True)
        self.origins = origins

    def clone(self, op: Operation) -> Operation:
        left = [k for k, result in enumerate(op.results) if result not in self.origins]
        if len(left) == len(op.results):
            return super().clone(op)
        for result in op.results:
            if result in self.origins:
                self.stand_for(result, self.value(self.origins[result]))
        operands = self.operands(op)
        if op.opdef in LOOPS:
            operands = (*operands[:-1], tuple(operands[-1][k] for k in left))
        first = LOOPS.get(op.opdef, 0)
        regions = tuple(self.narrowed(region, first, left) for region in op.regions)
        new = self.builder.emit(op.opdef, operands, self.attrs(op), regions, span=op.span)
        for k, result in zip(left, new.results, strict=True):
            self.bind(op.results[k], result)
        return new

    def narrowed(self, block: Block, first: int, left: Sequence[int]) -> Block:
        """A copy of a region that carries, from parameter `first` on, and yields what is `left`."""
        index, carried = block.params[:first], block.params[first:]
        for param in carried:
            if param in self.origins:
                self.stand_for(param, self.value(self.origins[param]))
        kept = [carried[k] for k in left] if carried else []
        region = Block(tuple(map(self.copied, (*index, *kept))))
        with self.builder.inside(region):
            for inner in block.ops[:-1]:
                self.clone(inner)
            if block.terminator.opdef is control.condition:
                self.clone(block.terminator)
            else:
                given = block.terminator.operands[0]
                control.yield_(tuple(self.value(given[k]) for k in left))
        return region

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
