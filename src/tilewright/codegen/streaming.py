"""Which outputs are too large to be worth a place in the caches: those are stored past them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from tilewright.codegen.emitter import Emitter, Extents
from tilewright.codegen.formats import MEMORY_ELEMENT
from tilewright.codegen.index import Num
from tilewright.codegen.operands import LANES, Buffer
from tilewright.codegen.text import ELEMENT_BYTES
from tilewright.ir.affine import Expr, Symbol, fold, symbols
from tilewright.ir.core import Function, Operation, Value
from tilewright.ir.enums import Effect, ParamDirection
from tilewright.ir.types import BufferType
from tilewright.ops import loop
from tilewright.ops.touches import UNTOUCHING, indices_of, root_of

LARGE = 8 << 20


def streamed_buffers(function: Function) -> list[Value]:
    """The Out parameters that may be large, are written by stores and never read.

    None where others are signalled: they would not see what is on its way past the caches.
    """
    outputs = [
        param
        for param, way in zip(function.params, function.directions, strict=True)
        if way is ParamDirection.Out and may_be_large(param)
    ]
    if not outputs or any(op.opdef.effect is Effect.COMM for op in function.body.walk()):
        return []
    used = {root_of(value) for op in function.body.walk() for value in other_uses(op)}
    return [param for param in outputs if param not in used]


def may_be_large(value: Value) -> bool:
    """Whether a buffer perhaps does not fit in the caches."""
    kind = value.type
    if not isinstance(kind, BufferType):
        return False
    known = [extent for extent in kind.shape if isinstance(extent, int)]
    return len(known) < kind.rank or prod(known) * kind.dtype.nbytes >= LARGE


def alignment_mask(e: Emitter, value: Value) -> Num:
    """The bits of an address that must be zero for a store past the caches; all, if it is small."""
    buffer = e.buffer(value)
    item = ELEMENT_BYTES[MEMORY_ELEMENT[buffer.dtype]]
    size: Num = item
    for extent in buffer.shape:
        size = e.index.mul(size, extent)
    aligned = LANES * item - 1
    if isinstance(size, int):
        return aligned if size >= LARGE else -1
    large = e.text.let(f"icmp sge i64 {size}, {LARGE}")
    return e.text.let(f"select i1 {large}, i64 {aligned}, i64 -1")


def is_large_store(op: Operation) -> bool:
    """Whether an operation stores to memory of the caller that may be large, in every lane."""
    if op.opdef is not loop.store or op.operands[3] is not None:
        return False
    root = root_of(op.operands[0])
    return root.op is None and may_be_large(root)


def first_element(e: Emitter, store: Operation, counter: Value, low: Num) -> Num | None:
    """Where the lane `low` of a store is in memory, in elements; None where that is data."""
    where = indices_of(store)
    if not are_known(e, where, counter.symbol):
        return None
    buffer = e.buffer(store.operands[0])
    size = ELEMENT_BYTES[MEMORY_ELEMENT[buffer.dtype]]
    start = e.text.let(f"ptrtoint ptr {buffer.pointer} to i64")
    start = e.text.let(f"lshr i64 {start}, {size.bit_length() - 1}")
    return e.index.add(start, offset_at(e, buffer, where, counter.symbol, low))


def are_known(e: Emitter, exprs: Iterable[Expr], lane: Symbol) -> bool:
    """Whether expressions have values where a loop over lanes begins, but for its counter."""
    outside = {symbol for expr in exprs for symbol in symbols(expr)} - {lane}
    return all(e.find_extent(symbol) is not None for symbol in outside)


def offset_at(e: Emitter, buffer: Buffer, where: Sequence[Expr], lane: Symbol, at: Num) -> Num:
    """How many elements after the first of a buffer the indices `where` are for lane `at`."""
    total: Num = 0
    e.symbols[lane] = at
    for expr, stride in zip(where, buffer.strides, strict=True):
        total = e.index.add(total, e.index.mul(fold(expr, Extents(e)), stride))
    del e.symbols[lane]
    return total


def other_uses(op: Operation) -> list[Value]:
    """The values an operation touches in any way but as the target of a store or of a view."""
    if op.opdef in UNTOUCHING or op.opdef.terminator:
        return []
    return list(op.inputs)[1:] if op.opdef is loop.store else list(op.inputs)
