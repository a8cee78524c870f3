# ruff: noqa: RET504  (kernels are language, not Python)
"""Work in an orchestration stands in a scope that gives it a core."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import errors

F32 = np.float32


def test_work_outside_a_scope_is_refused_at_its_line() -> None:
    @pl.jit
    def k(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
        y = pl.exp(x)
        out[:] = pl.add(y, x)
        return out

    with pytest.raises(errors.PartialCodegenError) as caught:
        k.compile()
    assert "Misplaced tensor op 'exp'" in str(caught.value)
    assert "should be inside InCore block" in str(caught.value)
    assert len(caught.value.also) == 1
    span = caught.value.span
    assert span is not None and span.file == __file__


@pl.jit.incore
def doubled(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
    pl.store(pl.mul(pl.load(x, [0, 0], [8, 8]), 2.0), [0, 0], out)
    return out


@pl.jit
def calls(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
    temporary = pl.create_tensor([8, 8], dtype=pl.FP32)
    temporary = doubled(x, temporary)
    out = doubled(temporary, out)
    return out


@pl.jit
def loops(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
    for i in pl.range(8):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.load(x, [i, 0], [1, 8]), [i, 0], out)
    return out


@pytest.mark.parametrize(("kernel", "factor"), [(calls, 4), (loops, 1)])
def test_work_in_kernels_and_scopes_is_fine(kernel: Any, factor: int) -> None:
    x = np.random.default_rng(0).random((8, 8), F32)
    out = np.zeros_like(x)
    kernel(x, out)
    np.testing.assert_array_equal(out, x * factor)
