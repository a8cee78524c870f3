"""Which structured operations share a loop nest.

A group is a run of operations over the same rows. Its nest walks the rows; inside a row each
operation walks its last axis, or nothing when its whole domain is the rows. An operation joins a
group when everything it needs from the group is the element of the row at hand.
"""

from __future__ import annotations

from tilewright.dataclass import dataclass
from tilewright.ir.affine import Expr, Symbol, as_expr, coefficient, const, less, symbols
from tilewright.ir.types import Dim
from tilewright.passes.nodes import Leaf, Node
from tilewright.passes.storage import Storage
from tilewright.passes.traits import Indices, Kind, Traits, compose

OPEN_GROUPS = 8
"""How many of the newest groups an operation may join."""

MOST_WRITES = 32
"""How many nodes of a group may write one buffer: each is compared with all others."""

FULL = 16
"""With so many writes, a group takes only what has to do with what is in it."""


Rows = dict[int, tuple[Dim, ...]]
"""Possible numbers of row axes, with their extents."""


@dataclass(eq=False, slots=True)
class Position:
    """Where the loops of a group are in the domain of a node, and in what it writes.

    `element` is None where an index of what it writes is data.
    """

    point: dict[Symbol, Expr]
    element: Indices | None


class Group:
    """Nodes that share rows.

    `options` are the row axes that all of them allow, `families` the traits that they have,
    `writes` how often they write memory.
    """

    __slots__ = (
        "_aligned",
        "_positions",
        "_symbols",
        "domains",
        "families",
        "index",
        "nodes",
        "options",
        "writes",
    )

    def __init__(self, index: int) -> None:
        self.index = index
        self.nodes: list[Node] = []
        self.domains: set[tuple[Dim, ...]] = set()
        self.families: set[Traits] = set()
        self.options: Rows | None = None
        self.writes = 0
        self._symbols: dict[tuple[int, Dim], Symbol] = {}
        self._positions: dict[Traits, Position] = {}
        self._aligned: dict[tuple[Traits, Indices, Traits], bool] = {}

    @property
    def rows(self) -> tuple[Dim, ...]:
        """The extents of the row axes: as few as allowed, so that an axis is left for the lanes."""
        assert self.options
        return self.options[min(self.options)]

    def symbol(self, axis: int, extent: Dim) -> Symbol:
        """The loop variable of wide axis `axis` of extent `extent`."""
        found = self._symbols.get((axis, extent))
        if found is None:
            name = "rcijk"[axis] if axis < 5 else f"d{axis}"
            high = as_expr(extent) - 1
            found = self._symbols[axis, extent] = Symbol(name, 0, high)
        return found

    def position(self, node: Node) -> Position:
        """The loop variables of the group as a point of the domain of `node`."""
        traits = node.traits
        found = self._positions.get(traits)
        if found is None:
            dims, extents = node.structure.dims, node.structure.extents
            point = dict.fromkeys(dims, as_expr(0))
            for k, axis in enumerate(traits.wide):
                point[dims[axis]] = as_expr(self.symbol(k, extents[axis]))
            element = None if traits.written is None else compose(traits.written, point)
            found = self._positions[traits] = Position(point, element)
        return found

    def mapping(self, node: Node) -> dict[Symbol, Expr]:
        """The dims of `node` as expressions over the loop variables of the group."""
        return self.position(node).point

    def element(self, node: Node) -> Indices | None:
        """The index of what `node` writes, over the loop variables; None where it is data."""
        return self.position(node).element

    def is_aligned(self, node: Node, indices: Indices, producer: Node) -> bool:
        """True when `indices` over the domain of `node` are the element that `producer` gives."""
        key = node.traits, indices, producer.traits
        found = self._aligned.get(key)
        if found is None:
            element = compose(indices, self.mapping(node))
            found = self._aligned[key] = element == self.element(producer)
        return found

    def options_with(self, node: Node) -> Rows:
        """The row axes left when `node` joins: reductions that it reads end within a row."""
        options = self.options
        if options is None:
            options = row_options(node)
        elif node.traits not in self.families:
            given = row_options(node)
            options = {k: rows for k, rows in options.items() if given.get(k) == rows}
        for leaf in node.leaves:
            producer = leaf.producer
            if producer is not None and producer.group is self and producer.reduced:
                most = min(producer.reduced)
                options = {k: rows for k, rows in options.items() if k <= most}
        return options

    def add(self, node: Node, options: Rows) -> None:
        """Takes `node`, with which the row axes are `options`."""
        self.options = options
        self.nodes.append(node)
        self.domains.add(node.traits.wide_extents)
        self.families.add(node.traits)
        node.group = self
        node.sources = [
            leaf.producer for leaf in node.leaves if leaf.producer and leaf.producer.group is self
        ]


def row_options(node: Node) -> Rows:
    """The row axes that `node` allows."""
    traits = node.traits
    if traits.rows is None:
        traits.rows = {k: traits.wide_extents[:k] for k in row_counts(node)}
    return traits.rows


def row_counts(node: Node) -> set[int]:
    """How many leading wide axes of `node` may be rows."""
    wide = len(node.traits.wide)
    if wide == 0:
        return {0}
    if node.kind is Kind.REDUCE and (wide - 1) in node.reduced:
        return {wide - 1} if node.ends_reduced() else {wide}
    return {wide - 1, wide}


