"""What the affine engine cannot decide is counted for each kernel."""

from __future__ import annotations

import tilewright.language as pl
from tilewright.ir import Program
from tilewright.jit import compile_program

ROWS = pl.dynamic("ROWS")


@pl.function
def known(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    pl.store(pl.exp(pl.load(x, [0, 0], [8, 16])), [0, 0], out)


@pl.function
def windowed(
    x: pl.Tensor[[ROWS, 16], pl.FP32],
    first: pl.Scalar[pl.INDEX],
    out: pl.Out[pl.Tensor[[ROWS, 16], pl.FP32]],
):
    pl.store(pl.exp(pl.load(x, [first, 0], [4, 16])), [first, 0], out)


def test_a_kernel_of_known_windows_leaves_nothing_open() -> None:
    assert not compile_program(Program("P", {"known": known})).unknown_answers


def test_a_window_at_a_run_time_place_is_counted() -> None:
    answers = compile_program(Program("P", {"windowed": windowed})).unknown_answers
    assert sum(answers.values()) > 0
