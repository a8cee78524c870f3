"""What lowering knows of one structured operation: its kind, its cost, what it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from tilewright.dtypes import BOOL, DType
from tilewright.ir.affine import Expr, Symbol, as_expr, substitute
from tilewright.ir.affine.constraints import Constraint
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.opdef import OpDef, values_of
from tilewright.ir.structure import AxisKind, Indirect, Read, Structure
from tilewright.ir.types import ArrayType, Dim, ScalarType, ShapedType, TensorType
from tilewright.ops import arith
from tilewright.ops import cast as casting
from tilewright.passes import combine as combining
from tilewright.passes.scopes import INDEX_SCALAR

if TYPE_CHECKING:
    from tilewright.passes.groups import Group
    from tilewright.passes.storage import Storage

Indices = tuple[Expr, ...]

CHEAP = 6
"""Scalar words that are computed again rather than kept for a later pass over the row."""

WORD_COSTS: dict[OpDef[..., Any], int] = {
    arith.const: 0,
    arith.div: 4,
    arith.sqrt: 4,
    arith.floor: 1,
    arith.ceil: 1,
    **dict.fromkeys(
        [
            arith.exp,
            arith.exp2,
            arith.log,
            arith.log1p,
            arith.tanh,
            arith.erf,
            arith.sigmoid,
            arith.sin,
            arith.cos,
            arith.tan,
            arith.atan,
            arith.rsqrt,
            arith.pow_,
            arith.mod,
            arith.fmod,
            arith.floordiv,
        ],
        20,
    ),
}
INDIRECT_COST = 20


class Kind(Enum):
    """How a structured operation is lowered."""

    FREE = "free"  # evaluated wherever it is used, as a view is
    POINT = "point"
    REDUCE = "reduce"
    SCAN = "scan"
    WRITE = "write"


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


@dataclass(eq=False, slots=True)
class Node:
    """A structured operation; `result` is what it gives, `dest` the version a WRITE replaces.

    `is_view` stays True when a FREE node has been put in memory after all.
    """

    op: Operation | None
    structure: Structure
    result: Value
    kind: Kind
    position: int
    dest: Value | None = None
    gives: tuple[DType, ...] = ()
    cost: int = 0
    is_move: bool = False
    uses_index: bool = True
    leaves: list[Leaf] = field(default_factory=list[Leaf])
    consumers: list[Node] = field(default_factory=list["Node"])
    group: Group | None = None
    level: int = 0
    storage: Storage | None = None
    forced: bool = False
    is_view: bool = False
    unproven: set[int] = field(default_factory=set[int])
    extents: dict[Symbol, Dim] = field(default_factory=dict[Symbol, Dim])
    wide: tuple[int, ...] = ()
    wide_extents: tuple[Dim, ...] = ()
    reduced: tuple[int, ...] = ()

    @property
    def is_pending(self) -> bool:
        """True between joining a group and being emitted."""
        return self.group is not None

    def set_shape(self) -> None:
        """Finds the axes of the domain whose extent is not 1, and those of them reduced."""
        structure = self.structure
        self.wide = tuple([axis for axis, extent in enumerate(structure.extents) if extent != 1])
        self.extents = dict(zip(structure.dims, structure.extents, strict=True))
        self.wide_extents = tuple([structure.extents[axis] for axis in self.wide])
        if not structure.is_pointwise:
            self.reduced = tuple(
                k for k, axis in enumerate(self.wide) if structure.kinds[axis] is AxisKind.REDUCE
            )

    def ends_reduced(self) -> bool:
        """True when the last axis of the domain is reduced and is not of extent 1."""
        structure = self.structure
        return bool(structure.dims) and (
            structure.kinds[-1] is AxisKind.REDUCE and structure.extents[-1] != 1
        )


def direct_reads(structure: Structure) -> list[Read]:
    """The reads of shaped values."""
    reads = (*structure.reads, *structure.initial) if structure.initial else structure.reads
    return [read for read in reads if not isinstance(read.value.type, ScalarType)]


def index_exprs(read: Read) -> Indices | None:
    """The indices of a read; None where one of them is data."""
    found = [index for index in read.indices if not isinstance(index, Indirect)]
    return tuple(found) if len(found) == len(read.indices) else None


def is_identity(structure: Structure) -> bool:
    """True when point d writes element d of the one result."""
    return len(structure.writes) == 1 and structure.writes[0] == tuple(map(as_expr, structure.dims))


def make_node(op: Operation | None, structure: Structure, result: Value, position: int) -> Node:
    """The node of a structured operation that gives `result`."""
    kind = kind_of(op, structure)
    node = Node(op, structure, result, kind, position)
    node.set_shape()
    inspect_body(node)
    if op is not None and op.opdef.tied:
        (node.dest,) = values_of(op.operands[op.opdef.tied[0]])
    if kind is Kind.REDUCE and not node.reduced:
        node.structure, node.kind = without_reduction(node), Kind.POINT
    return node


def kind_of(op: Operation | None, structure: Structure) -> Kind:
    """The kind of an operation before anything is known about its neighbours."""
    if op is not None and op.opdef.tied:
        return Kind.WRITE
    if AxisKind.SCAN in structure.kinds:
        return Kind.SCAN
    return Kind.POINT if structure.is_pointwise else Kind.REDUCE


@dataclass(frozen=True, slots=True)
class BodyFacts:
    """What a body gives and costs; `is_move`: it gives its only read back."""

    gives: tuple[DType, ...]
    cost: int
    is_move: bool
    uses_index: bool


def inspect_body(node: Node) -> None:
    """Fills in what the body of a node gives and costs: the same for equal ops and dtypes."""
    structure, op = node.structure, node.op
    dtypes = tuple(element_dtype(read.value) for read in structure.reads)
    if op is None:
        facts = try_body(structure, dtypes)
    else:
        count = len(structure.tests), len(structure.dims), len(structure.initial)
        key = (op.opdef, dtypes, count, *op.attrs.values())
        facts = _FACTS.get(key)
        if facts is None:
            facts = try_body(structure, dtypes)
            if len(_FACTS) < MOST_FACTS:
                _FACTS[key] = facts
    node.gives, node.cost = facts.gives, facts.cost
    node.is_move, node.uses_index = facts.is_move, facts.uses_index


_FACTS: dict[Any, BodyFacts] = {}
MOST_FACTS = 4096


def try_body(structure: Structure, dtypes: tuple[DType, ...]) -> BodyFacts:
    """Emits a body once, on the side, to see what it gives and what it costs."""
    builder = Builder()
    scalars = [Value(ScalarType(dtype)) for dtype in dtypes]
    tests = [Value(ScalarType(BOOL)) for _ in structure.tests]
    before = [Value(ScalarType(element_dtype(read.value))) for read in structure.initial]
    index = tuple(Value(INDEX_SCALAR) for _ in structure.dims)
    with builder, builder.inside(Block()) as block:
        results = structure.body((*scalars, *tests, *before), index)
    used = {value for op in block.ops for value in op.inputs}.union(results)
    cost = sum(WORD_COSTS.get(op.opdef, 1) for op in block.ops)
    if any(index_exprs(read) is None for read in structure.reads):
        cost += INDIRECT_COST
    return BodyFacts(
        tuple(map(element_dtype, results)),
        cost,
        len(scalars) == 1 and not tests and results == (scalars[0],),
        any(value in used for value in index),
    )


def without_reduction(node: Node) -> Structure:
    """The structure of a reduction over axes of extent 1: each result has one contribution."""
    structure, dtype = node.structure, element_dtype(node.result)

    def body(scalars: tuple[Value, ...], index: tuple[Value, ...]) -> tuple[Value, ...]:
        given = combining.widened(structure.body(scalars, index))
        if structure.combine in combining.PAIRED:
            return given[1:]
        start = combining.identity(structure.combine, combining.dtype_of(given[0]))
        first = arith.const(value=start, dtype=combining.dtype_of(given[0]))
        total = combining.step(structure.combine, (first,), given)
        return (combining.finished(total, dtype),)

    kinds = (AxisKind.PARALLEL,) * len(structure.dims)
    return replace(structure, kinds=kinds, body=body, combine="")


def is_conversion(op: Operation | None) -> bool:
    """True for casts: as cheap to repeat as the load before them."""
    return op is not None and op.opdef.name in ("elementwise.cast", casting.cast.name)


def element_dtype(value: Value) -> DType:
    """Element type of a scalar or shaped value."""
    type_ = value.type
    return type_.dtype if isinstance(type_, ScalarType) else shaped(value).dtype


def shaped(value: Value) -> ShapedType:
    """The type of a tensor or tile; that of an array, seen as a tensor."""
    type_ = value.type
    if isinstance(type_, ArrayType):
        return TensorType((type_.extent,), type_.dtype)
    assert isinstance(type_, ShapedType), type_
    return type_


def is_covering(node: Node) -> bool:
    """True for a write that replaces every element of what it writes to."""
    structure = node.structure
    if node.kind is not Kind.WRITE or node.dest is None or structure.write_mask:
        return False
    if not is_identity(structure) or structure.extents != shaped(node.dest).shape:
        return False
    return all(read.value is not node.dest for read in structure.reads)


def compose(indices: Indices, mapping: dict[Symbol, Expr]) -> Indices:
    """`indices` with iteration symbols replaced."""
    return tuple([replaced(index, mapping) for index in indices])


def replaced(expr: Expr, mapping: Mapping[Symbol, Expr]) -> Expr:
    """`expr` with symbols replaced; quick where it is a symbol or a constant."""
    terms = expr.terms
    if not terms:
        return expr
    if len(terms) == 1 and not expr.const:
        [(atom, factor)] = terms.items()
        if isinstance(atom, Symbol):
            given = mapping.get(atom)
            if given is None:
                return expr
            return given if factor == 1 else given * factor
    return substitute(expr, mapping)


def compose_mask(
    mask: tuple[Constraint, ...], mapping: dict[Symbol, Expr]
) -> tuple[Constraint, ...]:
    """`mask` with iteration symbols replaced."""
    if not mask:
        return mask
    return tuple(constraint.substitute(mapping) for constraint in mask)
