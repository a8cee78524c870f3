"""The nest after a product, run on elements of the product as soon as they are complete.

A nest that works element by element runs on the accumulators of the micro-kernel, in their
registers (`LaneEpilogue`). One whose rows need all of their elements becomes a function of rows,
which the matmul calls for each panel of them while it is in the nearest cache (`write_panel`). See
`find_epilogue` for when that shows nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.codegen.emit_parallel import CellEmitter, Environment, is_long
from tilewright.codegen.emitter import HANDLERS, Emitter, LaneState
from tilewright.codegen.operands import LANES, Linear, Uniform
from tilewright.codegen.text import Text
from tilewright.codegen.work import estimate_one
from tilewright.dataclass import dataclass
from tilewright.ir.affine import as_expr
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import ForKind
from tilewright.ops import control, loop
from tilewright.ops.loop import buffer_type
from tilewright.ops.touches import buffers_of, counts, indices_of, is_pure, root_of, touches

ALLOWED = (loop.load, loop.store, control.for_, control.if_)
SILENT_DEPTH = 16
"""A depth of loops at which nobody asks whether to leave."""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """A nest over the rows of a product; `between` is what stands before it.

    `lanes` is its loop over columns if these are independent of each other. `keeps` says that
    somebody else reads the product.
    """

    product: Operation
    nest: Operation
    between: tuple[Operation, ...]
    lanes: Operation | None
    keeps: bool


def find_epilogues(block: Block) -> Mapping[Operation, Epilogue]:
    """The products of `block`, and of the blocks in it, with the nests that follow them."""
    found: dict[Operation, Epilogue] = {}
    if not any(op.opdef is loop.matmul for op in block.walk()):
        return found
    users = users_of_memory(block)
    for each in [block, *(region for op in block.walk() for region in op.regions)]:
        for position, op in enumerate(each.ops):
            if op.opdef is loop.matmul:
                epilogue = find_epilogue(each, position, users)
                if epilogue is not None:
                    found[op] = epilogue
    return found


def users_of_memory(block: Block) -> Mapping[Value, set[Operation]]:
    """The operations that read or write each parameter and allocation."""
    users: dict[Value, set[Operation]] = {}
    for op in block.walk():
        for buffer in buffers_of(op):
            users.setdefault(root_of(buffer), set()).add(op)
    return users


def find_epilogue(
    block: Block, position: int, users: Mapping[Value, set[Operation]]
) -> Epilogue | None:
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
    between = tuple(block.ops[position + 1 : end])
    lanes = find_lanes(nest, c, stores)
    own = {product, *(op for op, _ in uses)}
    private = memory.op is not None and users[memory] <= own and not product.attrs["accumulate"]
    overwritten = lanes is not None and overwrites(lanes, c)
    return Epilogue(product, nest, between, lanes, not (private or overwritten))


def find_lanes(nest: Operation, c: Value, stores: set[Value]) -> Operation | None:
    """The one loop over lanes in the rows of a nest, if it works element by element.

    It reads elements of the product before it writes them.
    """
    row = nest.regions[0]
    found = [op for op in row.ops if op.regions]
    if len(found) != 1 or not counts(found[0], buffer_type(c).shape[1]):
        return None
    lanes, inside = found[0], found[0].regions[0].ops
    if lanes.attrs["kind"] is not ForKind.Lanes or any(op.regions for op in inside):
        return None
    accesses: dict[Value, set[object]] = {}
    for op, buffer in touches(nest):
        if root_of(buffer) in stores:
            where = (buffer, indices_of(op)) if op in inside else None
            accesses.setdefault(root_of(buffer), set()).add(where)
    place = as_expr(row.params[0].symbol), as_expr(lanes.regions[0].params[0].symbol)
    own = [op for op, buffer in touches(nest) if buffer is c]
    if any(op not in inside or indices_of(op) != place for op in own):
        return None
    kinds = [op.opdef for op in own]
    if kinds != sorted(kinds, key=(loop.load, loop.store).index):
        return None
    alone = all(len(each) == 1 and None not in each for each in accesses.values())
    return lanes if alone else None


def overwrites(lanes: Operation, c: Value) -> bool:
    """True when every element of `c` is written."""
    stores = [op for op in lanes.regions[0].ops if op.opdef is loop.store]
    return any(op.operands[0] is c and op.operands[3] is None for op in stores)


# ---------------------------------------------------------------------- writing


def begin(e: Emitter, epilogue: Epilogue) -> None:
    """What stands before the nest is written, the nest is not written again."""
    for op in epilogue.between:
        HANDLERS[op.opdef](e, op)
    e.shared.written.update((*epilogue.between, epilogue.nest))


def write_panel(e: Emitter, epilogue: Epilogue) -> tuple[str, str]:
    """The function of an epilogue of whole rows, and its environment."""
    begin(e, epilogue)
    panel = CellEmitter(e)
    panel.bind_scratch()
    panel.depth = SILENT_DEPTH
    body = epilogue.nest.regions[0]
    with panel.text.loop("%begin", "%end", 1) as state:
        panel.dims.append({})
        panel.define(body.params[0], Uniform(state.counter))
        panel.block(body)
        panel.dims.pop()
    return panel.close("epilogue"), panel.environment.store(e)


class LaneEpilogue:
    """A nest that works element by element, written into micro-kernels: a `Finish` of them.

    Rows go through the first registers one after the other, so that they share their code.
    """

    def __init__(self, e: Emitter, epilogue: Epilogue) -> None:
        begin(e, epilogue)
        self.e, self.epilogue = e, epilogue
        self.keeps = epilogue.keeps
        self.symbols: dict[object, str] = {}
        self.environment = Environment()

    def write(self, text: Text, rows: Sequence[Sequence[str]], kind: str, mask: str) -> None:
        """The nest on the rows of a register block."""
        inner = CellEmitter(self.e, text, self.environment)
        inner.bind_scratch()
        masks = [""] * (len(rows[0]) - 1) + [mask]
        carries = [(kind, ref) for row in rows for ref in row]
        with text.loop(0, len(rows), 1, carries, runs=True) as state:
            row = str(inner.index.add("%row", state.counter))
            self.write_row(inner, row, state.carries[: len(masks)], masks)
            state.following = state.carries[len(masks) :] + ["poison"] * len(masks)
        inner.bring()

    def write_row(self, e: Emitter, row: str, refs: list[str], masks: list[str]) -> None:
        """The nest on one row, vector by vector."""
        lanes, body = self.epilogue.lanes, self.epilogue.nest.regions[0]
        assert lanes is not None
        e.dims.append({})
        e.define(body.params[0], Uniform(row))
        for op in body.ops[:-1]:
            if op is not lanes:
                e.operation(op)
                continue
            slot = len(e.text.lines)
            e.text.do("")
            state = e.lanes = LaneState([], e.text.count)
            for position, (ref, mask) in enumerate(zip(refs, masks, strict=True)):
                state.masks = [mask]
                self.write_lanes(e, lanes.regions[0], position, ref)
            e.lanes = None
            e.text.lines[slot] = "\n".join(state.hoisted)
        e.dims.pop()

    def write_lanes(self, e: Emitter, body: Block, position: int, ref: str) -> None:
        """The nest on one vector."""
        e.dims.append({})
        first = e.index.add("%column", LANES * position)
        e.define(body.params[0], Linear(first, 1))
        e.held = {self.epilogue.product.operands[0]: (ref,)}
        e.block(body)
        e.held = {}
        e.dims.pop()
