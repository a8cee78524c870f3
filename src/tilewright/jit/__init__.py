"""The driver: from an author's function or program to a callable, and its caches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.late import late

if TYPE_CHECKING:
    from tilewright.jit import build as build
    from tilewright.jit import comparing as comparing
    from tilewright.jit import explaining as explaining
    from tilewright.jit import making as making
    from tilewright.jit import output as output
    from tilewright.jit import parts as parts
    from tilewright.jit import saving as saving
    from tilewright.jit import validating as validating
    from tilewright.jit._arguments import RUNTIME, constexpr
    from tilewright.jit.compiled import CompiledProgram
    from tilewright.jit.decorator import JITFunction, jit
    from tilewright.jit.distributed import DistributedCompiledProgram
    from tilewright.jit.driver import compile, compile_program
    from tilewright.runtime.profiling import CompileProfiler

__all__ = [
    "RUNTIME",
    "CompileProfiler",
    "CompiledProgram",
    "DistributedCompiledProgram",
    "JITFunction",
    "compile",
    "compile_program",
    "constexpr",
    "jit",
]

_HOMES = ("_arguments", "options", "decorator", "compiled", "distributed", "driver")
__getattr__, __dir__ = late(__name__, __all__, _HOMES)
