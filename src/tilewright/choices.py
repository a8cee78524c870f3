"""The choices that select how a program is compiled, and for what."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import ClassVar, Generic, TypeVar

from tilewright.kinds import required

E = TypeVar("E", bound=Enum)

__all__ = [
    "BackendType",
    "EnumSet",
    "ExecutionMode",
    "MemoryPlanner",
    "OptimizationStrategy",
    "PassDumpLevel",
    "RuntimeKind",
]


class EnumSet(Generic[E]):
    """A set of members of an enumeration, as settings take it; raises TypeError for others."""

    kind: ClassVar[type[Enum]] = Enum

    def __init__(self, members: Iterable[E] = ()) -> None:
        self._members = required(set(members), [self.kind], f"{type(self).__name__} takes")

    def insert(self, member: E) -> None:
        """Adds `member`."""
        self._members.add(required(member, self.kind, f"{type(self).__name__} takes"))

    def remove(self, member: E) -> None:
        """Takes `member` out; nothing happens when it is not in the set."""
        self._members.discard(member)

    def contains(self, member: E) -> bool:
        """True when `member` is in the set."""
        return member in self._members

    def __contains__(self, member: object) -> bool:
        return member in self._members

    def __len__(self) -> int:
        return len(self._members)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._members == other._members

    def __hash__(self) -> int:
        return hash(frozenset(self._members))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({sorted(member.name for member in self._members)})"


class BackendType(Enum):
    """Accelerator family whose limits are checked; every one runs on the CPU backend."""

    Ascend910B = "Ascend910B"
    Ascend950 = "Ascend950"


class ExecutionMode(Enum):
    """Whether the target is a simulator or a board; both run on the CPU backend."""

    SIMULATOR = "simulator"
    ONBOARD = "onboard"


class OptimizationStrategy(Enum):
    """Which pipeline of passes runs; both are the same passes here."""

    Default = "Default"
    DebugTileOptimization = "DebugTileOptimization"


class PassDumpLevel(Enum):
    """How much of the program is written after each pass."""

    NONE = 0
    CONCISE = 1
    EXPLICIT = 2


class MemoryPlanner(Enum):
    """Who assigns addresses of on-chip memory: a part of the key, and no more here."""

    PYPTO = "PYPTO"
    PTOAS = "PTOAS"


class RuntimeKind(Enum):
    """Which orchestration runtime the program is built for."""

    TENSORMAP_AND_RINGBUFFER = "tensormap_and_ringbuffer"
    HOST_BUILD_GRAPH = "host_build_graph"
    AICPU_BUILD_GRAPH = "aicpu_build_graph"
