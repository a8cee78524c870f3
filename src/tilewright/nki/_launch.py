"""How a traced program runs: one function, which everything that launches goes through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.interp import Interpreter
from tilewright.ir.core import Program
from tilewright.jit.driver import compile_program

Launch = Callable[[Sequence[Any]], None]


def prepare(program: Program) -> Launch:
    """The only function of `program`, compiled, ready to run on arrays, one per parameter."""
    (entry,) = program.functions
    compiled = compile_program(program, entry)

    def launch(arrays: Sequence[Any]) -> None:
        compiled(*arrays)

    return launch


def interpret(program: Program) -> Launch:
    """The same, run by the interpreter: the simulator."""
    (entry,) = program.functions
    ready = Interpreter(program)

    def launch(arrays: Sequence[Any]) -> None:
        ready.run(entry, arrays)

    return launch
