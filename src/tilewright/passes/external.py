"""Lowering of kernels in C++: their arguments in memory, wherever strides reach them.

What a kernel writes it writes in place; an input that would share memory with that is copied.
"""

from __future__ import annotations

from tilewright.ir.core import Operation, Value
from tilewright.ops import external
from tilewright.passes.blocks import flush, lowers
from tilewright.passes.contract import Place, find_place, operand_place, slot, whole
from tilewright.passes.lowering import Lowering
from tilewright.passes.regions import is_scalar
from tilewright.passes.storage import Storage


@lowers(external.kernel)
def lower_kernel(lowering: Lowering, op: Operation) -> None:
    """One call."""
    written, read = op.operands
    storages = [lowering.take_over(value) for value in written]
    flush(lowering)
    places = [None if is_scalar(value) else find_apart(lowering, value, storages) for value in read]
    flush(lowering)
    given = tuple(
        lowering.scalar(value)
        if is_scalar(value)
        else slot(lowering, place or operand_place(lowering, value), ())
        for value, place in zip(read, places, strict=True)
    )
    targets = tuple(storage.buffer for storage in storages)
    lowering.builder.emit(external.on_buffers, (targets, given), op.attrs, span=op.span)
    for result, storage in zip(op.results, storages, strict=True):
        storage.is_blank = False
        lowering.replace(result, storage)


def find_apart(lowering: Lowering, value: Value, written: list[Storage]) -> Place | None:
    """Where an input is, in memory that is none of `written`; None where it is being put there."""
    place = find_place(lowering, value)
    if place is None:
        lowering.force(value)
        return None
    return whole(lowering.copy_of(value)) if place.storage in written else place
