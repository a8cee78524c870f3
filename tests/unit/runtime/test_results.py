"""Memory of large results: used again, never by two, bounded, given up on request."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright.runtime import results
from tilewright.runtime.records import LARGE_RESULT

ROWS = LARGE_RESULT // 4096


@pl.jit
def negated(x: pl.Tensor[[ROWS, 1024], pl.FP32]):
    out = pl.create_tensor([ROWS, 1024], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(ROWS):
            out = pl.store(pl.neg(pl.load(x, [i, 0], [1, 1024])), [i, 0], out)
    return out


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    """Begins and ends without kept memory."""
    results._kept.clear()
    yield
    results._kept.clear()


@pytest.fixture
def x() -> Any:
    """An argument whose result is large."""
    return np.arange(ROWS * 1024, dtype=np.float32).reshape(ROWS, 1024)


def address(array: Any) -> int:
    """Where an array is."""
    return array.ctypes.data


def test_the_memory_of_a_result_that_is_gone_is_used_again(x: Any) -> None:
    first = negated(x)
    np.testing.assert_array_equal(first, -x)
    place = address(first)
    del first
    again = negated(x[::-1].copy())
    assert address(again) == place
    np.testing.assert_array_equal(again, -x[::-1])


def test_a_result_is_nobodys_else_while_a_view_of_it_lives(x: Any) -> None:
    view = negated(x)[5:6, 3:]
    others = [negated(x + 1) for _ in range(3)]
    np.testing.assert_array_equal(view, -x[5:6, 3:])
    assert len({address(other) for other in others}) == 3


def test_results_are_arrays_like_any_other(x: Any) -> None:
    out = negated(x)
    assert type(out) is np.ndarray and out.dtype == np.float32 and out.shape == x.shape
    assert out.flags.c_contiguous and out.flags.writeable and out.flags.aligned
    out += 1.0
    np.testing.assert_array_equal(negated(out), x - 1)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_RESULT_POOL_BYTES", str(5 * LARGE_RESULT))
    sizes = [LARGE_RESULT, 2 * LARGE_RESULT, 3 * LARGE_RESULT]
    arrays = [results.large_array((size,), np.uint8, size) for size in sizes]
    assert not results._kept
    while arrays:
        arrays.pop(0)
    assert [memory.size for memory in results._kept] == sizes[1:]  # the oldest went


def test_memory_that_is_much_too_large_is_not_used() -> None:
    del_me = results.large_array((2 * LARGE_RESULT,), np.uint8, 2 * LARGE_RESULT)
    place = address(del_me)
    del del_me
    assert address(results.large_array((LARGE_RESULT,), np.uint8, LARGE_RESULT)) != place
    close = 2 * LARGE_RESULT - 4096
    assert address(results.large_array((close,), np.uint8, close)) == place


def test_nothing_is_kept_where_that_is_said(x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_RESULT_POOL_BYTES", "0")
    out = negated(x)
    assert out.base is None
    del out
    assert not results._kept


def test_threads_never_share_a_result(x: Any) -> None:
    wrong: list[float] = []

    def run(value: float) -> None:
        mine = x + value
        for _ in range(6):
            if not (negated(mine) == -mine).all():
                wrong.append(value)

    threads = [threading.Thread(target=run, args=(float(k),)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
