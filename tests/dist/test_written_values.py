"""What one call of a group returns and other calls of it write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from dist.running import RUNNERS, Run, array, each_of, zeros
from dist.running import run as interpret
from tilewright import ir
from tilewright.errors import Deadlock

T = pl.Tensor[[16, 16], pl.FP32]
ROW = pl.Tensor[[1, 16], pl.FP32]
INDEX = pl.Scalar[pl.INDEX]
AIC, AIV, GROUP = pl.FunctionType.AIC, pl.FunctionType.AIV, pl.FunctionType.Group
ORCHESTRATION = pl.FunctionType.Orchestration
CORE = pl.Level.CORE_GROUP


run = each_of(RUNNERS)


@pl.function(type=AIC)
def made(a: ROW) -> ROW:
    """A row, after one tile for the vector lanes."""
    pl.tpush_to_aiv(pl.load(a, [0, 0], [1, 16]), split=0)
    t = pl.create_tensor([1, 16], dtype=pl.FP32)
    return pl.store(pl.add(pl.load(a, [0, 0], [1, 16]), 1.0), [0, 0], t)


@pl.function(type=AIV)
def grown(t: pl.InOut[ROW]) -> ROW:
    """Three times t and a tile of the cube core."""
    e = pl.tpop_from_aic(shape=[1, 16], dtype=pl.FP32)
    t = pl.store(pl.add(pl.mul(pl.load(t, [0, 0], [1, 16]), 3.0), e), [0, 0], t)
    pl.tfree_to_aic(e)
    return t


@pl.function(type=AIV)
def tripled(t: pl.InOut[ROW]) -> ROW:
    """Three times t."""
    return pl.store(pl.mul(pl.load(t, [0, 0], [1, 16]), 3.0), [0, 0], t)


@pl.function(type=AIV)
def copied(t: ROW, i: INDEX, out: pl.InOut[T]) -> T:
    """t as row i."""
    return pl.store(pl.load(t, [0, 0], [1, 16]), [i, 0], out)


@pl.function(type=AIC)
def sent(a: ROW):
    """A tile for the vector lanes."""
    pl.tpush_to_aiv(pl.load(a, [0, 0], [1, 16]), split=0)


@pl.program
class InALoop:
    """Each round has a row of its own, which the other side writes twice."""

    @pl.function(type=GROUP)
    def main(self, x: T, out: pl.InOut[T]) -> T:
        for i in pl.range(7):
            t = made(x[i : i + 1, :])
            t = grown(t)
            out = copied(t, i, out)
            t = tripled(t)
            out = copied(t, i + 8, out)
        return out


def test_the_other_side_writes_what_each_round_returns(run: Run) -> None:
    x, out, wanted = array(16, 16), zeros(16, 16), zeros(16, 16)
    run(InALoop, x, out)
    wanted[:7] = (x[:7] + np.float32(1)) * np.float32(3) + x[:7]
    wanted[8:15] = wanted[:7] * np.float32(3)
    np.testing.assert_array_equal(out, wanted)


@pl.program
class Carried:
    """One row is written in every round, before the other side sends what that needs."""

    @pl.function(type=GROUP)
    def pair(self, a: ROW, n: INDEX) -> ROW:
        t = made(a)
        for i in pl.range(4):
            t = grown(t)
            sent(a)
        k = 0
        while k < n:
            t = tripled(t)
            k = k + 1
        if n > 1:
            t = grown(t)
        else:
            t = grown(tripled(t))
        return t

    @pl.function(type=ORCHESTRATION)
    def main(self, a: ROW, n: INDEX, out: pl.InOut[ROW]) -> ROW:
        t = self.pair(a, n)
        with pl.at(level=CORE):
            out = pl.store(pl.load(t, [0, 0], [1, 16]), [0, 0], out)
        return out


@pytest.mark.parametrize("n", [1, 2])
def test_one_side_writes_again_and_again(run: Run, n: int) -> None:
    a, out = array(1, 16), zeros(1, 16)
    run(Carried, a, n, out)
    three = np.float32(3)
    wanted = a + np.float32(1)
    for _ in range(4):
        wanted = wanted * three + a
    wanted = wanted * three * three * three + a
    np.testing.assert_array_equal(out, wanted)


@pl.program
class Halves:
    """Two lanes write the halves of what the cube core returns."""

    @pl.function(type=AIC)
    def cube(self, a: T) -> T:
        pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=1)
        t = pl.create_tensor([16, 16], dtype=pl.FP32)
        return pl.store(pl.add(pl.load(a, [0, 0], [16, 16]), 1.0), [0, 0], t)

    @pl.function(type=AIV)
    def vector(self, t: pl.InOut[T]) -> T:
        row = pl.get_subblock_idx() * 8
        e = pl.tpop_from_aic(shape=[8, 16], dtype=pl.FP32, split=1)
        t = pl.store(pl.add(pl.load(t, [row, 0], [8, 16]), e), [row, 0], t)
        pl.tfree_to_aic(e)
        return t

    @pl.function(type=GROUP)
    def pair(self, a: T) -> T:
        t = self.cube(a)
        t = self.vector(t)
        return t

    @pl.function(type=ORCHESTRATION)
    def main(self, a: T, out: pl.InOut[T]) -> T:
        t = self.pair(a)
        with pl.at(level=CORE):
            out = pl.store(pl.load(t, [0, 0], [16, 16]), [0, 0], out)
        return out


def test_two_lanes_write_halves(run: Run) -> None:
    a, out = array(16, 16), zeros(16, 16)
    run(Halves, a, out)
    np.testing.assert_array_equal(out, a + np.float32(1) + a)


@pl.program
class Alternating:
    """Both sides write the same memory; messages in the middle of calls say whose turn it is."""

    @pl.function(type=AIV)
    def first(self, a: ROW) -> ROW:
        t = pl.create_tensor([1, 16], dtype=pl.FP32)
        return pl.store(pl.add(pl.load(a, [0, 0], [1, 16]), 1.0), [0, 0], t)

    @pl.function(type=AIV)
    def vector(self, t: pl.InOut[ROW], out: pl.InOut[ROW]) -> tuple[ROW, ROW]:
        t = pl.store(pl.mul(pl.load(t, [0, 0], [1, 16]), 2.0), [0, 0], t)
        pl.tpush_to_aic(pl.load(t, [0, 0], [1, 16]), split=0)
        e = pl.tpop_from_aic(shape=[1, 16], dtype=pl.FP32)
        out = pl.store(pl.add(e, pl.load(t, [0, 0], [1, 16])), [0, 0], out)
        pl.tfree_to_aic(e)
        return t, out

    @pl.function(type=AIC)
    def cube(self, t: pl.InOut[ROW]) -> ROW:
        e = pl.tpop_from_aiv(shape=[1, 16], dtype=pl.FP32)
        t = pl.store(pl.add(pl.load(t, [0, 0], [1, 16]), e), [0, 0], t)
        pl.tfree_to_aiv(e)
        pl.tpush_to_aiv(pl.load(t, [0, 0], [1, 16]), split=0)
        return t

    @pl.function(type=GROUP)
    def main(self, a: ROW, out: pl.InOut[ROW]) -> ROW:
        t = self.first(a)
        t, out = self.vector(t, out)
        t = self.cube(t)
        return out


def test_both_sides_write_the_same_memory(run: Run) -> None:
    a, out = array(1, 16), zeros(1, 16)
    run(Alternating, a, out)
    np.testing.assert_array_equal(out, (a + np.float32(1)) * np.float32(8))


@pl.program
class OfEachLane:
    """Each lane writes what it has returned itself; the first one's goes out."""

    @pl.function(type=AIV)
    def first(self) -> ROW:
        e = pl.tpop_from_aic(shape=[1, 16], dtype=pl.FP32)
        t = pl.create_tensor([1, 16], dtype=pl.FP32)
        t = pl.store(pl.add(e, pl.cast(pl.get_subblock_idx(), pl.FP32)), [0, 0], t)
        pl.tfree_to_aic(e)
        return t

    @pl.function(type=GROUP)
    def pair(self, a: ROW) -> ROW:
        sent(a)
        t = self.first()
        for i in pl.range(2):
            t = tripled(t)
        return t

    @pl.function(type=ORCHESTRATION)
    def main(self, a: ROW, out: pl.InOut[ROW]) -> ROW:
        t = self.pair(a)
        with pl.at(level=CORE):
            out = pl.store(pl.load(t, [0, 0], [1, 16]), [0, 0], out)
        return out


