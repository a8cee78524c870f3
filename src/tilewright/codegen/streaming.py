"""Which outputs are too large to be worth a place in the caches: those are stored past them."""

from __future__ import annotations

from math import prod

from tilewright.codegen.emitter import Emitter
from tilewright.codegen.formats import MEMORY_ELEMENT
from tilewright.codegen.index import Num
from tilewright.codegen.operands import LANES
from tilewright.codegen.text import ELEMENT_BYTES
from tilewright.ir.core import Function, Operation, Value
from tilewright.ir.enums import Effect, ParamDirection
from tilewright.ir.types import BufferType
from tilewright.ops import loop

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
    used = {value for op in function.body.walk() for value in other_uses(op)}
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


def other_uses(op: Operation) -> list[Value]:
    """The values an operation touches in any way but as the target of a store or its extents."""
    if op.opdef is loop.extent or op.opdef.terminator:
        return []
    return list(op.inputs)[1:] if op.opdef is loop.store else list(op.inputs)
