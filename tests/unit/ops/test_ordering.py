"""The order of sums is part of their meaning: held against the words of ops/loop.py."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.ops.ordering import folded
from tilewright.ops.reduce import max_, min_, sum_


def ordered_sum(x: np.ndarray) -> np.ndarray:
    return folded(x, np.add, 0, (-1,))


def summed_as_written(row: np.ndarray) -> np.float32:
    """Element j to virtual lane j mod 64; (a0 + a1) + (a2 + a3); halving; the init on the left."""
    lanes = np.zeros(64, np.float32)
    for j, element in enumerate(row):
        lanes[j % 64] = lanes[j % 64] + element
    a0, a1, a2, a3 = (lanes[16 * k : 16 * k + 16] for k in range(4))
    total = (a0 + a1) + (a2 + a3)
    for half in (8, 4, 2, 1):
        total = np.array([total[i] + total[i + half] for i in range(half)], np.float32)
    return np.float32(0) + total[0]


@pytest.mark.parametrize("count", [0, 1, 15, 16, 64, 65, 200, 1000])
def test_the_last_axis_is_summed_in_lanes(count: int) -> None:
    rng = np.random.default_rng(count)
    x = (rng.standard_normal((3, count)) * 10.0 ** rng.integers(-4, 5, (3, count))).astype("f4")
    np.testing.assert_array_equal(ordered_sum(x), [summed_as_written(row) for row in x])


def test_another_axis_is_summed_in_index_order() -> None:
    x = np.array([[1e8], [1.0], [-1e8], [1.0]], np.float32)
    assert sum_.evaluate is not None
    assert sum_.evaluate(x, axes=(0,), keepdims=False) == np.float32(1.0)


def test_several_axes_go_from_the_right() -> None:
    rng = np.random.default_rng(7)
    x = (rng.standard_normal((5, 6, 70)) * 10.0 ** rng.integers(-4, 5, (5, 6, 70))).astype("f4")
    rows = ordered_sum(x)
    wanted = np.zeros(6, np.float32)
    for k in range(5):
        wanted = wanted + rows[k]
    np.testing.assert_array_equal(folded(x, np.add, 0, (0, 2)), wanted)


def test_half_precision_accumulates_wide_and_rounds_once() -> None:
    x = np.full((1, 4096), 0.1, np.float16)
    assert ordered_sum(x)[0] == np.float16(ordered_sum(x.astype(np.float32))[0])


def test_the_sum_of_negative_zeros_is_zero() -> None:
    for axis in (0, 1):
        total = folded(np.full((3, 3), -0.0, np.float32), np.add, 0, (axis,))
        assert not np.signbit(total).any()


def test_extremes_order_zeros_and_keep_nan() -> None:
    assert max_.evaluate is not None
    assert min_.evaluate is not None
    x = np.array([[-0.0, 0.0, -1.0], [-0.0, -0.0, -1.0], [np.nan, 1.0, 2.0]], np.float32)
    greatest = max_.evaluate(x, axes=(1,), keepdims=False)
    assert np.signbit(greatest).tolist()[:2] == [False, True]
    assert np.isnan(greatest[2])
    least = min_.evaluate(-x, axes=(1,), keepdims=False)
    assert np.signbit(least).tolist()[:2] == [True, False]


def test_what_is_folded_over_nothing_is_the_identity() -> None:
    empty = np.zeros((2, 0), np.float32)
    assert folded(empty, np.add, 0, (1,)).tolist() == [0, 0]
    assert folded(empty, np.multiply, 1, (1,)).tolist() == [1, 1]
    assert max_.evaluate is not None
    assert np.isneginf(max_.evaluate(empty, axes=(1,), keepdims=False)).all()
