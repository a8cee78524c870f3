"""A loop over neighbouring tiles of a product is one larger product.

The nest after the product, if there is one, works on the larger tile as well: all that it does
with the position of a tile is to find elements.

Before::

    @pl.program
    class example:
        @pl.function
        def main(
            self,
            a: pl.Buffer[[8, 4], pl.FP32],
            b: pl.Buffer[[4, 32], pl.FP32],
            bias: pl.Buffer[[32], pl.FP32],
            out: pl.Out[pl.Buffer[[8, 32], pl.FP32]],
        ):
            for j in pl.parallel(0, 32, 16):
                t = pl.loop.view(out, [0, j], shape=[8, 16], strides=[32, 1])
                y = pl.loop.view(b, [0, j], shape=[4, 16], strides=[32, 1])
                pl.loop.matmul(t, a, y)
                for r in pl.parallel(8):
                    for c in pl.loop.lanes(16):
                        s = pl.loop.load(t, [r, c])
                        s_1 = pl.loop.load(bias, [j + c])
                        pl.loop.store(t, [r, c], s + s_1)

After::

    pl.loop.matmul(out, a, b)
    for r in pl.parallel(8):
        for c in pl.loop.lanes(32):
            s = pl.loop.load(out, [r, c])
            s_1 = pl.loop.load(bias, [0 + c])
            pl.loop.store(out, [r, c], s + s_1)
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from tilewright.dataclass import dataclass
from tilewright.dtypes import INDEX
from tilewright.ir.affine import Expr, Symbol, as_expr, coefficient, equal, symbols
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Operation, Program, Value
from tilewright.ir.rewrite import map_functions
from tilewright.ir.types import Dim, ScalarType
from tilewright.ops import control, loop
from tilewright.ops.extents import expr_of
from tilewright.ops.touches import counts, indices_of, is_pure, root_of
from tilewright.passes.loops import (
    LoopCloner,
    Strip,
    blocks_in,
    exact_trip,
    has_products,
    rewritten,
    strip_of,
)

ROWS, COLUMNS = 0, 1
INDEX_SCALAR = ScalarType(INDEX)


@dataclass(frozen=True, slots=True)
class Tiles:
    """A loop over tiles: how the matrices of the whole lie, and what runs over more than before.

    `wide` are the loops of the nest whose extent grows from a tile's to `extent`.
    """

    loop: Operation
    product: Operation
    strips: tuple[Strip, Strip, Strip]
    wide: tuple[Operation, ...]
    extent: int


def merge_tiles(program: Program, entry: str) -> Program:
    """The loop-level `program` with products of neighbouring tiles merged."""
    return map_functions(program, merge_in_function) if has_products(program, entry) else program


def merge_in_function(function: Function) -> Function:
    """A copy of `function` with tiles merged, inner loops first; itself where there are none."""
    while True:
        found = [find_tiles(op) for block in blocks_in(function.body) for op in block.ops]
        tiles = [each for each in found if each is not None]
        if not tiles:
            return function
        function = rewritten(function, partial(TileMerger, tiles=tiles))


# ---------------------------------------------------------------------- what can be merged


def find_tiles(op: Operation) -> Tiles | None:
    """What a loop over tiles of a product merges into, if it is one."""
    if op.opdef is not control.for_ or op.operands[3]:
        return None
    body = op.regions[0].ops[:-1]
    effects = [each for each in body if not is_pure(each)]
    if not effects or effects[0].opdef is not loop.matmul or len(effects) > 2:
        return None
    low, high, step = map(expr_of, op.operands[:3])
    trip = exact_trip(low, high, step)
    if not trip:
        return None
    nest = effects[1] if len(effects) == 2 else None
    for axis in (COLUMNS, ROWS):
        found = merged_along(op, effects[0], nest, axis, trip)
        if found is not None:
            return found
    return None


def merged_along(
    op: Operation, product: Operation, nest: Operation | None, axis: int, trip: int
) -> Tiles | None:
    """The tiles of `op` as one, if they follow each other along `axis` of the result."""
    low, _, step = map(expr_of, op.operands[:3])
    counter = op.regions[0].params[0].symbol
    c, a, b = map(strip_of, product.operands)
    turned = (product.attrs["a_trans"], product.attrs["b_trans"])
    moving, still = (a, b) if axis == ROWS else (b, a)
    along = axis if not turned[axis] else 1 - axis
    if not advances(c, axis, counter, step) or not advances(moving, along, counter, step):
        return None
    inside = set(op.regions[0].ops)
    if mentions(still.offsets, {counter}) or any(s.buffer.op in inside for s in (c, a, b)):
        return None
    if root_of(c.buffer) in (root_of(a.buffer), root_of(b.buffer)):
        return None
    own = c.shape[axis]
    wide = () if nest is None else loops_along(op, product, nest, axis, c)
    if wide is None or not isinstance(own, int):
        return None
    extent = own * trip
    whole = c.extended(axis, extent).at(counter, low)
    moved = moving.extended(along, extent).at(counter, low)
    strips = (whole, moved, still) if axis == ROWS else (whole, still, moved)
    return Tiles(op, product, strips, wide, extent)


def advances(strip: Strip, axis: int, counter: Symbol, step: Expr) -> bool:
    """True when the next iteration has what follows along `axis`."""
    pace = coefficient(strip.flat(), counter)
    return pace is not None and equal(as_expr(pace) * step, strip.width(axis)) is True


def mentions(exprs: Iterable[Expr], given: set[Symbol]) -> bool:
    """True when one of `given` occurs in `exprs`."""
    return any(symbol in given for each in exprs for symbol in symbols(each))


def loops_along(
    op: Operation, product: Operation, nest: Operation, axis: int, c: Strip
) -> tuple[Operation, ...] | None:
    """The loops of a nest that run along `axis` of a tile, if it may as well run over all tiles."""
    if not counts(nest, c.shape[ROWS]):
        return None
    row = nest.regions[0]
    lanes = [each for each in row.ops if each.regions]
    wide = (nest,) if axis == ROWS else tuple(lanes)
    if axis == COLUMNS:
        effects = [each for each in row.ops[:-1] if each.opdef.effect and not each.regions]
        if any(each.opdef is not loop.load for each in effects):
            return None
        if not lanes or not all(counts(each, c.shape[COLUMNS]) for each in lanes):
            return None
    tile = Tile(op, product.operands[0], axis, c.shape[axis], row.params[0])
    return wide if all(tile.allows(each) for each in (nest, *row_parts(nest))) else None


def row_parts(nest: Operation) -> list[Operation]:
    """Everything inside a nest."""
    return list(nest.regions[0].walk())


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile of the result, the loop over such tiles, and what a nest may do with its position."""

    loop: Operation
    memory: Value
    axis: int
    extent: Dim
    row: Value

    def allows(self, op: Operation) -> bool:
        """True when `op`, which is in the nest, does the same for all tiles at once."""
        if op.opdef.terminator or op.opdef is control.for_:
            return True
        if op.opdef in (loop.load, loop.store):
            return self.allows_access(op)
        if op.opdef.effect or op.regions:
            return False
        given = [value for value in op.inputs if is_integer(value)]
        is_index = all(value.type == INDEX_SCALAR for value in op.results)
        return is_index or not mentions(map(expr_of, given), self.positions(op))

    def positions(self, op: Operation) -> set[Symbol]:
        """The counters that say where in the result an element is."""
        own = self.counter(op)
        counters = [self.loop.regions[0].params[0], *([] if own is None else [own])]
        return {counter.symbol for counter in counters}

    def counter(self, op: Operation) -> Value | None:
        """The counter along the axis, around `op`."""
        if self.axis == ROWS:
            return self.row
        owner = next((each for each in lanes_of(self.row) if op in each.regions[0].ops), None)
        return None if owner is None else owner.regions[0].params[0]

    def allows_access(self, op: Operation) -> bool:
        """True for an access of the tile itself, or one that moves on from tile to tile."""
        buffer: Value = op.operands[0]
        index = indices_of(op)
        counter, own = self.loop.regions[0].params[0].symbol, self.counter(op)
        if buffer is self.memory:
            if mentions(index, {counter}) or index[0] != as_expr(self.row.symbol):
                return False
            return self.axis == ROWS or (own is not None and index[1] == as_expr(own.symbol))
        if op.opdef is loop.store or root_of(buffer) is root_of(self.memory):
            return False
        if buffer.op is not None and buffer.op in self.loop.regions[0].ops:
            return False
        step = expr_of(self.loop.operands[2])
        return all(self.moves_on(each, counter, own, step) for each in index)

    def moves_on(self, index: Expr, counter: Symbol, own: Value | None, step: Expr) -> bool:
        """True when the first element of the next tile is the one after the last of this."""
        tiles = coefficient(index, counter)
        elements = 0 if own is None else coefficient(index, own.symbol)
        if tiles is None or elements is None:
            return False
        return equal(as_expr(tiles) * step, as_expr(elements) * as_expr(self.extent)) is True


