"""What one side of a group returns: to the other side while both run, and to who follows."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.language as pl
from dist.running import RUNNERS, Run, array, each_of, zeros
from tilewright.errors import Deadlock

T = pl.Tensor[[16, 16], pl.FP32]
ROW = pl.Tensor[[1, 16], pl.FP32]
AIC, AIV, GROUP = pl.FunctionType.AIC, pl.FunctionType.AIV, pl.FunctionType.Group
ORCHESTRATION = pl.FunctionType.Orchestration
CORE = pl.Level.CORE_GROUP


run = each_of(RUNNERS)


@pl.program
class ToTheCaller:
    """Both sides return something, and talk meanwhile."""

    @pl.function(type=AIC)
    def cube(self, a: T) -> tuple[T, pl.Scalar[pl.FP32], pl.Scalar[pl.INDEX]]:
        pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=0)
        t = pl.create_tensor([16, 16], dtype=pl.FP32)
        e = pl.tpop_from_aiv(shape=[16, 16], dtype=pl.FP32)
        t = pl.store(pl.add(e, 1.0), [0, 0], t)
        pl.tfree_to_aiv(e)
        return t, pl.read(a, [3, 4]), 5

    @pl.function(type=AIV)
    def vector(self, out: pl.InOut[T]) -> tuple[T, T]:
        u = pl.tpop_from_aic(shape=[16, 16], dtype=pl.FP32)
        pl.tpush_to_aic(pl.mul(u, 2.0), split=0)
        out = pl.store(u, [0, 0], out)
        pl.tfree_to_aic(u)
        other = pl.create_tensor([16, 16], dtype=pl.FP32)
        other = pl.store(pl.full([16, 16], dtype=pl.FP32, value=7.0), [0, 0], other)
        return out, other

    @pl.function(type=GROUP)
    def pair(
        self, a: T, out: pl.InOut[T]
    ) -> tuple[T, T, T, pl.Scalar[pl.FP32], pl.Scalar[pl.INDEX]]:
        t, s, n = self.cube(a)
        out, other = self.vector(out)
        return t, other, out, s, n

    @pl.function(type=ORCHESTRATION)
    def main(self, a: T, out: pl.InOut[T], sums: pl.InOut[T]) -> tuple[T, T]:
        t, other, out, s, n = self.pair(a, out)
        with pl.at(level=CORE):
            both = pl.add(pl.load(t, [0, 0], [16, 16]), pl.load(other, [0, 0], [16, 16]))
            sums = pl.store(pl.mul(both, s), [0, 0], sums)
            sums = pl.store(pl.load(a, [0, 0], [1, 16]), [n, 0], sums)
        return out, sums


def test_what_sides_return_goes_to_the_caller(run: Run) -> None:
    a, out, sums = array(16, 16), zeros(16, 16), zeros(16, 16)
    run(ToTheCaller, a, out, sums)
    wanted = (a * np.float32(2) + np.float32(1) + np.float32(7)) * a[3, 4]
    wanted[5] = a[0]
    np.testing.assert_array_equal(out, a)
    np.testing.assert_array_equal(sums, wanted)


@pl.program
class ToTheOtherSide:
    """Each round the cube core's value goes to the vector side, and the vector side's back."""

    @pl.function(type=AIC)
    def cube(self, x: ROW, i: pl.Scalar[pl.INDEX]) -> tuple[ROW, pl.Scalar[pl.INDEX]]:
        t = pl.create_tensor([1, 16], dtype=pl.FP32)
        t = pl.store(pl.add(pl.load(x, [0, 0], [1, 16]), 1.0), [0, 0], t)
        return t, i * 2

    @pl.function(type=AIV)
    def vector(
        self, t: ROW, row: pl.Scalar[pl.INDEX], out: pl.InOut[T]
    ) -> tuple[T, ROW, pl.Scalar[pl.FP32]]:
        pl.tpush_to_aic(pl.load(t, [0, 0], [1, 16]), split=0)
        out = pl.store(pl.load(t, [0, 0], [1, 16]), [row, 0], out)
        u = pl.create_tensor([1, 16], dtype=pl.FP32)
        u = pl.store(pl.mul(pl.load(t, [0, 0], [1, 16]), 2.0), [0, 0], u)
        return out, u, pl.read(t, [0, 1])

    @pl.function(type=AIC)
    def keep(self, u: ROW, s: pl.Scalar[pl.FP32], row: pl.Scalar[pl.INDEX], kept: pl.InOut[T]) -> T:
        e = pl.tpop_from_aiv(shape=[1, 16], dtype=pl.FP32)
        both = pl.mul(pl.add(pl.load(u, [0, 0], [1, 16]), e), s)
        pl.tfree_to_aiv(e)
        return pl.store(both, [row + 1, 0], kept)

    @pl.function(type=GROUP)
    def main(self, x: T, out: pl.InOut[T], kept: pl.InOut[T]) -> tuple[T, T]:
        for i in pl.range(7):
            t, row = self.cube(x[i : i + 1, :], i)
            out, u, s = self.vector(t, row, out)
            kept = self.keep(u, s, row + 1, kept)
        return out, kept


def test_what_a_side_returns_is_an_argument_of_the_other(run: Run) -> None:
    x, out, kept = array(16, 16), zeros(16, 16), zeros(16, 16)
    run(ToTheOtherSide, x, out, kept)
    wanted_out, wanted_kept = zeros(16, 16), zeros(16, 16)
    for i in range(7):
        t = x[i] + np.float32(1)
        wanted_out[2 * i] = t
        wanted_kept[2 * i + 2] = (t * np.float32(2) + t) * t[1]
    np.testing.assert_array_equal(out, wanted_out)
    np.testing.assert_array_equal(kept, wanted_kept)


@pl.program
class OfTwoLanes:
    """A lane goes on with what it has returned itself; of two lanes the first one's goes out."""

    @pl.function(type=AIC)
    def start(self, x: ROW) -> ROW:
        for i in pl.range(8):
            pl.tpush_to_aiv(pl.load(x, [0, 0], [1, 16]), split=0)
        t = pl.create_tensor([1, 16], dtype=pl.FP32)
        t = pl.store(pl.load(x, [0, 0], [1, 16]), [0, 0], t)
        return t

    @pl.function(type=AIV)
    def grown(self, t: ROW) -> ROW:
        lane = pl.cast(pl.get_subblock_idx(), pl.FP32)
        e = pl.tpop_from_aic(shape=[1, 16], dtype=pl.FP32)
        u = pl.create_tensor([1, 16], dtype=pl.FP32)
        u = pl.store(pl.add(pl.add(pl.load(t, [0, 0], [1, 16]), e), lane), [0, 0], u)
        pl.tfree_to_aic(e)
        return u

    @pl.function(type=GROUP)
    def pair(self, x: ROW) -> ROW:
        t = self.start(x)
        for i, (u,) in pl.range(8, init_values=(t,)):
            v = self.grown(u)
            u = pl.yield_(v)
        return u

    @pl.function(type=ORCHESTRATION)
    def main(self, x: ROW, out: pl.InOut[ROW]) -> ROW:
        t = self.pair(x)
        with pl.at(level=CORE):
            out = pl.store(pl.load(t, [0, 0], [1, 16]), [0, 0], out)
        return out


