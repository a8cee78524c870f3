"""Matrix products go straight to where their result ends up.

A product whose only reader is a nest that stores something made of each element to one element of
other memory is computed in that memory, and the nest works in place; one that only copies is gone.

Before::

    @pl.program
    class example:
        @pl.function
        def main(
            self,
            a: pl.Buffer[[8, 4], pl.FP32],
            b: pl.Buffer[[4, 16], pl.FP32],
            bias: pl.Buffer[[16], pl.FP32],
            out: pl.Out[pl.Buffer[[8, 32], pl.FP32]],
        ):
            t = pl.loop.alloc(shape=[8, 16], dtype=pl.FP32)
            pl.loop.matmul(t, a, b)
            for r in pl.parallel(8):
                for c in pl.loop.lanes(16):
                    s = pl.loop.load(t, [r, c])
                    s_1 = pl.loop.load(bias, [c])
                    pl.loop.store(out, [r, 16 + c], s + s_1)

After::

    t = pl.loop.view(out, [0, 16], shape=[8, 16], strides=[32, 1])
    pl.loop.matmul(t, a, b)
    for r in pl.parallel(8):
        for c in pl.loop.lanes(16):
            s = pl.loop.load(t, [r, c])
            s_1 = pl.loop.load(bias, [c])
            pl.loop.store(t, [r, c], s + s_1)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from tilewright.dataclass import dataclass
from tilewright.ir.affine import Expr, Symbol, as_expr, coefficient, symbols
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Operation, Program, Value
from tilewright.ir.enums import Effect
from tilewright.ir.rewrite import map_functions
from tilewright.ir.types import Dim
from tilewright.ops import loop
from tilewright.ops.loop import buffer_type
from tilewright.ops.touches import counts, indices_of, root_of, roots_of, touches, walk_regions
from tilewright.passes.loops import LoopCloner, blocks_in, has_products, rewritten

PLAIN = (loop.matmul, loop.load, loop.store)
"""What may use a window of other memory as well as memory of its own."""


@dataclass(frozen=True, slots=True)
class Window:
    """The elements of `buffer` from `offsets` on, `strides` apart."""

    buffer: Value
    offsets: tuple[Expr, ...]
    strides: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Placing:
    """The memory of `alloc` becomes `window`, which `store` in `nest` fills.

    `counters` are those of the loops around `store`; a nest that `is_copy` does nothing else.
    """

    alloc: Operation
    nest: Operation
    store: Operation
    counters: tuple[Value, ...]
    window: Window
    is_copy: bool


def place_products(program: Program, entry: str) -> Program:
    """The loop-level `program` with products in their places."""
    return map_functions(program, place_in_function) if has_products(program, entry) else program


def place_in_function(function: Function) -> Function:
    """A copy of `function` with products in their places; itself where there are none to move."""
    found = [place for block in blocks_in(function.body) for place in find_places(block)]
    moving = {place.alloc.result for place in found}
    still = [place for place in found if root_of(place.window.buffer) not in moving]
    places = list({place.store: place for place in reversed(still)}.values())
    return rewritten(function, lambda builder: Placer(builder, places)) if places else function


# ---------------------------------------------------------------------- what can be placed


def find_places(block: Block) -> Iterator[Placing]:
    """The allocations of `block` that can be windows of what they end up in."""
    products = {
        root_of(buffer)
        for op in block.ops
        for inner, buffer in touches(op)
        if inner.opdef is loop.matmul and buffer is inner.operands[0]
    }
    users: dict[Value, list[int]] = {}
    talks = [k for k, op in enumerate(block.ops) if is_talk(op)]
    for position, op in enumerate(block.ops):
        for memory in roots_of(op):
            users.setdefault(memory, []).append(position)
    for op in block.ops:
        if op.opdef is loop.alloc and op.result in products:
            found = find_placing(block, op, users, talks)
            if found is not None:
                yield found


def find_placing(
    block: Block,
    alloc: Operation,
    users: Mapping[Value, Sequence[int]],
    talks: Sequence[int],
) -> Placing | None:
    """Where the memory of `alloc` ends up, if one nest moves it there.

    `users` are the positions of the operations of `block` that touch a memory, `talks` of those
    at which others may look at what was stored before, and at nothing that is stored later.
    """
    memory = alloc.result
    uses = users.get(memory)
    if not uses:
        return None
    first, last = uses[0], uses[-1]
    if bisect_left(talks, first) < bisect_left(talks, last):
        return None
    nest = block.ops[last]
    found = find_store(nest, memory)
    if found is None:
        return None
    store, loops = found
    counters = tuple(each.regions[0].params[0] for each in loops)
    window = window_of(store, memory, counters)
    if window is None or not is_read_first(nest, memory, store, loops, counters):
        return None
    target = root_of(window.buffer)
    at = users.get(target, ())
    start = bisect_left(at, first)
    others = start < len(at) and at[start] < last
    accesses = [op for op, buffer in touches(nest) if root_of(buffer) is target]
    if others or accesses != [store] or not may_stand_for(block, first, last, memory, window):
        return None
    return Placing(alloc, nest, store, counters, window, is_copy(nest, loops, store, memory))


def is_talk(op: Operation) -> bool:
    """True where other participants may look at memory."""
    return any(each.opdef.effect is Effect.COMM for each in (op, *walk_regions(op)))


def find_store(nest: Operation, memory: Value) -> tuple[Operation, list[Operation]] | None:
    """A store of a nest over all of `memory`, of just its elements if any is, and its loops."""
    loops: list[Operation] = []
    op: Operation | None = nest
    last = buffer_type(memory).rank - 1
    for axis, extent in enumerate(buffer_type(memory).shape):
        if op is None or not counts(op, extent, reduces=axis == last):
            return None
        loops.append(op)
        inner = op.regions[0].ops
        op = next((each for each in inner if each.regions and holds_store(each, memory)), None)
    stores = [each for each in loops[-1].regions[0].ops if each.opdef is loop.store]
    if not stores or any(each.operands[3] is not None for each in stores):
        return None
    return min(stores, key=lambda each: not is_element(each.operands[2], memory)), loops


def is_element(value: Value, memory: Value) -> bool:
    """True for an element of `memory` as it is."""
    op = value.op
    return op is not None and op.opdef is loop.load and op.operands[0] is memory


def holds_store(op: Operation, memory: Value) -> bool:
    """True when `op` holds a store to other memory that could take the place of `memory`."""
    dtype = buffer_type(memory).dtype
    return any(
        inner.opdef is loop.store and buffer_type(buffer).dtype is dtype
        for inner, buffer in touches(op)
    )


def window_of(store: Operation, memory: Value, counters: tuple[Value, ...]) -> Window | None:
    """The window of its buffer that `store` fills while `counters` run."""
    buffer: Value = store.operands[0]
    type_, own = buffer_type(buffer), buffer_type(memory)
    if type_.dtype is not own.dtype or root_of(buffer) is memory:
        return None
    moving = [counter.symbol for counter in counters]
    strides: dict[Symbol, Dim] = {}
    offsets: list[Expr] = []
    for index, stride in zip(indices_of(store), type_.strides, strict=True):
        inside = [symbol for symbol in symbols(index) if symbol in moving]
        for symbol in inside:
            if len(inside) > 1 or symbol in strides or coefficient(index, symbol) != 1:
                return None
            strides[symbol] = stride
        offsets.append(index - sum(map(as_expr, inside), as_expr(0)))
    if len(strides) < len(moving) or strides[moving[-1]] != 1:
        return None
    return Window(buffer, tuple(offsets), tuple(strides[symbol] for symbol in moving))


def is_read_first(
    nest: Operation,
    memory: Value,
    store: Operation,
    loops: list[Operation],
    counters: tuple[Value, ...],
) -> bool:
    """True when the nest reads an element of `memory` before it stores in its place."""
    rows = tuple(as_expr(counter.symbol) for counter in counters)
    *_, lanes = loops
    body = lanes.regions[0].ops
    before = set(body[: body.index(store)])
    earlier: set[Operation] = set()
    if len(loops) > 1:
        row = loops[-2].regions[0].ops
        earlier = {inner for op in row[: row.index(lanes)] for inner, _ in touches(op)}
    for op, buffer in touches(nest):
        if root_of(buffer) is not memory:
            continue
        if op.opdef is not loop.load or buffer is not memory:
            return False
        index = indices_of(op)
        own = op in before and index == rows
        if not own and not (op in earlier and index[:-1] == rows[:-1]):
            return False
    return True


def may_stand_for(block: Block, first: int, last: int, memory: Value, window: Window) -> bool:
    """True when what uses `memory` can use the window: any use if it is all of a buffer alike."""
    type_, own = buffer_type(window.buffer), buffer_type(memory)
    maker = window.buffer.op
    inner = {op for each in block.ops[first : last + 1] for op in walk_regions(each)}
    if maker is not None and (maker.opdef is loop.view or maker in inner):
        return False
    is_whole = (type_.shape, type_.strides) == (own.shape, own.strides)
    if is_whole and all(offset == 0 for offset in window.offsets):
        return True
    return all(
        op.opdef in PLAIN and buffer is memory
        for each in block.ops[first : last + 1]
        for op, buffer in touches(each)
        if root_of(buffer) is memory
    )


def is_copy(nest: Operation, loops: list[Operation], store: Operation, memory: Value) -> bool:
    """True when the nest does nothing but copy the elements of `memory`."""
    value: Value = store.operands[2]
    if not is_element(value, memory) or value.op is None or value.op.operands[2] is not None:
        return False
    inner = [op for op in nest.regions[0].walk() if op.opdef.effect or op.regions]
    wanted = {*loops[1:], value.op, store}
    return set(inner) == wanted


# ---------------------------------------------------------------------- rewriting


class Placer(LoopCloner):
    """Copies a function with products in their places."""

    def __init__(self, builder: Builder, places: list[Placing]) -> None:
        super().__init__(builder)
        self.allocs = {place.alloc: place for place in places}
        self.nests: dict[Operation, Placing] = {}
        self.stores: dict[Operation, Placing] = {}

    def clone(self, op: Operation) -> Operation:
        if op.opdef is loop.alloc and op.result in self.mapping:
            return op
        place = self.allocs.get(op)
        if place is not None and self.knows(place.window.offsets):
            return self.place(place)
        if op in self.nests and self.nests[op].is_copy:
            return op
        if op in self.stores:
            return self.store(op, self.stores[op])
        return super().clone(op)

    def place(self, place: Placing) -> Operation:
        """The window in place of an allocation."""
        window, own = place.window, buffer_type(place.alloc.result)
        maker = window.buffer.op
        if maker is not None and window.buffer not in self.mapping:
            super().clone(maker)
        self.nests[place.nest] = place
        self.stores[place.store] = place
        target = self.value(window.buffer)
        type_ = buffer_type(target)
        if (type_.shape, type_.strides) == (own.shape, own.strides):
            self.mapping[place.alloc.result] = target
            return place.alloc
        view = self.view(target, window.offsets, own.shape, window.strides)
        self.bind(place.alloc.result, view)
        return place.alloc

    def store(self, op: Operation, place: Placing) -> Operation:
        """The store of a nest that works in place."""
        indices = tuple(map(self.value, place.counters))
        loop.store(self.value(place.alloc.result), indices, self.value(op.operands[2]), None)
        return op
