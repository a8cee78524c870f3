"""Scratch of sizes that only run time knows where it is made: from data, from counters."""

from __future__ import annotations

import resource
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from dist.running import Run, array, compiled, run, run_compiled, run_lowered, zeros
from tilewright import ir
from tilewright.errors import IndexOutOfBounds, OutOfMemory

ROWS = pl.Tensor[[64, 16], pl.FP32]
COUNT = pl.Tensor[[1], pl.INT32]
INDEX = pl.Scalar[pl.INDEX]
WAYS = pytest.mark.parametrize(
    "run", [run, run_lowered, run_compiled], ids=lambda way: way.__name__
)


def alone(function: Any) -> ir.Program:
    """A program of one function."""
    return ir.Program("P", {"main": function})


def by_counter() -> ir.Program:
    """A program."""

    @pl.function
    def main(n: INDEX, x: ROWS, out: pl.InOut[ROWS]) -> ROWS:
        for k in pl.range(n):
            size = k * 7 % n
            t = pl.create_tensor([size, 16], dtype=pl.FP32)
            for j in pl.range(size):
                t = pl.store(pl.load(x, [j, 0], [1, 16]), [j, 0], t)
            for j in pl.range(size):
                row = pl.add(pl.load(t, [size - 1 - j, 0], [1, 16]), pl.load(out, [j, 0], [1, 16]))
                out = pl.store(row, [j, 0], out)
        return out

    return alone(main)


@WAYS
@pytest.mark.parametrize("count", [0, 1, 2, 30])
def test_each_iteration_makes_a_tensor_of_its_own_size(run: Run, count: int) -> None:
    """The sizes go up and down."""
    x, out = array(64, 16), zeros(64, 16)
    run(by_counter(), count, x, out)
    wanted = zeros(64, 16)
    for k in range(count):
        size = k * 7 % count
        wanted[:size] = x[:size][::-1] + wanted[:size]
    np.testing.assert_array_equal(out, wanted)


def by_data() -> ir.Program:
    """A program."""

    @pl.function
    def main(count: COUNT, at: INDEX, x: ROWS, out: pl.InOut[ROWS]) -> ROWS:
        k = pl.cast(pl.read(count, [0]), pl.INDEX)
        t = pl.create_tensor([k, 16], dtype=pl.FP32)
        for j in pl.range(k):
            t = pl.store(pl.load(x, [j, 0], [1, 16]), [k - 1 - j, 0], t)
        for j in pl.range(k):
            out = pl.store(pl.load(t, [j, 0], [1, 16]), [j + at, 0], out)
        return out

    return alone(main)


@WAYS
@pytest.mark.parametrize("count", [0, 1, 7, 64])
def test_the_size_of_a_tensor_may_be_data(run: Run, count: int) -> None:
    x, out = array(64, 16), zeros(64, 16)
    run(by_data(), np.array([count], np.int32), 0, x, out)
    np.testing.assert_array_equal(out[:count], x[:count][::-1])
    assert not out[count:].any()


def by_block() -> ir.Program:
    """A program."""

    @pl.function
    def main(n: INDEX, x: ROWS, out: pl.InOut[ROWS]) -> ROWS:
        for i in pl.parallel(n):
            t = pl.create_tensor([i + 1, 16], dtype=pl.FP32)
            for j in pl.range(i + 1):
                t = pl.store(pl.load(x, [j, 0], [1, 16]), [i - j, 0], t)
            out = pl.store(pl.load(t, [i // 2, 0], [1, 16]), [i, 0], out)
        return out

    return alone(main)


@WAYS
def test_each_iteration_of_a_parallel_loop_has_memory_of_its_own(run: Run) -> None:
    x, out = array(64, 16), zeros(64, 16)
    run(by_block(), 64, x, out)
    np.testing.assert_array_equal(out, np.array([x[i - i // 2] for i in range(64)]))


@WAYS
@pytest.mark.parametrize("count", [-1, -3])
def test_nothing_is_inside_of_a_tensor_of_fewer_than_no_rows(run: Run, count: int) -> None:
    @pl.function
    def main(k: INDEX, x: ROWS, out: pl.InOut[ROWS]) -> ROWS:
        t = pl.create_tensor([k, 16], dtype=pl.FP32)
        t = pl.store(pl.load(x, [0, 0], [1, 16]), [0, 0], t)
        return pl.store(pl.load(t, [0, 0], [1, 16]), [0, 0], out)

    with pytest.raises(IndexOutOfBounds) as caught:
        run(alone(main), count, array(64, 16), zeros(64, 16))
    assert "t = pl.store(pl.load(x, [0, 0], [1, 16]), [0, 0], t)" in str(caught.value)


@pytest.mark.parametrize("count", [1 << 20, 1 << 30])
def test_a_tensor_for_which_there_is_no_memory_is_refused_at_its_line(count: int) -> None:
    @pl.function
    def main(count: COUNT, out: pl.InOut[ROWS]) -> ROWS:
        k = pl.cast(pl.read(count, [0]), pl.INDEX)
        t = pl.create_tensor([k, k, 4096], dtype=pl.FP32)
        pl.write(t, [0, 0, 0], 1.0)
        pl.write(out, [0, 0], pl.read(t, [0, 0, 0]))
        return out

    with pytest.raises(OutOfMemory, match="bytes of scratch memory are not to be had") as caught:
        run_compiled(alone(main), np.array([count], np.int32), zeros(64, 16))
    assert "t = pl.create_tensor([k, k, 4096], dtype=pl.FP32)" in str(caught.value)


def test_runs_that_end_with_a_fault_give_memory_back() -> None:
    @pl.function
    def main(count: COUNT, at: INDEX, out: pl.InOut[ROWS]) -> ROWS:
        k = pl.cast(pl.read(count, [0]), pl.INDEX)
        t = pl.create_tensor([k, 1024], dtype=pl.FP32)
        for j in pl.range(k):
            t = pl.store(pl.full([1, 1024], dtype=pl.FP32, value=1.0), [j, 0], t)
        return pl.store(pl.load(t, [0, 0], [1, 16]), [at, 0], out)

    kernel = compiled(alone(main))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(50):
        with pytest.raises(IndexOutOfBounds):
            kernel(np.array([2048], np.int32), 64, zeros(64, 16))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 100 << 10  # KiB; 50 of 8 MiB are 400 MiB
