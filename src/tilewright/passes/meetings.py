"""Lowering of what the participants of one rank do with each other: rings, events, barriers.

A counter only grows, and each is changed by one side. Tile k of a ring is pushed once k + 1 - slots
tiles were freed, and popped once k + 1 were pushed; its slot is k mod slots. What is pending is
written before a signal, and what is evaluated late is read before it: the others may go on then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.dtypes import INDEX, INT64
from tilewright.errors import UnsupportedFeatureError
from tilewright.ir.affine import Expr, Operand, Symbol, as_expr, less, less_equal, minimum
from tilewright.ir.affine.constraints import Constraint
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import FunctionType, SplitMode
from tilewright.ir.structure import Read, domain
from tilewright.ir.types import Shape, row_major_strides
from tilewright.ops import arith, control, loop, meeting, pipe, sync
from tilewright.ops.cast import cast
from tilewright.ops.extents import constant_of, expr_of
from tilewright.ops.pipe import MODE_AXES, RETURNED, SPLIT_AXES
from tilewright.ops.sync import EVENTS
from tilewright.passes.blocks import flush, lowers
from tilewright.passes.crews import (
    EVENT_ROWS,
    Crew,
    PartType,
    Ring,
    is_on_cube,
    parts_of,
    place,
    plus,
    read,
    ring_key,
    wide,
)
from tilewright.passes.lowering import Lowering
from tilewright.passes.nodes import shaped
from tilewright.passes.storage import Storage

PUSHED, POPPED, FREED = range(3)


def settle(lowering: Lowering, *, in_regions: bool = False) -> None:
    """Everything before this place is read and written: others may change memory after it."""
    flush(lowering)
    for storage in list(lowering.views):
        lowering.keep_views(storage, in_regions=in_regions)
    flush(lowering)


def find_crew(lowering: Lowering, op: Operation, *names: str) -> Crew:
    """The innermost crew with one of these names; raises UnsupportedFeatureError."""
    for crew in reversed(lowering.crews):
        if crew.name in names:
            return crew
    raise UnsupportedFeatureError(f"{op.name} stands outside what runs together", op.span)


def words_of(crew: Crew) -> Value:
    """The counters of a crew."""
    assert crew.words is not None
    return crew.words


def signal(lowering: Lowering, crew: Crew, row: Expr, number: Value) -> Value:
    """Adds to a counter; what it was."""
    return meeting.signal(words_of(crew), place(lowering, row), number)


def await_(
    lowering: Lowering,
    crew: Crew,
    row: Expr,
    number: Value,
    what: str,
    shown: Sequence[Value] = (),
) -> None:
    """Waits for a counter."""
    meeting.wait(words_of(crew), place(lowering, row), number, shown, what=what)


# ------------------------------------------------------------------------------------------- rings


@lowers(pipe.initialize)
def lower_initialize(lowering: Lowering, op: Operation) -> None:
    """Nothing: the rings exist already."""


def lanes_of(crew: Crew, own: bool, every: bool = True) -> list[Expr]:
    """The lane that runs, or all of them, or the first."""
    if own:
        return [crew.lane]
    return [as_expr(lane) for lane in range(crew.lanes if every else 1)]


def slot_of(lowering: Lowering, ring: Ring, lane: Expr, slot: Value, part: PartType) -> Storage:
    """The memory of a slot of one lane that holds a tile of type `part`."""
    assert ring.buffer is not None
    at = (lowering.scopes.index(lane), slot, lowering.scopes.index(0))
    shape, dtype = part
    strides = row_major_strides(shape)
    buffer = loop.view(ring.buffer, at, shape=shape, strides=strides, dtype=dtype)
    return Storage(buffer, is_written=False)


def slot_number(lowering: Lowering, ring: Ring, number: Value) -> Value:
    """The slot of tile `number`."""
    return arith.mod(cast(number, dtype=INDEX), lowering.scopes.index(ring.slots))


def note_of(lowering: Lowering, ring: Ring, lane: Expr, slot: Value) -> tuple[Value, ...]:
    """The indices of the counter that says which type of tile is in a slot."""
    first = lowering.scopes.index(ring.notes + lane * ring.slots)
    return (arith.add(first, slot), lowering.scopes.index(0))


@lowers(pipe.push)
def lower_push(lowering: Lowering, op: Operation) -> None:
    """Waits for a free slot on every lane, fills them, and says so."""
    (tile,) = op.operands
    crew = find_crew(lowering, op, "side")
    ring = crew.rings[ring_key(op)]
    lanes = lanes_of(crew, own=not is_on_cube(op))
    what = f"a free slot in pipe {op.attrs['id']}, which has {ring.slots}"
    if op.attrs["id"] <= RETURNED:
        what = "the other side to take what it returns"
    slots: list[Value] = []
    for lane in lanes:
        number = read(lowering, words_of(crew), ring.counter(PUSHED, lane, crew.lanes))
        row = ring.counter(FREED, lane, crew.lanes)
        await_(lowering, crew, row, plus(lowering, number, 1 - ring.slots), what)
        slots.append(slot_number(lowering, ring, number))
    parts = parts_of(crew, op)
    starts = starts_of(op, parts)
    for lane, slot, part, start in zip(lanes, slots, parts, starts, strict=True):
        give_part(lowering, slot_of(lowering, ring, lane, slot, part), tile, start)
        if len(ring.types) > 1:
            kind = lowering.scopes.constant(ring.types.index(part), INT64)
            loop.store(words_of(crew), note_of(lowering, ring, lane, slot), kind, None)
    finish_write(lowering)
    for lane in lanes:
        one = lowering.scopes.constant(1, INT64)
        signal(lowering, crew, ring.counter(PUSHED, lane, crew.lanes), one)


def starts_of(op: Operation, parts: Sequence[PartType]) -> list[tuple[int, ...]]:
    """Where in the tile of a push or pop each of its parts begins."""
    axis = SPLIT_AXES[op.attrs["split"]]
    starts: list[tuple[int, ...]] = []
    start = 0
    for shape, _ in parts:
        starts.append(tuple(start if k == axis else 0 for k in range(len(shape))))
        start += 0 if axis is None else shape[axis]
    return starts


def give_part(lowering: Lowering, storage: Storage, x: Value, start: tuple[int, ...]) -> None:
    """Has `storage` hold the part of `x` that begins at `start`."""
    dims = domain(storage.shape)
    index = tuple(as_expr(dim) + first for dim, first in zip(dims, start, strict=True))
    lowering.assign_elements(storage, dims, Read(x, index))


def finish_write(lowering: Lowering) -> None:
    """The current operation is done with what it reads; then as `settle`."""
    lowering.plan.position += 1
    flush(lowering)
    lowering.plan.position -= 1
    settle(lowering)


@lowers(pipe.pop)
def lower_pop(lowering: Lowering, op: Operation) -> None:
    """Waits for a tile; it stays in its slot where the free of it is its last use."""
    crew = find_crew(lowering, op, "side")
    ring = crew.rings[ring_key(op)]
    lanes = lanes_of(crew, own=not is_on_cube(op), every=bool(op.attrs["split"]))
    side = "vector lanes" if is_on_cube(op) else "cube core"
    types = parts_of(crew, op)[: len(lanes)]
    parts: list[Storage] = []
    for lane, part in zip(lanes, types, strict=True):
        row = ring.counter(POPPED, lane, crew.lanes)
        number = read(lowering, words_of(crew), row)
        following = plus(lowering, number, 1)
        pushed = ring.counter(PUSHED, lane, crew.lanes)
        what = f"a tile from the {side} in pipe={op.attrs['id']}"
        if op.attrs["id"] <= RETURNED:
            what = f"what {'vector lane 0' if is_on_cube(op) else 'the cube core'} returns"
        await_(lowering, crew, pushed, following, what)
        loop.store(words_of(crew), place(lowering, row), following, None)
        slot = slot_number(lowering, ring, number)
        require_type(lowering, crew, ring, note_of(lowering, ring, lane, slot), part)
        parts.append(slot_of(lowering, ring, lane, slot, part))
    if len(parts) == 1 and ends_with_free(lowering, op):
        lowering.publish(op.result, parts[0])
        return
    storage = lowering.allocate_for(op.result)
    for part, start in zip(parts, starts_of(op, types), strict=True):
        copy_part(lowering, storage, part, start)
    lowering.publish(op.result, storage)


def require_type(
    lowering: Lowering, crew: Crew, ring: Ring, note: tuple[Value, ...], wanted: PartType
) -> None:
    """A fault where a tile of another type is in a slot."""
    for number, given in enumerate(ring.types):
        if given != wanted:
            kind = loop.load(words_of(crew), note, None)
            is_other = arith.ne(kind, lowering.scopes.constant(number, INT64))
            pushed, popped = (f"{list(t[0])} of {t[1].numpy}" for t in (given, wanted))
            what = f"tpop: a tile {pushed} was pushed, where {popped} is popped"
            meeting.require(is_other, (), what=what)


def ends_with_free(lowering: Lowering, op: Operation) -> bool:
    """True when the last use of a popped tile is the next free of its pipe, in the same block."""
    plan = lowering.plan
    later = plan.ops[plan.position + 1 :]
    frees = [each for each in later if frees_pipe(each, op)]
    if not frees or frees[0].operands != (op.result,):
        return False
    return plan.end.get(op.result) == plan.positions[frees[0]]


def frees_pipe(op: Operation, pop: Operation) -> bool:
    """True for an operation that gives a slot of the pipe of `pop` back."""
    inner = (op, *(each for region in op.regions for each in region.walk()))
    return any(each.opdef is pipe.free and ring_key(each) == ring_key(pop) for each in inner)


def copy_part(lowering: Lowering, whole: Storage, part: Storage, start: tuple[int, ...]) -> None:
    """Has the part of `whole` that begins at `start` hold what `part` holds."""
    window = part_of(lowering, whole, start, part.shape)
    value = Value(part.type)
    lowering.hold(value, part)
    lowering.assign(window, value)
    flush(lowering)


def part_of(lowering: Lowering, whole: Storage, index: Sequence[Operand], shape: Shape) -> Storage:
    """A window of memory as memory of its own."""
    at = lowering.scopes.indices(index)
    strides = whole.type.strides
    return Storage(loop.view(whole.buffer, at, shape=shape, strides=strides))


@lowers(pipe.free)
def lower_free(lowering: Lowering, op: Operation) -> None:
    """Gives a slot back, if one is out, on every lane that it came from."""
    crew = find_crew(lowering, op, "side")
    ring = crew.rings.get(ring_key(op))
    if ring is None:
        return
    settle(lowering)
    for lane in lanes_of(crew, own=op.attrs["to"] is FunctionType.AIC):
        freed = ring.counter(FREED, lane, crew.lanes)
        popped = ring.counter(POPPED, lane, crew.lanes)
        out = arith.sub(
            read(lowering, words_of(crew), popped), read(lowering, words_of(crew), freed)
        )
        one = lowering.scopes.constant(1, INT64)
        signal(lowering, crew, freed, arith.min_(out, one))


# ------------------------------------------------------------------------------------------ events


@lowers(sync.set_)
def lower_set(lowering: Lowering, op: Operation) -> None:
    """Adds to the event of each lane that it is for: the cube core's is for all."""
    settle(lowering)

    def add(crew: Crew, row: Expr, event: Value) -> None:
        signal(lowering, crew, row, lowering.scopes.constant(1, INT64))

    for_own_lanes(lowering, op, add, of_other_side=False)


