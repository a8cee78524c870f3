"""Subscripts, masks, views, and what a mask leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright.nki as nki
import tilewright.nki.language as nl
from tilewright.errors import TilewrightError

COLUMNS = np.arange(48)[None, :]
X = np.arange(128 * 48, dtype=np.float32).reshape(128, 48)


def run(body: Callable[..., Any], shape: tuple[int, ...], *arrays: Any, grid: Any = ()) -> Any:
    """What a kernel gives whose body stores into an output of `shape`."""

    @nki.jit(checked=True)
    def kernel(*tensors):
        out = nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)
        body(out, *tensors)
        return out

    given_arrays = arrays or (X,)
    return kernel[grid](*given_arrays) if grid else kernel(*given_arrays)


VIEWS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "slices": (lambda x: x[3:9, 2:40], lambda x: x[3:9, 2:40]),
    "steps": (lambda x: x[0:64:2, 1::3], lambda x: x[0:64:2, 1::3]),
    "negative": (lambda x: x[-4:, :-8], lambda x: x[-4:, :-8]),
    "ellipsis": (lambda x: x[..., 5:9], lambda x: x[..., 5:9]),
    "ds": (lambda x: x[nl.ds(7, 4), nl.ds(8, 8)], lambda x: x[7:11, 8:16]),
    "ranges": (
        lambda x: x[2 * nl.arange(8)[:, None] + 1, nl.arange(4, 10)[None, :]],
        lambda x: x[1:17:2, 4:10],
    ),
    "grid": (lambda x: x[nl.mgrid[0:8, 0:6].p, nl.mgrid[0:8, 0:6].x + 3], lambda x: x[0:8, 3:9]),
    "one row": (lambda x: x[nl.arange(6)[:, None] * 0 + 5, nl.arange(4)[None, :]],
                lambda x: np.broadcast_to(x[5:6, :4], (6, 4))),
    "swapped": (
        lambda x: x[nl.arange(8)[None, :], nl.arange(6)[:, None]],
        lambda x: x[:8, :6].T,
    ),
    "quotients": (
        lambda x: x[nl.arange(8)[:, None] // 2, nl.arange(12)[None, :] % 4],
        lambda x: x[np.arange(8)[:, None] // 2, np.arange(12)[None, :] % 4],
    ),
    "reshape": (
        lambda x: x.reshape((32, 4, 48))[:, 1, 0:6],
        lambda x: x.reshape(32, 4, 48)[:, 1, :6],
    ),
    "reshape -1": (lambda x: x.reshape((64, -1)), lambda x: x.reshape(64, -1)),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_hbm_loads_what_numpy_shows(name: str) -> None:
    view, want = VIEWS[name]
    expected = want(X)
    got = run(lambda out, x: nl.store(out, nl.load(view(x))), expected.shape)
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_on_chip_reads_what_numpy_shows(name: str) -> None:
    view, want = VIEWS[name]
    expected = want(X)
    got = run(lambda out, x: nl.store(out, view(nl.load(x))), expected.shape)
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("name", [name for name in VIEWS if name not in ("one row", "quotients")])
def test_a_view_on_chip_is_written_in_place(name: str) -> None:
    view, _ = VIEWS[name]

    def body(out, x, y):
        t = nl.load(x)
        view(t)[...] = nl.load(view(y))
        nl.store(out, t)

    want = X.copy()
    positions = np.arange(X.size).reshape(X.shape)
    touched = np.isin(positions, VIEWS[name][1](positions))
    want[touched] = -1 - X[touched]
    assert np.array_equal(run(body, X.shape, X, -1 - X), want)


def test_symbolic_windows_follow_loops_and_programs() -> None:
    def body(out, x):
        p = nl.program_id(0)
        for i in nl.affine_range(2):
            row = (p * 2 + i) * 32
            nl.store(out[nl.ds(row, 32), :], nl.load(x[row : row + 32, :]) + 1.0)

    assert np.array_equal(run(body, X.shape, grid=(2,)), X + 1)


def test_a_window_of_symbolic_length_is_as_long_as_it_may_be() -> None:
    def body(out, x):
        nl.store(out, nl.zeros((4, 8), dtype=nl.float32))
        for i in nl.sequential_range(4):
            nl.store(out[i : i + 1, 0 : i + 1], nl.full((1, 4), 1.0, dtype=nl.float32))

    got = run(body, (4, 8))
    assert np.array_equal(got[:, :4], np.tril(np.ones((4, 4))))


def test_masks_match_axes_by_position() -> None:
    def body(out, x):
        i, j = nl.arange(128)[:, None], nl.arange(48)[None, :]
        t = nl.load(x[i, j], mask=(i < 100) & (j >= i))
        nl.store(out[i, j], nl.zeros((128, 48), dtype=nl.float32))
        nl.store(out[i, j], t, mask=(i < 100) & (j >= i))

    i, j = np.indices(X.shape)
    assert np.array_equal(run(body, X.shape), np.where((i < 100) & (j >= i), X, 0))


def test_a_ragged_edge_is_masked() -> None:
    y = X[:100, :33]

    def body(out, x):
        for k in nl.affine_range(2):
            i, j = nl.mgrid[0:64, 0:33]
            t = nl.load(x[k * 64 + i, j], mask=(k * 64 + i < 100))
            nl.store(out[k * 64 + i, j], t * 3.0, mask=(k * 64 + i < 100))

    assert np.array_equal(run(body, (100, 33), y), y * 3)


def test_masks_of_alternatives_store_and_do_not_load() -> None:
    def body(out, x):
        i, j = nl.mgrid[0:8, 0:8]
        nl.store(out[i, j], nl.zeros((8, 8), dtype=nl.float32))
        nl.store(out[i, j], nl.load(x[i, j]), mask=(j < 2) | (j > 5))

    want = np.where((COLUMNS[:, :8] < 2) | (COLUMNS[:, :8] > 5), X[:8, :8], 0)
    assert np.array_equal(run(body, (8, 8)), want)

    def loading(out, x):
        i, j = nl.mgrid[0:8, 0:8]
        nl.store(out, nl.load(x[i, j], mask=(j < 2) | (j > 5)))

    with pytest.raises(TilewrightError) as caught:
        run(loading, (8, 8))
    assert caught.value.code == "err_logic_or_not_supported"


def test_a_mask_has_the_shape_of_what_it_masks() -> None:
    def body(out, x):
        nl.store(out, nl.load(x, mask=nl.arange(40)[None, :] < 5))

    with pytest.raises(TilewrightError) as caught:
        run(body, X.shape)
    assert caught.value.code == "err_indices_shape_mismatch"


def test_an_operand_index_may_be_a_comparison() -> None:
    def body(out, x):
        i, j = nl.arange(16)[:, None], nl.arange(16)[None, :]
        t, ones = nl.load(x[0:16, 0:16]), nl.ones((16, 16), dtype=nl.float32)
        nl.store(out, nl.matmul(t[i, j < 4], ones[i, j]))

    want = np.repeat(X[:16, :4].sum(1, keepdims=True), 16, axis=1)
    np.testing.assert_allclose(run(body, (16, 16)), want, rtol=1e-6)


def test_assigning_a_masked_result_leaves_the_rest() -> None:
    def body(out, x):
        i, j = nl.mgrid[0:128, 0:48]
        t = nl.load(x)
        t[...] = nl.add(t, 1.0, mask=(j < 5))
        t[...] = nl.load(x[i, j], mask=(i < 3))
        nl.store(out, t)

    want = X.copy()
    want[3:, :5] += 1
    assert np.array_equal(run(body, X.shape), want)


def test_numbers_and_smaller_tiles_fill_their_destination() -> None:
    def body(out, x):
        t = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.sbuf)
        t[...] = 1.0
        t[:, 2:4] = nl.load(x[0:8, 0:1])
        t[0, 3] = 7.0
        nl.store(out, t)

    want = np.ones((8, 8), np.float32)
    want[:, 2:4] = X[:8, :1]
    want[0, 3] = 7
    assert np.array_equal(run(body, (8, 8)), want)


ONE_POSITION: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "first dimension": (
        lambda x, i, j: x.reshape((16, 8, 48))[nl.arange(1)[:, None], i, j],
        lambda x: x.reshape(16, 8, 48)[0],
    ),
    "another position": (
        lambda x, i, j: x.reshape((16, 8, 48))[nl.arange(3, 4)[:, None], i, j],
        lambda x: x.reshape(16, 8, 48)[3],
    ),
    "last dimension": (
        lambda x, i, j: x[nl.mgrid[0:8, 0:48].p, nl.arange(1)[None, :]],
        lambda x: np.repeat(x[:8, :1], 48, axis=1),
    ),
    "in a sum": (
        lambda x, i, j: x[i + nl.arange(2, 3)[None, :], j],
        lambda x: x[2:10],
    ),
}


@pytest.mark.parametrize("where", ["hbm", "sbuf"])
@pytest.mark.parametrize("name", ONE_POSITION)
def test_a_range_of_one_position_stays_there(name: str, where: str) -> None:
    view, want = ONE_POSITION[name]

    def body(out, x):
        i, j = nl.arange(8)[:, None], nl.arange(48)[None, :]
        nl.store(out, nl.load(view(x, i, j)) if where == "hbm" else view(nl.load(x), i, j))

    assert np.array_equal(run(body, (8, 48)), want(X))


def test_a_mask_of_a_grid_bounds_a_column() -> None:
    def body(out, x):
        i, _ = nl.mgrid[0:128, 0:48]
        for k in nl.static_range(2):
            rows = k * 128 + i
            column = nl.max(nl.load(x[rows, nl.arange(48)[None, :]], mask=rows < 200), axis=1)
            nl.store(out[rows, nl.arange(1)[None, :]], column, mask=rows < 200)

    given = np.concatenate([X, X[::-1]])[:200]
    assert np.array_equal(run(body, (200, 1), given), given.max(1, keepdims=True))


EXPERTS = np.arange(5 * 8 * 6, dtype=np.float32).reshape(5, 8, 6)
ONE_INDEX: dict[str, Callable[..., Any]] = {
    "first": lambda w, e, i, j: w[e[0, 0], i, j],
    "whole tile": lambda w, e, i, j: w[e, i, j],
    "range of one": lambda w, e, i, j: w[e[nl.arange(1)[:, None], 0], i, j],
    "middle": lambda w, e, i, j: w.reshape((5, 8, 1, 6))[e[0, 0], i, 0, j],
    "partitions": lambda w, e, i, j: w.reshape((8, 5, 6))[i, e[0, 0], j],
}


@pytest.mark.parametrize("name", ONE_INDEX)
def test_an_index_of_one_element_holds_for_every_row(name: str) -> None:
    view = ONE_INDEX[name]

    @nki.jit
    def kernel(w, e):
        i, j = nl.arange(8)[:, None], nl.arange(6)[None, :]
        out = nl.ndarray(w.shape, dtype=w.dtype, buffer=nl.shared_hbm)
        nl.store(out.reshape((40, 6)), nl.zeros((40, 6), dtype=w.dtype))
        index = nl.load(e)
        nl.store(view(out, index, i, j), nl.load(view(w, index, i, j)))
        return out

    want = np.zeros_like(EXPERTS)
    if name == "partitions":
        want.reshape(8, 5, 6)[:, 3] = EXPERTS.reshape(8, 5, 6)[:, 3]
    else:
        want[3] = EXPERTS[3]
    assert np.array_equal(kernel(EXPERTS, np.array([[3]], np.int32)), want)


def test_block_dimensions_are_indexed_first() -> None:
    def body(out, x):
        with pytest.warns(DeprecationWarning, match="block_dimension"):
            t = nl.ndarray((4, nl.par_dim(32), 48), dtype=nl.float32, buffer=nl.sbuf)
        for k in nl.affine_range(4):
            t[k] = nl.load(x[nl.ds(k * 32, 32), :])
        for k in nl.affine_range(4):
            nl.store(out[nl.ds(k * 32, 32), :], t[k] + 1.0)

    assert np.array_equal(run(body, X.shape), X + 1)


def test_bits_are_seen_as_another_type() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((4, 16), dtype=nl.int32, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x[0:4, 0:16]).view(nl.int32))
        return out

    assert np.array_equal(kernel(X), X[:4, :16].view(np.int32))


def test_broadcast_and_new_dimensions_are_views() -> None:
    def body(out, x):
        row = nl.load(x[0:1, 0:8])
        wide = nl.broadcast_to(row, shape=(4, 8))
        nl.store(out, wide + nl.expand_dims(wide, 2).reshape((4, 8)))

    assert np.array_equal(run(body, (4, 8)), np.broadcast_to(2 * X[:1, :8], (4, 8)))


@given(st.integers(0, 40), st.integers(1, 24), st.integers(0, 30), st.integers(1, 18))
def test_every_window_inside_is_loaded_and_stored(r: int, h: int, c: int, w: int) -> None:
    def body(out, x):
        nl.store(out[r : r + h, c : c + w], nl.load(x[r : r + h, c : c + w]))

    got = run(body, X.shape)
    assert np.array_equal(got[r : r + h, c : c + w], X[r : r + h, c : c + w])
    assert np.isnan(got).sum() == X.size - h * w


@given(st.integers(0, 4), st.integers(1, 3), st.integers(120, 140), st.integers(100, 140))
def test_an_index_range_is_refused_exactly_when_it_leaves_the_tensor(
    start: int, step: int, count: int, bound: int
) -> None:
    count = min(count, 128)
    fits = all(start + step * i < 128 for i in range(count) if i < bound)

    def body(out, x):
        i, j = nl.arange(count)[:, None], nl.arange(48)[None, :]
        nl.store(out[i, j], nl.load(x[start + step * i, j], mask=i < bound), mask=i < bound)

    if fits:
        got = run(body, (128, 48))
        rows = [i for i in range(count) if i < bound]
        assert np.array_equal(got[rows], X[[start + step * i for i in rows]])
    else:
        with pytest.raises(TilewrightError) as caught:
            run(body, (128, 48))
        assert caught.value.code == "err_tensor_access_out_of_bound"


def test_a_position_in_a_tile_leaves_a_partition_and_a_free_dimension() -> None:
    shapes: dict[str, tuple[int, ...]] = {}

    def body(out, x):
        tile = nl.load(x)
        blocks = nl.ndarray((2, nl.par_dim(128), 48), dtype=x.dtype)
        wide = tile.reshape((128, 6, 8))
        views = {
            "column": tile[:, 3],
            "row": tile[5],
            "one": tile[5, 3],
            "block": blocks[1],
            "column of a block": blocks[1, :, 3],
            "wide": wide[:, 2],
            "deep": wide[:, 2, 4],
        }
        shapes.update({name: view.shape for name, view in views.items()})
        nl.store(out, tile[:, 3] + tile[:, -1])

    assert np.array_equal(run(body, (128, 1)), X[:, 3:4] + X[:, -1:])
    assert shapes == {
        "column": (128, 1),
        "row": (1, 48),
        "one": (1, 1),
        "block": (128, 48),
        "column of a block": (128, 1),
        "wide": (128, 8),
        "deep": (128, 1),
    }


def test_a_column_is_written_and_combined_like_a_vector_of_one_column() -> None:
    def body(out, x, vector):
        peak = nl.ndarray((nl.par_dim(128), 2), dtype=x.dtype)
        tile, weight = nl.load(x), nl.load(vector)
        peak[:, 0] = nl.max(tile, axis=1)
        peak[:, 1] = nl.maximum(nl.copy(peak[:, 0]), weight)
        nl.store(out[:, 0], peak[:, 1])
        nl.store(out[:, 1], nl.load(x[:, 7]))

    vector = np.linspace(0, 9999, 128, dtype=np.float32)
    want = np.stack([np.maximum(X.max(1), vector), X[:, 7]], axis=1)
    assert np.array_equal(run(body, (128, 2), X, vector), want)
