"""The choices that select how a program is compiled, and for what."""

from __future__ import annotations

from enum import Enum

__all__ = [
    "BackendType",
    "ExecutionMode",
    "MemoryPlanner",
    "OptimizationStrategy",
    "PassDumpLevel",
    "RuntimeKind",
]


class BackendType(Enum):
    """Accelerator family whose limits are checked; every one runs on the CPU backend."""

    Ascend910B = "Ascend910B"
    Ascend950 = "Ascend950"


class ExecutionMode(Enum):
    """Whether the target is a simulator or a board; both run on the CPU backend."""

    SIMULATOR = "simulator"
    ONBOARD = "onboard"


class OptimizationStrategy(Enum):
    """Which pipeline of passes runs."""

    Default = "Default"
    DebugTileOptimization = "DebugTileOptimization"


class PassDumpLevel(Enum):
    """How much of the program is written after each pass."""

    NONE = 0
    CONCISE = 1
    EXPLICIT = 2


class MemoryPlanner(Enum):
    """Who assigns addresses of on-chip memory."""

    PYPTO = "PYPTO"
    PTOAS = "PTOAS"


class RuntimeKind(Enum):
    """Which orchestration runtime the program is built for."""

    TENSORMAP_AND_RINGBUFFER = "tensormap_and_ringbuffer"
    HOST_BUILD_GRAPH = "host_build_graph"
    AICPU_BUILD_GRAPH = "aicpu_build_graph"
