"""Object bytes to something Python can call: load, check arguments, launch, report faults."""

from tilewright.runtime.config import (
    BackendType,
    DistributedConfig,
    ExecutionMode,
    MemoryPlanner,
    OptimizationStrategy,
    PassDumpLevel,
    RunConfig,
    RuntimeKind,
)
from tilewright.runtime.profiling import CompileProfiler

__all__ = [
    "BackendType",
    "CompileProfiler",
    "DistributedConfig",
    "ExecutionMode",
    "MemoryPlanner",
    "OptimizationStrategy",
    "PassDumpLevel",
    "RunConfig",
    "RuntimeKind",
]
