"""`tensor.ap(...)`: views by steps and counts, of HBM and of tiles, read and written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.dst_first as nisa
import tilewright.nki.language as nl
from tilewright.errors import TilewrightError

X = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)

PATTERNS: dict[str, tuple[Any, Any]] = {
    "whole": ({"pattern": [[64, 128], [1, 64]]}, X),
    "transposed": ({"pattern": [[1, 64], [64, 128]]}, X.T),
    "odd columns": ({"pattern": [[64, 128], [2, 32]], "offset": 1}, X[:, 1::2]),
    "odd rows": ({"pattern": [[128, 64], [1, 64]], "offset": 64}, X[1::2]),
    "three dimensions": ({"pattern": [[64, 128], [8, 8], [1, 8]]}, X.reshape(128, 8, 8)),
    "windows": (
        {"pattern": ((64, 128), (1, 61), (1, 4))},
        np.lib.stride_tricks.sliding_window_view(X, 4, axis=1),
    ),
    "repeated": ({"pattern": [[64, 128], [0, 3], [1, 8]]}, np.repeat(X[:, None, :8], 3, 1)),
    "backwards": ({"pattern": [[64, 128], [-1, 64]], "offset": 63}, X[:, ::-1]),
}


@pytest.mark.parametrize("where", ["hbm", "sbuf"])
@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_is_a_view(name: str, where: str) -> None:
    pattern, want = PATTERNS[name]

    @nki.jit
    def kernel(x):
        out = nl.ndarray(want.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        given = x if where == "hbm" else nl.load(x)
        view = given.ap(**pattern)
        assert view.shape == want.shape and view.size == want.size
        nl.store(out, nl.load(view) if where == "hbm" else view)
        return out

    np.testing.assert_array_equal(kernel(X), want)


def test_what_is_written_through_a_pattern_is_in_the_tensor() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((64, 128), dtype=x.dtype, buffer=nl.shared_hbm)
        tile, spread = nl.load(x), nl.zeros((128, 64), dtype=x.dtype)
        nisa.dma_copy(dst=out.ap([[1, 128], [128, 64]]), src=tile)
        spread.ap([[64, 128], [2, 32]])[...] = tile[:, 0:32]
        twice = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(twice, spread)
        return out, twice

    turned, spread = kernel(X)
    np.testing.assert_array_equal(turned, X.T)
    np.testing.assert_array_equal(spread[:, ::2], X[:, :32])
    assert (spread[:, 1::2] == 0).all()


@pytest.mark.parametrize("axis", [0, 1])
def test_an_offset_of_the_run_counts_in_steps_of_a_dimension(axis: int) -> None:
    pattern = [[64, 16], [1, 64]] if axis == 0 else [[64, 128], [1, 8]]

    @nki.jit
    def kernel(x, n):
        out = nl.ndarray((pattern[0][1], pattern[1][1]), dtype=x.dtype, buffer=nl.shared_hbm)
        tile, place = nl.load(x), nl.load(n)
        register = nisa.register_alloc()
        nisa.register_load(register, place)
        left = x.ap(pattern, scalar_offset=place, indirect_dim=axis)
        right = tile.ap(pattern=pattern, scalar_offset=register, indirect_dim=axis)
        nl.store(out, nl.load(left) + right)
        return out

    want = X[5:21] if axis == 0 else X[:, 5:13]
    np.testing.assert_array_equal(kernel(X, np.array([[5]], np.int32)), want * 2)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "too long": ({"pattern": [[64, 128], [1, 65]]}, "err_tensor_access_out_of_bound"),
    "before the first": ({"pattern": [[64, 2], [-1, 2]]}, "err_tensor_access_out_of_bound"),
    "no pairs": ({"pattern": [64, 128]}, "err_expected_constant_value"),
    "nothing": ({"pattern": []}, "err_expected_constant_value"),
    "a float": ({"pattern": [[64, 128]], "offset": 0.5}, "err_unexpected_type_of_operand"),
    "a vector": ({"pattern": [[64, 128]], "vector_offset": 1}, "err_tensor_index_not_supported"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_pattern_that_is_none_is_refused(name: str) -> None:
    given, code = REFUSED[name]

    @nki.jit
    def kernel(x):
        out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x.ap(**given)))
        return out

    with pytest.raises(TilewrightError) as caught:
        kernel(X)
    assert caught.value.code == code
