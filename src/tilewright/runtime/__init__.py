"""Object bytes to something Python can call: load, check arguments, launch, report faults."""

from tilewright.runtime.config import (
    BackendType,
    ExecutionMode,
    MemoryPlanner,
    OptimizationStrategy,
    PassDumpLevel,
    RunConfig,
    RuntimeKind,
)

__all__ = [
    "BackendType",
    "ExecutionMode",
    "MemoryPlanner",
    "OptimizationStrategy",
    "PassDumpLevel",
    "RunConfig",
    "RuntimeKind",
]
