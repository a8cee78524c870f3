"""Whether the tiles of a program fit the on-chip memories of a device, before any pass has run.

Every value in a memory is counted from the operation that makes it to its last use; what is used
in a loop and made before it lives to the end of the loop. Versions of one buffer (what a write
gives, what a loop carries, what the arms of a branch yield) and views of it count once; a
conversion that one operation reads is part of that operation. Nothing is reused in place, so the
peak is what a device needs at most when it schedules in program order. An extent that only a call
knows counts as the most that it can be; where it has no bound, the tile is named as not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from math import prod

from tilewright.dataclass import dataclass
from tilewright.devices import Memory, Model, get_model
from tilewright.errors import LimitExceeded
from tilewright.ir.affine import bounds
from tilewright.ir.core import Block, Function, Operation, Program, Value
from tilewright.ir.enums import MemorySpace
from tilewright.ir.opdef import ties_of
from tilewright.ir.types import ShapedType, TileType
from tilewright.kinds import accepts
from tilewright.ops import control, elementwise, shape
from tilewright.ops.view import view
from tilewright.source import Span

VIEWS = (view, shape.reshape, shape.slice_, shape.broadcast_to, shape.reinterpret)
LARGEST_SHOWN = 4


@dataclass(frozen=True)
class Tile:
    """A buffer that is alive at a peak: its name, bytes (of a partition) and the author's line."""

    name: str
    nbytes: int
    span: Span | None


@dataclass(frozen=True)
class Peak:
    """The most that a function has in one memory at a time, where that is, and what is there."""

    function: str
    memory: Memory
    nbytes: int
    span: Span | None
    tiles: tuple[Tile, ...]

    @property
    def fits(self) -> bool:
        """True when the memory holds it."""
        return self.nbytes <= self.memory.capacity

    def __str__(self) -> str:
        memory = self.memory
        each = " per partition" if memory.partitions else ""
        line = f":{self.span.line}" if self.span else ""
        return (
            f"{self.function}{line}: {memory.name} peaks at {self.nbytes:,} of "
            f"{memory.capacity:,} bytes{each}"
        )


@dataclass(frozen=True)
class Fit:
    """How the functions of a program use a device, and the limits that they break.

    `uncounted` are tiles with an extent that has no bound; `source` says where the sizes of the
    device come from.
    """

    device: str
    peaks: tuple[Peak, ...]
    broken: tuple[LimitExceeded, ...]
    uncounted: tuple[Tile, ...] = ()
    source: str = ""

    @property
    def fits(self) -> bool:
        """True when no limit is broken."""
        return not self.broken

    def require(self) -> None:
        """Raises the first broken limit, with the others beside it."""
        if self.broken:
            first, *others = self.broken
            first.also = list(others)
            raise first

    def __str__(self) -> str:
        counted = "fits" if not self.uncounted else "fits, as far as extents are known,"
        verdict = counted if self.fits else "does not fit"
        lines = [f"{verdict} {self.device}", *(f"  {peak}" for peak in self.peaks)]
        lines += [
            f"  {tile.name} is not counted: an extent has no bound" for tile in self.uncounted
        ]
        lines += [f"  {error.message}" for error in self.broken]
        return "\n".join([*lines, f"  sizes are from: {self.source}"])


@accepts(program=Program, device=Model | str)
def fit(program: Program, device: Model | str) -> Fit:
    """How `program` uses the memories of `device` (a model, or the name of one).

    Raises ValueError for a name that no device has.
    """
    model = get_model(device) if isinstance(device, str) else device
    peaks: list[Peak] = []
    broken: list[LimitExceeded] = []
    uncounted: list[Tile] = []
    for function in program.functions.values():
        buffers = _Liveness(function, model.memories).buffers()
        broken += _too_many_partitions(function, buffers, model)
        uncounted += [buffer.tile for buffer in buffers if not buffer.is_bounded]
        for memory in model.memories.values():
            peak = _peak(function, memory, [b for b in buffers if b.memory == memory])
            if peak.nbytes:
                peaks.append(peak)
            if not peak.fits:
                broken.append(_exceeded(peak, model))
    return Fit(model.name, tuple(peaks), tuple(broken), tuple(uncounted), model.source)


