"""Tilewright: tile kernels in Python, compiled natively, checked against the accelerator."""

from __future__ import annotations

from tilewright.late import late

_NAMES = (
    "CacheConfig", "CompileProfiler", "CompiledProgram", "DataType", "RunConfig", "cache_stats",
    "compile", "configure_cache",
)  # fmt: skip
__getattr__, __dir__ = late(__name__, _NAMES, ("cache", "dtypes", "runtime", "jit"))