class Segment:
    """The open groups: what has been read and not yet emitted."""

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self.touched: set[Storage] = set()

    def add(self, node: Node) -> None:
        """Puts `node` into the first open group that can take it, or into a new one."""
        for group in self.groups[-OPEN_GROUPS:]:
            options = find_options(group, node)
            if options:
                break
        else:
            group = Group(len(self.groups))
            self.groups.append(group)
            options = row_options(node)
        group.add(node, options)
        for leaf in node.leaves:
            if leaf.producer is not None:
                leaf.producer.consumers.append(node)
            if leaf.storage is not None and leaf.storage.is_written:
                leaf.storage.readers.add(group.index, node, leaf.indices)
                self.touched.add(leaf.storage)
        if node.storage is not None:
            self.plan_write(node, node.storage)

    def plan_write(self, node: Node, storage: Storage) -> None:
        """Notes that `node` writes `storage` when its group is emitted."""
        assert node.group is not None
        node.storage = storage
        storage.writers.add(node.group.index, node, node.traits.written)
        node.group.writes += 1
        self.touched.add(storage)

    def place(self, node: Node, storage: Storage) -> None:
        """Has the result of `node`, which is in a group already, go to `storage`."""
        self.plan_write(node, storage)
        for consumer in node.consumers:
            for leaf in consumer.leaves:
                if leaf.producer is node:
                    assert consumer.group is not None
                    leaf.storage = storage
                    storage.readers.add(consumer.group.index, consumer, leaf.indices)

    def clear(self) -> list[Group]:
        """Closes the groups and gives them up."""
        groups, self.groups = self.groups, []
        for storage in self.touched:
            storage.readers.clear()
            storage.writers.clear()
        self.touched.clear()
        return groups


def find_options(group: Group, node: Node) -> Rows | None:
    """The row axes that are possible when `node` joins `group`; None or {} when it must not."""
    if node.kind is Kind.SCAN or group.nodes[0].kind is Kind.SCAN or not belongs(group, node):
        return None
    options = group.options_with(node)
    for leaf in node.leaves:
        if not options or not follows(group, node, leaf):
            return None
    return options if node.storage is None or may_write(group, node, node.storage) else None


def belongs(group: Group, node: Node) -> bool:
    """Shares its whole domain, or a value, with a node of the group."""
    if node.traits.wide_extents in group.domains and group.writes < FULL:
        return True
    return any(leaf.producer and leaf.producer.group is group for leaf in node.leaves)


def follows(group: Group, node: Node, leaf: Leaf) -> bool:
    """True when what `leaf` reads is there by the time `group` computes `node`."""
    if leaf.storage is not None and leaf.storage.writers.latest >= group.index:
        return False
    producer = leaf.producer
    if producer is None or producer.group is None:
        return True
    if producer.group is not group:
        return producer.group.index < group.index
    return (
        producer.kind is not Kind.WRITE
        and leaf.indices is not None
        and group.is_aligned(node, leaf.indices, producer)
    )


def may_write(group: Group, node: Node, storage: Storage) -> bool:
    """True when every earlier access of `storage` is over, or of the very element written."""
    if max(storage.readers.latest, storage.writers.latest) > group.index:
        return False
    readers, writers = storage.readers.of(group.index), storage.writers.of(group.index)
    if len(writers) >= MOST_WRITES or (readers and not is_injective(node)):
        return False
    return all(
        indices is not None and group.is_aligned(reader, indices, node)
        for reader, indices in readers
    ) and all(apart(writer, node) for writer, _ in writers)


def is_injective(node: Node) -> bool:
    """True when every point of the domain writes an element of its own: an axis for each dim."""
    (write,) = node.structure.writes
    dims = {node.structure.dims[axis] for axis in node.traits.wide}
    alone: set[Symbol] = set()
    for index in write:
        inside = dims.intersection(symbols(index)) if isinstance(index, Expr) else dims
        if len(inside) == 1 and isinstance(index, Expr):
            (dim,) = inside
            alone.update(inside if coefficient(index, dim) else ())
    return alone == dims


def moves_with(node: Node, dim: Symbol) -> bool:
    """True when points that differ in `dim` alone write different elements."""
    (write,) = node.structure.writes
    factors = (coefficient(index, dim) for index in write if isinstance(index, Expr))
    return any(isinstance(factor, int) and factor != 0 for factor in factors)


# ---------------------------------------------------------------------- windows

Window = list[tuple[Expr, Expr]]


def write_window(node: Node) -> Window | None:
    """The least and greatest index that `node` writes on each axis; None where not known."""
    (write,) = node.structure.writes
    exprs = tuple(index for index in write if isinstance(index, Expr))
    return window(node, exprs) if len(exprs) == len(write) else None


def window(node: Node, indices: Indices | None) -> Window | None:
    """The least and greatest of each of `indices` over the domain of `node`."""
    if indices is None:
        return None
    extents = node.traits.extents
    found: Window = []
    for index in indices:
        low, high = const(index.const), const(index.const)
        for atom, factor in index.terms.items():
            term = Expr(0, {atom: factor})
            extent = extents.get(atom) if isinstance(atom, Symbol) else None
            if extent is None and any(symbol in extents for symbol in symbols(term)):
                return None
            far = term if extent is None else factor * (as_expr(extent) - 1)
            near = term if extent is None else const(0)
            low, high = (low + near, high + far) if factor > 0 else (low + far, high + near)
        found.append((low, high))
    return found


def is_apart(left: Window | None, right: Window | None) -> bool:
    """True when two windows of one buffer certainly have no element in common."""
    if left is None or right is None:
        return False
    return any(
        less(a_high, b_low) is True or less(b_high, a_low) is True
        for (a_low, a_high), (b_low, b_high) in zip(left, right, strict=True)
    )


def apart(a: Node, b: Node) -> bool:
    """True when two nodes certainly write different elements of one buffer."""
    return is_apart(write_window(a), write_window(b))
