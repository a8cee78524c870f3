"""The driver: from an author's function or program to a callable, and its caches."""

from tilewright.jit.compiled import CompiledProgram
from tilewright.jit.driver import compile, compile_program

__all__ = ["CompiledProgram", "compile", "compile_program"]