def test_the_first_lane_gives(run: Run) -> None:
    x, out = array(1, 16), zeros(1, 16)
    run(OfTwoLanes, x, out)
    wanted = x.copy()
    for _ in range(8):
        wanted = wanted + x
    np.testing.assert_array_equal(out, wanted)


@pl.program
class InPhases:
    """What the group does itself, on data, stands between two times at which its sides run."""

    @pl.function(type=AIC)
    def cube(self, a: ROW):
        pl.tpush_to_aiv(pl.load(a, [0, 0], [1, 16]), split=0)

    @pl.function(type=AIV)
    def vector(self, row: pl.Scalar[pl.INDEX], out: pl.InOut[T]) -> T:
        t = pl.tpop_from_aic(shape=[1, 16], dtype=pl.FP32)
        out = pl.store(pl.add(t, 1.0), [row, 0], out)
        pl.tfree_to_aic(t)
        return out

    @pl.function(type=GROUP)
    def main(self, a: ROW, out: pl.InOut[T]) -> T:
        self.cube(a)
        out = self.vector(0, out)
        for i in pl.range(3):
            row = pl.create_tensor([1, 16], dtype=pl.FP32)
            row = pl.assemble(row, pl.slice(out, [1, 16], [i, 0]), [0, 0])
            self.cube(row)
            out = self.vector(i + 1, out)
            if pl.read(out, [0, 0]) > 0.0:
                self.cube(a)
                out = self.vector(i + 8, out)
        return out


