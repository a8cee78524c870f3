"""Lowering of matrix products to micro-kernel grids on views of memory.

Operands that are rearrangements of memory are read in place, through strides; any other operand is
put in memory first. A right operand, or a left one beside a column, that is narrow numbers widened
is read as these are: products widen what they pack. Accumulation is in FP32 or INT32; a narrower
result is converted where it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.dataclass import dataclass
from tilewright.dtypes import BF16, FP16, FP32, INT8, INT16, INT32, UINT8
from tilewright.ir.affine import Expr, Symbol, as_expr, coefficient, simplify, substitute
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import ForKind
from tilewright.ir.structure import Read, domain, identity_map
from tilewright.ir.types import Dim, Shape
from tilewright.ops import control, elementwise, loop, matmul
from tilewright.ops.extents import constant_of
from tilewright.ops.loop import accumulator_dtype
from tilewright.passes.blocks import flush, lowers
from tilewright.passes.lowering import Lowering
from tilewright.passes.nodes import Node
from tilewright.passes.order import LATE
from tilewright.passes.storage import Storage
from tilewright.passes.traits import Indices, Kind, compose, direct_reads, index_exprs, shaped
from tilewright.passes.turned import Turn

LINE = 16
"""Elements that take a line of the cache, or less."""
WIDENED = {FP32: (FP16, BF16, INT8, UINT8, INT16), INT32: (INT8, UINT8, INT16)}
"""The narrow dtypes of which micro-kernels make what they multiply, exactly."""


@dataclass(frozen=True, slots=True)
class Place:
    """Strided elements of a buffer: element d is at `offsets` + Σ d[k] * strides[k]."""

    storage: Storage
    offsets: Indices
    shape: Shape
    strides: Shape

    @property
    def has_unit_stride(self) -> bool:
        """True when one of the last two axes is contiguous."""
        pairs = zip(self.shape[-2:], self.strides[-2:], strict=True)
        return any(stride == 1 or extent == 1 for extent, stride in pairs)


def find_place(lowering: Lowering, value: Value, *, widens: bool = False) -> Place | None:
    """Where the elements of `value` are, if they are strided memory.

    With `widens`, they may be narrower there.
    """
    shape = shaped(value).shape
    dims = domain(shape)
    index: Indices = identity_map(dims)
    while value not in lowering.stored:
        node = lowering.nodes.get(value)
        if node is None or node.kind is not Kind.FREE:
            return None
        if not node.is_move and not (widens and is_widening(node)):
            return None
        (read,) = direct_reads(node.structure)
        inner = index_exprs(read)
        if inner is None or read.mask:
            return None
        index = compose(inner, dict(zip(node.structure.dims, index, strict=True)))
        value = read.value
    return strided(lowering.stored[value], index, shape, dims)


def is_widening(node: Node) -> bool:
    """True for a conversion that products make of what they pack, without rounding."""
    if node.op is None or node.op.opdef is not elementwise.cast:
        return False
    narrow, wide = shaped(node.op.operands[0]).dtype, shaped(node.result).dtype
    return narrow in WIDENED.get(wide, ())


def strided(
    storage: Storage, index: Indices, shape: Shape, dims: tuple[Symbol, ...]
) -> Place | None:
    """The place of elements `index` over `dims`; None when they are not evenly spaced."""
    steps = [_step(storage, index, dim) for dim in dims]
    known = [step for step in steps if step is not None]
    if len(known) != len(steps):
        return None
    zeros = dict.fromkeys(dims, as_expr(0))
    offsets = tuple(substitute(each, zeros) for each in index)
    return Place(storage, offsets, shape, tuple(known))


def _step(storage: Storage, index: Indices, dim: Symbol) -> Dim | None:
    total = as_expr(0)
    for each, stride in zip(index, storage.type.strides, strict=True):
        factor = coefficient(each, dim)
        if factor is None:
            return None
        total = total + as_expr(factor) * as_expr(stride)
    return simplify(total)


def operand_place(lowering: Lowering, value: Value, *, widens: bool = False) -> Place:
    """Where a matrix operand is, after the open groups have been emitted."""
    place = find_place(lowering, value, widens=widens)
    assert place is not None, f"{value!r} is not in memory"
    return place


def prepare(lowering: Lowering, value: Value, *, widens: bool = False) -> None:
    """Has `value` in memory, evenly spaced, once the open groups have been emitted."""
    node = lowering.nodes.get(value)
    if value not in lowering.stored and node is not None and node.kind is Kind.FREE:
        place = find_place(lowering, value, widens=widens) or pending_place(lowering, value)
        if place is None or not place.has_unit_stride:
            lowering.force(value)


def pending_place(lowering: Lowering, value: Value) -> Place | None:
    """The place that `value` will have once what it rearranges is in memory of its own."""
    leaf = lowering.resolve(value, None)
    if leaf is None or leaf.producer is None or leaf.base in lowering.stored:
        return None
    flush(lowering)
    return find_place(lowering, value)


# ---------------------------------------------------------------------- emission


def slot(lowering: Lowering, place: Place, batch: Sequence[Expr]) -> Value:
    """The buffer of the matrix at `batch` of a place."""
    rank = len(place.shape) - len(batch)
    base = place.storage.type
    shape, strides = place.shape[-rank:], place.strides[-rank:]
    whole = all(offset == 0 for offset in place.offsets) and not batch
    if whole and (shape, strides) == (base.shape, base.strides):
        return place.storage.buffer
    shift = as_expr(0)
    for index, stride in zip(batch, place.strides, strict=False):
        shift = shift + index * as_expr(stride)
    offsets = list(lowering.scopes.indices(place.offsets))
    if shift != 0:
        return shifted(lowering, place, offsets, shift, shape, strides)
    return loop.view(place.storage.buffer, tuple(offsets), shape=shape, strides=strides)


def shifted(
    lowering: Lowering,
    place: Place,
    offsets: list[Value],
    shift: Expr,
    shape: Shape,
    strides: Shape,
) -> Value:
    """A view `shift` elements further on: through a flat view of the buffer."""
    start = loop.view(place.storage.buffer, tuple(offsets), shape=(1,), strides=(1,))
    return loop.view(start, (lowering.scopes.index(shift),), shape=shape, strides=strides)


def emit_product(
    lowering: Lowering, c: Place, a: Place, b: Place, attrs: dict[str, Any], *, accumulate: bool
) -> None:
    """The micro-kernel grid, inside loops over the batch axes."""
    batch: list[Expr] = []

    def level(axis: int) -> Sequence[Value]:
        if axis == len(c.shape) - 2:
            slots = [slot(lowering, place, batch) for place in (c, a, b)]
            loop.matmul(*slots, **attrs, accumulate=accumulate)
            return ()
        symbol = Symbol("b", 0, as_expr(c.shape[axis]) - 1)

        def body() -> Sequence[Value]:
            batch.append(as_expr(symbol))
            return level(axis + 1)

        lowering.scopes.loop(c.shape[axis], symbol, body, kind=ForKind.Sequential)
        return ()

    level(0)


def whole(storage: Storage) -> Place:
    """All of a buffer."""
    return Place(storage, (as_expr(0),) * len(storage.shape), storage.shape, storage.type.strides)


def places(lowering: Lowering, *values: tuple[Value, bool]) -> list[Place]:
    """Where matrix operands are; those with True may be narrower there."""
    for value, widens in values:
        prepare(lowering, value, widens=widens)
    flush(lowering)
    return [operand_place(lowering, value, widens=widens) for value, widens in values]


def operands(
    lowering: Lowering, op: Operation, lhs: Value, rhs: Value
) -> tuple[Place, Place, dict[str, Any]]:
    """Where the operands of a product are, and which of them are transposed."""
    attrs = {"a_trans": op.attrs["a_trans"], "b_trans": op.attrs["b_trans"]}
    turned = lowering.turned.get(op)
    if turned is None:
        is_column = shaped(rhs).shape[-2 if op.attrs["b_trans"] else -1] == 1
        a, b = places(lowering, (lhs, is_column), (rhs, not is_column))
        return a, b, attrs
    (a,) = places(lowering, (lhs, False))
    storage, turn = turned
    extents = shaped(rhs).shape
    shape = extents[::-1] if op.attrs["b_trans"] else extents
    place = Place(storage, (as_expr(0), turn.first), shape, storage.type.strides)
    return a, place, {**attrs, "b_trans": False}


def turn_operands(lowering: Lowering, loop: Operation) -> None:
    """Copies, turned, what products in `loop` read by columns again and again."""
    copies: dict[Any, Storage] = {}
    for op, turn in lowering.turns.get(loop, ()):
        key = turn.source, turn.inner, turn.outer, turn.lead
        if key not in copies:
            copies[key] = copy_turned(lowering, turn)
        lowering.turned[op] = copies[key], turn
    flush(lowering)


def copy_turned(lowering: Lowering, turn: Turn) -> Storage:
    """Fresh memory with the turned copy.

    Its rows are a line of the cache longer than they need be: rows that are a power of two apart
    would meet in a few places of every cache.
    """
    dims = domain(turn.shape)
    index = list(turn.index)
    index[turn.inner], index[turn.outer] = as_expr(dims[0]), as_expr(dims[1])
    rows, columns = turn.shape
    pitch = simplify(as_expr(columns) + LINE)
    room = lowering.allocate((rows, pitch), shaped(turn.source).dtype)
    zeros = lowering.scopes.indices((0, 0))
    storage = Storage(loop.view(room.buffer, zeros, shape=turn.shape, strides=(pitch, 1)))
    lowering.assign_elements(storage, dims, Read(turn.source, tuple(index)))
    return storage


LATE.update((matmul.matmul, matmul.acc))


@lowers(matmul.matmul)
def lower_matmul(lowering: Lowering, op: Operation) -> None:
    """A product into memory of its own."""
    lhs, rhs = op.operands
    a, b, attrs = operands(lowering, op, lhs, rhs)
    wide = accumulator_dtype(shaped(lhs).dtype)
    storage = lowering.room_for(op.result, {a.storage, b.storage}, wide)
    emit_product(lowering, whole(storage), a, b, attrs, accumulate=False)
    lowering.give(op.result, storage)


@lowers(matmul.acc)
def lower_acc(lowering: Lowering, op: Operation) -> None:
    """A product added to an accumulator in place."""
    acc, lhs, rhs, init_cond = op.operands
    storage = lowering.take_over(acc)
    a, b, attrs = operands(lowering, op, lhs, rhs)
    c = whole(storage)
    fresh = False if init_cond is None else constant_of(init_cond)
    if init_cond is None or fresh is not None:
        emit_product(lowering, c, a, b, attrs, accumulate=not fresh)
    else:
        arms: list[Block] = []
        for accumulate in (False, True):
            block = Block()
            with lowering.scopes.inside(block):
                emit_product(lowering, c, a, b, attrs, accumulate=accumulate)
                control.yield_(())
            arms.append(block)
        cond = lowering.scalar(init_cond)
        lowering.builder.emit(control.if_, (cond,), {}, tuple(arms), span=op.span)
    lowering.replace(op.result, storage)
