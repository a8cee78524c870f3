"""What a masked instruction leaves alone: of reductions, transposes, products, indirect reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl

RNG = np.random.default_rng(5)
X = RNG.standard_normal((16, 24)).astype(np.float32)
A = RNG.standard_normal((64, 32)).astype(np.float32)
B = RNG.standard_normal((64, 48)).astype(np.float32)
KEPT = -7.0


def left(t: Any) -> Any:
    """A mask of t: rows of which a reduction reads some columns; it does not touch the others."""
    return (nl.arange(16)[:, None] < 10) & (nl.arange(24)[None, :] < 9)


REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "sum": (lambda t, m: nl.sum(t, 1, mask=m), np.sum),
    "prod": (lambda t, m: nl.prod(t, 1, mask=m), np.prod),
    "max": (lambda t, m: nl.max(t, -1, mask=m, keepdims=True), np.max),
    "min": (lambda t, m: nl.min(t, [1], mask=m), np.min),
    "mean": (lambda t, m: nl.mean(t, 1, mask=m), np.mean),
    "var": (lambda t, m: nl.var(t, 1, mask=m), np.var),
    "all": (lambda t, m: nl.all(t, 1, mask=m), np.all),
    "tensor_reduce": (lambda t, m: nisa.tensor_reduce(np.add, t, 1, mask=m), np.sum),
}


def run(body: Callable[..., Any], *arrays: Any, shape: tuple[int, ...]) -> Any:
    """A tile full of KEPT to which `body(*tiles)` is assigned."""

    @nki.jit
    def kernel(*tensors):
        out = nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.full(shape, KEPT, nl.float32)
        tile[...] = body(*[nl.load(each) for each in tensors])
        nl.store(out, tile)
        return out

    return kernel(*arrays)


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_leaves_rows_that_its_mask_excludes(name: str) -> None:
    traced, meant = REDUCTIONS[name]
    got = run(lambda t: traced(t, left(t)), X, shape=(16, 1))
    want = np.full((16, 1), KEPT)
    want[:10, 0] = [meant(row) for row in X[:10, :9]]
    close(got, want)


def test_a_reduction_over_two_axes_keeps_the_mask_of_the_third() -> None:
    def body(t):
        p, a, b = nl.mgrid[0:16, 0:4, 0:6]
        return nl.sum(t.reshape((16, 4, 6))[p, a, b], [1, 2], mask=(p < 3) & (b < 2))

    want = np.full((16, 1), KEPT)
    want[:3, 0] = X.reshape(16, 4, 6)[:3, :, :2].sum((1, 2))
    close(run(body, X, shape=(16, 1)), want)


def test_a_reduction_over_partitions_keeps_the_mask_of_the_columns() -> None:
    got = run(lambda t: nisa.tensor_partition_reduce(np.add, t, mask=left(t)), X, shape=(1, 24))
    want = np.full((1, 24), KEPT)
    want[0, :9] = X[:10, :9].sum(0)
    close(got, want)


@pytest.mark.parametrize("transpose", [nl.transpose, nisa.nc_transpose])
def test_a_transpose_turns_its_mask(transpose: Any) -> None:
    want = np.full((24, 16), KEPT, np.float32)
    want[:9, :10] = X[:10, :9].T
    assert np.array_equal(run(lambda t: transpose(t, mask=left(t)), X, shape=(24, 16)), want)


def test_masked_elements_do_not_count_in_statistics() -> None:
    got = run(lambda t: nisa.bn_stats(t, mask=left(t)), X, shape=(16, 6))
    want = np.full((16, 6), KEPT)
    for start in (0, 1):
        part = X[:10, start:9:2]
        triple = [np.full(10, part.shape[1]), part.mean(1), part.var(1) * part.shape[1]]
        want[:10, 3 * start : 3 * start + 3] = np.stack(triple, 1)
    close(got, want)
    both = run(lambda t: nisa.bn_aggr(nisa.bn_stats(t)), X[:, :9], shape=(16, 2))
    close(both, np.stack([X[:, :9].mean(1), X[:, :9].var(1)], 1))

    def first_group(t):
        groups = nl.ndarray((16, 12), nl.float32)
        groups[:, 0:6] = nisa.bn_stats(t[:, 0:9])
        groups[:, 6:12] = np.nan
        return nisa.bn_aggr(groups, mask=nl.arange(12)[None, :] < 6)

    close(run(first_group, X, shape=(16, 2)), both)


@pytest.mark.parametrize("multiply", [nisa.nc_matmul, "nl"])
def test_a_product_leaves_out_masked_rows_and_leaves_masked_columns(multiply: Any) -> None:
    def body(a, b):
        k, n = nl.arange(64)[:, None], nl.arange(48)[None, :]
        mask = (k < 40) & (n < 20)
        if multiply == "nl":
            return nl.matmul(a, b, transpose_x=True, mask=mask)
        return multiply(a, b, mask=mask)

    given = A.copy()
    given[40:] = np.inf
    want = np.full((32, 48), KEPT)
    want[:, :20] = A[:40].T @ B[:40, :20]
    close(run(body, given, B, shape=(32, 48)), want)


def test_a_masked_product_of_rows_is_left_out_too() -> None:
    def body(a, b):
        return nl.matmul(a, b, mask=nl.arange(64)[:, None] < 40)

    got = run(body, A.T.copy(), B, shape=(32, 48))
    close(got, A[:40].T @ B[:40])


def test_accumulating_a_masked_result_leaves_the_rest() -> None:
    @nki.jit
    def kernel(a, b):
        n = nl.arange(48)[None, :]
        out = nl.ndarray((32, 48), dtype=nl.float32, buffer=nl.shared_hbm)
        left, right = nl.load(a), nl.load(b)
        total = nl.zeros((32, 48), nl.float32, buffer=nl.psum)
        for i in nl.affine_range(4):
            total[...] += nisa.nc_matmul(left, right, mask=(n < 20) & (i < 3))
        total += nl.multiply(total, 2.0, mask=n < 10)
        nl.store(out, total)
        return out

    want = np.zeros((32, 48))
    want[:, :20] = 3 * (A.T @ B[:, :20])
    want[:, :10] *= 3
    np.testing.assert_allclose(kernel(A, B), want, rtol=1e-4, atol=1e-3)


# ---------------------------------------------------------------------------- indirect reads

PLACES = np.array([[3], [1], [100], [1], [-5], [9], [2], [16]], np.int32)
INSIDE = [k for k, place in enumerate(PLACES[:, 0]) if 0 <= place < 16]


def rows_read(kept: float, factor: float = 1.0) -> Any:
    """The rows of X that PLACES names; others hold `kept`."""
    want = np.full((8, 24), kept, np.float32)
    want[INSIDE] = X[PLACES[INSIDE, 0]] * np.float32(factor)
    return want


def test_rows_that_do_not_exist_leave_what_they_are_assigned_to() -> None:
    @nki.jit
    def kernel(x, places):
        out = nl.ndarray((2, 8, 24), dtype=nl.float32, buffer=nl.shared_hbm)
        index = nl.load(places)
        rows = x[index, nl.arange(24)[None, :]]
        tile = nl.full((8, 24), KEPT, nl.float32)
        tile[...] = nl.load(rows, mode=nisa.oob_mode.skip)
        nl.store(out[0], tile)
        tile[...] = KEPT
        tile[...] = nl.load(rows, mode=nisa.oob_mode.skip, mask=nl.arange(24)[None, :] < 5)
        nl.store(out[1], tile)
        return out

    got = kernel(X, PLACES)
    assert np.array_equal(got[0], rows_read(KEPT))
    assert np.array_equal(got[1, :, :5], rows_read(KEPT)[:, :5])
    assert (got[1, :, 5:] == KEPT).all()


def test_a_transfer_skips_rows_on_both_sides_and_adds_every_term() -> None:
    @nki.jit
    def kernel(x, places):
        out = nl.ndarray((8, 24), dtype=nl.float32, buffer=nl.shared_hbm)
        added = nl.ndarray((16, 24), dtype=nl.float32, buffer=nl.shared_hbm)
        index, columns = nl.load(places), nl.arange(24)[None, :]
        skip = {"oob_mode": nisa.oob_mode.skip}
        nl.store(out, KEPT)
        nl.store(added, KEPT)
        nisa.dma_copy(dst=out, src=x[index, columns], **skip)
        nisa.dma_copy(dst=out, src=x[index, columns], dst_rmw_op=np.add, **skip)
        nisa.dma_copy(dst=added[index, columns], src=x[0:8], dst_rmw_op=np.add, **skip)
        return out, added

    out, added = kernel(X, PLACES)
    assert np.array_equal(out, rows_read(KEPT, 2.0))
    want = np.full((16, 24), KEPT, np.float32)
    for row, place in enumerate(PLACES[:, 0]):
        if 0 <= place < 16:
            want[place] += X[row]
    assert np.array_equal(added, want)