@lowers(sync.wait)
def lower_wait(lowering: Lowering, op: Operation) -> None:
    """Waits for the other side's event on each lane, and takes it."""

    def take(crew: Crew, row: Expr, event: Value) -> None:
        taken = row + 2 * crew.lanes
        following = plus(lowering, read(lowering, words_of(crew), taken), 1)
        await_(lowering, crew, row, following, "event {1}", (event,))
        loop.store(words_of(crew), place(lowering, taken), following, None)

    for_own_lanes(lowering, op, take, of_other_side=True)


def event_of(lowering: Lowering, crew: Crew, op: Operation) -> Expr:
    """The number of an event, checked where it may be none."""
    event = expr_of(lowering.scalar(op.operands[0]))
    if less_equal(0, event) is True and less(event, crew.event_count) is True:
        return event
    scopes = lowering.scopes
    checked = loop.check_index(scopes.index(event), scopes.index(EVENTS), None)
    scopes.define(checked.symbol, checked)
    return as_expr(checked.symbol)


def for_own_lanes(
    lowering: Lowering,
    op: Operation,
    act: Callable[[Crew, Expr, Value], None],
    *,
    of_other_side: bool,
) -> None:
    """Acts on the row of an event for each lane that this participant is concerned with.

    Rows are those that the cube core sets, those that the lanes set, and how many were taken.
    """
    if not any(crew.name == "side" for crew in lowering.crews):
        return
    crew = find_crew(lowering, op, "side")
    is_lane = minimum(crew.position, 1)
    side = 1 - is_lane if of_other_side else is_lane
    event = event_of(lowering, crew, op)
    first = crew.events + event * (EVENT_ROWS * crew.lanes) + side * crew.lanes
    count = as_expr(crew.lanes) - is_lane * (crew.lanes - 1)
    offset = Symbol("lane", 0, crew.lanes - 1)

    def each() -> Sequence[Value]:
        act(crew, first + crew.lane + offset, lowering.scopes.index(event))
        return ()

    lowering.scopes.loop(count, offset, each)