def lanes_of(row: Value) -> list[Operation]:
    """The loops in the body of a row."""
    block = row.owner
    assert isinstance(block, Block)
    return [each for each in block.ops if each.regions]


def is_integer(value: Value) -> bool:
    """True for integer scalars."""
    return isinstance(value.type, ScalarType) and value.type.dtype.is_int()


# ---------------------------------------------------------------------- rewriting


class TileMerger(LoopCloner):
    """Copies a function with tiles merged."""

    def __init__(self, builder: Builder, *, tiles: list[Tiles]) -> None:
        super().__init__(builder)
        self.tiles = {each.loop: each for each in tiles}
        self.wide: dict[Operation, int] = {}

    def clone(self, op: Operation) -> Operation:
        tiles = self.tiles.get(op)
        if tiles is not None and self.can_place(tiles):
            return self.merge(tiles)
        return self.widen(op, self.wide[op]) if op in self.wide else super().clone(op)

    def can_place(self, tiles: Tiles) -> bool:
        """True when the matrices of the whole can be made here."""
        return self.knows([offset for strip in tiles.strips for offset in strip.offsets])

    def merge(self, tiles: Tiles) -> Operation:
        """The larger product and its nest."""
        op, body = tiles.loop, tiles.loop.regions[0]
        counter = body.params[0]
        self.mapping[counter] = self.value(op.operands[0])
        self.known[counter.symbol] = self.mapping[counter]
        c, a, b = map(self.strip, tiles.strips)
        self.wide.update(dict.fromkeys(tiles.wide, tiles.extent))
        for each in body.ops[:-1]:
            if each is tiles.product:
                with self.builder.located(each.span):
                    loop.matmul(c, a, b, **each.attrs)
                self.mapping[each.operands[0]] = c
            else:
                self.clone(each)
        return op

    def widen(self, op: Operation, extent: int) -> Operation:
        """A loop of a nest with a larger extent."""
        index, *carried = op.regions[0].params
        counter = Value(index.type, index.name)
        counter.bind_symbol(Symbol(index.name, 0, as_expr(extent) - 1))
        self.mapping[index], self.known[index.symbol] = counter, counter
        region = Block((counter, *(self.copy_of(each) for each in carried)))
        with self.builder.inside(region):
            self.body(op.regions[0])
        low, _, step, inits = self.operands(op)
        operands = (low, self.builder.index(extent), step, inits)
        return self.builder.emit(op.opdef, operands, op.attrs, (region,), span=op.span)

    def copy_of(self, param: Value) -> Value:
        """A parameter of a copied block."""
        new = Value(param.type, param.name)
        self.bind(param, new)
        return new
