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


ROWS = np.array([[7], [0], [126], [7], [33]], np.int32)
SCATTERED: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "rows": ([[64, 5], [1, 64]], {}, X[ROWS[:, 0]]),
    "parts": ([[64, 5], [3, 9]], {"offset": 4}, X[ROWS[:, 0], 4:31:3]),
    "the next row": ([[64, 5], [1, 8]], {"offset": 66}, X[ROWS[:, 0] + 1, 2:10]),
    "three dimensions": (
        [[64, 5], [8, 4], [1, 3]],
        {"indirect_dim": 0},
        X[ROWS[:, 0]].reshape(5, 8, 8)[:, :4, :3],
    ),
    "any first step": ([[1, 5], [-1, 64]], {"offset": 63}, X[ROWS[:, 0], ::-1]),
}


@pytest.mark.parametrize("name", SCATTERED)
def test_a_vector_of_offsets_names_rows(name: str) -> None:
    pattern, options, want = SCATTERED[name]

    @nki.jit
    def kernel(x, rows):
        out = nl.ndarray(want.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        copied = nl.ndarray(want.shape, dtype=x.dtype, buffer=nl.sbuf)
        index = nl.load(rows)
        view = x.ap(pattern, vector_offset=index, **options)
        nisa.dma_copy(dst=copied, src=view)
        nl.store(out, nl.load(view) + copied)
        return out

    np.testing.assert_array_equal(kernel(X, ROWS), 2 * want)


def test_rows_that_a_vector_names_are_written() -> None:
    @nki.jit
    def kernel(x, rows):
        out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.zeros((128, 64), dtype=x.dtype))
        index = nl.load(rows)
        for i in nl.sequential_range(2):
            part = out.ap([[64, 5], [1, 32]], offset=i * 32, vector_offset=index)
            nisa.dma_copy(dst=part, src=x.ap([[64, 5], [1, 32]], offset=i * 32))
        return out

    want = np.zeros_like(X)
    want[ROWS[:, 0]] = X[:5]
    np.testing.assert_array_equal(kernel(X, ROWS), want)


MISUSED: dict[str, tuple[Any, str]] = {
    "several rows": (
        lambda x, t, r: x.ap([[64, 5], [64, 2]], vector_offset=r),
        "err_tensor_index_not_supported",
    ),
    "another dimension": (
        lambda x, t, r: x.ap([[64, 5], [1, 2]], vector_offset=r, indirect_dim=1),
        "err_tensor_index_not_supported",
    ),
    "two offsets": (
        lambda x, t, r: x.ap([[64, 5], [1, 2]], vector_offset=r, scalar_offset=r[0:1]),
        "err_tensor_index_not_supported",
    ),
    "too few": (
        lambda x, t, r: x.ap([[64, 6], [1, 2]], vector_offset=r),
        "err_indices_shape_mismatch",
    ),
    "on chip": (
        lambda x, t, r: t.ap([[64, 5], [1, 2]], vector_offset=r),
        "err_copy_dynamic_indirect_indices_not_natively_supported",
    ),
}


@pytest.mark.parametrize("name", MISUSED)
def test_a_vector_of_offsets_is_one_index_for_each_partition(name: str) -> None:
    view, code = MISUSED[name]

    @nki.jit
    def kernel(x, rows):
        out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(view(x, nl.load(x), nl.load(rows))))
        return out

    with pytest.raises(TilewrightError) as caught:
        kernel(X, ROWS)
    assert caught.value.code == code


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "too long": ({"pattern": [[64, 128], [1, 65]]}, "err_tensor_access_out_of_bound"),
    "before the first": ({"pattern": [[64, 2], [-1, 2]]}, "err_tensor_access_out_of_bound"),
    "no pairs": ({"pattern": [64, 128]}, "err_expected_constant_value"),
    "nothing": ({"pattern": []}, "err_expected_constant_value"),
    "a float": ({"pattern": [[64, 128]], "offset": 0.5}, "err_unexpected_type_of_operand"),
    "no vector": ({"pattern": [[64, 128]], "vector_offset": 1}, "err_unexpected_type_of_operand"),
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
