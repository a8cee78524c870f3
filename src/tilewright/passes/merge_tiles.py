"""A loop over neighbouring tiles of a product is one larger product.

The nest after the product, if there is one, works on the larger tile as well: all that it does
with the position of a tile is to find elements. So do several products with their nests; memory
that each iteration has for itself grows.

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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from tilewright.dataclass import dataclass
from tilewright.dtypes import INDEX
from tilewright.ir.affine import Expr, Symbol, as_expr, coefficient, equal, simplify, symbols
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Operation, Program, Value
from tilewright.ir.rewrite import map_functions
from tilewright.ir.types import BufferType, Dim, ScalarType, Shape, row_major_strides
from tilewright.ops import control, loop
from tilewright.ops.extents import expr_of
from tilewright.ops.loop import buffer_type
from tilewright.ops.touches import counts, indices_of, is_pure, root_of, touches
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
LEAST_DEPTH = 256
MOST_BYTES = 8 << 20
"""Tiles that were private to an iteration may take this much when they are all kept."""
INDEX_SCALAR = ScalarType(INDEX)


@dataclass(frozen=True, slots=True)
class Part:
    """A product of tiles and the nest after it, if there is one; a loop has one or several.

    `strips` are how the matrices of the whole lie. `wide` are the loops of the nest whose extent
    grows from a tile's to `extent`.
    """

    product: Operation
    strips: tuple[Strip, Strip, Strip]
    wide: tuple[Operation, ...]
    extent: Dim


@dataclass(frozen=True, slots=True)
class Tiles:
    """A loop over tiles: its parts, and the allocations that grow, with their shapes.

    The parts follow each other for all tiles at once: what they write is read as their own tile
    alone.
    """

    loop: Operation
    parts: tuple[Part, ...]
    grown: Mapping[Operation, tuple[Dim, ...]]


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
    """What a loop over tiles of products merges into, if it is one."""
    if op.opdef is not control.for_ or op.operands[3]:
        return None
    pairs = pairs_of(op.regions[0])
    trip = exact_trip(*map(expr_of, op.operands[:3]))
    if not pairs or trip is None:
        return None
    own = frozenset(each.result for each in op.regions[0].ops if each.opdef is loop.alloc)
    tiles = frozenset(product.operands[0] for product, _ in pairs) | own
    if not is_separate(op, tiles) or (own and not is_worthwhile(pairs, own, trip)):
        return None
    for axis in (COLUMNS, ROWS):
        merger = Along(op, axis, trip, tiles, own)
        parts = [merger.part(product, nest) for product, nest in pairs]
        found = tuple(part for part in parts if part is not None)
        if len(found) == len(parts):
            grown = {value.op: merger.grown(buffer_type(value).shape) for value in own if value.op}
            return Tiles(op, found, grown)
    return None


def pairs_of(body: Block) -> list[tuple[Operation, Operation | None]]:
    """Each product in a body with the nest that follows it; nothing where there is more."""
    pairs: list[tuple[Operation, Operation | None]] = []
    for each in body.ops[:-1]:
        if each.opdef is loop.matmul:
            pairs.append((each, None))
        elif not is_pure(each):
            if not pairs or pairs[-1][1] is not None:
                return []
            pairs[-1] = (pairs[-1][0], each)
    return pairs


def is_separate(op: Operation, tiles: frozenset[Value]) -> bool:
    """True when the memory of tiles is touched as these tiles only, and no two share any."""
    roots = [root_of(tile) for tile in tiles]
    if len(set(roots)) < len(roots):
        return False
    return all(buffer in tiles for _, buffer in touches(op) if root_of(buffer) in roots)


def is_worthwhile(
    pairs: Sequence[tuple[Operation, Operation | None]], own: frozenset[Value], trip: Dim
) -> bool:
    """True when tiles that come to be far away from each other are little to what is computed."""
    depths = [strip_of(product.operands[1]).shape for product, _ in pairs]
    axes = [0 if product.attrs["a_trans"] else 1 for product, _ in pairs]
    if any(not is_deep(shape[axis]) for shape, axis in zip(depths, axes, strict=True)):
        return False
    size = sum(known_bytes(buffer_type(value)) for value in own)
    is_little = isinstance(trip, int) and size * trip <= MOST_BYTES
    return is_little and all(buffer_type(value).rank == 2 for value in own)


def is_deep(extent: Dim) -> bool:
    """True for a k that makes up for elements of the result that leave the nearest cache."""
    return isinstance(extent, int) and extent >= LEAST_DEPTH


def known_bytes(type_: BufferType) -> int:
    """The bytes of a buffer; too many if only run time knows."""
    known = [extent for extent in type_.shape if isinstance(extent, int)]
    return prod(known) * type_.dtype.nbytes if len(known) == type_.rank else MOST_BYTES


@dataclass(frozen=True, slots=True)
class Along:
    """The tiles of a loop as one, if they follow each other along `axis` of the results."""

    loop: Operation
    axis: int
    trip: Dim
    tiles: frozenset[Value]
    own: frozenset[Value]

    def grown(self, shape: Shape) -> tuple[Dim, ...]:
        """The shape of all tiles."""
        return tuple(
            self.times(extent) if axis == self.axis else extent for axis, extent in enumerate(shape)
        )

    def times(self, extent: Dim) -> Dim:
        """The extent of all tiles."""
        return simplify(as_expr(extent) * as_expr(self.trip))

    def part(self, product: Operation, nest: Operation | None) -> Part | None:
        """One product and its nest over all tiles."""
        counter = self.loop.regions[0].params[0].symbol
        turned = (product.attrs["a_trans"], product.attrs["b_trans"])
        along = self.axis if not turned[self.axis] else 1 - self.axis
        c, a, b = map(strip_of, product.operands)
        moving, still = (a, b) if self.axis == ROWS else (b, a)
        extent, moved = c.shape[self.axis], moving.shape[along]
        if not isinstance(extent, int) or not isinstance(moved, int):
            return None
        if not self.advances(c, self.axis) or not self.advances(moving, along):
            return None
        if mentions(still.offsets, {counter}) or still.buffer.op in set(self.loop.regions[0].ops):
            return None
        wide = () if nest is None else self.loops_along(product, nest, c)
        if wide is None:
            return None
        whole = self.whole(c, self.axis)
        moving = self.whole(moving, along)
        strips = (whole, moving, still) if self.axis == ROWS else (whole, still, moving)
        return Part(product, strips, wide, self.times(extent))

    def whole(self, strip: Strip, axis: int) -> Strip:
        """All tiles, one after the other along `axis`."""
        if strip.buffer in self.own:
            shape = self.grown(strip.shape)
            return replace(strip, shape=shape, strides=row_major_strides(shape))
        low, counter = expr_of(self.loop.operands[0]), self.loop.regions[0].params[0].symbol
        return strip.extended(axis, self.times(strip.shape[axis])).at(counter, low)

    def advances(self, strip: Strip, axis: int) -> bool:
        """True when the next iteration has what follows along `axis`."""
        if strip.buffer in self.own:
            return axis == self.axis
        if strip.buffer.op in set(self.loop.regions[0].ops):
            return False
        counter, step = self.loop.regions[0].params[0].symbol, expr_of(self.loop.operands[2])
        pace = coefficient(strip.flat(), counter)
        return pace is not None and equal(as_expr(pace) * step, strip.width(axis)) is True

    def loops_along(
        self, product: Operation, nest: Operation, c: Strip
    ) -> tuple[Operation, ...] | None:
        """The loops of a nest along the axis of a tile, if it may as well run over all tiles."""
        if not counts(nest, c.shape[ROWS]):
            return None
        row = nest.regions[0]
        lanes = [each for each in row.ops if each.regions]
        wide = (nest,) if self.axis == ROWS else tuple(lanes)
        if self.axis == COLUMNS:
            effects = [each for each in row.ops[:-1] if each.opdef.effect and not each.regions]
            if any(each.opdef is not loop.load for each in effects):
                return None
            if not lanes or not all(counts(each, c.shape[COLUMNS]) for each in lanes):
                return None
        tile = Tile(self.loop, self.tiles, self.axis, c.shape[self.axis], row.params[0])
        return wide if all(tile.allows(each) for each in (nest, *row_parts(nest))) else None


def mentions(exprs: Iterable[Expr], given: set[Symbol]) -> bool:
    """True when one of `given` occurs in `exprs`."""
    return any(symbol in given for each in exprs for symbol in symbols(each))


def row_parts(nest: Operation) -> list[Operation]:
    """Everything inside a nest."""
    return list(nest.regions[0].walk())


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile of each result, the loop over such tiles, and what a nest may do with its position."""

    loop: Operation
    tiles: frozenset[Value]
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
        """True for an access of a tile itself, or one that moves on from tile to tile."""
        buffer: Value = op.operands[0]
        index = indices_of(op)
        counter, own = self.loop.regions[0].params[0].symbol, self.counter(op)
        if buffer in self.tiles:
            if mentions(index, {counter}) or index[0] != as_expr(self.row.symbol):
                return False
            return self.axis == ROWS or (own is not None and index[1] == as_expr(own.symbol))
        if op.opdef is loop.store:
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
        self.wide: dict[Operation, Dim] = {}

    def clone(self, op: Operation) -> Operation:
        tiles = self.tiles.get(op)
        if tiles is not None and self.can_place(tiles):
            return self.merge(tiles)
        return self.widen(op, self.wide[op]) if op in self.wide else super().clone(op)

    def can_place(self, tiles: Tiles) -> bool:
        """True when the matrices of the whole can be made here."""
        strips = [strip for part in tiles.parts for strip in part.strips]
        extents = [as_expr(part.extent) for part in tiles.parts]
        return self.knows([*extents, *(offset for strip in strips for offset in strip.offsets)])

    def merge(self, tiles: Tiles) -> Operation:
        """The larger products and their nests."""
        op, body = tiles.loop, tiles.loop.regions[0]
        counter = body.params[0]
        self.mapping[counter] = self.value(op.operands[0])
        self.known[counter.symbol] = self.mapping[counter]
        parts = {part.product: part for part in tiles.parts}
        for each in body.ops[:-1]:
            if each in tiles.grown:
                larger = loop.alloc(shape=tiles.grown[each], dtype=each.attrs["dtype"])
                larger.name = each.result.name
                self.bind(each.result, larger)
            elif each in parts:
                self.part(parts[each])
            else:
                self.clone(each)
        return op

    def part(self, part: Part) -> None:
        """One larger product."""
        product = part.product
        c, a, b = map(self.strip, part.strips)
        self.wide.update(dict.fromkeys(part.wide, part.extent))
        with self.builder.located(product.span):
            loop.matmul(c, a, b, **product.attrs)
        self.mapping[product.operands[0]] = c

    def widen(self, op: Operation, extent: Dim) -> Operation:
        """A loop of a nest with a larger extent."""
        index, *carried = op.regions[0].params
        counter = Value(index.type, index.name)
        counter.bind_symbol(Symbol(index.name, 0, as_expr(extent) - 1))
        self.mapping[index], self.known[index.symbol] = counter, counter
        region = Block((counter, *(self.copy_of(each) for each in carried)))
        with self.builder.inside(region):
            self.body(op.regions[0])
        low, _, step, inits = self.operands(op)
        operands = (low, self.index(as_expr(extent)), step, inits)
        return self.builder.emit(op.opdef, operands, op.attrs, (region,), span=op.span)

    def copy_of(self, param: Value) -> Value:
        """A parameter of a copied block."""
        new = Value(param.type, param.name)
        self.bind(param, new)
        return new