# ---- buffers and how long they live --------------------------------------------------------------


@dataclass(eq=False)
class _Buffer:
    memory: Memory
    value: Value
    span: Span | None
    born: int
    dies: int
    nbytes: int = 0
    rows: int = 0
    is_bounded: bool = True

    @property
    def tile(self) -> Tile:
        return Tile(self.value.name or "a value", self.nbytes, self.span)


@dataclass
class _Liveness:
    """Numbers the operations of a function, and finds which values are one buffer."""

    function: Function
    memories: Mapping[MemorySpace, Memory]
    clock: int = 0
    made: dict[Value, tuple[int, Span | None]] = field(
        default_factory=dict[Value, "tuple[int, Span | None]"]
    )
    uses: list[tuple[Value, int, tuple[int, ...]]] = field(
        default_factory=list["tuple[Value, int, tuple[int, ...]]"]
    )
    ends: dict[int, int] = field(default_factory=dict[int, int])
    parent: dict[Value, Value] = field(default_factory=dict[Value, Value])

    def buffers(self) -> list[_Buffer]:
        """Every buffer of the function in a memory of the device, in order of birth."""
        for param in self.function.params:
            self.made[param] = (0, self.function.span)
        self._walk(self.function.body, ())
        found: dict[Value, _Buffer] = {}
        for value, (born, span) in self.made.items():
            memory = self._memory(value)
            if memory is not None:
                self._add(found, value, born, span, memory)
        self._extend(found)
        return list(found.values())

    def _walk(self, block: Block, loops: tuple[int, ...]) -> None:
        for op in block.ops:
            self.clock += 1
            now = self.clock
            self.uses.extend((value, now, loops) for value in op.inputs)
            inner = (*loops, now) if op.opdef in (control.for_, control.while_) else loops
            for region in op.regions:
                self._walk(region, inner)
            self.ends[now] = self.clock
            for result in op.results:
                self.made[result] = (now, op.span)
            self._join_versions(op)

    def _join_versions(self, op: Operation) -> None:
        for result, before in ties_of(op):
            self._join(before, result)
        if op.opdef in VIEWS or _is_read_conversion(op):
            self._join(next(iter(op.inputs)), op.results[0])
        for region in op.regions:
            self._join_region(op, region)

    def _join_region(self, op: Operation, region: Block) -> None:
        """Carried values are one buffer with what they start from, and with what comes out."""
        count = len(op.results)
        if not count:
            return
        starts = _groups(op, count)
        carried = [region.params[len(region.params) - count :]] if starts else []
        for group in (*starts, *carried, *_groups(region.terminator, count)):
            for value, result in zip(group, op.results, strict=True):
                self._join(value, result)

    def _join(self, first: Value, second: Value) -> None:
        self.parent[self._root(second)] = self._root(first)

    def _root(self, value: Value) -> Value:
        while (above := self.parent.get(value, value)) is not value:
            self.parent[value] = self.parent.get(above, above)
            value = above
        return value

    def _memory(self, value: Value) -> Memory | None:
        if not isinstance(value.type, TileType):
            return None
        space = value.type.space
        return self.memories.get(MemorySpace.Vec if space is None else space)

    def _add(
        self,
        found: dict[Value, _Buffer],
        value: Value,
        born: int,
        span: Span | None,
        memory: Memory,
    ) -> None:
        root = self._root(value)
        buffer = found.get(root)
        if buffer is None:
            buffer = found[root] = _Buffer(memory, value, span, born, born)
        if born < buffer.born:
            buffer.value, buffer.span, buffer.born = value, span, born
        buffer.dies = max(buffer.dies, born)
        assert isinstance(value.type, TileType)
        extents = largest_extents(value.type)
        if extents is None:
            buffer.is_bounded = False
            return
        rows, nbytes = extent_of(value.type, extents, memory)
        buffer.nbytes, buffer.rows = max(buffer.nbytes, nbytes), max(buffer.rows, rows)

    def _extend(self, found: dict[Value, _Buffer]) -> None:
        for value, now, loops in self.uses:
            buffer = found.get(self._root(value))
            if buffer is not None:
                outside = (loop for loop in loops if loop > buffer.born)
                loop = next(outside, None)
                buffer.dies = max(buffer.dies, now if loop is None else self.ends[loop])


