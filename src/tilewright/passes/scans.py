"""Recurrences as loops: what an axis carries is a scalar, or a row of scratch memory.

Lines along the last axis are turned, block by block, so that vectors go across them: each element
waits for the one before it in its line, but not for those of other lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tilewright.dataclass import dataclass
from tilewright.ir.affine import Expr, Symbol, as_expr, simplify
from tilewright.ir.core import Value
from tilewright.ir.enums import ForKind
from tilewright.ir.structure import AxisKind, Read
from tilewright.ir.types import Dim, ScalarType
from tilewright.ops import loop
from tilewright.passes.elements import Elements
from tilewright.passes.groups import Group
from tilewright.passes.lowering import Lowering
from tilewright.passes.nodes import Node
from tilewright.passes.storage import Storage
from tilewright.passes.traits import element_dtype

Point = dict[Symbol, Expr]

LINES, STEPS = 32, 64
"""A block: as many lines as keep the processor busy, as many steps as a line of its cache has."""

FEW_LINES = 4
"""Up to so many lines are scanned one after the other."""


@dataclass(frozen=True, slots=True)
class Block:
    """`count` indices from `first` on of the axis `dim`."""

    name: str
    dim: Symbol
    first: Expr
    count: Dim


class ScanNest:
    """The loops of one scan, into memory of its own."""

    def __init__(self, lowering: Lowering, group: Group) -> None:
        (self.node,) = group.nodes
        self.lowering = lowering
        self.scopes = lowering.scopes
        self.group = group
        self.structure = self.node.structure
        self.axis = self.structure.kinds.index(AxisKind.SCAN)
        self.elements = Elements(lowering, self.scopes.current, group)
        self.point: Point = {}

    def emit(self) -> None:
        """Emits the loops into the innermost scope."""
        node = self.node
        node.storage = node.storage or self.lowering.room_for_node(node, self.group)
        if self.axis < len(self.structure.dims) - 1:
            self.loops(0, self.axis, ForKind.Sequential, self.emit_rows)
        elif self.can_turn():
            self.loops(0, self.axis - 1, ForKind.Sequential, self.emit_turned)
        else:
            self.loops(0, self.axis, ForKind.Sequential, self.emit_line)
        node.done()
        self.lowering.publish(node.result, node.storage)

    def loops(self, first: int, last: int, kind: ForKind, body: Callable[[], None]) -> None:
        """Loops over the axes from `first` to `last`; `kind` is that of the innermost axis."""
        if first == last:
            body()
            return

        def inner() -> Sequence[Value]:
            self.loops(first + 1, last, kind, body)
            return ()

        symbol = self.symbol(first)
        self.point[self.structure.dims[first]] = as_expr(symbol)
        innermost = first == len(self.structure.dims) - 1
        self.scopes.loop(
            self.structure.extents[first],
            symbol,
            inner,
            kind=kind if innermost else ForKind.Sequential,
        )

    def symbol(self, axis: int) -> Symbol:
        """The loop variable of an axis."""
        return self.group.symbol(axis, self.structure.extents[axis])

    # ------------------------------------------------------------------ the last axis

    def emit_line(self) -> None:
        """One line along the last axis: the scan is a scalar that the loop carries."""
        symbol = self.symbol(self.axis)
        first = self.initial()

        def body() -> Sequence[Value]:
            before = self.scopes.current.block.params[1]
            self.point[self.structure.dims[self.axis]] = as_expr(symbol)
            return (self.step(before),)

        self.scopes.loop(self.structure.extents[self.axis], symbol, body, inits=(first,))

    def initial(self) -> Value:
        """What comes before the first element of the line at hand."""
        (read,) = self.structure.initial
        return self.read(read)

    def read(self, read: Read) -> Value:
        """The element of `read` at the point at hand."""
        if isinstance(read.value.type, ScalarType):
            return self.lowering.scalar(read.value)
        return self.elements.read(read, self.point, (), [])

    def step(self, before: Value) -> Value:
        """One element: computed from the one before, stored, and given."""
        scalars = [*self.elements.reads(self.node, self.point), before]
        (given,) = self.elements.apply(self.node, self.point, scalars, self.scopes.current)
        self.give(given)
        return given

    # ------------------------------------------------------------------ many lines

    def can_turn(self) -> bool:
        """Whether there are many lines along the last axis, of elements that are known to exist."""
        if self.axis == 0 or self.node.unproven or self.structure.tests:
            return False
        lines = self.structure.extents[self.axis - 1]
        return not isinstance(lines, int) or lines > FEW_LINES

    def emit_turned(self) -> None:
        """All lines at one point of the axes before the last two, by blocks of them."""
        self.blocks(self.axis - 1, LINES, self.emit_some_lines)

    def blocks(self, axis: int, size: int, body: Callable[[Expr, Dim], None]) -> None:
        """`body` of the first index and the extent of each block of an axis; a rest comes last."""
        extent = as_expr(self.structure.extents[axis])
        count = extent // size
        rest = extent - count * size
        if count != 0:
            symbol = Symbol("b", 0, count - 1)

            def block() -> Sequence[Value]:
                body(symbol * size, size)
                return ()

            self.scopes.loop(count, symbol, block)
        if rest != 0:
            body(count * size, simplify(rest))

    def emit_some_lines(self, first: Expr, count: Dim) -> None:
        """Lines from `first` on; what each carries goes from block to block in scratch memory."""
        dtypes = [element_dtype(read.value) for read in self.structure.reads]
        result = element_dtype(self.node.result)
        turned = [self.lowering.allocate((STEPS, LINES), dtype) for dtype in (*dtypes, result)]
        before = self.lowering.allocate((LINES,), result)
        lines = Block("l", self.structure.dims[self.axis - 1], first, count)
        self.each((lines,), lambda *at: store(before, at, self.initial()))

        def scan(first: Expr, count: Dim) -> None:
            steps = Block("t", self.structure.dims[self.axis], first, count)
            self.emit_block(steps, lines, turned, before)

        self.blocks(self.axis, STEPS, scan)

    def emit_block(
        self, steps: Block, lines: Block, turned: Sequence[Storage], before: Storage
    ) -> None:
        """Some steps of some lines: turned on the way in, scanned across, turned on the way out."""
        *inputs, result = turned
        for read, storage in zip(self.structure.reads, inputs, strict=True):
            self.each((steps, lines), partial(self.turn_in, read, storage))
        self.each((steps, lines), partial(self.advance_turned, inputs, before, result))
        self.each((lines, steps), partial(self.turn_out, result))

    def turn_in(self, read: Read, turned: Storage, *at: Value) -> None:
        """What is read at the point at hand, where the block has it."""
        store(turned, at, self.read(read))

    def advance_turned(
        self, inputs: Sequence[Storage], before: Storage, result: Storage, *at: Value
    ) -> None:
        """One step of a line of the block."""
        scalars = [*(load(storage, at) for storage in inputs), load(before, at[1:])]
        (given,) = self.elements.apply(self.node, self.point, scalars, self.scopes.current)
        store(result, at, given)
        store(before, at[1:], given)

    def turn_out(self, result: Storage, line: Value, step: Value) -> None:
        """The element of the result at the point at hand, from where the block has it."""
        self.give(load(result, (step, line)))

    def each(self, blocks: Sequence[Block], body: Callable[..., None], *at: Value) -> None:
        """Loops over blocks of axes, the last by lanes; `body` takes where in its block each is."""
        block, *inner = blocks
        symbol = Symbol(block.name, 0, as_expr(block.count) - 1)

        def inside() -> Sequence[Value]:
            self.point[block.dim] = symbol + block.first
            place = (*at, self.scopes.index(symbol))
            if inner:
                self.each(inner, body, *place)
            else:
                body(*place)
            return ()

        kind = ForKind.Sequential if inner else ForKind.Lanes
        self.scopes.loop(block.count, symbol, inside, kind=kind)

    def give(self, scalar: Value) -> None:
        """`scalar` is the element of the result at the point at hand."""
        index = tuple(self.point[dim] for dim in self.structure.dims)
        assert self.node.storage is not None
        loop.store(self.node.storage.buffer, self.scopes.indices(index), scalar, None)

    # ------------------------------------------------------------------ any other axis

    def emit_rows(self) -> None:
        """The lines side by side: what they carry is in scratch memory."""
        rank = len(self.structure.dims)
        shape = self.structure.extents[self.axis + 1 :]
        before = self.lowering.allocate(shape, element_dtype(self.node.result))
        self.loops(self.axis + 1, rank, ForKind.Lanes, lambda: self.put(before, self.initial()))
        symbol = self.symbol(self.axis)

        def body() -> Sequence[Value]:
            self.point[self.structure.dims[self.axis]] = as_expr(symbol)
            self.loops(self.axis + 1, rank, ForKind.Lanes, lambda: self.advance(before))
            return ()

        self.scopes.loop(self.structure.extents[self.axis], symbol, body)

    def advance(self, before: Storage) -> None:
        """One step of the line at hand."""
        old = loop.load(before.buffer, self.place(), None)
        self.put(before, self.step(old))

    def put(self, before: Storage, scalar: Value) -> None:
        """Makes `scalar` what comes before the next element of the line at hand."""
        loop.store(before.buffer, self.place(), scalar, None)

    def place(self) -> tuple[Value, ...]:
        """Where the line at hand has its scratch element."""
        dims = self.structure.dims[self.axis + 1 :]
        return self.scopes.indices(tuple(self.point[dim] for dim in dims))


def load(storage: Storage, at: Sequence[Value]) -> Value:
    """An element of scratch memory."""
    return loop.load(storage.buffer, tuple(at), None)


def store(storage: Storage, at: Sequence[Value], scalar: Value) -> None:
    """Makes `scalar` an element of scratch memory."""
    loop.store(storage.buffer, tuple(at), scalar, None)


def is_scan(node: Node) -> bool:
    """True for nodes that need a nest of their own."""
    return AxisKind.SCAN in node.structure.kinds