@pytest.mark.parametrize("sign", [1, -10])
def test_a_group_looks_at_data_between_its_calls(run: Run, sign: int) -> None:
    a, out = abs(array(1, 16)) * np.float32(sign), zeros(16, 16)
    run(InPhases, a, out)
    wanted = zeros(16, 16)
    wanted[0] = a[0] + np.float32(1)
    for i in range(3):
        wanted[i + 1] = wanted[i] + np.float32(1)
        if wanted[0, 0] > 0:
            wanted[i + 8] = a[0] + np.float32(1)
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
    def vector(self, t: ROW, out: pl.InOut[ROW]) -> ROW:
        pl.tpush_to_aic(pl.load(t, [0, 0], [1, 16]), split=0)
        return pl.store(pl.load(t, [0, 0], [1, 16]), [0, 0], out)

    @pl.function(type=GROUP)
    def main(self, a: ROW, out: pl.InOut[ROW]) -> ROW:
        t = self.cube(a)
        out = self.vector(t, out)
        return out


def test_who_waits_for_what_the_other_returns_is_named(run: Run) -> None:
    with pytest.raises(Deadlock, match="2 of them are blocked") as caught:
        run(Waiting, array(1, 16), zeros(1, 16))
    assert "vector lane 0 waits for what the cube core returns" in str(caught.value)
    assert "the cube core waits for a tile from the vector lanes" in str(caught.value)
    lines = {span.line for _, span in caught.value.notes if span is not None}
    assert len(lines) == 2


@pl.program
class Deciding:
    """What the cube core returns says how often, and whether, the vector side is called."""

    @pl.function(type=AIC)
    def count(
        self, table: pl.Tensor[[2], pl.INT32]
    ) -> tuple[pl.Scalar[pl.INDEX], pl.Scalar[pl.BOOL]]:
        for i in pl.range(5):
            pl.tpush_to_aiv(pl.tile.full([1, 16], dtype=pl.FP32, value=2.0), split=0)
        n = pl.cast(pl.read(table, [0]), pl.INDEX)
        flag = pl.read(table, [1]) > 0
        return n, flag

    @pl.function(type=AIV)
    def row(self, i: pl.Scalar[pl.INDEX], out: pl.InOut[T]) -> T:
        t = pl.tpop_from_aic(shape=[1, 16], dtype=pl.FP32)
        out = pl.store(t, [i, 0], out)
        pl.tfree_to_aic(t)
        return out

    @pl.function(type=AIV)
    def mark(self, out: pl.InOut[T]) -> T:
        return pl.store(pl.full([1, 16], dtype=pl.FP32, value=9.0), [15, 0], out)

    @pl.function(type=GROUP)
    def main(self, table: pl.Tensor[[2], pl.INT32], out: pl.InOut[T]) -> T:
        n, flag = self.count(table)
        for i in pl.range(3):
            out = self.row(i + n, out)
        if flag:
            out = self.mark(out)
        return out


@pytest.mark.parametrize(("first", "flag"), [(4, 1), (0, 0)])
def test_what_a_side_returns_decides_what_the_group_does(run: Run, first: int, flag: int) -> None:
    out = zeros(16, 16)
    run(Deciding, np.array([first, flag], np.int32), out)
    wanted = zeros(16, 16)
    wanted[first : first + 3] = 2
    wanted[15] = 9 * flag
    np.testing.assert_array_equal(out, wanted)
