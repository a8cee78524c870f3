"""Long programs: lowering takes a time in proportion, counted in calls of Python functions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from passes.programs import (
    IN,
    INOUT,
    add,
    check,
    exp,
    kernel,
    lanes,
    load,
    lowered,
    mul,
    row_max,
    store,
    sub,
    tensor,
)
from tilewright.dtypes import BF16, FP32
from tilewright.ir import builder
from tilewright.ir.core import Program, Value
from tilewright.ops import elementwise, matmul, shape
from tilewright.passes.pipeline import lower

ROWS, COLUMNS = 64, 48
PARAMS = [
    ("x", tensor(ROWS, COLUMNS), IN),
    ("y", tensor(ROWS, COLUMNS), IN),
    ("out", tensor(ROWS, COLUMNS), INOUT),
]
Step = Callable[[Value, Value, Value, int], tuple[Value, Value]]


def repeated(step: Step, times: int) -> Program:
    """`(value, out) = step(value, y, out, number)` a number of times, then `value` is stored."""

    def body(x: Value, y: Value, out: Value) -> list[Value]:
        value = load(x, [0, 0], (ROWS, COLUMNS))
        for number in range(times):
            value, out = step(value, y, out, number)
            value.name = f"t{number}"
        return [store(value, [0, 0], out)]

    return kernel(PARAMS, body)


def chain(value: Value, y: Value, out: Value, number: int) -> tuple[Value, Value]:
    return (add, mul, sub)[number % 3](value, y), out


def softened(value: Value, y: Value, out: Value, number: int) -> tuple[Value, Value]:
    return exp(sub(value, row_max(value))), out


def converted(value: Value, y: Value, out: Value, number: int) -> tuple[Value, Value]:
    return elementwise.cast(value, dtype=(BF16, FP32)[number % 2]), out


def turned(value: Value, y: Value, out: Value, number: int) -> tuple[Value, Value]:
    return shape.transpose(shape.transpose(value, perm=(1, 0)), perm=(1, 0)), out


def written_apart(value: Value, y: Value, out: Value, number: int) -> tuple[Value, Value]:
    return value, store(load(y, [0, 0], (1, 8)), [number % 64, number // 64 * 8], out)


def written_over(value: Value, y: Value, out: Value, number: int) -> tuple[Value, Value]:
    part = load(out, [number % 7, 0], (8, COLUMNS))
    return value, store(add(part, part), [number % 5, 0], out)


def multiplied(value: Value, y: Value, out: Value, number: int) -> tuple[Value, Value]:
    return matmul.matmul(matmul.matmul(value, y, b_trans=True), y), out


STEPS = [chain, softened, converted, turned, written_apart, written_over]


@pytest.fixture
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished programs are not printed and parsed again."""
    monkeypatch.setattr(builder, "FINISH_HOOKS", [])


def calls(given: Program) -> int:
    """How many Python functions are called while `given` is lowered."""
    count = 0

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        lower(given, "k")
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize("step", [*STEPS, multiplied])
def test_four_times_as_many_operations_take_four_times_as_long(step: Step) -> None:
    lower(repeated(step, 8), "k")  # what is found once has been found
    few, many = (calls(repeated(step, times)) for times in (80, 320))
    assert many < 4.4 * few


@pytest.mark.usefixtures("unwatched")
def test_one_more_operation_of_a_chain_takes_few_calls() -> None:
    lower(repeated(chain, 8), "k")
    assert calls(repeated(chain, 330)) - calls(repeated(chain, 30)) < 300 * 110


@pytest.mark.parametrize("step", STEPS)
def test_long_chains_mean_the_same_when_lowered(step: Step) -> None:
    check(repeated(step, 70))


@pytest.mark.usefixtures("unwatched")
def test_a_long_chain_of_rearrangements_is_not_too_deep() -> None:
    assert lanes(lowered(repeated(turned, 500))) > 1


def test_a_long_chain_is_one_loop_and_prints() -> None:
    function = lowered(repeated(chain, 500))
    assert lanes(function) == 1
    assert len(function.as_python().splitlines()) > 20
