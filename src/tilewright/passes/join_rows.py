"""Loops that add row after row to a row of accumulators do several rows at a time.

The accumulators are read and written once for all of them. Each still gets its contributions in
the order of the rows: the bits are the same.

Before::

    @pl.program
    class example:
        @pl.function
        def main(
            self, x: pl.Buffer[[3, 32], pl.FP32], total: pl.InOut[pl.Buffer[[32], pl.FP32]]
        ):
            for r in pl.range(3):
                for c in pl.loop.lanes(32):
                    old = pl.loop.load(total, [c])
                    pl.loop.store(total, [c], old + pl.loop.load(x, [r, c]))

After::

    for r in pl.range(0, 3, 3):
        s = r + 1
        s_1 = r + 2
        for c in pl.loop.lanes(32):
            old = pl.loop.load(total, [c])
            s_2 = pl.loop.load(x, [r, c])
            s_3 = old + s_2
            s_4 = pl.loop.load(x, [s, c])
            s_5 = s_3 + s_4
            s_6 = pl.loop.load(x, [s_1, c])
            pl.loop.store(total, [c], s_5 + s_6)
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.dataclass import dataclass
from tilewright.ir.affine import Symbol, as_expr, coefficient
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Operation, Program, Value
from tilewright.ir.enums import ForKind
from tilewright.ir.rewrite import Cloner, map_functions
from tilewright.ops import arith, control, loop
from tilewright.ops.extents import constant_of, expr_of
from tilewright.ops.touches import indices_of, is_pure, root_of, touches
from tilewright.ops.words import scalar_type
from tilewright.passes.loops import rewritten

MOST_ROWS = 8
MOST_OPERATIONS = 40
"""In the body over the lanes, of all rows together."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A loop over rows, the loop over lanes in it, and how many rows are done at a time.

    `sums` are the accumulators; `varying` is what is not the same for all rows.
    """

    loop: Operation
    lanes: Operation
    sums: frozenset[Value]
    varying: frozenset[Value]
    size: int


def join_rows(program: Program, entry: str) -> Program:
    """The loop-level `program` with rows that add up joined."""
    return map_functions(program, joined)


def joined(function: Function) -> Function:
    """A copy of `function` with rows joined; itself where there are none."""
    loops = [op for op in function.body.walk() if op.opdef is control.for_]
    if not any(map(find_rows, loops)):
        return function
    return rewritten(function, RowJoiner)


# ---------------------------------------------------------------------- what can be joined


def find_rows(op: Operation) -> Rows | None:
    """The rows of a loop that does nothing but add to accumulators, lane by lane."""
    if op.opdef is not control.for_ or op.attrs["kind"] is not ForKind.Sequential or op.operands[3]:
        return None
    low, _, step = map(constant_of, op.operands[:3])
    body = op.regions[0].ops[:-1]
    inner = [each for each in body if each.regions]
    if (low, step) != (0, 1) or len(inner) != 1 or not is_plain_lanes(inner[0]):
        return None
    (lanes,) = inner
    found = find_sums(op, lanes)
    if found is None or not all(is_harmless(each, found) for each in body if each is not lanes):
        return None
    count, own = constant_of(op.operands[1]), cost(lanes.regions[0])
    size = min(MOST_ROWS, MOST_OPERATIONS // own, MOST_ROWS if count is None else int(count))
    if size < 2:
        return None
    return Rows(op, lanes, found, varying_values(op, found), size)


def is_plain_lanes(op: Operation) -> bool:
    """True for a loop over lanes that reduces nothing and has neither branches nor checks."""
    if op.opdef is not control.for_ or op.attrs["kind"] is not ForKind.Lanes or op.operands[3]:
        return False
    return all(
        is_pure(each) or each.opdef in (loop.load, loop.store) for each in op.regions[0].ops[:-1]
    )


def is_harmless(op: Operation, sums: frozenset[Value]) -> bool:
    """True for what may be computed for several rows before their lanes."""
    if op.opdef is loop.load:
        return root_of(op.operands[0]) not in sums
    return is_pure(op)


def cost(body: Block) -> int:
    """The operations of a body without its constants and terminator."""
    return max(1, sum(op.opdef is not arith.const for op in body.ops) - 1)


def find_sums(op: Operation, lanes: Operation) -> frozenset[Value] | None:
    """The memory that lanes store to, if each only ever touches the same element of its own."""
    stores = [each for each in lanes.regions[0].ops if each.opdef is loop.store]
    sums = frozenset(root_of(each.operands[0]) for each in stores)
    if not stores or len(stores) != len(sums):
        return None
    lane = lanes.regions[0].params[0].symbol
    varying = varying_values(op, sums)
    for store in stores:
        buffer, where = store.operands[0], indices_of(store)
        if store.operands[3] is not None or not varying.isdisjoint((buffer, *store.operands[1])):
            return None
        if [coefficient(index, lane) for index in where].count(0) != len(where) - 1:
            return None
        others = (each for each, other in touches(op) if root_of(other) is root_of(buffer))
        if not all(is_access(each, buffer) and indices_of(each) == where for each in others):
            return None
    return sums


def is_access(op: Operation, buffer: Value) -> bool:
    """True for an unconditional load or store of `buffer`."""
    return op.opdef in (loop.load, loop.store) and op.operands[0] is buffer and not op.operands[-1]


def varying_values(op: Operation, sums: frozenset[Value]) -> frozenset[Value]:
    """The values in a loop that depend on its counter, or on what it adds up."""
    found = {op.regions[0].params[0]}
    for each in op.regions[0].walk():
        is_sum = each.opdef is loop.load and root_of(each.operands[0]) in sums
        if is_sum or not found.isdisjoint(each.inputs):
            found.update(each.results)
    return frozenset(found)


# ---------------------------------------------------------------------- rewriting


class RowJoiner(Cloner):
    """Copies a function with rows joined."""

    def __init__(self, builder: Builder) -> None:
        super().__init__(builder, fresh_symbols=True)

    def clone(self, op: Operation) -> Operation:
        rows = find_rows(op)
        if rows is None:
            return super().clone(op)
        self.blocks_of_rows(rows)
        return op

    def blocks_of_rows(self, rows: Rows) -> None:
        """The loop over whole blocks, then what is left."""
        op, size = rows.loop, rows.size
        low, high = map(self.value, op.operands[:2])
        count = constant_of(high)
        whole = high
        if count is None:
            whole = arith.sub(high, arith.mod(high, self.like(high, size)))
            whole = arith.max_(self.like(high, 0), whole)
        elif int(count) % size:
            whole = self.like(high, int(count) - int(count) % size)
        self.loop(op, (low, whole, self.builder.index(size)), lambda row: self.block_of(rows, row))
        if whole is not high:
            ends = (whole, high, self.builder.index(1))
            self.loop(op, ends, lambda row: self.one_row(op.regions[0], row))

    def like(self, bound: Value, number: int) -> Value:
        """A number in the integer type of a bound."""
        return self.builder.constant(number, scalar_type("loop", bound).dtype)

    def loop(
        self, op: Operation, ends: tuple[Value, ...], body: Callable[[Value], None]
    ) -> Operation:
        """A loop like `op`, with other ends and another body."""
        index = op.regions[0].params[0]
        row = Value(index.type, index.name)
        row.bind_symbol(Symbol(index.name, 0, self.attr(index.symbol.hi)))
        region = Block((row,))
        with self.builder.inside(region):
            body(row)
            control.yield_(())
        return self.builder.emit(op.opdef, (*ends, ()), op.attrs, (region,), span=op.span)

    def one_row(self, body: Block, row: Value) -> None:
        """A row by itself."""
        self.place(body, row)
        for op in body.ops[:-1]:
            super().clone(op)

    def place(self, body: Block, row: Value) -> None:
        """`row` is what the counter of `body` is."""
        counter = body.params[0]
        self.mapping[counter] = row
        self.symbols[counter.symbol] = as_expr(expr_of(row))

    def block_of(self, rows: Rows, first: Value) -> None:
        """Several rows: what each needs, then the lanes of all."""
        body = rows.loop.regions[0]
        known: list[dict[Value, Value]] = []
        for number in range(rows.size):
            self.place(body, arith.add(first, self.like(first, number)) if number else first)
            for op in body.ops[:-1]:
                if op is not rows.lanes and (number == 0 or self.is_varying(op, rows)):
                    super().clone(op)
            known.append(dict(self.mapping))
        lanes = rows.lanes
        region = Block(self.params(lanes.regions[0]))
        counter = lanes.regions[0].params[0]
        lane = self.mapping[counter]
        with self.builder.inside(region):
            latest: dict[Value, Value] = {}
            for number, mapping in enumerate(known):
                self.mapping.update({**mapping, counter: lane})
                self.lanes_of(rows, number, latest)
            control.yield_(())
        self.builder.emit(
            lanes.opdef, self.operands(lanes), lanes.attrs, (region,), span=lanes.span
        )

    def is_varying(self, op: Operation, rows: Rows) -> bool:
        """True when an operation differs from row to row."""
        return not rows.varying.isdisjoint(op.results)

    def lanes_of(self, rows: Rows, number: int, latest: dict[Value, Value]) -> None:
        """The lanes of one row; `latest` are the accumulators, stored after the last row."""
        for op in rows.lanes.regions[0].ops[:-1]:
            root = root_of(op.operands[0]) if op.opdef in (loop.load, loop.store) else None
            if op.opdef is loop.store:
                latest[root_of(op.operands[0])] = self.value(op.operands[2])
                if number == rows.size - 1:
                    super().clone(op)
            elif root in latest:
                self.mapping[op.result] = latest[root]
            elif number == 0 or self.is_varying(op, rows):
                super().clone(op)
                if root in rows.sums:
                    latest[root] = self.mapping[op.result]
