"""One group as a loop nest: rows, passes over the last axis, reductions, stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from tilewright.dataclass import dataclass
from tilewright.ir.affine import as_expr
from tilewright.ir.core import Value
from tilewright.ir.enums import ForKind
from tilewright.ir.types import Dim
from tilewright.ops import loop
from tilewright.passes import combine as combining
from tilewright.passes.elements import Elements, zero_of
from tilewright.passes.groups import Group, is_injective, moves_with
from tilewright.passes.guards import WRITE
from tilewright.passes.lowering import Lowering
from tilewright.passes.nodes import CHEAP, Node
from tilewright.passes.storage import Storage
from tilewright.passes.traits import Indices, Kind, compose_mask, element_dtype, shaped

Store = Callable[[], None]


@dataclass(eq=False, slots=True)
class Pass:
    """One loop over the last axis: the nodes that it reduces, stores or keeps.

    `order` are the values computed on the way, each after what it needs. `in_order` says that the
    elements of a row may be written to one place, so that the last one must come last.
    """

    level: int
    extent: Dim
    in_order: bool = False
    roots: list[Node] = field(default_factory=list[Node])
    kept: list[Node] = field(default_factory=list[Node])
    order: list[Node] = field(default_factory=list[Node])


class Nest:
    """The loop nest of `group`. `buffered` are its values that others read from memory."""

    def __init__(
        self, lowering: Lowering, group: Group, nodes: Sequence[Node], buffered: set[Node]
    ) -> None:
        self.lowering = lowering
        self.scopes = lowering.scopes
        self.group = group
        self.nodes = nodes
        self.buffered = buffered
        self.rows = group.rows
        self.elements = Elements(lowering, self.scopes.current, group)
        self.passes: dict[tuple[int, Dim, bool], Pass] = {}
        self.row_roots: list[Node] = []
        self.row_values: list[Node] = []
        self.last_needed: dict[Node, Pass] = {}
        self.borrowed: set[Node] = set()
        self.accumulators: dict[Node, tuple[Storage, ...]] = {}
        self.kept: dict[Node, Storage] = {}

    # ------------------------------------------------------------------ shape of the nest

    def has_lanes(self, node: Node) -> bool:
        """True when `node` walks an axis inside a row."""
        return len(node.traits.wide) > len(self.rows)

    def is_lane_reduction(self, node: Node) -> bool:
        """True when `node` reduces the axis inside a row."""
        return node.kind is Kind.REDUCE and len(self.rows) in node.reduced

    def is_row_reduction(self, node: Node) -> bool:
        """True when `node` accumulates from row to row."""
        return node.kind is Kind.REDUCE and any(k < len(self.rows) for k in node.reduced)

    def set_levels(self) -> None:
        """The level of each node: how many passes over the row must come before it."""
        for node in self.nodes:
            node.level = 0
            for source in node.sources:
                node.level = max(node.level, source.level + self.is_lane_reduction(source))

    def live_nodes(self) -> list[Node]:
        """Roots and all they need, in program order."""
        live: set[Node] = set()
        for node in reversed(self.nodes):
            if node in live or node.kind is Kind.WRITE or node in self.buffered:
                live.add(node)
                live.update(node.sources)
        return [node for node in self.nodes if node in live]

    def plan(self) -> None:
        """Distributes the live nodes over passes."""
        self.set_levels()
        live = self.live_nodes()
        last = max((node.level for node in live), default=0)
        for node in live:
            if node.storage is not None and self.is_read_elsewhere(node, node.storage):
                node.level = last
            if not self.has_lanes(node):
                if node.kind is Kind.POINT:
                    self.row_values.append(node)
                if node.kind is not Kind.POINT or node in self.buffered:
                    self.row_roots.append(node)
            elif node.kind is not Kind.POINT or node in self.buffered:
                self.pass_of(node).roots.append(node)
        self.plan_kept()

    def is_read_elsewhere(self, node: Node, storage: Storage) -> bool:
        """True when other nodes of the group read what `node` overwrites."""
        return any(reader is not node for reader, _ in storage.readers.of(self.group.index))

    def pass_of(self, node: Node) -> Pass:
        """The pass over the row in which `node` is done."""
        extent = node.traits.wide_extents[len(self.rows)]
        dim = node.structure.dims[node.traits.wide[len(self.rows)]]
        key = node.level, extent, node.kind is Kind.WRITE and not moves_with(node, dim)
        return self.passes.setdefault(key, Pass(*key))

    def plan_kept(self) -> None:
        """Finds the values that a later pass needs and that cost too much to compute again."""
        first: dict[Node, Pass] = {}
        places = {node: place for place, node in enumerate(self.nodes)}
        for each in self.ordered_passes():
            visited: set[Node] = set()
            stack = [*each.roots]
            while stack:
                node = stack.pop()
                if node in visited:
                    continue
                visited.add(node)
                seen = first.setdefault(node, each)
                if seen is not each and self.is_costly(node):
                    if node not in seen.kept:
                        seen.kept.append(node)
                    self.last_needed[node] = each
                    continue
                stack += [p for p in node.sources if self.may_repeat(p)]
            each.order = sorted(filter(self.may_repeat, visited), key=places.__getitem__)

    def may_repeat(self, node: Node) -> bool:
        """True for values that passes compute, rather than read from the row."""
        return node.kind is Kind.POINT and self.has_lanes(node)

    def is_costly(self, node: Node) -> bool:
        """True when keeping the row of `node` is cheaper than computing it again."""
        if node.kind is not Kind.POINT:
            return False
        total = 0
        visited: set[Node] = set()
        stack = [node]
        while stack and total <= CHEAP:
            each = stack.pop()
            if each in visited:
                continue
            visited.add(each)
            total += each.traits.body.cost
            stack += [p for p in each.sources if self.may_repeat(p)]
        return total > CHEAP

    def ordered_passes(self) -> list[Pass]:
        """The passes in the order in which they run."""
        return sorted(self.passes.values(), key=lambda each: each.level)

    # ------------------------------------------------------------------ emission

    def emit(self) -> None:
        """Emits the nest into the innermost scope."""
        self.plan()
        for node in self.nodes:
            if node in self.buffered and node.storage is None and not self.is_row_reduction(node):
                storage = self.lowering.room_for_node(node, self.group)
                self.lowering.segment.place(node, storage)
        for node in [*self.row_roots, *(n for p in self.passes.values() for n in p.roots)]:
            if self.is_row_reduction(node):
                self.start_accumulators(node)
        if self.passes or self.row_roots:
            self.emit_rows(0)
        for node in self.nodes:
            self.publish(node)

    def publish(self, node: Node) -> None:
        """Later code finds the result of `node` in memory, if it was put there."""
        node.done()
        if node in self.accumulators:
            self.lowering.give(node.result, self.accumulators[node][-1])
        elif node.storage is not None:
            self.lowering.publish(node.result, node.storage)

    def emit_rows(self, axis: int) -> None:
        """The row loops from `axis` on."""
        if axis == len(self.rows):
            self.emit_row()
            return

        def body() -> Sequence[Value]:
            self.emit_rows(axis + 1)
            return ()

        extent = self.rows[axis]
        parallel = axis == 0 and self.is_independent()
        kind = ForKind.Parallel if parallel else ForKind.Sequential
        self.scopes.loop(extent, self.group.symbol(axis, extent), body, kind=kind)

    def is_independent(self) -> bool:
        """True when rows write elements of their own."""
        roots = [*self.row_roots, *(node for each in self.passes.values() for node in each.roots)]
        return not self.accumulators and all(
            node.kind is not Kind.WRITE or is_injective(node) for node in roots
        )

    def emit_row(self) -> None:
        """All passes over one row, then what is stored once per row."""
        for each in self.ordered_passes():
            self.compute_in_order([v for v in self.row_values if v.level <= each.level])
            self.emit_pass(each)
        self.compute_in_order(self.row_values)
        stores = [store for node in self.row_roots for store in self.settle(node)]
        for store in stores:
            store()
        self.elements.kept.clear()

    def compute_in_order(self, nodes: list[Node]) -> None:
        """Computes values before those that need them, so that no chain is too deep."""
        for node in nodes:
            self.elements.own(node)

    def emit_pass(self, each: Pass) -> None:
        """One lanes loop."""
        reductions = [node for node in each.roots if self.is_lane_reduction(node)]
        words, inits = self.start_reductions(reductions)
        symbol = self.group.symbol(len(self.rows), each.extent)
        stashes = [(node, self.stash(node, each.extent)) for node in each.kept]

        def body() -> Sequence[Value]:
            self.compute_in_order(each.order)
            given = [scalar for node in reductions for scalar in self.contribution(node)]
            stores = [
                store
                for node in each.roots
                if not self.is_lane_reduction(node)
                for store in self.settle(node)
            ]
            stores += [self.keep(node, *place) for node, place in stashes]
            for store in stores:
                store()
            return given

        kind = ForKind.Sequential if each.in_order else ForKind.Lanes
        done = self.scopes.loop(each.extent, symbol, body, kind=kind, inits=inits, combine=words)
        self.finish_reductions(reductions, done.results)
        for node, (storage, indices) in stashes:
            self.elements.kept[node.result] = (storage, indices)

    # ------------------------------------------------------------------ stores

    def settle(self, node: Node) -> list[Store]:
        """Evaluates what `node` stores at this point; the stores themselves come after."""
        if self.is_row_reduction(node):
            return self.accumulate(node, self.contribution(node))
        mapping = self.group.mapping(node)
        if node.kind is not Kind.WRITE:
            element = self.group.element(node)
            assert element is not None and node.storage is not None
            return [self.store(node.storage, element, self.elements.own(node))]
        scalars = self.elements.reads(node, mapping)
        (scalar,) = self.elements.apply(node, mapping, scalars, self.scopes.current)
        mask = compose_mask(node.structure.write_mask, mapping)
        (write,) = node.structure.writes
        indices = self.elements.indices(write, mapping, mask, scalars)
        assert node.storage is not None
        if WRITE in node.unproven:
            indices = self.elements.checked(indices, node.storage.shape, mapping, mask)
        return [self.store(node.storage, indices, scalar, self.scopes.condition(mask))]

    def store(
        self, storage: Storage, indices: Indices, scalar: Value, mask: Value | None = None
    ) -> Store:
        """A store to be emitted later in the innermost scope."""
        index = self.scopes.indices(indices)
        return lambda: loop.store(storage.buffer, index, scalar, mask)

    def stash(self, node: Node, extent: Dim) -> tuple[Storage, Indices]:
        """Where the row of a kept node goes: its own buffer, or scratch for one row."""
        element = self.group.element(node)
        if node in self.buffered and node.storage is not None and element is not None:
            return node.storage, element
        later = self.find_destination(node, extent)
        if later is not None and later.storage is not None:
            self.borrowed.add(later)
            place = self.group.element(later)
            assert place is not None
            return later.storage, place
        storage = self.lowering.allocate((extent,), element_dtype(node.result), node.result.name)
        return storage, (as_expr(self.group.symbol(len(self.rows), extent)),)

    def find_destination(self, node: Node, extent: Dim) -> Node | None:
        """A write of the row that comes when `node` is needed last: its row is free until then."""
        last = self.last_needed[node]
        if last.extent != extent:
            return None
        return next((write for write in last.roots if self.may_hold(write, node)), None)

    def may_hold(self, write: Node, node: Node) -> bool:
        """True when the row that `write` fills may hold the row of `node` before.

        Other nodes of the group that write there write elsewhere (`may_write`).
        """
        storage = write.storage
        return (
            write.kind is Kind.WRITE
            and write not in self.borrowed
            and storage is not None
            and storage.type.dtype is element_dtype(node.result)
            and not write.structure.write_mask
            and WRITE not in write.unproven
            and is_injective(write)
            and not storage.readers.of(self.group.index)
        )

    def keep(self, node: Node, storage: Storage, indices: Indices) -> Store:
        """Puts the element at hand of a kept node aside."""
        scalar = self.elements.own(node)
        if storage is node.storage:
            return lambda: None
        return self.store(storage, indices, scalar)

    # ------------------------------------------------------------------ reductions

    def contribution(self, node: Node) -> tuple[Value, ...]:
        """What this point gives to the reduction `node`."""
        scalars = self.elements.contributions(node, self.group.mapping(node))
        return combining.widened(scalars)

    def dtypes(self, node: Node) -> tuple[Value, ...]:
        """Stand-ins with the dtypes of the contributions of `node`."""
        first, *rest = node.traits.body.gives
        wide = (combining.accumulated(first), *rest)
        return tuple(self.scopes.constant(zero_of(dtype), dtype) for dtype in wide)

    def start_reductions(self, nodes: list[Node]) -> tuple[tuple[str, ...], list[Value]]:
        """Combining words and initial values of the carries of a lanes loop."""
        words: list[str] = []
        inits: list[Value] = []
        for node in nodes:
            starts = combining.initial(self.scopes, node.structure.combine, self.dtypes(node))
            words += [node.structure.combine] * len(starts)
            inits += starts
        return tuple(words), inits

    def finish_reductions(self, nodes: list[Node], results: tuple[Value, ...]) -> None:
        """Names the results of a lanes loop as elements of the row."""
        left = list(results)
        for node in nodes:
            width = len(self.dtypes(node))
            own, left = left[:width], left[width:]
            if self.is_row_reduction(node):
                for store in self.accumulate(node, tuple(own)):
                    store()
                continue
            scalar = combining.finished(own, element_dtype(node.result))
            element = self.group.element(node)
            assert element is not None
            self.elements.remember(node.result, element, scalar)
            if node in self.buffered and node.storage is not None:
                self.store(node.storage, element, scalar)()

    def start_accumulators(self, node: Node) -> None:
        """Memory for a reduction from row to row, filled with the identity."""
        starts = combining.initial(self.scopes, node.structure.combine, self.dtypes(node))
        shape = shaped(node.result).shape
        storages = tuple(
            self.lowering.allocate(shape, combining.dtype_of(start), node.result.name)
            for start in starts
        )
        for storage, start in zip(storages, starts, strict=True):
            self.fill(storage, start)
        self.accumulators[node] = storages

    def fill(self, storage: Storage, scalar: Value) -> None:
        """Stores `scalar` everywhere in `storage`."""
        indices: list[Value] = []

        def fill_axis(axis: int) -> Sequence[Value]:
            if axis == len(storage.shape):
                loop.store(storage.buffer, tuple(indices), scalar, None)
                return ()
            kind = ForKind.Lanes if axis == len(storage.shape) - 1 else ForKind.Sequential
            symbol = Group(0).symbol(axis, storage.shape[axis])

            def body() -> Sequence[Value]:
                indices.append(self.scopes.symbol(symbol))
                return fill_axis(axis + 1)

            self.scopes.loop(storage.shape[axis], symbol, body, kind=kind)
            return ()

        fill_axis(0)

    def accumulate(self, node: Node, given: tuple[Value, ...]) -> list[Store]:
        """Combines a contribution with what earlier rows gave."""
        storages = self.accumulators[node]
        element = self.group.element(node)
        assert element is not None
        index = self.scopes.indices(element)
        total = tuple(loop.load(storage.buffer, index, None) for storage in storages)
        news = combining.step(node.structure.combine, total, given)
        return [
            self.store(storage, element, new) for storage, new in zip(storages, news, strict=True)
        ]
