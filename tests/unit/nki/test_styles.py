"""Calls between the styles: an inline helper of programs in a traced kernel."""

from __future__ import annotations

from typing import Any

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


@pl.jit.inline
def attend(score, top):
    """The next running maximum and the weights."""
    highest = pl.maximum(top, pl.row_max(score))
    return highest, pl.exp(pl.row_expand_sub(score, highest))


@pl.function
def shifted(x: pl.Tile[[4, 8], pl.FP32], by: pl.Scalar[pl.FP32]) -> pl.Tile[[4, 8], pl.FP32]:
    return pl.add(x, by)


@pl.function
def halve_rows(
    x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]
) -> pl.Tensor[[4, 8], pl.FP32]:
    for i in pl.range(4):
        out = pl.store(pl.mul(pl.load(x, [i, 0], [1, 8]), 0.5), [i, 0], out)
    return out


@pl.jit
def launched(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.load(x, [0, 0], [4, 8]), [0, 0], out)
    return out


def test_an_inline_helper_of_the_jit_is_expanded_in_every_iteration() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(2):
            rows = nl.ds(i * 2, 2)
            top, weights = attend(nl.load(x[rows]), nl.full((2, 1), -9.0, dtype=nl.float32))
            nl.store(out[rows], weights * top)
        return out

    top = X.max(1, keepdims=True)
    np.testing.assert_allclose(kernel(X), np.exp(X - top) * top, rtol=1e-5, atol=1e-6)
    with pytest.raises(InvalidOperationError, match="cannot be called from Python"):
        attend(X, X)


def test_functions_of_programs_are_copied_into_a_trace() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        half = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        halve_rows(x, half)
        nl.store(out, shifted(nl.load(half) + nl.load(x), 2.0))
        return out, half

    out, half = kernel(X)
    np.testing.assert_array_equal(half, X / 2)
    np.testing.assert_array_equal(out, X / 2 + X + 2)


def refused(body: Any) -> str:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        body(out, x)
        return out

    with pytest.raises(InvalidOperationError) as caught:
        kernel(X)
    assert caught.value.span is not None and caught.value.span.file == __file__
    return caught.value.message


def test_calls_that_do_not_fit_are_refused_at_the_authors_line() -> None:
    assert "takes a tile as 'x'" in refused(lambda out, x: shifted(x, 1.0))
    assert "takes 2 arguments by position, got 1" in refused(lambda out, x: shifted(nl.load(x)))
    assert "takes a number as 'by'" in refused(lambda out, x: shifted(nl.load(x), "a"))
    assert "as 'x', got [2, 8]" in refused(lambda out, x: shifted(nl.load(x[0:2]), 1.0))
    assert "a whole tensor as 'x'" in refused(lambda out, x: halve_rows(x[0:4], out))
    assert "is launched by itself" in refused(lambda out, x: launched(x, out))