def test_each_lane_writes_its_own(run: Run) -> None:
    a, out = array(1, 16), zeros(1, 16)
    run(OfEachLane, a, out)
    np.testing.assert_array_equal(out, a * np.float32(3) * np.float32(3))


@pl.program
class Parts:
    """The group puts rows that a side has written back into what the other one returned."""

    @pl.function(type=AIC)
    def first(self, a: T) -> T:
        pl.tpush_to_aiv(pl.load(a, [0, 0], [1, 16]), split=0)
        t = pl.create_tensor([16, 16], dtype=pl.FP32)
        return pl.store(pl.add(pl.load(a, [0, 0], [16, 16]), 1.0), [0, 0], t)

    @pl.function(type=GROUP)
    def pair(self, a: T) -> T:
        t = self.first(a)
        t[5:6, :] = grown(t[5:6, :])
        for i in pl.range(4):
            t[i : i + 1, :] = tripled(t[i : i + 1, :])
        return t

    @pl.function(type=ORCHESTRATION)
    def main(self, a: T, out: pl.InOut[T]) -> T:
        t = self.pair(a)
        with pl.at(level=CORE):
            out = pl.store(pl.load(t, [0, 0], [16, 16]), [0, 0], out)
        return out


def test_parts_are_written(run: Run) -> None:
    a, out = array(16, 16), zeros(16, 16)
    run(Parts, a, out)
    wanted = a + np.float32(1)
    wanted[:4] *= np.float32(3)
    wanted[5] = wanted[5] * np.float32(3) + a[0]
    np.testing.assert_array_equal(out, wanted)