def _groups(op: Operation, count: int) -> list[tuple[Value, ...]]:
    """The operands of an operation that are `count` values each."""
    groups = [tuple(e) for e in op.operands if e is not None and not isinstance(e, Value)]
    return [group for group in groups if len(group) == count]


def _is_read_conversion(op: Operation) -> bool:
    return op.opdef is elementwise.cast and not op.results[0].name


def largest_extents(type_: ShapedType) -> list[int] | None:
    """The extents, each as large as it can be; None where one has no bound."""
    found = [e if isinstance(e, int) else bounds(e)[1] for e in type_.shape]
    known = [extent for extent in found if extent is not None]
    return known if len(known) == len(found) else None


def extent_of(type_: ShapedType, extents: Sequence[int], memory: Memory) -> tuple[int, int]:
    """Partitions that a tile takes of a memory (0 where it has none), and bytes of each."""
    by_partition = bool(memory.partitions and extents)
    rows, each = (extents[0], extents[1:]) if by_partition else (0, extents)
    nbytes = -(-prod(each) * type_.dtype.bits // 8)
    return rows, -(-nbytes // memory.granule) * memory.granule


# ---- peaks ---------------------------------------------------------------------------------------


def _peak(function: Function, memory: Memory, buffers: Iterable[_Buffer]) -> Peak:
    best, at, alive, now = 0, None, dict[_Buffer, None](), 0
    there: tuple[_Buffer, ...] = ()
    for _, is_death, buffer in _events(buffers):
        if is_death:
            del alive[buffer]
            now -= buffer.nbytes
            continue
        alive[buffer] = None
        now += buffer.nbytes
        if now > best:
            best, at = now, buffer
            there = tuple(alive) if now > memory.capacity else ()
    span = at.span if at else None
    tiles = sorted((b.tile for b in there), key=lambda tile: -tile.nbytes)
    return Peak(function.name, memory, best, span, tuple(tiles))


def _events(buffers: Iterable[_Buffer]) -> Iterator[tuple[int, bool, _Buffer]]:
    """Births and deaths in order; a buffer dies after what its last use makes is born."""
    events = [(b.born, False, b) for b in buffers]
    events += [(b.dies, True, b) for _, _, b in events]
    yield from sorted(events, key=lambda event: event[:2])


def _exceeded(peak: Peak, model: Model) -> LimitExceeded:
    memory = peak.memory
    each = " per partition" if memory.partitions else ""
    error = LimitExceeded(
        f"{peak.function}: {memory.name} needs {peak.nbytes:,} bytes{each} here; "
        f"{model.name} has {memory.capacity:,}",
        peak.span,
        "Make the tiles smaller, or let fewer of them live at a time.",
    )
    for tile in peak.tiles[:LARGEST_SHOWN]:
        error.with_note(f"{tile.name} takes {tile.nbytes:,} bytes{each}", tile.span)
    return error


def _too_many_partitions(
    function: Function, buffers: Iterable[_Buffer], model: Model
) -> list[LimitExceeded]:
    return [
        LimitExceeded(
            f"{function.name}: {b.tile.name} has {b.rows} rows; a tile in {b.memory.name} of "
            f"{model.name} has at most {b.memory.partitions}",
            b.span,
            "Put the rows beyond into another tile.",
        )
        for b in buffers
        if b.memory.partitions and b.rows > b.memory.partitions
    ]
