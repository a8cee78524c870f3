"""How the tests here run programs: interpreted by several participants, natively, or checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.interp import Interpreter
from tilewright.ir.core import Program
from tilewright.ir.verify import verify


def run(program: Program, *args: Any, entry: str = "main", **options: Any) -> tuple[Any, ...]:
    """One interpreted call of a verified program."""
    return Interpreter(verify(program), **options).run(entry, args)


def array(*shape: int, seed: int = 0) -> Any:
    """Small random floats."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def zeros(*shape: int) -> Any:
    """Where results go."""
    return np.zeros(shape, np.float32)
