"""What any device model says about its on-chip memories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from tilewright.dataclass import dataclass
from tilewright.ir.enums import MemorySpace

ASSUMED = "an assumption, for no document states them"


@dataclass(frozen=True)
class Memory:
    """One on-chip memory: bytes, of each partition where the first axis of a tile runs over those.

    Tiles take whole granules. `partitions` is 0 for a memory that has none.
    """

    name: str
    capacity: int
    partitions: int = 0
    granule: int = 1


@runtime_checkable
class Model(Protocol):
    """A device: its name, its on-chip memories, and where their sizes come from."""

    @property
    def name(self) -> str: ...

    @property
    def memories(self) -> Mapping[MemorySpace, Memory]: ...

    @property
    def source(self) -> str: ...


@dataclass(frozen=True)
class CoreModel:
    """A device known by the memories of its cores alone; `source` says where the sizes are from."""

    name: str
    memories: Mapping[MemorySpace, Memory]
    source: str = ASSUMED
