"""Object bytes to something Python can call: load, check arguments, launch, report faults."""

from typing import TYPE_CHECKING

from tilewright.late import late
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

if TYPE_CHECKING:
    from tilewright.runtime import entry as entry
    from tilewright.runtime import pool as pool
    from tilewright.runtime import results as results
    from tilewright.runtime import stage as stage

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

__getattr__, __dir__ = late(__name__)
