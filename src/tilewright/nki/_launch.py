"""How a traced program runs: one function, which everything that launches goes through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.interp import Interpreter
from tilewright.ir.core import Program


def prepare(program: Program) -> Callable[[Sequence[Any]], None]:
    """The only function of `program`, ready to run on arrays, one per parameter."""
    (entry,) = program.functions
    ready = Interpreter(program)

    def launch(arrays: Sequence[Any]) -> None:
        ready.run(entry, arrays)

    return launch
