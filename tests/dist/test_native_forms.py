"""Forms of participants that only run time settles: they run natively and as interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from dist.running import RUNNERS, Run, array, each_of, zeros
from tilewright import ir
from tilewright.errors import Deadlock, IndexOutOfBounds, RuntimeShapeMismatch

T = pl.Tensor[[16, 16], pl.FP32]
ROWS = pl.Tensor[[64, 16], pl.FP32]
IDS = pl.Tensor[[4], pl.INT32]
MANY = pl.Tensor[[64], pl.INT32]
COUNT = pl.Tensor[[1], pl.INT32]
AIC, AIV, GROUP = pl.FunctionType.AIC, pl.FunctionType.AIV, pl.FunctionType.Group


run = each_of(RUNNERS)


def alone(function: Any) -> ir.Program:
    """A program of one function."""
    return ir.Program("P", {"main": function})


def ids(*numbers: int) -> Any:
    """Numbers of events."""
    return np.array(numbers, np.int32)


# ------------------------------------------------------------------------------------------ events


@pl.program
class Quarters:
    """Each quarter of the tile has an event of its own, whose number is data."""

    @pl.function(type=AIC)
    def cube(self, a: T, numbers: IDS, shared: pl.InOut[T]) -> T:
        for i in pl.range(4):
            shared = pl.store(pl.load(a, [4 * i, 0], [4, 16]), [4 * i, 0], shared)
            pl.system.sync_set(pl.read(numbers, [i]), pipe=pl.PipeType.FIX)
        return shared

    @pl.function(type=AIV)
    def vector(self, numbers: IDS, shared: T, out: pl.InOut[T]) -> T:
        for j in pl.range(4):
            i = 3 - j
            pl.system.sync_wait(pl.read(numbers, [i]), pipe=pl.PipeType.MTE2)
            out = pl.store(pl.load(shared, [4 * i, 0], [4, 16]), [4 * i, 0], out)
        return out

    @pl.function(type=GROUP)
    def main(self, a: T, sets: IDS, waits: IDS, shared: pl.InOut[T], out: pl.InOut[T]) -> T:
        out = self.vector(waits, shared, out)
        shared = self.cube(a, sets, shared)
        return out


@pytest.mark.parametrize("numbers", [(3, 1, 2, 7), (0, 0, 0, 0), (63, 5, 63, 5)])
def test_the_number_of_an_event_may_be_data(run: Run, numbers: tuple[int, ...]) -> None:
    a, out = array(16, 16), zeros(16, 16)
    run(Quarters, a, ids(*numbers), ids(*numbers), zeros(16, 16), out)
    if len(set(numbers)) == 4:
        np.testing.assert_array_equal(out, a)
    else:
        np.testing.assert_array_equal(out[:4], a[:4])


@pytest.mark.parametrize("wrong", [64, -1])
def test_a_number_that_no_event_has_is_a_fault_at_its_line(run: Run, wrong: int) -> None:
    with pytest.raises(IndexOutOfBounds, match=rf"{wrong}.*64") as caught:
        run(
            Quarters,
            array(16, 16),
            ids(0, 1, wrong, 3),
            ids(0, 1, 2, 3),
            zeros(16, 16),
            zeros(16, 16),
        )
    assert "pl.system.sync_set(pl.read(numbers, [i])" in str(caught.value)


def test_an_event_that_nobody_sets_is_named(run: Run) -> None:
    with pytest.raises(Deadlock) as caught:
        run(Quarters, array(16, 16), ids(0, 1, 2, 3), ids(0, 1, 2, 9), zeros(16, 16), zeros(16, 16))
    assert "vector lane 0 waits for event 9" in str(caught.value)


@pl.program
class Turns:
    """Both sides take turns on two events, whose numbers alternate in both directions."""

    @pl.function(type=AIC)
    def cube(self, n: pl.Scalar[pl.INDEX], out: pl.InOut[T]) -> T:
        for i in pl.range(n):
            row = pl.load(out, [0, 0], [1, 16])
            out = pl.store(pl.add(pl.mul(row, 2.0), 1.0), [0, 0], out)
            pl.system.sync_set(i % 2, pipe=pl.PipeType.FIX)
            pl.system.sync_wait(2 + i % 3, pipe=pl.PipeType.FIX)
        return out

    @pl.function(type=AIV)
    def vector(self, n: pl.Scalar[pl.INDEX], out: pl.InOut[T]) -> T:
        for i in pl.range(n):
            pl.system.sync_wait(i % 2, pipe=pl.PipeType.MTE2)
            row = pl.load(out, [0, 0], [1, 16])
            out = pl.store(pl.mul(row, 0.75), [0, 0], out)
            pl.system.sync_set(2 + i % 3, pipe=pl.PipeType.MTE3)
        return out

    @pl.function(type=GROUP)
    def main(self, n: pl.Scalar[pl.INDEX], out: pl.InOut[T]) -> T:
        out = self.cube(n, out)
        out = self.vector(n, out)
        return out


def test_sides_take_turns_on_events_that_are_counted(run: Run) -> None:
    out = zeros(16, 16)
    run(Turns, 21, out)
    wanted = np.float32(0)
    for _ in range(21):
        wanted = (wanted * np.float32(2) + np.float32(1)) * np.float32(0.75)
    np.testing.assert_array_equal(out[0], np.full(16, wanted))


# -------------------------------------------------------------------------------------- odd extents


def halves(split: int, shape: list[int], first: list[int], second: list[int]) -> ir.Program:
    """A tile whose extent is odd goes to two lanes, each with a body of its own, and back."""
    whole = pl.Tensor[shape, pl.FP32]

    @pl.program
    class P:
        @pl.function(type=AIC)
        def cube(self, a: whole, out: pl.InOut[whole]) -> whole:
            for i in pl.range(3):
                pl.tpush_to_aiv(pl.load(a, [0, 0], shape), split=split)
            for i in pl.range(3):
                e = pl.tpop_from_aiv(shape=shape, dtype=pl.FP32, split=split)
                out = pl.store(pl.add(pl.load(out, [0, 0], shape), e), [0, 0], out)
                pl.tfree_to_aiv(e, split=split)
            return out

        @pl.function(type=AIV)
        def vector(self):
            for i in pl.range(3):
                if pl.get_subblock_idx() < 1:
                    t = pl.tpop_from_aic(shape=first, dtype=pl.FP32, split=split)
                    pl.tpush_to_aic(pl.add(t, 1.0), split=split)
                    pl.tfree_to_aic(t)
                else:
                    u = pl.tpop_from_aic(shape=second, dtype=pl.FP32, split=split)
                    pl.tpush_to_aic(pl.add(u, 2.0), split=split)
                    pl.tfree_to_aic(u)

        @pl.function(type=GROUP)
        def main(self, a: whole, out: pl.InOut[whole]) -> whole:
            out = self.cube(a, out)
            self.vector()
            return out

    return P


ODD = [
    (1, [7, 16], [4, 16], [3, 16]),
    (3, [15, 8], [8, 8], [7, 8]),
    (2, [8, 9], [8, 5], [8, 4]),
    (4, [3, 17], [3, 9], [3, 8]),
]


@pytest.mark.parametrize(("split", "shape", "first", "second"), ODD)
def test_the_first_lane_gets_one_more_of_an_odd_extent(
    run: Run, split: int, shape: list[int], first: list[int], second: list[int]
) -> None:
    a, out = array(*shape), zeros(*shape)
    run(halves(split, shape, first, second), a, out)
    shift = np.full(shape, np.float32(2))
    shift[: first[0], : first[1]] = 1
    wanted = zeros(*shape)
    for _ in range(3):
        wanted += a + shift
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("second", [[4, 16], [2, 16]])
def test_a_part_of_another_extent_than_the_lane_gets_is_refused(run: Run, second: Any) -> None:
    with pytest.raises(RuntimeShapeMismatch, match=r"\[3, 16\].*was pushed, where"):
        run(halves(1, [7, 16], [4, 16], second), array(7, 16), zeros(7, 16))


def test_parts_that_lanes_give_are_those_of_the_split(run: Run) -> None:
    """What two lanes give must not only add up: each gives its part."""

    @pl.program
    class P:
        @pl.function(type=AIC)
        def cube(self, out: pl.InOut[T]) -> T:
            e = pl.tpop_from_aiv(shape=[16, 16], dtype=pl.FP32, split=1)
            out = pl.store(e, [0, 0], out)
            pl.tfree_to_aiv(e, split=1)
            return out

        @pl.function(type=AIV)
        def vector(self):
            if pl.get_subblock_idx() < 1:
                pl.tpush_to_aic(pl.full([12, 16], dtype=pl.FP32, value=1.0), split=1)
            else:
                pl.tpush_to_aic(pl.full([4, 16], dtype=pl.FP32, value=2.0), split=1)

        @pl.function(type=GROUP)
        def main(self, out: pl.InOut[T]) -> T:
            out = self.cube(out)
            self.vector()
            return out

    with pytest.raises(RuntimeShapeMismatch, match=r"\[12, 16\].*was pushed, where \[8, 16\]"):
        run(P, zeros(16, 16))


# ------------------------------------------------------------------------------------ block counts


def turned() -> ir.Program:
    """A program."""

    @pl.function
    def main(n: pl.Scalar[pl.INDEX], x: ROWS, y: pl.InOut[ROWS], out: pl.InOut[ROWS]) -> ROWS:
        for i in pl.spmd(n):
            y = pl.store(pl.load(x, [i, 0], [1, 16]), [i, 0], y)
            pl.system.syncall()
            out = pl.store(pl.load(y, [n - 1 - i, 0], [1, 16]), [i, 0], out)
        return out

    return alone(main)


@pytest.mark.parametrize("count", [0, 1, 5, 64])
def test_blocks_whose_number_is_an_argument_meet(run: Run, count: int) -> None:
    x, out = array(64, 16), zeros(64, 16)
    run(turned(), count, x, zeros(64, 16), out)
    np.testing.assert_array_equal(out[:count], x[:count][::-1])
    assert not out[count:].any()


def turned_by_data() -> ir.Program:
    """A program."""

    @pl.function
    def main(count: COUNT, x: ROWS, y: pl.InOut[ROWS], out: pl.InOut[ROWS]) -> ROWS:
        n = pl.cast(pl.read(count, [0]), pl.INDEX)
        for i in pl.spmd(n):
            for j in pl.range(3):
                y = pl.store(pl.load(x, [i, 0], [1, 16]), [i, 0], y)
                pl.system.syncall()
                out = pl.store(pl.load(y, [n - 1 - i, 0], [1, 16]), [i, 0], out)
                pl.system.syncall(used_cores=n)
        return out

    return alone(main)


@pytest.mark.parametrize("count", [1, 7])
def test_blocks_whose_number_is_data_meet(run: Run, count: int) -> None:
    x, out = array(64, 16), zeros(64, 16)
    run(turned_by_data(), ids(count), x, zeros(64, 16), out)
    np.testing.assert_array_equal(out[:count], x[:count][::-1])


def some_meet() -> ir.Program:
    """A program."""

    @pl.function
    def main(
        n: pl.Scalar[pl.INDEX],
        m: pl.Scalar[pl.INDEX],
        x: ROWS,
        y: pl.InOut[ROWS],
        out: pl.InOut[ROWS],
    ) -> ROWS:
        for i in pl.spmd(n):
            y = pl.store(pl.load(x, [i, 0], [1, 16]), [i, 0], y)
            if i < 4:
                pl.system.syncall(used_cores=4)
            if i < m:
                pl.system.syncall(used_cores=m)
            pl.system.syncall()
            out = pl.store(pl.load(y, [n - 1 - i, 0], [1, 16]), [i, 0], out)
        return out

    return alone(main)


@pytest.mark.parametrize(("count", "first"), [(9, 6), (4, 4), (5, 4), (6, 6), (8, 2)])
def test_some_of_so_many_blocks_meet(run: Run, count: int, first: int) -> None:
    """Barriers of as many blocks are the same barrier, whatever they are counted with."""
    x, out = array(64, 16), zeros(64, 16)
    run(some_meet(), count, first, x, zeros(64, 16), out)
    np.testing.assert_array_equal(out[:count], x[:count][::-1])


def test_a_barrier_of_so_many_blocks_that_one_misses_is_a_deadlock(run: Run) -> None:
    @pl.function
    def main(n: pl.Scalar[pl.INDEX], out: pl.InOut[ROWS]) -> ROWS:
        for i in pl.spmd(n):
            if i > 0:
                pl.system.syncall()
            out = pl.store(pl.full([1, 16], dtype=pl.FP32, value=1.0), [i, 0], out)
        return out

    with pytest.raises(Deadlock, match="4 of them are blocked") as caught:
        run(alone(main), 5, zeros(64, 16))
    assert "block 4 waits for all 5 blocks to be at the barrier" in str(caught.value)


def each_says_how_many() -> ir.Program:
    """Launches of 1, 2, … n blocks, each of which reads how many of it meet."""

    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.InCore)
        def row(
            self,
            i: pl.Scalar[pl.INDEX],
            n: pl.Scalar[pl.INDEX],
            numbers: MANY,
            x: ROWS,
            y: pl.InOut[ROWS],
            out: pl.InOut[ROWS],
        ) -> tuple[ROWS, ROWS]:
            y = pl.store(pl.load(x, [i, 0], [1, 16]), [i, 0], y)
            pl.system.syncall(used_cores=pl.read(numbers, [i]))
            pl.system.syncall(used_cores=n)
            t = pl.add(pl.load(out, [i, 0], [1, 16]), pl.load(y, [n - 1 - i, 0], [1, 16]))
            return y, pl.store(t, [i, 0], out)

        @pl.function
        def main(
            self,
            n: pl.Scalar[pl.INDEX],
            numbers: MANY,
            x: ROWS,
            y: pl.InOut[ROWS],
            out: pl.InOut[ROWS],
        ) -> ROWS:
            for k in pl.range(n + 1):
                for i in pl.spmd(k):
                    y, out = self.row(i, k, numbers, x, y, out)
            return out

    return P


@pytest.mark.parametrize(("count", "first"), [(0, 0), (1, 1), (5, 3), (9, 1), (20, 0)])
def test_barriers_of_as_many_blocks_as_each_reads_in_as_many_as_there_are(
    run: Run, count: int, first: int
) -> None:
    """Of each launch, the first blocks meet alone, where there are as many."""
    x, out = array(64, 16), zeros(64, 16)
    numbers = np.array([1] * first + [0] * (64 - first), np.int32)
    run(each_says_how_many(), count, numbers, x, zeros(64, 16), out)
    wanted = zeros(64, 16)
    for k in range(count + 1):
        wanted[:k] += x[:k][::-1]
    np.testing.assert_array_equal(out, wanted)


def disagreeing() -> ir.Program:
    """Blocks, of which an argument says how many there are; each reads how many of them meet."""

    @pl.function
    def main(n: pl.Scalar[pl.INDEX], numbers: MANY, out: pl.InOut[ROWS]) -> ROWS:
        for i in pl.spmd(n):
            pl.system.syncall(used_cores=pl.read(numbers, [i]))
            out = pl.store(pl.full([1, 16], dtype=pl.FP32, value=1.0), [i, 0], out)
        return out

    return alone(main)


@pytest.mark.parametrize(
    ("numbers", "waits"),
    [
        ((5, 5, 5, 5, 4), "block 3 waits for all 5 blocks"),
        ((2, 2, 4, 4, 5), "block 4 waits for all 5 blocks"),
        ((6, 6, 6, 6, 6), "block 4 waits for all 6 blocks"),
        ((6, 2**31 - 1, 6, 1, 1), "block 1 waits for all 2147483647 blocks"),
    ],
)
def test_barriers_that_some_blocks_do_not_agree_on_are_deadlocks_at_their_lines(
    run: Run, numbers: tuple[int, ...], waits: str
) -> None:
    given = np.zeros(64, np.int32)
    given[:5] = numbers
    with pytest.raises(Deadlock) as caught:
        run(disagreeing(), 5, given, zeros(64, 16))
    assert f"{waits} to be at the barrier" in str(caught.value)
    assert "pl.system.syncall(used_cores=pl.read(numbers, [i]))" in str(caught.value)