@pl.program
class PutBack:
    """Both sides write rows of what the group was given; all tiles are sent before the first."""

    @pl.function(type=AIC)
    def ahead(self, a: ROW):
        for i in pl.range(8):
            pl.tpush_to_aiv(pl.load(a, [0, 0], [1, 16]), split=0)

    @pl.function(type=AIC)
    def sevenfold(self, a: ROW, t: pl.Out[ROW]) -> ROW:
        return pl.store(pl.mul(pl.load(a, [0, 0], [1, 16]), 7.0), [0, 0], t)

    @pl.function(type=AIV)
    def two(self, t: pl.InOut[ROW], u: pl.InOut[ROW]) -> tuple[ROW, ROW]:
        e = pl.tpop_from_aic(shape=[1, 16], dtype=pl.FP32)
        t = pl.store(pl.add(pl.load(t, [0, 0], [1, 16]), e), [0, 0], t)
        u = pl.store(pl.sub(pl.load(u, [0, 0], [1, 16]), e), [0, 0], u)
        pl.tfree_to_aic(e)
        return t, u

    @pl.function(type=GROUP)
    def main(self, a: ROW, out: pl.InOut[T]) -> T:
        self.ahead(a)
        for i in pl.range(4):
            out[2 * i : 2 * i + 1, :] = grown(out[2 * i : 2 * i + 1, :])
            self.sevenfold(a, out[i + 9 : i + 10, :])
        self.two(out[0:1, :], out[1:2, :])
        self.two(out[1:2, :], out[14:15, :])
        k = 0
        while k < 2:
            out[k + 14 : k + 15, :] = grown(out[k + 14 : k + 15, :])
            k = k + 1
        return out


