"""Loops whose iterations run at the same time, and the memory through which these talk.

All of it is made before the loop: counters, a row of a cache line for each, rings of tiles for the
pipes of a group, room for what lanes exchange.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from math import prod
from typing import TYPE_CHECKING

from tilewright.dataclass import dataclass
from tilewright.dtypes import INT64, UINT8, DType
from tilewright.errors import ShapeMismatch, UnsupportedFeatureError
from tilewright.ir.affine import Expr, Operand, Symbol, as_expr, bounds, maximum, simplify
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import Effect, ForKind, FunctionType, SplitMode
from tilewright.ir.types import Shape
from tilewright.ops import arith, control, loop, pipe, sync
from tilewright.ops.cast import cast
from tilewright.ops.extents import expr_of
from tilewright.ops.pipe import part_shapes
from tilewright.ops.sync import EVENTS
from tilewright.passes.nodes import shaped

if TYPE_CHECKING:
    from tilewright.passes.lowering import Lowering

SLOTS = 8
"""Slots of a ring whose pipe is not set up with another number."""
EVENT_ROWS = 4
LINE = 8
ALIGNMENT = 64
CREWS = {ForKind.Spmd: "block", ForKind.SplitAiv: "lane", ForKind.Together: "side"}
Key = tuple[bool, int]
Row = Expr
ZERO = as_expr(0)
PartType = tuple[tuple[int, ...], DType]


@dataclass
class Ring:
    """The slots of one direction of a pipe, for each lane, and the rows of its counters.

    `types` are those of the tiles that it carries; where they differ, a counter for each slot
    from `notes` on says which one is in it.
    """

    slots: int
    rows: Row
    types: list[PartType] = field(default_factory=list["PartType"])
    notes: Row = ZERO
    buffer: Value | None = None

    @property
    def slot_bytes(self) -> int:
        """The room of one tile."""
        sizes = (prod(shape) * dtype.nbytes for shape, dtype in self.types)
        return -(-max(sizes) // ALIGNMENT) * ALIGNMENT

    def counter(self, which: int, lane: Expr, lanes: int) -> Row:
        """The row of how many tiles were pushed (0), popped (1) or freed (2)."""
        return self.rows + which * lanes + lane


@dataclass(frozen=True)
class Gates:
    """The rows of barriers, from `first` on: one for each number of those that meet there.

    `counts` are these numbers where they are known before the loop. Without any, there is a row
    for each number of the crew, and one for all greater ones, which never meet.
    """

    first: Row
    counts: tuple[Expr, ...]


@dataclass
class Crew:
    """Those that run one loop together: what they are called, who they are, what they share.

    `position` is which of `count` runs; the lanes of a group are its positions from 1 on. Each of
    its `event_count` events has `EVENT_ROWS` rows for each lane, from row `events` on.
    """

    name: str
    position: Expr
    count: Expr
    lanes: int = 1
    rings: dict[Key, Ring] = field(default_factory=dict[Key, Ring])
    events: Row = ZERO
    event_count: int = 0
    parts: dict[Operation, Value] = field(default_factory=dict[Operation, Value])
    gates: Gates | None = None
    rows: Row = ZERO
    words: Value | None = None

    @property
    def lane(self) -> Expr:
        """Which vector lane of the group runs; 0 on the cube core."""
        return maximum(self.position - 1, 0)

    def take_rows(self, count: Operand) -> Row:
        """The first of `count` more rows of counters."""
        first, self.rows = self.rows, self.rows + count
        return first


# ------------------------------------------------------------------------------------- what it is


def crew_name(op: Operation) -> str | None:
    """What the iterations of a loop are called when they must run at the same time, or None."""
    kind = op.attrs.get("kind")
    if kind is ForKind.Together:
        return CREWS[kind]
    if op.opdef is not control.for_ or kind not in CREWS:
        return None
    meets = any(is_meeting(inner, kind) for inner in ops_of_crew(op.regions[0]))
    return CREWS[kind] if meets else None


def is_meeting(op: Operation, kind: ForKind) -> bool:
    """True for what makes the iterations of a loop of `kind` wait for each other."""
    if op.opdef is pipe.gather:
        return kind is ForKind.SplitAiv and op.attrs["mode"] is not SplitMode.NONE
    return op.opdef is sync.all_


def ops_of_crew(block: Block) -> Iterator[Operation]:
    """The operations of a loop over blocks or lanes, but those of such loops inside it."""
    for op in block.ops:
        yield op
        if op.attrs.get("kind") not in (ForKind.Spmd, ForKind.SplitAiv):
            for region in op.regions:
                yield from ops_of_crew(region)


def ops_of_group(block: Block) -> Iterator[Operation]:
    """The operations of a group, but those of groups inside it."""
    for op in block.ops:
        yield op
        if op.attrs.get("kind") is not ForKind.Together:
            for region in op.regions:
                yield from ops_of_group(region)


def communicates(block: Block) -> bool:
    """True when something in `block` concerns other participants."""
    return any(op.opdef.effect is Effect.COMM or crew_name(op) for op in block.walk())


# ----------------------------------------------------------------------------------- what it shares


def make_crew(lowering: Lowering, op: Operation, name: str, index: Symbol) -> Crew:
    """The crew of a loop and, before the loop, the memory that it shares."""
    low, high, step = map(expr_of, op.operands[:3])
    if step != 1:
        raise UnsupportedFeatureError(
            f"{name}s that wait for each other are counted in steps of {step}", op.span
        )
    crew = Crew(name, as_expr(index) - low, high - low)
    if name == "side":
        find_pipes(crew, op)
        for ring in crew.rings.values():
            if len(ring.types) > 1:
                ring.notes = crew.take_rows(crew.lanes * ring.slots)
    else:
        find_gates(lowering, crew, op)
    make_words(lowering, crew)
    for ring in crew.rings.values():
        shape: Shape = (crew.lanes, ring.slots, ring.slot_bytes)
        ring.buffer = lowering.allocate(shape, UINT8, "ring").buffer
    return crew


def make_words(lowering: Lowering, crew: Crew) -> None:
    """Counters that are zero."""
    rows = simplify(crew.rows)
    if rows == 0:
        return
    words = crew.words = lowering.allocate((rows, LINE), INT64, "counters").buffer
    row = Symbol("w", 0, rows - 1)

    def clear() -> Sequence[Value]:
        at = lowering.scopes.indices((row, 0))
        loop.store(words, at, lowering.scopes.constant(0, INT64), None)
        return ()

    lowering.scopes.loop(rows, row, clear)


def find_gates(lowering: Lowering, crew: Crew, op: Operation) -> None:
    """Rows for barriers of any number of the crew, and room for what its lanes exchange."""
    inner = list(ops_of_crew(op.regions[0]))
    if any(each.opdef in (sync.all_, pipe.gather) for each in inner):
        crew.gates = make_gates(lowering, crew, inner)
    for each in inner:
        if each.opdef is pipe.gather and each.attrs["mode"] is not SplitMode.NONE:
            crew.parts[each] = lowering.allocate_for(each.result).buffer


def make_gates(lowering: Lowering, crew: Crew, ops: Sequence[Operation]) -> Gates:
    """Rows for the barriers among `ops`."""
    counts = [crew.count]
    for op in ops:
        used = op.operands[1] if op.opdef is sync.all_ else None
        if used is None:
            continue
        count = expr_of(used)
        if not lowering.scopes.knows(count):
            return Gates(crew.take_rows(maximum(crew.count, 0) + 2), ())
        counts.append(count)
    distinct = tuple(dict.fromkeys(counts))
    return Gates(crew.take_rows(len(distinct)), distinct)


def find_pipes(crew: Crew, op: Operation) -> None:
    """Rings for the pipes of a group, and rows for its events."""
    crew.lanes = max(1, crew.count.const - 1)
    slots: dict[int, int] = {}
    inner = list(ops_of_group(op.regions[0]))
    for each in inner:
        given = each.attrs.get("slot_num") if each.opdef is pipe.initialize else None
        if given is not None and slots.setdefault(each.attrs["id"], given) != given:
            raise UnsupportedFeatureError("the sides set a pipe up differently", each.span)
    for each in inner:
        if each.opdef in (pipe.push, pipe.pop):
            add_ring(crew, each, slots)
        elif each.opdef in (sync.set_, sync.wait):
            _, last = bounds(expr_of(each.operands[0]))
            count = EVENTS if last is None else min(EVENTS, last + 1)
            crew.event_count = max(crew.event_count, count)
    crew.events = crew.take_rows(crew.event_count * EVENT_ROWS * crew.lanes)


def add_ring(crew: Crew, op: Operation, slots: dict[int, int]) -> None:
    """The ring that a push or a pop uses."""
    key = ring_key(op)
    if key not in crew.rings:
        rows = crew.take_rows(3 * crew.lanes)
        crew.rings[key] = Ring(slots.get(op.attrs["id"], SLOTS), rows)
    types = crew.rings[key].types
    types += [part for part in dict.fromkeys(parts_of(crew, op)) if part not in types]


def ring_key(op: Operation) -> Key:
    """The direction and number of the pipe of a push, pop or free."""
    if op.opdef is pipe.pop:
        return op.attrs["source"] is FunctionType.AIC, op.attrs["id"]
    to_vector = op.attrs["to"] is FunctionType.AIV
    return to_vector if op.opdef is pipe.push else not to_vector, op.attrs["id"]


def parts_of(crew: Crew, op: Operation) -> list[PartType]:
    """What the lanes get or give of the tile of a push or pop: all of them, or the one it is on."""
    type_ = shaped(op.result if op.opdef is pipe.pop else op.operands[0])
    shape = tuple(extent for extent in type_.shape if isinstance(extent, int))
    if len(shape) != type_.rank:
        raise UnsupportedFeatureError("a tile of unknown extents is pushed", op.span)
    if not is_on_cube(op):
        return [(shape, type_.dtype)]
    try:
        shapes = part_shapes(shape, op.attrs["split"], crew.lanes)
    except ShapeMismatch as error:
        error.locate(op.span)
        raise
    return [(part, type_.dtype) for part in shapes]


def is_on_cube(op: Operation) -> bool:
    """True for a push or pop of the cube core."""
    if op.opdef is pipe.pop:
        return op.attrs["source"] is FunctionType.AIV
    return op.attrs["to"] is FunctionType.AIV


# ------------------------------------------------------------------------------------ its counters


def wide(lowering: Lowering, given: Expr) -> Value:
    """A number as counters hold it."""
    if given.is_constant:
        return lowering.scopes.constant(given.const, INT64)
    return cast(lowering.scopes.index(given), dtype=INT64)


def place(lowering: Lowering, row: Row) -> tuple[Value, ...]:
    """The indices of the counter in a row."""
    return lowering.scopes.indices((row, 0))


def read(lowering: Lowering, words: Value, row: Row) -> Value:
    """A counter that only this participant changes."""
    return loop.load(words, place(lowering, row), None)


def plus(lowering: Lowering, number: Value, more: int) -> Value:
    """A counter's value and `more`."""
    return arith.add(number, lowering.scopes.constant(more, INT64)) if more else number
