"""Right operands that a loop multiplies by again and again are turned once, before the loop.

The micro-kernels read rows of the right operand. Where its rows are columns of an In tensor, as
the keys of attention are, each product would turn its tile; instead the tensor is copied, turned,
before the outermost loop over which the tiles repeat.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.dataclass import dataclass
from tilewright.dtypes import FP32
from tilewright.ir.affine import Expr, Symbol, as_expr, coefficient, symbols
from tilewright.ir.core import Block, Function, Operation, Value
from tilewright.ir.enums import ParamDirection
from tilewright.ir.structure import domain, identity_map
from tilewright.ir.types import ScalarType, ShapedType
from tilewright.ops import control, matmul
from tilewright.ops.extents import expr_of
from tilewright.passes.blocks import structure_of
from tilewright.passes.nodes import make_node
from tilewright.passes.traits import Indices, compose, direct_reads, index_exprs

MOST_ELEMENTS = 1 << 21


@dataclass(frozen=True, slots=True)
class Turn:
    """Copy `source` turned: rows are its axis `inner`, columns its axis `outer`.

    `index` is the element of the source that the product reads at (k, n) = `dims`; `first` is the
    column at which its tile starts.
    """

    source: Value
    index: Indices
    dims: tuple[Symbol, Symbol]
    inner: int
    outer: int
    first: Expr

    @property
    def lead(self) -> Indices:
        """The indices on the other axes."""
        axes = (self.inner, self.outer)
        return tuple(each for axis, each in enumerate(self.index) if axis not in axes)

    @property
    def shape(self) -> tuple[int, int]:
        """Extents of the turned copy."""
        shape = shaped_source(self.source)
        return shape[self.inner], shape[self.outer]


def shaped_source(source: Value) -> tuple[int, ...]:
    """The static extents of a tensor, 0 where one is not static."""
    assert isinstance(source.type, ShapedType)
    return tuple(e if isinstance(e, int) else 0 for e in source.type.shape)


def find_turns(function: Function) -> dict[Operation, list[tuple[Operation, Turn]]]:
    """By loop, the products whose right operand is worth turning before it, and how."""
    given = zip(function.params, function.directions, strict=True)
    sources = {
        param
        for param, way in given
        if way is ParamDirection.In and isinstance(param.type, ShapedType)
    }
    found: dict[Operation, list[tuple[Operation, Turn]]] = {}
    for op, loops in products(function.body, ()):
        turn = find_turn(op, sources)
        loop = None if turn is None else next((at for at in loops if repeats(at, turn)), None)
        if turn is not None and loop is not None:
            found.setdefault(loop, []).append((op, turn))
    return found


def products(
    block: Block, loops: tuple[Operation, ...]
) -> Iterator[tuple[Operation, tuple[Operation, ...]]]:
    """The products in loops, each with the loops around it, outermost first."""
    for op in block.ops:
        if op.opdef in (matmul.matmul, matmul.acc) and loops:
            yield op, loops
        inner = (*loops, op) if op.opdef is control.for_ else loops
        for region in op.regions:
            yield from products(region, inner)


def find_turn(op: Operation, sources: set[Value]) -> Turn | None:
    """How the right operand of a product is read from an In tensor, if by columns."""
    rhs = op.operands[1 if op.opdef is matmul.matmul else 2]
    type_ = rhs.type
    if not isinstance(type_, ShapedType) or type_.rank != 2 or type_.dtype is not FP32:
        return None
    dims = domain(type_.shape)
    found = moved_from(rhs, identity_map(dims), sources)
    if found is None:
        return None
    source, index = found
    k, n = (dims[1], dims[0]) if op.attrs["b_trans"] else (dims[0], dims[1])
    inner, outer = axis_of(index, k), axis_of(index, n)
    last = len(index) - 1
    if inner is None or outer is None or inner != last or index[inner] != as_expr(k):
        return None
    shape = shaped_source(source)
    extent = type_.shape[1 if op.attrs["b_trans"] else 0]
    if shape[inner] != extent or not 0 < shape[inner] * shape[outer] <= MOST_ELEMENTS:
        return None
    return Turn(source, index, (k, n), inner, outer, index[outer] - n)


def moved_from(value: Value, index: Indices, sources: set[Value]) -> tuple[Value, Indices] | None:
    """The In tensor that `value` rearranges, and the element of it behind element `index`."""
    while value not in sources:
        structure = None if value.op is None else structure_of(value.op)
        if structure is None or value.op is None or value.op.opdef.tied:
            return None
        node = make_node(value.op, structure, value, 0)
        reads = direct_reads(structure)
        inner = index_exprs(reads[0]) if node.is_move and reads else None
        if inner is None or reads[0].mask:
            return None
        index = compose(inner, dict(zip(structure.dims, index, strict=True)))
        value = reads[0].value
    return value, index


def axis_of(index: Indices, dim: Symbol) -> int | None:
    """The only axis whose index is `dim` plus something; None when there is no such axis."""
    found = [axis for axis, each in enumerate(index) if dim in symbols(each)]
    if len(found) != 1 or coefficient(index[found[0]], dim) != 1:
        return None
    return found[0]


def repeats(loop: Operation, turn: Turn) -> bool:
    """True when iterations of `loop` read the same columns, and its start knows where they are."""
    own = loop.regions[0].params[0]
    if own.has_symbol and own.symbol in symbols(turn.first):
        return False
    low, high, step = map(expr_of, loop.operands[:3])
    length = high - low
    if length.is_constant and step.is_constant and length.const <= step.const:
        return False
    inside = {
        value.symbol
        for op in loop.regions[0].walk()
        for value in (*op.results, *(p for region in op.regions for p in region.params))
        if isinstance(value.type, ScalarType) and value.has_symbol
    }
    inside.add(own.symbol)
    return all(inside.isdisjoint(symbols(each)) for each in turn.lead)
