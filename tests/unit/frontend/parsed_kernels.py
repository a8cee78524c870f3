"""What the tests of the parsed style share: print → parse → compare, verify, run."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright.language as pl
from tilewright import ir
from tilewright.interp import run
from tilewright.ir.builder import finish_program
from tilewright.ir.core import Function, Program


def as_program(node: Function | Program) -> Program:
    """A function and what it calls as a program."""
    if isinstance(node, Program):
        return node
    functions = {**node.callees, node.name: node}
    return finish_program("Alone", functions)


def settled(node: Any) -> Any:
    """`node`, after its text has been read back, compared and verified."""
    text = node.as_python()
    again = pl.parse(text)
    ir.assert_structural_equal(node, again)
    assert again.as_python() == text
    ir.verify(as_program(node))
    return node


def execute(node: Function | Program, *args: Any, entry: str | None = None) -> Any:
    """Runs a function in the interpreter, after `settled`."""
    settled(node)
    name = entry or (node.name if isinstance(node, Function) else "main")
    results = run(as_program(node), name, args)
    return results[0] if len(results) == 1 else results


def array(*shape: int, seed: int = 0) -> Any:
    """Small random floats."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
