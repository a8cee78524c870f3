"""Loops whose bounds and step are run-time values run as often as Python's range."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright.errors import ZeroStep
from tilewright.runtime import RunConfig

LEAST, MOST = -(2**63), 2**63 - 1
EDGES = [LEAST, LEAST + 1, -9, -1, 0, 1, 8, MOST - 1, MOST]
FEW = 20


@pl.jit
def visited(
    seen: pl.InOut[pl.Tensor[[2], pl.INT64]],
    start: pl.Scalar[pl.INT64],
    stop: pl.Scalar[pl.INT64],
    step: pl.Scalar[pl.INT64],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(start, stop, step):
            pl.write(seen, [0], pl.read(seen, [0]) + 1)
            pl.write(seen, [1], i)
    return seen


@pl.jit
def visited_in_any_order(
    seen: pl.InOut[pl.Tensor[[16], pl.INT64]],
    start: pl.Scalar[pl.INT64],
    stop: pl.Scalar[pl.INT64],
    step: pl.Scalar[pl.INT64],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(start, stop, step):
            pl.write(seen, [i], i + 1)
    return seen


def config_of(execution: str) -> RunConfig | None:
    return RunConfig(execution="interpret") if execution == "interpret" else None


def cases() -> list[Any]:
    steps = [step for step in EDGES if step]
    few = [range(*each) for each in itertools.product(EDGES, EDGES, steps)]
    return [each for each in few if (each.stop - each.start) // each.step < FEW]


@pytest.mark.parametrize("execution", ["native", "interpret"])
def test_a_loop_runs_as_often_as_a_range(execution: str) -> None:
    config = config_of(execution)
    for steps in cases():
        seen = np.zeros(2, np.int64)
        visited(seen, steps.start, steps.stop, steps.step, config=config)
        assert seen[0] == len(steps) and (not steps or seen[1] == steps[-1]), steps


@pytest.mark.parametrize("step", [-5, -3, 1, 2, 7, MOST, LEAST])
def test_a_parallel_loop_visits_what_a_range_does(step: int) -> None:
    for start, stop in itertools.product(range(16), range(16)):
        seen = visited_in_any_order(np.zeros(16, np.int64), start, stop, step)
        assert [int(each) - 1 for each in seen if each] == sorted(range(start, stop, step))


@pytest.mark.parametrize("execution", ["native", "interpret"])
@pytest.mark.parametrize("kernel", [visited, visited_in_any_order])
@pytest.mark.parametrize("stop", [-4, 0, 8])
def test_a_step_of_zero_is_refused_at_its_line(kernel: Any, execution: str, stop: int) -> None:
    seen = np.zeros(2 if kernel is visited else 16, np.int64)
    with pytest.raises(ZeroStep, match="the step of a loop is 0") as raised:
        kernel(seen, 0, stop, 0, config=config_of(execution))
    assert "start, stop, step):" in str(raised.value) and isinstance(raised.value, ValueError)
    assert not seen.any()
