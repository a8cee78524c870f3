"""Calls between the styles: an inline helper of programs in a traced kernel."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.language as pl
import tilewright.nki as nki
import tilewright.nki.language as nl
from tilewright.errors import InvalidOperationError
from tilewright.jit.driver import compile_program

X = np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8)


@pl.inline
def swish(t, beta):
    return pl.mul(t, pl.recip(pl.add(pl.exp(pl.mul(t, beta)), 1.0)))


def test_an_inline_helper_of_programs_expands_into_a_trace() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nl.store(out, swish(tile, -1.5) + tile)
        return out

    np.testing.assert_allclose(kernel(X), X / (1 + np.exp(-1.5 * X)) + X, rtol=1e-5, atol=1e-6)


def test_a_helper_is_given_tiles_not_tensors_in_hbm() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, swish(x, 1.0))
        return out

    with pytest.raises(InvalidOperationError, match="'swish' is given a tensor in HBM"):
        kernel(X)


@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) * 2.0)
    return out


traced_double = doubled.lower(X)["doubled"]


@pl.program
class Chain:
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self, x: pl.Tensor[[4, 8], pl.FP32], y: pl.Out[pl.Tensor[[4, 8], pl.FP32]]
    ) -> pl.Tensor[[4, 8], pl.FP32]:
        middle = pl.create_tensor([4, 8], dtype=pl.FP32)
        traced_double(x, middle)
        traced_double(middle, y)
        return y


def test_the_function_of_a_trace_is_called_in_a_program() -> None:
    result = compile_program(Chain)(X)
    np.testing.assert_array_equal(result, X * 4)


@pl.program
class Direct:
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[4, 8], pl.FP32]) -> pl.Tensor[[4, 8], pl.FP32]:
        middle = doubled(x)
        y = doubled(middle)
        return y  # noqa: RET504


def test_a_traced_kernel_is_called_in_a_program() -> None:
    np.testing.assert_array_equal(compile_program(Direct)(X), X * 4)
