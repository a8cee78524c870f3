"""The driver: from an author's function or program to a callable, and its caches."""

from tilewright.jit._arguments import RUNTIME, constexpr
from tilewright.jit.compiled import CompiledProgram
from tilewright.jit.decorator import JITFunction, jit
from tilewright.jit.driver import compile, compile_program
from tilewright.jit.options import CompileProfiler

__all__ = [
    "RUNTIME",
    "CompileProfiler",
    "CompiledProgram",
    "JITFunction",
    "compile",
    "compile_program",
    "constexpr",
    "jit",
]
