"""Loop-level code as passes read and copy it: blocks, strips of memory, copies with views."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tilewright.dataclass import dataclass
from tilewright.ir.affine import (
    Dim,
    Expr,
    Symbol,
    as_expr,
    equal,
    less_equal,
    simplify,
    substitute,
    symbols,
)
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Program, Value
from tilewright.ir.rewrite import Cloner, copy_function
from tilewright.ir.types import BufferType, Shape
from tilewright.ops import loop
from tilewright.ops.extents import expr_of
from tilewright.ops.loop import buffer_type
from tilewright.passes.prune import prune
from tilewright.passes.scopes import Scopes


def has_products(program: Program, entry: str) -> bool:
    """True when a function has a matrix product."""
    return holds_product(program[entry].body)


def holds_product(block: Block) -> bool:
    """True when there is a matrix product in a block, or in the blocks inside it."""
    for op in block.ops:
        if op.opdef is loop.matmul:
            return True
        for region in op.regions:
            if holds_product(region):
                return True
    return False


def blocks_in(body: Block) -> Iterator[Block]:
    """`body` and the blocks inside it."""
    yield body
    yield from (region for op in body.walk() for region in op.regions)


@dataclass(frozen=True, slots=True)
class Strip:
    """A matrix in memory: elements of `buffer` from `offsets` on, `strides` apart."""

    buffer: Value
    offsets: tuple[Expr, ...]
    shape: Shape
    strides: Shape
    name: str = ""

    def flat(self) -> Expr:
        """Where the first element is, in elements."""
        pairs = zip(self.offsets, buffer_type(self.buffer).strides, strict=True)
        return sum((offset * as_expr(stride) for offset, stride in pairs), as_expr(0))

    def width(self, axis: int) -> Expr:
        """The distance from the first element to the one after the last along `axis`."""
        return as_expr(self.shape[axis]) * as_expr(self.strides[axis])

    def continues(self, before: Strip, axis: int) -> bool:
        """True when this is what comes after `before` along `axis`."""
        other = 1 - axis
        return (
            self.buffer is before.buffer
            and self.strides == before.strides
            and self.shape[other] == before.shape[other]
            and equal(self.flat() - before.flat(), before.width(axis)) is True
        )

    def extended(self, axis: int, extent: Dim) -> Strip:
        """This strip with another extent along `axis`."""
        return replace(
            self, shape=(extent, self.shape[1]) if axis == 0 else (self.shape[0], extent)
        )

    def at(self, symbol: Symbol, place: Expr) -> Strip:
        """This strip where `symbol` is `place`."""
        offsets = tuple(substitute(each, {symbol: place}) for each in self.offsets)
        return replace(self, offsets=offsets)


def strip_of(value: Value) -> Strip:
    """A rank-2 buffer as a strip of the buffer that it views, or of itself."""
    type_ = buffer_type(value)
    if value.op is not None and value.op.opdef is loop.view:
        base, offsets = value.op.operands
        if buffer_type(base).dtype is type_.dtype:
            where = tuple(map(expr_of, offsets))
            return Strip(base, where, type_.shape, type_.strides, value.name)
    return Strip(value, (as_expr(0),) * 2, type_.shape, type_.strides)


def exact_trip(low: Expr, high: Expr, step: Expr) -> Dim | None:
    """How often a loop runs, if its last iteration is surely whole and there may be one."""
    distance = high - low
    if not step.is_constant or step.const <= 0:
        return None
    trip = distance // step.const
    if trip == 0 or trip * step != distance or less_equal(0, trip) is not True:
        return None
    return simplify(trip)


class LoopCloner(Cloner):
    """A cloner that makes views at places given as expressions.

    `known` are the integers that have been copied, by their symbols.
    """

    def __init__(self, builder: Builder) -> None:
        super().__init__(builder)
        self.known: dict[Symbol, Value] = {}

    def bind(self, old: Value, new: Value) -> None:
        super().bind(old, new)
        if old.has_symbol:
            self.known[old.symbol] = new

    def knows(self, exprs: Sequence[Expr]) -> bool:
        """True when `exprs` can be computed here."""
        return all(symbol in self.known for each in exprs for symbol in symbols(each))

    def index(self, expr: Expr) -> Value:
        """A number that can be computed here."""
        scopes = Scopes(self.builder)
        for symbol in symbols(expr):
            scopes.define(symbol, self.known[symbol])
        return scopes.index(expr)

    def view(self, buffer: Value, offsets: Sequence[Expr], shape: Shape, strides: Shape) -> Value:
        """A view of the copied `buffer` from `offsets` on."""
        indices = tuple(map(self.index, offsets))
        return loop.view(buffer, indices, shape=shape, strides=strides)

    def strip(self, strip: Strip) -> Value:
        """The buffer of a strip."""
        base = self.value(strip.buffer)
        type_ = buffer_type(base)
        if (type_.shape, type_.strides) == (strip.shape, strip.strides):
            return base
        found = self.view(base, strip.offsets, strip.shape, strip.strides)
        found.name = strip.name
        return found


def extents_of(function: Function) -> frozenset[Symbol]:
    """The symbols in the types of the parameters of a loop-level function."""
    dims = (
        dim
        for param in function.params
        if isinstance(param.type, BufferType)
        for dim in (*param.type.shape, *param.type.strides)
    )
    return frozenset(symbol for dim in dims for symbol in symbols(as_expr(dim)))


def rewritten(function: Function, cloner: Callable[[Builder], Cloner]) -> Function:
    """A copy of `function` made by the cloner that `cloner(builder)` gives, without dead code."""
    builder = Builder()
    with builder:
        copier = cloner(builder)
        copier.kept = extents_of(function)
        body = copier.block(function.body)
        prune(body)
        return copy_function(function, body)
