"""Tilewright: tile kernels in Python, compiled natively, checked against the accelerator."""

from __future__ import annotations

import importlib
from typing import Any

_ROOMS = frozenset(
    (
        "cache", "dist", "dtypes", "errors", "interp", "ir", "jit", "language", "nki", "passes",
        "runtime", "settings", "testing",
    )
)  # fmt: skip
_HOMES = {
    "CacheConfig": "cache",
    "CompileProfiler": "runtime",
    "CompiledProgram": "jit",
    "DataType": "dtypes",
    "RunConfig": "runtime",
    "cache_stats": "cache",
    "compile": "jit",
    "configure_cache": "cache",
}


def __getattr__(name: str) -> Any:
    """Rooms are imported when they are first named, so that `import tilewright` costs nothing."""
    if name in _ROOMS:
        return importlib.import_module(f"tilewright.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(f"tilewright.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'tilewright' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS, *_HOMES})