# ---------------------------------------------------------------------------------------- barriers


def meet(lowering: Lowering, crew: Crew, count: Expr) -> None:
    """A barrier of `count` of the crew: arrival n goes on when its round is complete."""
    row = gate_of(lowering, crew, count)
    scopes = lowering.scopes
    arrived = signal(lowering, crew, row, scopes.constant(1, INT64))
    expected = wide(lowering, count)
    rounds = arith.add(arith.floordiv(arrived, expected), scopes.constant(1, INT64))
    what = f"all {{1}} {crew.name}s to be at the barrier"
    await_(lowering, crew, row, arith.mul(rounds, expected), what, (scopes.index(count),))


def gate_of(lowering: Lowering, crew: Crew, count: Expr) -> Expr:
    """The row of the barrier of `count`: that of the first count that is the same number."""
    gates = crew.gates
    assert gates is not None
    if not gates.counts:
        return minimum(count, crew.count + 1) + gates.first
    number = gates.counts.index(count)
    scopes = lowering.scopes
    row = scopes.index(gates.first + number)
    for k in reversed(range(number)):
        is_same = scopes.condition((Constraint.equal(gates.counts[k], count),))
        if is_same is None:
            row = scopes.index(gates.first + k)
        elif constant_of(is_same) is None:
            row = arith.select(is_same, scopes.index(gates.first + k), row)
            scopes.define(row.symbol, row)
    return expr_of(row)


