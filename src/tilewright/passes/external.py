"""Lowering of kernels in C++: their arguments in memory, wherever strides reach them.

What a kernel writes it writes in place, parts of tensors too, where nobody looks at the tensor
until the part is put back. An input that would share memory with that is copied.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.core import Operation, Value
from tilewright.ir.enums import AtomicType
from tilewright.ops import external, memory, shape
from tilewright.ops.extents import as_dims
from tilewright.passes.blocks import flush, lowers
from tilewright.passes.contract import Place, find_place, operand_place, slot, whole
from tilewright.passes.lowering import Lowering
from tilewright.passes.regions import is_scalar
from tilewright.passes.storage import Storage


@lowers(external.kernel)
def lower_kernel(lowering: Lowering, op: Operation) -> None:
    """One call."""
    written, read = op.operands
    homes = [find_home(lowering, op, number) for number in range(len(written))]
    places = [
        home or whole(lowering.take_over(value)) for home, value in zip(homes, written, strict=True)
    ]
    for place in places:
        lowering.keep_views(place.storage)
    flush(lowering)
    busy = [place.storage for place in places]
    apart = [None if is_scalar(value) else find_apart(lowering, value, busy) for value in read]
    flush(lowering)
    given = tuple(
        lowering.scalar(value)
        if is_scalar(value)
        else slot(lowering, place or operand_place(lowering, value), ())
        for value, place in zip(read, apart, strict=True)
    )
    targets = tuple(slot(lowering, place, ()) for place in places)
    lowering.builder.emit(external.on_buffers, (targets, given), op.attrs, span=op.span)
    for result, place, home, target in zip(op.results, places, homes, targets, strict=True):
        place.storage.is_blank = False
        if home is None:
            lowering.replace(result, place.storage)
        else:
            lowering.hold(result, Storage(target, is_global=place.storage.is_global))


def find_apart(lowering: Lowering, value: Value, written: Sequence[Storage]) -> Place | None:
    """Where an input is, in memory that is none of `written`; None where it is being put there."""
    place = find_place(lowering, value)
    if place is None:
        lowering.force(value)
        return None
    return whole(lowering.copy_of(value)) if place.storage in written else place


# ----------------------------------------------------------------------------------- written parts


def find_home(lowering: Lowering, op: Operation, number: int) -> Place | None:
    """Where a written part is in its tensor, if the kernel may write it there; else None."""
    part, result = op.operands[0][number], op.results[number]
    if part in lowering.stored or part.op is None or part.op.opdef is not shape.slice_:
        return None
    tensor: Value = part.op.operands[0]
    puts = find_puts(lowering, op, result, part.op)
    place = find_place(lowering, part)
    if not puts or place is None or lowering.stored.get(tensor) is not place.storage:
        return None
    storage = place.storage
    is_free = storage.is_written and not lowering.is_shared(storage, tensor)
    if not is_free or not lowering.plan.is_left_to(tensor, puts):
        return None
    lowering.in_place.add(puts[-1])
    return place


def find_puts(lowering: Lowering, op: Operation, result: Value, part: Operation) -> list[Operation]:
    """The writes of what `op` gives into the tensor of `part`, the last one that of `result` to the
    same place; empty where that is not all that becomes of it."""
    plan = lowering.plan
    last = plan.last.get(result, -1)
    if last <= plan.position or not is_same_place(plan.ops[last], part):
        return []
    users = [each for each in plan.ops[plan.position + 1 : last + 1] if result in each.inputs]
    puts: list[Operation] = []
    if len(users) != 1 or users[0].operands[1] is not result:
        return []
    target, put = users[0].operands[0], users[0]
    while True:
        puts.insert(0, put)
        if target is part.operands[0]:
            return puts
        before = target.op
        if before is None or before.opdef is not memory.assemble:
            return []
        if before.operands[1] not in op.results:
            return []
        target, put = before.operands[0], before


def is_same_place(put: Operation, part: Operation) -> bool:
    """True for a plain write to where a plain part was taken from."""
    if put.opdef is not memory.assemble or put.attrs["valid"] is not None:
        return False
    if put.attrs["atomic"] is not AtomicType.None_:
        return False
    x, offset, valid = part.operands
    dropped = part.attrs["drop_dims"]
    is_plain = valid is None and not part.attrs["clamp"] and dropped == tuple(range(len(dropped)))
    is_part = part.attrs["shape"] != x.type.shape
    return is_plain and is_part and as_dims(put.operands[2]) == as_dims(offset)
