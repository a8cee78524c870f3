"""Lanes loops: sixteen lanes per vector, several vectors per iteration, tails under masks.

Reductions follow the order of `ops/loop.py`: element j goes to virtual lane j mod 64, which is lane
j mod 16 of accumulator (j // 16) mod 4.
"""

from __future__ import annotations

from tilewright.codegen.balance import moved_sums
from tilewright.codegen.emit_parallel import CellEmitter, is_long, run_cells
from tilewright.codegen.emitter import Emitter, LaneState
from tilewright.codegen.fetches import fetch_ahead
from tilewright.codegen.index import Num
from tilewright.codegen.operands import LANES, Linear
from tilewright.codegen.packing import lane_mask
from tilewright.codegen.reductions import Reductions
from tilewright.codegen.streaming import first_element, is_large_store
from tilewright.codegen.work import Work, estimate_one, index_expr
from tilewright.dtypes import INDEX
from tilewright.errors import InternalError
from tilewright.ir.affine import Symbol, coefficient, symbols
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.types import ScalarType
from tilewright.ops import arith, loop
from tilewright.ops.extents import constant_of
from tilewright.ops.long_words import LONG_WORDS
from tilewright.target import Isa

ACCUMULATORS = 4
TURNING_BODY, MEDIUM_BODY, LARGE_BODY = 12, 24, 48
LONG_LOOP, ALIGNED_LOOP = 1024, 256
LONG_WORD = 12
WHOLE_VECTOR = 64
LANES_PER_CELL = 1 << 14
ORDERED = (loop.check_index, loop.check_extent, loop.alloc, loop.copy, loop.matmul)


def emit_lanes(e: Emitter, op: Operation) -> None:
    """One lanes loop, with its reductions."""
    if e.lanes is not None:
        raise InternalError("a lanes loop stands inside another")
    low, high = (e.num(value) for value in op.operands[:2])
    write_lanes(e, op, low, e.index.maximum(e.index.sub(high, low), 0), estimate_one(op))


def write_lanes(e: Emitter, op: Operation, low: Num, count: Num, work: Work) -> None:
    """`count` lanes of a loop, from number `low` on, by this thread or by all."""
    outermost = e.depth == 0 and not isinstance(e, CellEmitter)
    if outermost and is_long(work) and has_independent_lanes(op):
        share_lanes(e, op, low, count, work)
        return
    LaneLoop(e, op, low, count).write()


def share_lanes(e: Emitter, op: Operation, low: Num, count: Num, work: Work) -> None:
    """A long loop over lanes in pieces, which all threads may run."""
    index = e.index
    cells = index.floordiv(index.add(count, LANES_PER_CELL - 1), LANES_PER_CELL)

    def write(cell: CellEmitter, number: Num) -> None:
        start = cell.index.mul(number, LANES_PER_CELL)
        left = cell.index.sub(cell.capture_num(count), start)
        whole = isinstance(count, int) and count % LANES_PER_CELL == 0
        size = LANES_PER_CELL if whole else cell.index.minimum(left, LANES_PER_CELL)
        LaneLoop(cell, op, cell.index.add(cell.capture_num(low), start), size).write()

    run_cells(e, cells, work, write)


def has_independent_lanes(op: Operation) -> bool:
    """Whether the order of the lanes shows nowhere: every lane stores to elements of its own."""
    body = op.regions[0]
    if op.operands[3] or any(inner.regions for inner in body.ops):
        return False
    if any(inner.opdef in ORDERED for inner in body.ops):
        return False
    counter = body.params[0].symbol
    stores = [inner for inner in body.ops if inner.opdef is loop.store]
    return all(moves_with(store, counter) for store in stores)


def moves_with(store: Operation, counter: Symbol) -> bool:
    """Whether an index of a store is the counter, scaled and shifted."""
    exprs = [index_expr(value) for value in store.operands[1]]
    known = [expr for expr in exprs if expr is not None]
    moving = [expr for expr in known if counter in symbols(expr)]
    return len(moving) == 1 and isinstance(coefficient(moving[0], counter), int)


