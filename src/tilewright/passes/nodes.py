"""What lowering knows of one structured operation: its kind, its cost, what it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from tilewright.dataclass import dataclass
from tilewright.ir.core import Operation, Value
from tilewright.ir.opdef import values_of
from tilewright.ir.structure import AxisKind, Structure
from tilewright.ops import arith
from tilewright.ops import cast as casting
from tilewright.passes import combine as combining
from tilewright.passes.traits import Indices, Kind, Traits, element_dtype, shaped, traits_of

if TYPE_CHECKING:
    from tilewright.passes.groups import Group
    from tilewright.passes.storage import Storage

CHEAP = 6
"""Scalar words that are computed again rather than kept for a later pass over the row."""


@dataclass(eq=False, slots=True)
class Leaf:
    """An element that a node reads once rearrangements are looked through.

    `indices` are expressions over the dims of the node; None where an index is data. `producer`
    is the node that gives `base` when that has not been emitted, `storage` the memory it is in.
    """

    base: Value
    indices: Indices | None
    producer: Node | None = None
    storage: Storage | None = None


def no_nodes() -> list[Node]:
    """An empty list (`list[Node]()` takes four times as long)."""
    return []


@dataclass(eq=False, slots=True)
class Node:
    """A structured operation; `result` is what it gives, `dest` the version a WRITE replaces.

    `sources` are the nodes of its group that it reads, `unproven` the numbers of accesses that are
    checked element by element. `is_view` stays True when a FREE node has been put in memory after
    all.
    """

    op: Operation | None
    structure: Structure
    result: Value
    kind: Kind
    position: int
    traits: Traits
    dest: Value | None = None
    leaves: Sequence[Leaf] = ()
    sources: Sequence[Node] = ()
    consumers: list[Node] = field(default_factory=no_nodes)
    group: Group | None = None
    level: int = 0
    storage: Storage | None = None
    forced: bool = False
    is_view: bool = False
    unproven: tuple[int, ...] = ()

    @property
    def is_pending(self) -> bool:
        """True between joining a group and being emitted."""
        return self.group is not None

    @property
    def reduced(self) -> tuple[int, ...]:
        """Which of the wide axes are reduced."""
        return self.traits.reduced

    @property
    def is_move(self) -> bool:
        """True when the body gives its only read back."""
        return self.traits.body.is_move

    def done(self) -> None:
        """Forgets the neighbours of a node that has been emitted."""
        self.group = None
        self.leaves = self.sources = ()
        self.consumers.clear()

    def ends_reduced(self) -> bool:
        """True when the last axis of the domain is reduced and is not of extent 1."""
        structure = self.structure
        return bool(structure.dims) and (
            structure.kinds[-1] is AxisKind.REDUCE and structure.extents[-1] != 1
        )


def make_node(op: Operation | None, structure: Structure, result: Value, position: int) -> Node:
    """The node of a structured operation that gives `result`."""
    traits = traits_of(op, structure)
    kind = traits.kind
    if op is not None and op.opdef.tied:
        (dest,) = values_of(op.operands[op.opdef.tied[0]])
        return Node(op, structure, result, Kind.WRITE, position, traits, dest)
    if kind is Kind.REDUCE and not traits.reduced:
        structure, kind = without_reduction(structure, result), Kind.POINT
    return Node(op, structure, result, kind, position, traits)


def without_reduction(structure: Structure, result: Value) -> Structure:
    """The structure of a reduction over axes of extent 1: each result has one contribution."""
    dtype = element_dtype(result)

    def body(scalars: tuple[Value, ...], index: tuple[Value, ...]) -> tuple[Value, ...]:
        given = combining.widened(structure.body(scalars, index))
        if structure.combine in combining.PAIRED:
            return given[1:]
        start = combining.identity(structure.combine, combining.dtype_of(given[0]))
        first = arith.const(value=start, dtype=combining.dtype_of(given[0]))
        total = combining.step(structure.combine, (first,), given)
        return (combining.finished(total, dtype),)

    kinds = (AxisKind.PARALLEL,) * len(structure.dims)
    return replace(structure, kinds=kinds, body=body, combine="", family=None)


def is_conversion(op: Operation | None) -> bool:
    """True for casts: as cheap to repeat as the load before them."""
    return op is not None and op.opdef.name in ("elementwise.cast", casting.cast.name)


def is_covering(node: Node) -> bool:
    """True for a write that replaces every element of what it writes to."""
    structure = node.structure
    if node.kind is not Kind.WRITE or node.dest is None or structure.write_mask:
        return False
    if not node.traits.is_identity or structure.extents != shaped(node.dest).shape:
        return False
    return all(read.value is not node.dest for read in structure.reads)
