"""What lowering knows of a structure by itself: wide axes, accesses, what its body costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from tilewright.dataclass import dataclass
from tilewright.dtypes import BOOL, DType
from tilewright.ir.affine import Expr, Symbol, as_expr, substitute
from tilewright.ir.affine.constraints import Constraint
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.opdef import OpDef
from tilewright.ir.structure import AxisKind, Index, Indirect, Read, Structure
from tilewright.ir.types import ArrayType, Dim, ScalarType, Shape, ShapedType, TensorType
from tilewright.ops import arith
from tilewright.ops.long_words import LONG_WORDS
from tilewright.passes.scopes import INDEX_SCALAR

Indices = tuple[Expr, ...]

WORD_COSTS: dict[OpDef[..., Any], int] = {
    arith.const: 0,
    arith.div: 4,
    arith.sqrt: 4,
    arith.floor: 1,
    arith.ceil: 1,
    **dict.fromkeys([*LONG_WORDS, arith.rsqrt], 20),
}
INDIRECT_COST = 20


class Kind(Enum):
    """How a structured operation is lowered."""

    FREE = "free"  # evaluated wherever it is used, as a view is
    POINT = "point"
    REDUCE = "reduce"
    SCAN = "scan"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class BodyTraits:
    """What a body gives and costs; `is_move`: it gives its only read back."""

    gives: tuple[DType, ...]
    cost: int
    is_move: bool
    uses_index: bool


@dataclass(eq=False, slots=True)
class Traits:
    """What holds for every node of one structure, or of one family of structures.

    `kind` is that of an op that is not tied. `wide` are the axes of the domain whose extent is not
    1, and `reduced` says which of these are reduced. `direct` has, for each read of a shaped value,
    its number and its indices, None where one is data; `written` is the index of what is written,
    likewise. `is_inside` says that every read is plainly of whole axes. `rows` are the row axes
    that a nest may have, once somebody has asked.
    """

    body: BodyTraits
    kind: Kind
    extents: dict[Symbol, Dim]
    wide: tuple[int, ...]
    wide_extents: tuple[Dim, ...]
    reduced: tuple[int, ...]
    direct: tuple[tuple[int, Indices | None], ...]
    written: Indices | None
    is_identity: bool
    is_inside: bool
    rows: dict[int, tuple[Dim, ...]] | None = None


def traits_of(op: Operation | None, structure: Structure) -> Traits:
    """The traits of a structure: found once for each family."""
    family = structure.family
    if family is None:
        return find_traits(op, structure)
    if family.traits is None:
        family.traits = find_traits(op, structure)
    return family.traits


def find_traits(op: Operation | None, structure: Structure) -> Traits:
    """The traits of one structure."""
    wide = tuple([axis for axis, extent in enumerate(structure.extents) if extent != 1])
    extents = dict(zip(structure.dims, structure.extents, strict=True))
    direct = [
        (number, index_exprs(read))
        for number, read in enumerate(structure.all_reads)
        if not isinstance(read.value.type, ScalarType)
    ]
    write = structure.writes[0]
    return Traits(
        body_traits(op, structure),
        kind_of(structure),
        extents,
        wide,
        tuple([structure.extents[axis] for axis in wide]),
        tuple([k for k, axis in enumerate(wide) if structure.kinds[axis] is AxisKind.REDUCE]),
        tuple(direct),
        as_exprs(write),
        len(structure.writes) == 1 and write == tuple(map(as_expr, structure.dims)),
        all(
            is_inside(extents, read.indices, shaped(read.value).shape)
            for read in structure.reads
            if not isinstance(read.value.type, ScalarType)
        ),
    )


def kind_of(structure: Structure) -> Kind:
    """The kind of an operation that is not tied before anything is known about its neighbours."""
    if AxisKind.SCAN in structure.kinds:
        return Kind.SCAN
    return Kind.POINT if structure.is_pointwise else Kind.REDUCE


def direct_reads(structure: Structure) -> list[Read]:
    """The reads of shaped values."""
    return [read for read in structure.all_reads if not isinstance(read.value.type, ScalarType)]


def index_exprs(read: Read) -> Indices | None:
    """The indices of a read; None where one of them is data."""
    return as_exprs(read.indices)


def as_exprs(indices: Sequence[Index]) -> Indices | None:
    """The indices of an access; None where one of them is data."""
    found = [index for index in indices if not isinstance(index, Indirect)]
    return tuple(found) if len(found) == len(indices) else None


def is_inside(extents: Mapping[Symbol, Dim], indices: Sequence[Index], shape: Shape) -> bool:
    """True when each index is plainly a whole axis of `shape`, or checked elsewhere."""
    for index, extent in zip(indices, shape, strict=True):
        if not (isinstance(index, Indirect) or is_whole_axis(index, extent, extents)):
            return False
    return True


def is_whole_axis(index: Expr, extent: Dim, extents: Mapping[Symbol, Dim]) -> bool:
    """True for an iteration symbol that runs over `extent`, and for index 0."""
    if not index.terms:
        return isinstance(extent, int) and 0 <= index.const < extent
    if len(index.terms) > 1 or index.const:
        return False
    [(atom, factor)] = index.terms.items()
    return factor == 1 and isinstance(atom, Symbol) and extents.get(atom) == extent


# ---------------------------------------------------------------------- bodies


def body_traits(op: Operation | None, structure: Structure) -> BodyTraits:
    """What the body of a structure gives and costs: the same for equal ops and dtypes."""
    dtypes = tuple([element_dtype(read.value) for read in structure.reads])
    if op is None:
        return try_body(structure, dtypes)
    count = len(structure.tests), len(structure.dims), len(structure.initial)
    key = (op.opdef, dtypes, count, *op.attrs.values())
    found = _BODIES.get(key)
    if found is None:
        found = try_body(structure, dtypes)
        if len(_BODIES) < MOST_BODIES:
            _BODIES[key] = found
    return found


_BODIES: dict[Any, BodyTraits] = {}
MOST_BODIES = 4096


def try_body(structure: Structure, dtypes: tuple[DType, ...]) -> BodyTraits:
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
    return BodyTraits(
        tuple(map(element_dtype, results)),
        cost,
        len(scalars) == 1 and not tests and results == (scalars[0],),
        any(value in used for value in index),
    )


# ---------------------------------------------------------------------- types and accesses


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


def compose(indices: Indices, mapping: Mapping[Symbol, Expr]) -> Indices:
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
    mask: tuple[Constraint, ...], mapping: Mapping[Symbol, Expr]
) -> tuple[Constraint, ...]:
    """`mask` with iteration symbols replaced."""
    if not mask:
        return mask
    return tuple([constraint.substitute(mapping) for constraint in mask])