class LaneLoop:
    """Writes one lanes loop: `count` lanes, the first of which has the number `low`."""

    def __init__(self, e: Emitter, op: Operation, low: Num, count: Num) -> None:
        self.e, self.op, self.low, self.count = e, op, low, count
        inits = op.operands[3]
        self.body: Block = op.regions[0]
        self.reductions = Reductions(e, op.attrs["combine"], inits)
        self.copies = choose_copies(self.body, bool(inits), count, e.module.isa)
        self.slot = len(e.text.lines)
        e.text.do("")
        moved = moved_sums(self.body) if e.module.isa.has_fma else frozenset[Operation]()
        self.state = LaneState([], e.text.count, moved)

    def write(self) -> None:
        """The whole vectors, then the tail, then the fold of the accumulators."""
        e, index = self.e, self.e.index
        chunk = LANES * self.copies
        if self.op.operands[3] and not isinstance(self.count, int):
            chunk = LANES * ACCUMULATORS
        first = self.lanes_before_line()
        if first != 0:
            self.run_time_tail(0, first, [])
        end = index.add(first, index.round_down(index.sub(self.count, first), chunk))
        accumulators = self.reductions.identities()
        if not isinstance(end, int) or end > 0:
            accumulators = self.main_loop(first, end, accumulators)
        rest = index.sub(self.count, end)
        if not isinstance(rest, int):
            accumulators = self.run_time_tail(end, rest, accumulators)
        elif rest > 0:
            accumulators = self.known_tail(end, rest, accumulators)
        e.text.lines[self.slot] = "\n".join(self.state.hoisted)
        self.reductions.finish(self.op.results, self.straight(accumulators))

    def lanes_before_line(self) -> Num:
        """How many lanes come before one whose store is a whole line of memory.

        Arrays seldom begin with one, and only whole lines go past the caches. None where the loop
        is too short to repay a masked vector, or reduces: which accumulator gets what is fixed.
        """
        if self.reductions.folds or (isinstance(self.count, int) and self.count < ALIGNED_LOOP):
            return 0
        e, index = self.e, self.e.index
        store = next((op for op in self.body.ops if is_large_store(op)), None)
        place = None if store is None else first_element(e, store, self.body.params[0], self.low)
        if place is None:
            return 0
        lane = e.text.let(f"and i64 {place}, {LANES - 1}")
        first = e.text.let(f"and i64 {index.sub(LANES, lane)}, {LANES - 1}")
        return index.minimum(first, self.count)

    def main_loop(self, first: Num, end: Num, accumulators: list[str]) -> list[str]:
        """Full vectors, `copies` at a time."""
        step = LANES * self.copies
        masks = [""] * self.copies
        if isinstance(end, int) and end <= step:
            return self.run_body(0, masks, accumulators)
        runs = isinstance(end, int)
        carries = list(zip(self.reductions.kinds, accumulators, strict=True))
        with self.e.text.loop(first, end, step, carries, runs=runs) as state:
            state.following = self.run_body(state.counter, masks, state.carries)
        return state.carries

    def known_tail(self, start: Num, rest: int, accumulators: list[str]) -> list[str]:
        """What is left of a known extent: full vectors, and one under a constant mask."""
        masks = [""] * (rest // LANES)
        if rest % LANES:
            masks.append(lane_mask(self.e.text, rest % LANES))
        return self.run_body(start, masks, accumulators)

    def run_time_tail(self, start: Num, rest: Num, accumulators: list[str]) -> list[str]:
        """What is left of a run-time extent, one masked vector at a time.

        Reductions go through all four accumulators, turning them by one each time.
        """
        text, index = self.e.text, self.e.index
        some = text.let(f"icmp sgt i64 {rest}, 0")
        end = rest
        if accumulators:
            end = text.let(f"select i1 {some}, i64 {LANES * ACCUMULATORS}, i64 0")
        carries = list(zip(self.reductions.kinds, accumulators, strict=True))
        with text.loop(0, end, LANES, carries) as state:
            mask = lane_mask(text, index.sub(rest, state.counter))
            position = index.add(start, state.counter)
            state.following = self.run_body(position, [mask], state.carries)
        return state.carries

    def straight(self, accumulators: list[str]) -> list[str]:
        """The accumulators in their order again."""
        if not isinstance(self.count, int):
            return accumulators
        return self.reductions.turned(accumulators, -self.count // LANES)

    def run_body(self, start: Num, masks: list[str], accumulators: list[str]) -> list[str]:
        """The body for the vectors from element `start` on; gives the accumulators after it.

        The accumulator of the vector that comes next is the first.
        """
        e = self.e
        counter = self.body.params[0]
        e.lanes = self.state
        self.state.masks = masks
        e.dims.append({})
        first = e.index.add(self.low, start)
        e.define(counter, Linear(first, 1))
        if not any(masks):
            fetch_ahead(e, self.op, first, len(masks))
        terminator = e.block(self.body)
        given = [e.vectors(value) for value in terminator.operands[0]]
        accumulators = self.reductions.combine(accumulators, given, masks)
        e.dims.pop()
        e.lanes = None
        return self.reductions.turned(accumulators, len(masks))


def choose_copies(body: Block, reduces: bool, count: Num, isa: Isa) -> int:
    """Vectors per iteration: as many as accumulators, two where words are long, one at last.

    A vector alone would wait for itself, step by step; several large bodies are too much code, and
    a loop has to be long to repay more than two, or one long word four times. Twice as many where
    all that they need fits in registers: the more vectors take turns, the less each waits.
    """
    size = body_size(body)
    if size > LARGE_BODY:
        return 1
    has_long = any(op.opdef in LONG_WORDS for op in body.walk())
    is_long = isinstance(count, int) and count >= LONG_LOOP
    most = TURNING_BODY if reduces else MEDIUM_BODY if not is_long else LARGE_BODY
    is_map = is_long and not reduces
    if has_long and is_map and size < 2 * LONG_WORD:
        return ACCUMULATORS
    if has_long or size > most:
        return 2
    if is_map and size > TURNING_BODY and fits(body, 2 * ACCUMULATORS, isa):
        return 2 * ACCUMULATORS
    return ACCUMULATORS


def fits(body: Block, copies: int, isa: Isa) -> bool:
    """Whether so many vectors of everything in a body have registers, if these are as wide."""
    if isa.vector_bytes < WHOLE_VECTOR or any(op.regions for op in body.ops):
        return False
    return copies * most_alive(body) + constants_of(body) < isa.registers


def most_alive(body: Block) -> int:
    """The most values of a body that are needed at one time, but for constants and indices."""
    last = {value: op for op in body.ops for value in op.inputs}
    alive: set[Value] = set()
    most = 0
    for op in body.ops:
        alive.difference_update(value for value in op.inputs if last[value] is op)
        alive.update(value for value in op.results if value in last and is_element(value))
        most = max(most, len(alive))
    return most


def is_element(value: Value) -> bool:
    """Whether a value of a body takes a register for each vector."""
    kind = value.type
    is_scalar = isinstance(kind, ScalarType) and kind.dtype is not INDEX
    return is_scalar and (value.op is None or value.op.opdef is not arith.const)


def constants_of(body: Block) -> int:
    """How many registers hold what is the same for all vectors: constants, and a one."""
    inputs = {value for op in body.ops for value in op.inputs}
    return 1 + len({constant_of(v) for v in inputs if v.op and v.op.opdef is arith.const})


def body_size(body: Block) -> int:
    """How much code a body is, in short words."""
    return sum(LONG_WORD if op.opdef in LONG_WORDS else 1 for op in body.walk())
