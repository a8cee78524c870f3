"""The driver: from an author's function or program to a callable, and its caches."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.jit import build, making
    from tilewright.jit._arguments import RUNTIME, constexpr
    from tilewright.jit.compiled import CompiledProgram
    from tilewright.jit.decorator import JITFunction, jit
    from tilewright.jit.distributed import DistributedCompiledProgram
    from tilewright.jit.driver import compile, compile_program
    from tilewright.runtime.profiling import CompileProfiler

_HOMES = {
    "RUNTIME": "_arguments",
    "CompileProfiler": "options",
    "CompiledProgram": "compiled",
    "DistributedCompiledProgram": "distributed",
    "JITFunction": "decorator",
    "compile": "driver",
    "compile_program": "driver",
    "constexpr": "_arguments",
    "jit": "decorator",
}


_MODULES = frozenset({"build", "making"})
"""What compiles: a process that finds its kernels on disk imports neither."""


def __getattr__(name: str) -> Any:
    """A module is imported when a name of its is first wanted, so that none drags in the rest."""
    if name in _MODULES:
        return importlib.import_module(f"tilewright.jit.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'tilewright.jit' has no attribute '{name}'")
    return getattr(importlib.import_module(f"tilewright.jit.{_HOMES[name]}"), name)


__all__ = [
    "RUNTIME",
    "CompileProfiler",
    "CompiledProgram",
    "DistributedCompiledProgram",
    "JITFunction",
    "build",
    "compile",
    "compile_program",
    "constexpr",
    "jit",
    "making",
]
