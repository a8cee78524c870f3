"""How the tests here run programs: interpreted by several participants, natively, or checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import interp, ir
from tilewright.interp import Interpreter
from tilewright.ir.core import Program
from tilewright.ir.verifier import verify
from tilewright.jit.kernels import NativeKernel
from tilewright.passes.pipeline import lower
from tilewright.runtime import DistributedConfig


def run(program: Program, *args: Any, entry: str = "main", **options: Any) -> tuple[Any, ...]:
    """One interpreted call of a verified program."""
    return Interpreter(verify(program), **options).run(entry, args)


def run_on_ranks(program: Program, *args: Any, ranks: int = 1) -> None:
    """One call in which every rank runs machine code."""
    config = DistributedConfig(device_ids=list(range(ranks)))
    made: Any = ir.compile(program, distributed_config=config)
    assert made.kernel.together.is_compiled, made.explain()
    made(*args)


def compiled(program: Program) -> Any:
    """A program as one kernel in machine code."""
    made = ir.compile(program)
    assert isinstance(made.kernel, NativeKernel), made.explain()
    return made


def run_compiled(program: Program, *args: Any) -> None:
    """One call in machine code."""
    compiled(program)(*args)


def run_lowered(program: Program, *args: Any) -> None:
    """One interpreted call of the loops."""
    interp.run(lower(program, "main"), "main", args)


RUNNERS = (run, run_lowered, run_compiled)
"""Every way to run a program; all give the same."""
RANKED = (run, run_on_ranks)
"""Every way to run a program of several ranks."""


def array(*shape: int, seed: int = 0) -> Any:
    """Small random floats."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def zeros(*shape: int) -> Any:
    """Where results go."""
    return np.zeros(shape, np.float32)


Run = Callable[..., object]


def each_of(ways: tuple[Run, ...]) -> Any:
    """A fixture: each of some ways to run a program; all give the same."""

    @pytest.fixture(params=ways, ids=lambda way: way.__name__)
    def run(request: pytest.FixtureRequest) -> Any:
        return request.param

    return run