def test_both_sides_write_parts_of_what_the_group_was_given(run: Run) -> None:
    a, out = array(1, 16), array(16, 16, seed=1)
    wanted = out.copy()
    run(PutBack, a, out)
    wanted[0:8:2] = wanted[0:8:2] * np.float32(3) + a
    wanted[9:13] = a * np.float32(7)
    wanted[0] += a[0]
    wanted[1] = wanted[1] - a[0] + a[0]
    wanted[14] -= a[0]
    wanted[14:16] = wanted[14:16] * np.float32(3) + a
    np.testing.assert_array_equal(out, wanted)


@pl.program
class Waiting:
    """The cube core waits for the vector side, which waits for what the cube core returns."""

    @pl.function(type=AIC)
    def cube(self, a: ROW) -> ROW:
        e = pl.tpop_from_aiv(shape=[1, 16], dtype=pl.FP32)
        t = pl.create_tensor([1, 16], dtype=pl.FP32)
        t = pl.store(pl.add(pl.load(a, [0, 0], [1, 16]), e), [0, 0], t)
        pl.tfree_to_aiv(e)
        return t

    @pl.function(type=AIV)
    def vector(self, t: pl.InOut[ROW], out: pl.InOut[ROW]) -> tuple[ROW, ROW]:
        pl.tpush_to_aic(pl.load(t, [0, 0], [1, 16]), split=0)
        t = pl.store(pl.mul(pl.load(t, [0, 0], [1, 16]), 2.0), [0, 0], t)
        return t, pl.store(pl.load(t, [0, 0], [1, 16]), [0, 0], out)

    @pl.function(type=GROUP)
    def main(self, a: ROW, out: pl.InOut[ROW]) -> ROW:
        t = self.cube(a)
        t, out = self.vector(t, out)
        return out


def test_who_waits_for_what_the_other_returns_is_named(run: Run) -> None:
    with pytest.raises(Deadlock, match="2 of them are blocked") as caught:
        run(Waiting, array(1, 16), zeros(1, 16))
    assert "vector lane 0 waits for what the cube core returns" in str(caught.value)
    assert len({span.line for _, span in caught.value.notes if span is not None}) == 2


# ------------------------------------------------------------------------------ what is interpreted


@pl.program
class HalvesInALoop:
    """Each round's memory is of its own, and two lanes share it."""

    @pl.function(type=AIC)
    def cube(self, a: T) -> T:
        pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=1)
        t = pl.create_tensor([16, 16], dtype=pl.FP32)
        return pl.store(pl.load(a, [0, 0], [16, 16]), [0, 0], t)

    @pl.function(type=AIV)
    def vector(self, t: pl.InOut[T], out: pl.InOut[T]) -> tuple[T, T]:
        row = pl.get_subblock_idx() * 8
        e = pl.tpop_from_aic(shape=[8, 16], dtype=pl.FP32, split=1)
        t = pl.store(pl.add(pl.load(t, [row, 0], [8, 16]), e), [row, 0], t)
        pl.tfree_to_aic(e)
        both = pl.add(pl.load(t, [row, 0], [8, 16]), pl.load(out, [row, 0], [8, 16]))
        return t, pl.store(both, [row, 0], out)

    @pl.function(type=GROUP)
    def main(self, a: T, out: pl.InOut[T]) -> T:
        for i in pl.range(3):
            t = self.cube(a)
            t, out = self.vector(t, out)
        return out


@pl.program
class Temporary:
    """In each round one side fills a tensor for the other one."""

    @pl.function(type=AIC)
    def cube(self, a: ROW, t: pl.Out[ROW]) -> ROW:
        t = pl.store(pl.mul(pl.load(a, [0, 0], [1, 16]), 3.0), [0, 0], t)
        pl.tpush_to_aiv(pl.load(a, [0, 0], [1, 16]), split=0)
        return t

    @pl.function(type=AIV)
    def vector(self, t: ROW, i: INDEX, out: pl.InOut[T]) -> T:
        e = pl.tpop_from_aic(shape=[1, 16], dtype=pl.FP32)
        out = pl.store(pl.add(pl.load(t, [0, 0], [1, 16]), e), [i, 0], out)
        pl.tfree_to_aic(e)
        return out

    @pl.function(type=GROUP)
    def main(self, a: T, out: pl.InOut[T]) -> T:
        for i in pl.range(16):
            t = pl.create_tensor([1, 16], dtype=pl.FP32)
            t = self.cube(a[i : i + 1, :], t)
            out = self.vector(t, i, out)
        return out


