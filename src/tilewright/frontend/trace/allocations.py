"""Explicit allocations: where tensors lie on the chip, and which are overwritten while in use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from tilewright.dataclass import dataclass
from tilewright.errors import TilewrightError
from tilewright.errors.nki_memory import ALLOCATION_OVERLAP
from tilewright.ir.enums import MemorySpace
from tilewright.source import Span

if TYPE_CHECKING:
    from tilewright.frontend.trace.roots import Root
    from tilewright.frontend.trace.scopes import DeviceRegion


@dataclass(frozen=True)
class Rectangle:
    """Partitions and bytes of one on-chip memory; ends are exclusive, banks follow each other."""

    space: MemorySpace
    partition: int
    end_partition: int
    byte: int
    end_byte: int

    def meets(self, other: Rectangle) -> bool:
        """True when both have a byte of a partition in common."""
        return (
            self.space is other.space
            and self.partition < other.end_partition
            and other.partition < self.end_partition
            and self.byte < other.end_byte
            and other.byte < self.end_byte
        )

    def __str__(self) -> str:
        partitions = f"partitions {self.partition} to {self.end_partition - 1}"
        return f"{partitions}, bytes {self.byte} to {self.end_byte - 1}"


@dataclass(frozen=True)
class Use:
    """A read or write of an allocated tensor: when, in which loops, and where the author was."""

    root: Root
    time: int
    loops: tuple[DeviceRegion, ...]
    span: Span | None


@dataclass
class Uses:
    """What a trace does with allocated tensors, in order."""

    reads: list[Use] = field(default_factory=list[Use])
    writes: list[Use] = field(default_factory=list[Use])

    def read(self, root: Root, loops: Sequence[DeviceRegion], span: Span | None) -> None:
        """Notes that `root` is read now."""
        self.reads.append(Use(root, self._now, tuple(loops), span))

    def write(self, root: Root, loops: Sequence[DeviceRegion], span: Span | None) -> None:
        """Notes that `root` is written now."""
        self.writes.append(Use(root, self._now, tuple(loops), span))

    @property
    def _now(self) -> int:
        return len(self.reads) + len(self.writes)

    def overlaps(self) -> Iterator[TilewrightError]:
        """An error for each tensor that is written where another is that is still read.

        A tensor made before a loop and read in it is in use throughout the loop.
        """
        by_root: dict[Root, list[Use]] = {}
        for write in self.writes:
            by_root.setdefault(write.root, []).append(write)
        found: set[tuple[Root, Root]] = set()
        for read in self.reads:
            for other, writes in by_root.items():
                shared = None if other is read.root else _common(read.root, other)
                if shared is None or (read.root, other) in found:
                    continue
                for write in writes:
                    if _spoils(write, read, by_root.get(read.root, ())):
                        found.add((read.root, other))
                        yield _overlap(write, read, shared)
                        break


def _common(one: Root, other: Root) -> Rectangle | None:
    pairs = ((a, b) for a in one.places for b in other.places)
    return next((a for a, b in pairs if a.meets(b)), None)


def _spoils(write: Use, read: Use, own: Sequence[Use]) -> bool:
    """True when `write` comes between what `read` reads and `read`."""
    before = [use for use in own if use.time < read.time]
    made = before[-1] if before else None
    since = -1 if made is None else made.time
    if since < write.time < read.time:
        return True
    around = () if made is None else made.loops
    repeated = [loop for loop in read.loops if loop not in around]
    return any(loop in write.loops for loop in repeated)


def _overlap(write: Use, read: Use, shared: Rectangle) -> TilewrightError:
    fields = {"name": write.root.label, "other": read.root.label, "where": str(shared)}
    error = ALLOCATION_OVERLAP(span=write.span, **fields)
    return error.with_note(f"'{read.root.label}' is read here", read.span)
