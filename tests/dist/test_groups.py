"""Cube and vector sides of a group, blocks with barriers, lanes: they run at the same time."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.language as pl
from dist.running import RUNNERS, Run, array, each_of, zeros
from tilewright import ir
from tilewright.errors import Deadlock, RuntimeShapeMismatch

T = pl.Tensor[[16, 16], pl.FP32]
AIC, AIV, GROUP = pl.FunctionType.AIC, pl.FunctionType.AIV, pl.FunctionType.Group


run = each_of(RUNNERS)


def mixed(frees: bool, rounds: int = 4, slots: int = 2) -> ir.Program:
    """The cube side multiplies blocks, the vector side takes exponentials of the products."""

    @pl.program
    class Mixed:
        @pl.function(type=AIC)
        def cube(self, a: T, b: T):
            pl.aic_initialize_pipe(slot_num=slots)
            for i in pl.range(rounds):
                left = pl.load(a, [0, 0], [16, 16])
                product = pl.matmul(left, pl.load(b, [0, 0], [16, 16]))
                pl.tpush_to_aiv(product, split=0)

        @pl.function(type=AIV)
        def vector(self, out: pl.InOut[T]) -> T:
            pl.aiv_initialize_pipe(slot_num=slots)
            for i in pl.range(rounds):
                t = pl.tpop_from_aic(shape=[16, 16], dtype=pl.FP32)
                out = pl.store(pl.add(pl.load(out, [0, 0], [16, 16]), t), [0, 0], out)
                if frees:
                    pl.tfree_to_aic(t)
            return out

        @pl.function(type=GROUP)
        def main(self, a: T, b: T, out: pl.InOut[T]) -> T:
            self.cube(a, b)
            out = self.vector(out)
            return out

    return Mixed


def test_a_tile_goes_from_the_cube_core_to_the_vector_core(run: Run) -> None:
    a, b, out = array(16, 16), array(16, 16, seed=1), zeros(16, 16)
    run(mixed(frees=True), a, b, out)
    np.testing.assert_allclose(out, 4 * (a @ b), rtol=1e-5, atol=1e-5)


def test_slots_that_nobody_frees_end_in_a_deadlock_that_names_both_lines(run: Run) -> None:
    with pytest.raises(Deadlock) as caught:
        run(mixed(frees=False), array(16, 16), array(16, 16), zeros(16, 16))
    text = str(caught.value)
    assert "the cube core waits for a free slot in pipe 0, which has 2" in text
    assert "vector lane 0 waits for a tile from the cube core" in text
    lines = {span.line for _, span in caught.value.notes if span is not None}
    assert len(lines) == 2


@pl.program
class Halves:
    @pl.function(type=AIC)
    def cube(self, a: T, b: T, out: pl.Out[T]) -> T:
        pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=1)
        e = pl.tpop_from_aiv(shape=[16, 16], dtype=pl.FP32, split=1)
        out = pl.store(pl.matmul(e, pl.load(b, [0, 0], [16, 16])), [0, 0], out)
        pl.tfree_to_aiv(e)
        return out

    @pl.function(type=AIV)
    def vector(self):
        t = pl.tpop_from_aic(shape=[8, 16], dtype=pl.FP32, split=1)
        pl.tpush_to_aic(pl.add(t, pl.cast(pl.get_subblock_idx(), pl.FP32)), split=1)
        pl.tfree_to_aic(t)

    @pl.function(type=GROUP)
    def main(self, a: T, b: T, out: pl.Out[T]) -> T:
        out = self.cube(a, b, out)
        self.vector()
        return out


def test_two_lanes_work_on_halves_and_the_cube_core_gets_the_whole(run: Run) -> None:
    a, b, out = array(16, 16), array(16, 16, seed=1), zeros(16, 16)
    run(Halves, a, b, out)
    shifted = a + np.repeat([[0.0], [1.0]], 8, axis=0).astype(np.float32)
    np.testing.assert_allclose(out, shifted @ b, rtol=1e-5, atol=1e-5)


def test_a_group_prints_and_reads_back() -> None:
    text = Halves.as_python()
    assert "pl.FunctionType.Group" in text and "pl.system.tpop_from_aic(" in text
    ir.assert_structural_equal(pl.parse(text), Halves)


def test_a_tile_of_another_shape_than_was_pushed_is_refused(run: Run) -> None:
    @pl.program
    class Wrong:
        @pl.function(type=AIC)
        def cube(self, a: T):
            pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=0)

        @pl.function(type=AIV)
        def vector(self, out: pl.Out[T]) -> T:
            t = pl.tpop_from_aic(shape=[8, 16], dtype=pl.FP32)
            return pl.store(t, [0, 0], out)

        @pl.function(type=GROUP)
        def main(self, a: T, out: pl.Out[T]) -> T:
            self.cube(a)
            return self.vector(out)

    with pytest.raises(RuntimeShapeMismatch, match=r"\[16, 16\].*was pushed"):
        run(Wrong, array(16, 16), zeros(16, 16))


def test_blocks_wait_for_each_other_at_a_barrier(run: Run) -> None:
    @pl.function
    def main(x: T, scratch: pl.InOut[T], out: pl.Out[T]) -> T:
        for i in pl.spmd(4):
            scratch = pl.store(pl.load(x, [i * 4, 0], [4, 16]), [i * 4, 0], scratch)
            pl.system.syncall()
            last = (3 - i) * 4
            out = pl.store(pl.load(scratch, [last, 0], [4, 16]), [i * 4, 0], out)
        return out

    x, out = array(16, 16), zeros(16, 16)
    run(ir.Program("P", {"main": main}), x, zeros(16, 16), out)
    np.testing.assert_array_equal(out, x.reshape(4, 4, 16)[::-1].reshape(16, 16))


def test_a_barrier_that_one_block_misses_is_a_deadlock(run: Run) -> None:
    @pl.function
    def main(x: T, out: pl.InOut[T]) -> T:
        for i in pl.spmd(3):
            if i > 0:
                pl.system.syncall()
            out = pl.store(pl.load(x, [i, 0], [1, 16]), [i, 0], out)
        return out

    with pytest.raises(Deadlock, match="2 of them are blocked") as caught:
        run(ir.Program("P", {"main": main}), array(16, 16), zeros(16, 16))
    assert "block 1 waits for all 3 blocks" in str(caught.value)
    assert "pl.system.syncall()" in str(caught.value)


def test_kernels_ask_which_block_runs_them(run: Run) -> None:
    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.InCore)
        def rows(self, x: T, out: pl.InOut[T]) -> T:
            first = pl.get_block_idx() * 4
            t = pl.mul(pl.load(x, [first, 0], [4, 16]), pl.cast(pl.get_block_num(), pl.FP32))
            return pl.store(t, [first, 0], out)

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, x: T, out: pl.InOut[T]) -> T:
            out, tid = pl.spmd_submit(self.rows, x, out, core_num=4)
            return out

    assert "pl.spmd_submit(self.rows, x, out, core_num=4)" in P.as_python()
    x = array(16, 16)
    out = zeros(16, 16)
    run(P, x, out)
    np.testing.assert_array_equal(out, x * 4)


@pytest.mark.parametrize("mode", [pl.SplitMode.UP_DOWN, pl.SplitMode.LEFT_RIGHT])
def test_lanes_take_their_part_and_the_cube_core_gets_both(run: Run, mode: pl.SplitMode) -> None:
    @pl.function
    def main(a: T, b: T, out: pl.InOut[T]) -> T:
        for lane in pl.split_aiv(2, mode=mode):
            part = pl.aiv_shard(pl.load(a, [0, 0], [16, 16]))
            both = pl.aic_gather(pl.mul(part, pl.cast(lane + 1, pl.FP32)))
            product = pl.matmul(both, pl.load(b, [0, 0], [16, 16]))
            out = pl.store(product, [0, 0], out)
        return out

    a, b, out = array(16, 16), array(16, 16, seed=1), zeros(16, 16)
    run(ir.Program("P", {"main": main}), a, b, out)
    scaled = a.copy()
    if mode is pl.SplitMode.UP_DOWN:
        scaled[8:] *= 2
    else:
        scaled[:, 8:] *= 2
    np.testing.assert_allclose(out, scaled @ b, rtol=1e-5, atol=1e-5)


def test_cube_and_vector_functions_meet_in_a_cluster(run: Run) -> None:
    @pl.program
    class P:
        @pl.function(type=AIC)
        def cube(self, a: T):
            pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=0, id=3)

        @pl.function(type=AIV)
        def vector(self, out: pl.Out[T]) -> T:
            t = pl.tpop_from_aic(shape=[16, 16], dtype=pl.FP32, id=3)
            out = pl.store(t, [0, 0], out)
            pl.tfree_to_aic(t, id=3)
            return out

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, a: T, out: pl.Out[T]) -> T:
            with pl.cluster():
                out = self.vector(out)
                self.cube(a)
            return out

    a, out = array(16, 16), zeros(16, 16)
    run(P, a, out)
    np.testing.assert_array_equal(out, a)


def test_events_order_the_two_sides_of_a_group(run: Run) -> None:
    @pl.program
    class P:
        @pl.function(type=AIC)
        def cube(self, a: T, shared: pl.Out[T]) -> T:
            shared = pl.store(pl.load(a, [0, 0], [16, 16]), [0, 0], shared)
            pl.system.sync_set(1, pipe=pl.PipeType.FIX)
            return shared

        @pl.function(type=AIV)
        def vector(self, shared: T, out: pl.Out[T]) -> T:
            pl.system.sync_wait(1, pipe=pl.PipeType.MTE2)
            return pl.store(pl.load(shared, [0, 0], [16, 16]), [0, 0], out)

        @pl.function(type=GROUP)
        def main(self, a: T, shared: pl.InOut[T], out: pl.Out[T]) -> T:
            out = self.vector(shared, out)
            shared = self.cube(a, shared)
            return out

    a, out = array(16, 16), zeros(16, 16)
    run(P, a, zeros(16, 16), out)
    np.testing.assert_array_equal(out, a)
