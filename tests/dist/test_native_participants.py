"""Participants of compiled code: many of them, what ends them, and what goes through pipes."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from dist.running import RUNNERS, array, compiled, zeros
from dist.test_groups import mixed
from moments import pressed
from tilewright import ir
from tilewright.errors import CancelledError, Deadlock, IndexOutOfBounds

T = pl.Tensor[[16, 16], pl.FP32]
ROWS = pl.Tensor[[64, 16], pl.FP32]
AIC, AIV, GROUP = pl.FunctionType.AIC, pl.FunctionType.AIV, pl.FunctionType.Group


def program(function: Any) -> ir.Program:
    """A program of one function."""
    return ir.Program("P", {function.name: function})


# ------------------------------------------------------------------------------------------ blocks


@pl.function
def rotated(x: ROWS, scratch: pl.InOut[ROWS], out: pl.Out[ROWS]) -> ROWS:
    for i in pl.spmd(64):
        scratch = pl.store(pl.load(x, [i, 0], [1, 16]), [i, 0], scratch)
        for _ in pl.range(20):
            pl.system.syncall()
            other = pl.load(scratch, [(i + 1) % 64, 0], [1, 16])
            pl.system.syncall()
            scratch = pl.store(pl.add(other, 1.0), [i, 0], scratch)
        out = pl.store(pl.load(scratch, [i, 0], [1, 16]), [i, 0], out)
    return out


def test_more_blocks_than_processors_meet_again_and_again() -> None:
    x, out = array(64, 16), zeros(64, 16)
    compiled(program(rotated))(x, zeros(64, 16), out)
    wanted = x
    for _ in range(20):
        wanted = np.roll(wanted, -1, axis=0) + np.float32(1)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("run", RUNNERS, ids=lambda runner: runner.__name__)
def test_a_barrier_of_the_first_blocks_leaves_the_others_alone(run: Any) -> None:
    @pl.function
    def main(out: pl.InOut[ROWS]) -> ROWS:
        for i in pl.spmd(8):
            for j in pl.range(4):
                pl.system.syncall(used_cores=3)
            out = pl.store(pl.full([1, 16], dtype=pl.FP32, value=1.0), [i, 0], out)
        return out

    out = zeros(64, 16)
    run(program(main), out)
    assert out[:8].all() and not out[8:].any()


@pytest.mark.parametrize("run", RUNNERS, ids=lambda runner: runner.__name__)
def test_a_product_is_not_stored_before_the_barrier_that_its_store_is_after(run: Any) -> None:
    half, whole = pl.Tensor[[16, 16], pl.FP32], pl.Tensor[[32, 16], pl.FP32]

    @pl.function
    def main(a: half, b: half, y: pl.InOut[whole], out: pl.InOut[whole]) -> whole:
        for i in pl.spmd(2):
            y = pl.store(pl.load(out, [16 - i * 16, 0], [16, 16]), [i * 16, 0], y)
            t = pl.matmul(pl.load(a, [0, 0], [16, 16]), pl.load(b, [0, 0], [16, 16]))
            pl.system.syncall()
            out = pl.store(t, [i * 16, 0], out)
        return out

    a, b, y, out = array(16, 16), array(16, 16, seed=1), zeros(32, 16), zeros(32, 16) + 7
    run(program(main), a, b, y, out)
    assert (y == 7).all()
    np.testing.assert_allclose(out, np.vstack([a @ b, a @ b]), rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------------------------- what ends them


@pl.function
def looking(table: pl.Tensor[[4], pl.INT32], x: ROWS, out: pl.InOut[ROWS]) -> ROWS:
    for i in pl.spmd(4):
        row = pl.cast(pl.read(table, [i]), pl.INDEX)
        out = pl.store(pl.load(x, [row, 0], [1, 16]), [i, 0], out)
        pl.system.syncall()
    return out


def test_a_fault_of_one_block_releases_the_others_and_has_its_line() -> None:
    kernel = compiled(program(looking))
    x, out = array(64, 16), zeros(64, 16)
    for wrong in (64, -1):
        with pytest.raises(IndexOutOfBounds, match=r"outside \[0, 64\)") as caught:
            kernel(np.array([0, 1, wrong, 3], np.int32), x, out)
        assert "pl.load(x, [row, 0], [1, 16])" in str(caught.value)
    kernel(np.array([3, 2, 1, 0], np.int32), x, out)
    np.testing.assert_array_equal(out[:4], x[3::-1])


@pl.program
class Stuck:
    @pl.function(type=AIC)
    def cube(self, a: T, n: pl.Scalar[pl.INDEX]):
        for i in pl.range(n):
            pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=0)

    @pl.function(type=AIV)
    def vector(self, rows: pl.Tensor[[1], pl.INT32], out: pl.InOut[T]) -> T:
        for i in pl.range(4):
            t = pl.tpop_from_aic(shape=[16, 16], dtype=pl.FP32)
            at = pl.cast(pl.read(rows, [0]), pl.INDEX)
            out = pl.store(t, [at, 0], out)
            pl.tfree_to_aic(t)
        return out

    @pl.function(type=GROUP)
    def main(
        self,
        a: T,
        rows: pl.Tensor[[1], pl.INT32],
        n: pl.Scalar[pl.INDEX],
        out: pl.InOut[T],
    ) -> T:
        self.cube(a, n)
        return self.vector(rows, out)


def test_a_fault_of_one_side_releases_the_other() -> None:
    kernel, rows = compiled(Stuck), np.zeros(1, np.int32)
    with pytest.raises(IndexOutOfBounds) as caught:
        kernel(array(16, 16), rows + 1, 1000, zeros(16, 16))
    assert "pl.store(t, [at, 0], out)" in str(caught.value)
    with pytest.raises(Deadlock, match="1 of them are blocked") as stopped:
        kernel(array(16, 16), rows, 2, zeros(16, 16))
    assert "vector lane 0 waits for a tile from the cube core" in str(stopped.value)
    a, out = array(16, 16), zeros(16, 16)
    kernel(a, rows, 4, out)
    np.testing.assert_array_equal(out, a)


@pl.function
def endless(out: pl.InOut[ROWS], meets: pl.Scalar[pl.INDEX]) -> ROWS:
    for i in pl.spmd(3):
        if i < 1:
            for j in pl.range(1 << 40):
                one = pl.add(pl.load(out, [0, 0], [1, 16]), 1.0)
                out = pl.store(one, [0, 0], out)
                for k in pl.range(meets):
                    pl.system.syncall()
        else:
            for j in pl.range(1 << 40):
                pl.system.syncall()
    return out


@pytest.mark.parametrize("meets", [0, 1], ids=["some-sleep", "all-meet"])
def test_control_c_ends_every_participant(meets: int) -> None:
    kernel, begun = compiled(program(endless)), zeros(64, 16)
    with pytest.raises(CancelledError, match="partly written"), pressed(once=begun.any):
        kernel(begun, meets)
    a, b, out = array(16, 16), array(16, 16, seed=1), zeros(16, 16)
    compiled(mixed(frees=True))(a, b, out)
    np.testing.assert_allclose(out, 4 * (a @ b), rtol=1e-5, atol=1e-5)


def test_threads_run_groups_at_the_same_time() -> None:
    kernel = compiled(mixed(frees=True))
    a, b = array(16, 16), array(16, 16, seed=1)
    outs = [zeros(16, 16) for _ in range(4)]

    def repeat(out: Any) -> None:
        for _ in range(25):
            kernel(a, b, out)

    threads = [threading.Thread(target=repeat, args=(out,)) for out in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for out in outs:
        np.testing.assert_array_equal(out, outs[0])
    np.testing.assert_allclose(outs[0], 100 * (a @ b), rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------------------------------- pipes


def halves(split: int) -> ir.Program:
    """A tile is divided between two lanes and comes back whole, several times, out of step."""
    shape = [8, 16] if split in (1, 3) else [16, 8]

    @pl.program
    class P:
        @pl.function(type=AIC)
        def cube(self, a: T, out: pl.InOut[T]) -> T:
            pl.aic_initialize_pipe(slot_num=3, id=2)
            for i in pl.range(3):
                pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=split, id=2)
            for i in pl.range(9):
                e = pl.tpop_from_aiv(shape=[16, 16], dtype=pl.FP32, split=split, id=2)
                out = pl.store(pl.add(pl.load(out, [0, 0], [16, 16]), e), [0, 0], out)
                pl.tfree_to_aiv(e, id=2)
                if i < 6:
                    pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=split, id=2)
            return out

        @pl.function(type=AIV)
        def vector(self):
            pl.aiv_initialize_pipe(slot_num=3, id=2)
            for i in pl.range(9):
                t = pl.tpop_from_aic(shape=shape, dtype=pl.FP32, split=split, id=2)
                lane = pl.cast(pl.get_subblock_idx(), pl.FP32)
                pl.tfree_to_aic(t, id=2)
                pl.tpush_to_aic(pl.add(t, lane), split=split, id=2)

        @pl.function(type=GROUP)
        def main(self, a: T, out: pl.InOut[T]) -> T:
            out = self.cube(a, out)
            self.vector()
            return out

    return P


@pytest.mark.parametrize("split", [1, 2, 3, 4])
@pytest.mark.parametrize("run", RUNNERS, ids=lambda runner: runner.__name__)
def test_parts_of_a_tile_go_to_the_lanes_and_back(run: Any, split: int) -> None:
    a, out = array(16, 16), zeros(16, 16)
    run(halves(split), a, out)
    lane = np.repeat([[0.0], [1.0]], 8, axis=0) if split in (1, 3) else np.repeat([0.0, 1.0], 8)
    wanted = zeros(16, 16)
    for _ in range(9):
        wanted += a + lane.astype(np.float32)
    np.testing.assert_array_equal(out, wanted)


@pl.program
class Kinds:
    """One pipe carries tiles of two types in one direction, and two of them wait to be freed."""

    @pl.function(type=AIC)
    def cube(self, a: T):
        pl.aic_initialize_pipe(slot_num=2)
        for i in pl.range(5):
            pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=0)
            pl.tpush_to_aiv(pl.cast(pl.load(a, [0, 0], [4, 8]), pl.FP16), split=0)

    @pl.function(type=AIV)
    def vector(self, out: pl.InOut[T], half: pl.InOut[pl.Tensor[[4, 8], pl.FP16]]):
        pl.aiv_initialize_pipe(slot_num=2)
        for i in pl.range(5):
            t = pl.tpop_from_aic(shape=[16, 16], dtype=pl.FP32)
            h = pl.tpop_from_aic(shape=[4, 8], dtype=pl.FP16)
            pl.tfree_to_aic(t)
            pl.tfree_to_aic(h)
            out = pl.store(pl.add(pl.load(out, [0, 0], [16, 16]), t), [0, 0], out)
            half = pl.store(h, [0, 0], half)

    @pl.function(type=GROUP)
    def main(self, a: T, out: pl.InOut[T], half: pl.InOut[pl.Tensor[[4, 8], pl.FP16]]):
        self.cube(a)
        self.vector(out, half)


@pytest.mark.parametrize("run", RUNNERS, ids=lambda runner: runner.__name__)
def test_a_pipe_carries_tiles_of_several_types_that_outlive_their_slots(run: Any) -> None:
    a, out, half = array(16, 16), zeros(16, 16), np.zeros((4, 8), np.float16)
    run(Kinds, a, out, half)
    wanted = zeros(16, 16)
    for _ in range(5):
        wanted += a
    np.testing.assert_array_equal(out, wanted)
    np.testing.assert_array_equal(half, a[:4, :8].astype(np.float16))


@pl.program
class Blocks:
    """Groups in blocks that meet: each block's vector side reads what another block's wrote."""

    @pl.function(type=AIC)
    def cube(self, a: ROWS, i: pl.Scalar[pl.INDEX]):
        pl.tpush_to_aiv(pl.load(a, [i, 0], [1, 16]), split=0)

    @pl.function(type=AIV)
    def vector(self, i: pl.Scalar[pl.INDEX], out: pl.InOut[ROWS]) -> ROWS:
        t = pl.tpop_from_aic(shape=[1, 16], dtype=pl.FP32)
        out = pl.store(t, [i, 0], out)
        pl.tfree_to_aic(t)
        pl.system.syncall()
        other = pl.load(out, [(i + 1) % 4, 0], [1, 16])
        return pl.store(other, [i + 4, 0], out)

    @pl.function(type=GROUP)
    def pair(self, a: ROWS, i: pl.Scalar[pl.INDEX], out: pl.InOut[ROWS]) -> ROWS:
        self.cube(a, i)
        return self.vector(i, out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: ROWS, out: pl.InOut[ROWS]) -> ROWS:
        for i in pl.spmd(4):
            out = self.pair(a, i, out)
        return out


@pytest.mark.parametrize("run", RUNNERS, ids=lambda runner: runner.__name__)
def test_groups_in_blocks_meet(run: Any) -> None:
    a, out = array(64, 16), zeros(64, 16)
    run(Blocks, a, out)
    np.testing.assert_array_equal(out[:4], a[:4])
    np.testing.assert_array_equal(out[4:8], np.roll(a[:4], -1, axis=0))