@pl.program
class Exchanged:
    """Two that are returned change places in each round."""

    @pl.function(type=GROUP)
    def main(self, a: T, out: pl.InOut[T]) -> T:
        t = made(a[0:1, :])
        u = made(a[1:2, :])
        t = grown(t)
        u = grown(u)
        for i in pl.range(4):
            t = tripled(t)
            out = copied(t, i, out)
            s = t
            t = u
            u = s
        return out


@pl.program
class OfOneLane:
    """The cube core writes what the first one of two lanes has returned."""

    @pl.function(type=AIV)
    def first(self, out: pl.InOut[T]) -> tuple[T, ROW]:
        lane = pl.get_subblock_idx()
        t = pl.create_tensor([1, 16], dtype=pl.FP32)
        t = pl.store(pl.full([1, 16], dtype=pl.FP32, value=2.0), [0, 0], t)
        return pl.store(pl.load(t, [0, 0], [1, 16]), [lane, 0], out), t

    @pl.function(type=AIC)
    def cube(self, t: pl.InOut[ROW]) -> ROW:
        t = pl.store(pl.add(pl.load(t, [0, 0], [1, 16]), 1.0), [0, 0], t)
        pl.tpush_to_aiv(pl.load(t, [0, 0], [1, 16]), split=0)
        return t

    @pl.function(type=AIV)
    def last(self, t: ROW, out: pl.InOut[T]) -> T:
        e = pl.tpop_from_aic(shape=[1, 16], dtype=pl.FP32)
        out = pl.store(e, [pl.get_subblock_idx() + 2, 0], out)
        pl.tfree_to_aic(e)
        return out

    @pl.function(type=GROUP)
    def main(self, a: T, out: pl.InOut[T]) -> T:
        out, t = self.first(out)
        t = self.cube(t)
        out = self.last(t, out)
        return out


def halves(a: Any) -> Any:
    return (a + a) * np.float32(3)


def temporary(a: Any) -> Any:
    return a * np.float32(3) + a


def exchanged(a: Any) -> Any:
    three, wanted = np.float32(3), zeros(16, 16)
    wanted[:2] = ((a[:2] + np.float32(1)) * three + a[:2]) * three
    wanted[2:4] = wanted[:2] * three
    return wanted


def of_one_lane(a: Any) -> Any:
    wanted = zeros(16, 16)
    wanted[:4] = np.float32([[2], [2], [3], [3]])
    return wanted


@pytest.mark.parametrize(
    ("program", "formula", "why"),
    [
        (HalvesInALoop, halves, "is another one each time, and lanes or both sides work on it"),
        (Temporary, temporary, "is another one each time, and lanes or both sides work on it"),
        (Exchanged, exchanged, "changes places with another one"),
        (OfOneLane, of_one_lane, "is one of each vector lane, and the cube core works on it"),
    ],
)
def test_what_has_no_memory_that_all_see_is_interpreted_and_says_so(
    program: ir.Program, formula: Any, why: str
) -> None:
    made = ir.compile(program)
    a, out = array(16, 16), zeros(16, 16)
    made(a, out)
    np.testing.assert_allclose(out, formula(a), rtol=1e-6)
    assert why in made.explain()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("program", [InALoop, Halves, PutBack, Temporary])
def test_no_order_changes_what_is_written(program: ir.Program, seed: int) -> None:
    a = array(16 if program is not PutBack else 1, 16, seed=seed)
    out, other = zeros(16, 16), zeros(16, 16)
    interpret(program, a, out)
    interpret(program, a, other, checked=True, seed=seed)
    np.testing.assert_array_equal(out, other)
