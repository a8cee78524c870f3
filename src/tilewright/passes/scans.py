"""Recurrences as loops: what an axis carries is a scalar, or a row of scratch memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ir.affine import Expr, Symbol, as_expr
from tilewright.ir.core import Value
from tilewright.ir.enums import ForKind
from tilewright.ir.structure import AxisKind, Read
from tilewright.ir.types import ScalarType
from tilewright.ops import loop
from tilewright.passes.elements import Elements
from tilewright.passes.groups import Group
from tilewright.passes.lowering import Lowering
from tilewright.passes.nodes import Node
from tilewright.passes.storage import Storage
from tilewright.passes.traits import element_dtype

Point = dict[Symbol, Expr]


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
        self.loops(0, self.axis, ForKind.Sequential, self.emit_lines)
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

    def emit_lines(self) -> None:
        """All lines along the scan axis, at one point of the axes before it."""
        if self.axis == len(self.structure.dims) - 1:
            self.emit_line()
        else:
            self.emit_rows()

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
        index = tuple(self.point[dim] for dim in self.structure.dims)
        assert self.node.storage is not None
        loop.store(self.node.storage.buffer, self.scopes.indices(index), given, None)
        return given

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


def is_scan(node: Node) -> bool:
    """True for nodes that need a nest of their own."""
    return AxisKind.SCAN in node.structure.kinds
