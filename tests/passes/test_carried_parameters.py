"""A parameter that a loop rebinds by value is read, not written; one that it writes is written."""

from __future__ import annotations

import numpy as np

import tilewright.language as pl
from tilewright.ir import Program
from tilewright.jit import compile_program


@pl.function
def rebinds(
    acc: pl.InOut[pl.Tensor[[4, 8], pl.FP32]],
    x: pl.Tensor[[4, 8], pl.FP32],
    out: pl.Out[pl.Tensor[[4, 8], pl.FP32]],
):
    for _i in pl.range(3):
        acc = pl.add(acc, x)
    out[:] = acc


@pl.function
def writes(acc: pl.InOut[pl.Tensor[[4, 8], pl.FP32]], x: pl.Tensor[[4, 8], pl.FP32]):
    for _i in pl.range(3):
        acc[:] = pl.add(acc, x)


def ones(value: float = 1.0) -> np.ndarray:
    return np.full((4, 8), value, np.float32)


def test_a_parameter_rebound_by_value_keeps_its_contents() -> None:
    acc, out = ones(), np.zeros((4, 8), np.float32)
    compile_program(Program("P", {"rebinds": rebinds}), "rebinds")(acc, ones(2.0), out)
    np.testing.assert_array_equal(acc, ones())
    np.testing.assert_array_equal(out, ones(7.0))


def test_a_parameter_written_in_a_loop_is_written() -> None:
    acc = ones()
    compile_program(Program("P", {"writes": writes}), "writes")(acc, ones(2.0))
    np.testing.assert_array_equal(acc, ones(7.0))