@lowers(sync.all_)
def lower_all(lowering: Lowering, op: Operation) -> None:
    """A barrier of the innermost crew of blocks or lanes, or of the first of them."""
    settle(lowering)
    _, used = op.operands
    crews = [crew for crew in lowering.crews if crew.name != "side"]
    if not crews:
        return
    if used is None:
        meet(lowering, crews[-1], crews[-1].count)
        return
    count = expr_of(lowering.scalar(used))
    arms: list[Block] = []
    for takes_part in (True, False):
        block = Block()
        with lowering.scopes.inside(block):
            if takes_part:
                meet(lowering, crews[-1], count)
            control.yield_(())
        arms.append(block)
    cond = arith.lt(lowering.scopes.index(crews[-1].position), lowering.scopes.index(count))
    lowering.builder.emit(control.if_, (cond,), {}, tuple(arms), span=op.span)


@lowers(pipe.gather)
def lower_gather(lowering: Lowering, op: Operation) -> None:
    """Each lane shows its part, and all take the whole."""
    mode: SplitMode = op.attrs["mode"]
    x, _ = op.operands
    crew = find_crew(lowering, op, "lane")
    shared = Storage(crew.parts[op])
    shape = shaped(x).shape
    axis = MODE_AXES[mode]
    assert axis is not None
    axis += len(shape) - 2
    index: list[Expr] = [as_expr(0)] * len(shape)
    index[axis] = crew.position * as_expr(shape[axis])
    window = part_of(lowering, shared, index, shape)
    lowering.assign(window, x)
    finish_write(lowering)
    meet(lowering, crew, crew.count)
    value = Value(op.result.type)
    lowering.hold(value, shared)
    storage = lowering.allocate_for(op.result)
    lowering.assign(storage, value)
    settle(lowering)
    meet(lowering, crew, crew.count)
    lowering.publish(op.result, storage)
