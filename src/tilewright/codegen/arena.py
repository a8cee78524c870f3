"""Where scratch buffers lie in the arena: first fit, each free again after its last use.

Offsets are fixed before anything is written. Inner blocks use what is free at their operation, so
two buffers share bytes only if their lifetimes do not meet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from tilewright.dataclass import dataclass
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.types import BufferType
from tilewright.ops import loop

ALIGNMENT = 64

SizeOf = Callable[[Operation], int | None]


def aligned(size: int) -> int:
    """`size` rounded up to the alignment of the arena."""
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass(slots=True)
class Layout:
    """`offsets` and `sizes` of the operations that need scratch, and the bytes of all of them;
    behind these are the buffers of `dynamic`, elsewhere those of `lent`."""

    offsets: dict[Operation, int] = field(default_factory=dict[Operation, int])
    sizes: dict[Operation, int] = field(default_factory=dict[Operation, int])
    dynamic: list[Operation] = field(default_factory=list[Operation])
    lent: list[Operation] = field(default_factory=list[Operation])
    size: int = 0

    def plan(self) -> str:
        """What lies where, a line for each buffer; those that share bytes never live together."""
        lines = [f"{self.size:,} bytes of scratch memory"]
        for op, start in self.offsets.items():
            lines.append(f"{start:>9,} .. {start + self.sizes[op] - 1:>9,}  {_described(op)}")
        lines += [f"{'after these, by extent':>22}  {_described(op)}" for op in self.dynamic]
        lines += [f"{'lent where it is made':>22}  {_described(op)}" for op in self.lent]
        return "".join(f"; {line}\n" for line in lines) if len(lines) > 1 else ""


def _described(op: Operation) -> str:
    """The buffer that an operation makes, or the operation that needs one, and the line."""
    what = op.opdef.name
    if op.opdef is loop.alloc:
        extents = ", ".join(map(str, op.attrs["shape"]))
        what = f"{op.result.name or 'unnamed'}: {op.attrs['dtype'].name}[{extents}]"
    return what if op.span is None else f"{what}, line {op.span.line}"


@dataclass(slots=True)
class _Busy:
    """Bytes [start, stop) in use until operation number `last` of the block."""

    start: int
    stop: int
    last: int


def assign_offsets(
    block: Block, size_of: SizeOf, until: Mapping[Operation, Operation] | None = None
) -> Layout:
    """Offsets for every operation of `block`, and of the blocks in it, that needs scratch.

    `size_of` gives the bytes an operation needs: 0 for none, None if only run time knows; those are
    listed in `dynamic`. What an operation of `until` uses is in use until a later one is done.
    """
    layout = Layout()
    _assign(block, size_of, until or {}, [], layout)
    return layout


def _assign(
    block: Block,
    size_of: SizeOf,
    until: Mapping[Operation, Operation],
    outer: list[_Busy],
    layout: Layout,
) -> None:
    ends = _ends(block, until)
    last_use = _last_uses(block, ends)
    busy: list[_Busy] = []
    for number, op in enumerate(block.ops):
        busy = [b for b in busy if b.last >= number]
        size = size_of(op)
        if size is None:
            layout.dynamic.append(op)
        elif size:
            last = max((last_use.get(value, number) for value in op.results), default=ends[number])
            busy.append(_place(op, size, last, outer + busy, layout))
        for region in op.regions:
            _assign(region, size_of, until, outer + busy, layout)


def _place(op: Operation, size: int, last: int, taken: list[_Busy], layout: Layout) -> _Busy:
    """The first gap between the bytes in use."""
    start, size = 0, aligned(size)
    for other in sorted(taken, key=lambda b: b.start):
        if start + size <= other.start:
            break
        start = max(start, other.stop)
    layout.offsets[op], layout.sizes[op] = start, size
    layout.size = max(layout.size, start + size)
    return _Busy(start, start + size, last)


def _ends(block: Block, until: Mapping[Operation, Operation]) -> list[int]:
    """For each operation, the number of the one after which it is done."""
    if not until:
        return list(range(len(block.ops)))
    numbers = {op: number for number, op in enumerate(block.ops)}
    return [numbers[until.get(op, op)] for op in block.ops]


def _last_uses(block: Block, ends: list[int]) -> dict[Value, int]:
    """The number of the last operation of `block` that touches each scratch buffer made in it."""
    roots: dict[Value, Value] = {}
    last: dict[Value, int] = {}
    for number, op in enumerate(block.ops):
        for inner in _with_regions(op):
            for value in inner.inputs:
                root = roots.get(value)
                if root is not None:
                    last[root] = max(ends[number], last.get(root, 0))
            _follow(inner, roots)
    return last


def _with_regions(op: Operation) -> list[Operation]:
    """An operation and everything inside it."""
    return [op, *(inner for region in op.regions for inner in region.walk())]


def _follow(op: Operation, roots: dict[Value, Value]) -> None:
    """Which buffers are views of which scratch."""
    if op.opdef is loop.alloc:
        roots[op.result] = op.result
    elif op.results and isinstance(op.results[0].type, BufferType):
        for value in op.inputs:
            if value in roots:
                roots[op.result] = roots[value]
