"""The nest after a product, run on each panel of rows as soon as the panel is complete.

The rows are in the nearest cache then, and what the nest makes of them need not come back. The
nest becomes a function of rows and columns that the matmul calls; see `find_epilogues` for when
that shows nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.codegen.emit_parallel import CellEmitter, is_long, store_environment
from tilewright.codegen.emitter import HANDLERS, Emitter
from tilewright.codegen.operands import Uniform
from tilewright.codegen.work import estimate_one
from tilewright.dataclass import dataclass
from tilewright.ir.affine import as_expr
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import ForKind
from tilewright.ops import control, loop
from tilewright.ops.loop import buffer_type
from tilewright.ops.touches import counts, indices_of, is_pure, root_of, touches

PARAMETERS = "ptr %env, ptr %ctx, i64 %begin, i64 %end, i64 %column, i64 %columns"
ALLOWED = (loop.load, loop.store, control.for_, control.if_)
SILENT_DEPTH = 16
"""A depth of loops at which nobody asks whether to leave."""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """A nest over the rows of a product; `between` is what stands before it.

    `splits` says that it may run on some of the columns at a time.
    """

    nest: Operation
    between: tuple[Operation, ...]
    splits: bool


def find_epilogues(block: Block) -> Mapping[Operation, Epilogue]:
    """The products of `block`, and of the blocks in it, with the nests that follow them."""
    found: dict[Operation, Epilogue] = {}
    if not any(op.opdef is loop.matmul for op in block.walk()):
        return found
    for each in [block, *(region for op in block.walk() for region in op.regions)]:
        for position, op in enumerate(each.ops):
            if op.opdef is loop.matmul:
                epilogue = find_epilogue(each, position)
                if epilogue is not None:
                    found[op] = epilogue
    return found


def find_epilogue(block: Block, position: int) -> Epilogue | None:
    """The nest after the product at `position`, if its rows may follow those of the product.

    They may where they are independent of each other, touch of the result their own row alone, do
    not write what the product reads, and cannot fail.
    """
    product = block.ops[position]
    end = position + 1
    while is_pure(block.ops[end]) and not block.ops[end].opdef.terminator:
        end += 1
    nest = block.ops[end]
    c, a, b = product.operands
    extent = buffer_type(c).shape[0]
    if not counts(nest, extent) or nest.attrs["kind"] is not ForKind.Parallel:
        return None
    if is_long(estimate_one(nest)) and not is_long(estimate_one(product)):
        return None
    inner = list(nest.regions[0].walk())
    if not all(is_pure(op) or op.opdef.terminator or op.opdef in ALLOWED for op in inner):
        return None
    memory, operands = root_of(c), (root_of(a), root_of(b))
    row = as_expr(nest.regions[0].params[0].symbol)
    uses = [(op, buffer) for op, buffer in touches(nest) if root_of(buffer) is memory]
    if memory in operands or not uses:
        return None
    if any(buffer is not c or indices_of(op)[0] != row for op, buffer in uses):
        return None
    stores = {root_of(buffer) for op, buffer in touches(nest) if op.opdef is loop.store}
    if not stores.isdisjoint(operands):
        return None
    return Epilogue(nest, tuple(block.ops[position + 1 : end]), may_split(nest, c, stores))


def may_split(nest: Operation, c: Value, stores: set[Value]) -> bool:
    """True when columns are independent of each other: one loop over lanes, element by element."""
    row = nest.regions[0]
    lanes = [op for op in row.ops if op.regions]
    if len(lanes) != 1 or not counts(lanes[0], buffer_type(c).shape[1]):
        return False
    if lanes[0].attrs["kind"] is not ForKind.Lanes:
        return False
    inside = lanes[0].regions[0].ops
    if any(op.regions for op in inside):
        return False
    accesses: dict[Value, set[object]] = {}
    for op, buffer in touches(nest):
        if root_of(buffer) in stores:
            where = (buffer, indices_of(op)) if op in inside else None
            accesses.setdefault(root_of(buffer), set()).add(where)
    place = (c, (as_expr(row.params[0].symbol), as_expr(lanes[0].regions[0].params[0].symbol)))
    own = {(op.operands[0], indices_of(op)) for op in inside if is_access_of(op, c)}
    return own <= {place} and all(len(each) == 1 and None not in each for each in accesses.values())


def is_access_of(op: Operation, c: Value) -> bool:
    """True for a load or store of `c`."""
    return op.opdef in (loop.load, loop.store) and op.operands[0] is c


# ---------------------------------------------------------------------- writing


class PanelEmitter(CellEmitter):
    """Writes the function of an epilogue."""

    parameters = PARAMETERS


def write_epilogue(e: Emitter, epilogue: Epilogue) -> tuple[str, str]:
    """The function of an epilogue and its environment; the nest is not written again."""
    for op in epilogue.between:
        HANDLERS[op.opdef](e, op)
    e.shared.written.update((*epilogue.between, epilogue.nest))
    panel = PanelEmitter(e)
    panel.bind_scratch()
    panel.depth = SILENT_DEPTH
    if epilogue.splits:
        panel.window = ("%column", "%columns")
    body = epilogue.nest.regions[0]
    with panel.text.loop("%begin", "%end", 1) as state:
        panel.dims.append({})
        panel.define(body.params[0], Uniform(state.counter))
        panel.block(body)
        panel.dims.pop()
    return panel.close("epilogue"), store_environment(e, panel)
