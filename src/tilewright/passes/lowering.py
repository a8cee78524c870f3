"""The state of lowering one function: scalars, memory, nodes, and the open segment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tilewright.dtypes import INDEX, DType
from tilewright.errors import StaleRead, UnsupportedFeatureError
from tilewright.ir.affine import Constraint, Symbol, as_expr
from tilewright.ir.builder import Builder
from tilewright.ir.core import Operation, Value
from tilewright.ir.structure import AxisKind, Read, Structure, domain, identity_map
from tilewright.ir.types import (
    BufferType,
    Dim,
    DistributedTensorType,
    ScalarType,
    Shape,
    ShapedType,
    row_major_strides,
)
from tilewright.ops import loop
from tilewright.ops.cast import cast
from tilewright.ops.extents import expr_of
from tilewright.passes.deferrals import Deferrals
from tilewright.passes.groups import (
    Group,
    Segment,
    is_apart,
    may_write,
    window,
    write_window,
)
from tilewright.passes.guards import guard
from tilewright.passes.nodes import Leaf, Node, make_node
from tilewright.passes.plan import Plan, Target
from tilewright.passes.scopes import Scopes, require
from tilewright.passes.storage import Storage
from tilewright.passes.traits import Indices, Kind, Traits, compose, shaped

if TYPE_CHECKING:
    from tilewright.passes.crews import Crew
    from tilewright.passes.turned import Turn

Body = Callable[[tuple[Value, ...], tuple[Value, ...]], tuple[Value, ...]]


class Lowering:
    """What is known while a function is lowered.

    `scalars` maps scalar values to their copies, `stored` shaped values to the memory that holds
    them, `nodes` shaped values to the structured operation that gives them. `is_watched` says that
    others look at the memory of tensors while the function runs, `has_remote` that memory of other
    ranks is touched. What operations `in_place` write is there already.
    """

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.scopes = Scopes(builder)
        self.scalars: dict[Value, Value] = {}
        self.stored: dict[Value, Storage] = {}
        self.nodes: dict[Value, Node] = {}
        self._behind: dict[tuple[Traits, Indices], Indices] = {}
        self.views: dict[Storage | Value, list[tuple[Node, Plan]]] = {}
        self.globals: set[Value] = set()
        self.facts: list[Constraint] = []
        self.turns: Mapping[Operation, Sequence[tuple[Operation, Turn]]] = {}
        self.turned: dict[Operation, tuple[Storage, Turn]] = {}
        self.segment = Segment()
        self.plans: list[Plan] = []
        self.crews: list[Crew] = []
        self.is_watched = False
        self.has_remote = False
        self.in_place: set[Operation | None] = set()
        self.deferrals = [Deferrals(0)]

    @property
    def plan(self) -> Plan:
        """The plan of the block being lowered."""
        return self.plans[-1]

    # ------------------------------------------------------------------ scalars

    def scalar(self, value: Value) -> Value:
        """The copy of a scalar value."""
        return require(self.scalars.get(value), f"the scalar {value.name!r}")

    def define_scalar(self, old: Value, new: Value) -> None:
        """`new`, of the innermost scope, is the copy of `old`."""
        self.scalars[old] = new
        new.name = new.name or old.name
        if isinstance(old.type, ScalarType) and old.type.dtype.is_int():
            if not new.has_symbol:
                new.bind_symbol(old.symbol)
            self.scopes.define(old.symbol, new)
            if old.type.dtype is INDEX:
                self.scopes.remember(expr_of(old), new)

    def define_index(self, old: Value, dim: Dim) -> None:
        """The integer scalar `old` is the expression `dim`."""
        new = self.scalars[old] = self.scopes.index(dim)
        if old.has_symbol:
            self.scopes.define_in(self.scopes.home((as_expr(dim),)), old.symbol, new)

    # ------------------------------------------------------------------ memory

    def hold(self, value: Value, storage: Storage) -> None:
        """`value` is what `storage` holds, as are those that it held before."""
        self.stored[value] = storage
        storage.holders.append(value)

    def replace(self, value: Value, storage: Storage) -> None:
        """`value` is what `storage` holds, and nothing else is."""
        self.occupy(storage, value)
        self.stored[value] = storage

    def occupy(self, storage: Storage, value: Value) -> None:
        """`storage` holds `value` alone; the next arm of a branch finds what it held before."""
        before = tuple(storage.holders)
        self.plan.undo.append(lambda: restore_holders(storage, before))
        storage.holders[:] = [value]

    def is_shared(self, storage: Storage, value: Value) -> bool:
        """True when a value other than `value` is what `storage` holds, and is still read.

        So are views that are read after the operation whose region is being lowered.
        """
        others = [other for other in storage.holders if other is not value]
        if any(map(self.is_read_yet, others)):
            return True
        return any(
            plan.is_read_later(view.result)
            for view, plan in self.views.get(storage, ())
            if plan is not self.plan
        )

    def is_read_yet(self, value: Value) -> bool:
        """True when the current operation, or one after it in a block that knows it, reads it."""
        for plan in reversed(self.plans):
            if plan.is_read_now(value):
                return True
            if value in plan.local:
                return False
        return False

    def allocate(self, shape: Shape, dtype: DType, name: str = "") -> Storage:
        """Fresh scratch memory in the innermost scope."""
        for extent in shape:
            self.scopes.index(extent)
        buffer = loop.alloc(shape=shape, dtype=dtype)
        buffer.name = name
        return Storage(buffer)

    def allocate_for(self, value: Value) -> Storage:
        """Fresh scratch memory for `value`."""
        type_ = shaped(value)
        return self.allocate(type_.shape, type_.dtype, value.name)

    def allocate_blank(self, value: Value) -> Storage:
        """Fresh scratch memory whose contents, those of `value`, do not matter."""
        storage = self.allocate_for(value)
        storage.is_blank = True
        return storage

    def room_for(self, value: Value, busy: set[Storage], dtype: DType | None = None) -> Storage:
        """Memory that `value` is about to fill, and that is none of `busy`.

        Where the value ends up in the end, if what is there now is not needed any more.
        """
        type_ = shaped(value)
        if dtype is not None and dtype is not type_.dtype:
            return self.allocate(type_.shape, dtype, value.name)
        target = self.plan.targets.pop(value, None)
        if target is None or target.storage in busy or self.is_read(target, self.plan.position):
            return self.allocate_for(value)
        self.keep_views(target.storage)
        return target.storage

    def room_for_node(self, node: Node, group: Group) -> Storage:
        """Memory for a pending value: where it ends up, if `group` may write there already."""
        target = self.plan.targets.pop(node.result, None)
        if (
            target is None
            or self.is_read(target, self.plan.position - 1)
            or not may_write(group, node, target.storage)
        ):
            return self.allocate_for(node.result)
        self.keep_views(target.storage)
        return target.storage

    def is_read(self, target: Target, position: int) -> bool:
        """True when an operation after `position` reads the present contents of a target."""
        held = [*target.storage.holders, *([target.version] if target.version else [])]
        if any(self.plan.is_read_after(value, position) for value in held):
            return True
        return any(
            view.kind is Kind.FREE and plan.is_read_after(view.result, position)
            for view, plan in self.views.get(target.storage, ())
            if plan is self.plan
        )

    def storage_of(self, value: Value) -> Storage | None:
        """The memory of `value`: where it is, or where its pending node will put it."""
        found = self.stored.get(value)
        if found is not None:
            return found
        node = self.nodes.get(value)
        return node.storage if node is not None else None

    # ------------------------------------------------------------------ nodes

    def resolve(self, value: Value, indices: Indices | None) -> Leaf | None:
        """The element read, once rearrangements are looked through; None where nothing is read."""
        while True:
            storage = self.stored.get(value)
            if storage is not None:
                return Leaf(value, indices, None, storage)
            node = self.nodes.get(value)
            if node is None:
                return Leaf(value, indices)
            if node.kind is not Kind.FREE:
                return Leaf(value, indices, node if node.is_pending else None, node.storage)
            if not node.traits.direct:
                return None
            number, inner = node.traits.direct[0]
            value = node.structure.reads[number].value
            indices = None if inner is None or indices is None else self.behind(node, indices)

    def behind(self, node: Node, indices: Indices) -> Indices:
        """The element that a rearrangement has as its element `indices`."""
        key = node.traits, indices
        found = self._behind.get(key)
        if found is None:
            [(_, inner)] = node.traits.direct
            assert inner is not None and node.traits.is_identity
            point = dict(zip(node.structure.dims, indices, strict=True))
            found = self._behind[key] = compose(inner, point)
        return found

    def find_leaves(self, node: Node) -> list[Leaf]:
        """What `node` reads, once rearrangements are looked through."""
        reads = node.structure.all_reads
        leaves: list[Leaf] = []
        for number, indices in node.traits.direct:
            leaf = self.resolve(reads[number].value, indices)
            if leaf is not None:
                leaves.append(leaf)
        return leaves

    def enqueue(self, node: Node) -> None:
        """Puts a node that computes or writes something into the segment."""
        node.leaves = self.find_leaves(node)
        self.segment.add(node)

    def compute(self, node: Node) -> None:
        """A pointwise operation, reduction or scan of the author's."""
        self.nodes[node.result] = node
        guard(self, node)
        if node.kind is Kind.FREE:
            self.note_view(node)
        else:
            self.enqueue(node)

    def note_view(self, node: Node) -> None:
        """Remembers that `node` is evaluated late, for the writes that come before its uses."""
        for leaf in self.find_leaves(node):
            if leaf.storage is None or leaf.storage.is_written:
                self.views.setdefault(leaf.storage or leaf.base, []).append((node, self.plan))

    def publish(self, value: Value, storage: Storage) -> None:
        """`value` is in `storage` from now on."""
        if value not in self.stored:
            self.hold(value, storage)
        for view in self.views.pop(value, ()):
            self.views.setdefault(storage, []).append(view)

    def force(self, value: Value) -> None:
        """Has `value` put in memory when its group is emitted."""
        if value in self.stored:
            return
        node = require_node(self, value)
        node.forced = True
        if node.kind is Kind.FREE:
            node.kind = Kind.POINT
            if value not in self.plan.local:
                self.plan.undo.append(lambda: self.release(node))
            self.enqueue(node)

    def release(self, node: Node) -> None:
        """A rearrangement put in memory inside a region is evaluated late again after it."""
        node.kind, node.forced, node.storage = Kind.FREE, False, None
        self.forget(node.result)
        self.note_view(node)

    def give(self, result: Value, storage: Storage) -> None:
        """`result` is what has been accumulated in `storage`, in its dtype or a wider one."""
        if storage.type.dtype is shaped(result).dtype:
            self.publish(result, storage)
            return
        wide = Value(storage.type, result.name)
        self.hold(wide, storage)
        dims = domain(storage.shape)
        dtype = shaped(result).dtype
        structure = pointwise(dims, storage.shape, wide, lambda s, _: (cast(s[0], dtype=dtype),))
        self.nodes[result] = view = make_node(None, structure, result, self.plan.position)
        view.kind = Kind.FREE
        view.is_view = True

    # ------------------------------------------------------------------ writes

    def write(self, node: Node) -> None:
        """A tied operation: `node` writes the memory of the version it replaces."""
        assert node.dest is not None
        if node.op in self.in_place:
            self.replace(node.result, self.take_over(node.dest))
            return
        self.nodes[node.result] = node
        guard(self, node)
        node.storage = self.take_over(node.dest)
        self.occupy(node.storage, node.result)
        self.separate(node)
        self.enqueue(node)

    def take_over(self, old: Value) -> Storage:
        """The memory of `old`, which is about to be written in place: nobody reads `old` later."""
        storage = self.storage_of(old)
        if storage is None:
            return self.materialize_for_writing(old)
        if is_window(old) or self.may_take(storage, old):
            self.keep_views(storage)
            return storage
        if storage.is_blank:
            return self.allocate_blank(old)
        if storage.is_global and storage.is_written:
            raise StaleRead(
                f"an earlier version of {old.name or 'a tensor'} is read after it was overwritten",
                self.plan.span,
                hint="read it before the write, or write to another tensor",
            )
        return self.copy_of(old)

    def may_take(self, storage: Storage, old: Value) -> bool:
        """True when `old`, in `storage`, is read by nobody after it is written in place."""
        return self.plan.owns(old) and storage.is_written and not self.is_shared(storage, old)

    def materialize_for_writing(self, old: Value) -> Storage:
        """Memory of its own for `old`, which is computed."""
        node = require_node(self, old)
        if node.kind is not Kind.POINT or not self.plan.owns(old):
            return self.copy_of(old)
        assert node.group is not None
        self.keep_views(old)
        storage = self.room_for_node(node, node.group)
        storage.is_blank = False
        node.forced = True
        self.segment.place(node, storage)
        return storage

    def copy_of(self, value: Value) -> Storage:
        """Fresh memory with the contents of `value`."""
        storage = self.allocate_for(value)
        self.assign(storage, value)
        return storage

    def assign(self, storage: Storage, value: Value) -> Node:
        """Has `storage` hold the elements of `value`; the node of that write."""
        dims = domain(shaped(value).shape)
        return self.assign_elements(storage, dims, Read(value, identity_map(dims)))

    def assign_elements(self, storage: Storage, dims: tuple[Symbol, ...], read: Read) -> Node:
        """Has `storage` hold what `read` gives over `dims`; the node of that write."""
        kinds = (AxisKind.PARALLEL,) * len(dims)
        writes = (identity_map(dims),)
        structure = Structure(dims, storage.shape, kinds, (read,), writes, lambda s, _: s)
        result = Value(storage.type, read.value.name)
        node = make_node(None, structure, result, self.plan.position)
        node.kind = Kind.WRITE
        self.nodes[result] = node
        node.storage = storage
        storage.is_blank = False
        storage.holders[:] = [result]
        self.separate(node)
        self.enqueue(node)
        return node

    def keep_views(self, storage: Storage | Value, *, in_regions: bool = False) -> None:
        """Puts in memory the rearrangements of `storage`, or of a pending value, read after this.

        With `in_regions` the write is in a region of the current operation, and so may reads be.
        """
        if isinstance(storage, Storage):
            storage.is_blank = False
        for view, plan in self.views.pop(storage, ()):
            inclusive = in_regions or plan is not self.plan
            is_read = plan.is_read_now if inclusive else plan.is_read_later
            if view.kind is Kind.FREE and is_read(view.result):
                self.force(view.result)

    def separate(self, node: Node) -> None:
        """Has a write not read, at another element, the memory that it writes."""
        assert node.storage is not None
        reads = node.structure.all_reads
        for number, indices in node.traits.direct:
            value = reads[number].value
            leaf = self.resolve(value, indices)
            if leaf is None or leaf.storage is not node.storage or value is node.dest:
                continue
            (write,) = node.structure.writes
            if leaf.indices == write or is_apart(window(node, leaf.indices), write_window(node)):
                continue
            self.detach(value)

    def detach(self, value: Value) -> None:
        """Gives `value` memory of its own."""
        node = self.nodes.get(value)
        if node is not None and node.kind is Kind.FREE:
            self.force(value)
            return
        storage = self.storage_of(value)
        assert storage is not None
        before = Value(value.type, value.name)
        self.stored[before] = storage
        self.redirect(value, self.copy_of(before))

    def redirect(self, value: Value, storage: Storage) -> None:
        """For the rest of the block, `value` is in `storage`."""
        before = self.stored.get(value)
        self.stored[value] = storage
        if value in self.plan.local:
            return
        restore = (lambda: self.stored.update({value: before})) if before else None
        self.plan.undo.append(restore or (lambda: self.forget(value)))

    def forget(self, value: Value) -> None:
        """`value` is in no memory any more."""
        self.stored.pop(value, None)


def restore_holders(storage: Storage, before: Sequence[Value]) -> None:
    """`storage` holds what it held before a region."""
    storage.holders[:] = before


def is_window(value: Value) -> bool:
    """True for memory that other ranks reach: all of its versions are what is there now."""
    return isinstance(value.type, DistributedTensorType)


def require_node(lowering: Lowering, value: Value) -> Node:
    """The node of `value`; raises UnsupportedFeatureError when nothing computes it."""
    node = lowering.nodes.get(value)
    if node is None:
        name = value.name or "a value"
        raise UnsupportedFeatureError(f"{name} of type {value.type} has no lowering")
    return node


def pointwise(dims: tuple[Symbol, ...], shape: Shape, value: Value, body: Body) -> Structure:
    """`body` of each element of `value`."""
    kinds = (AxisKind.PARALLEL,) * len(dims)
    index = identity_map(dims)
    return Structure(dims, shape, kinds, (Read(value, index),), (index,), body)


def buffer_type_of(type_: ShapedType, strides: Shape | None = None) -> BufferType:
    """The buffer in which a parameter of `type_` arrives."""
    return BufferType(type_.shape, type_.dtype, strides or row_major_strides(type_.shape))
