"""Participants inside participants, and what ends them: faults, deadlocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
import tilewright.language.distributed as pld
from dist.running import RANKED, Run, array, each_of, zeros
from dist.running import run as interpreted
from dist.test_ranks import ONE, TWO, S, W
from moments import comes_true, working_threads
from tilewright import ir
from tilewright.errors import Deadlock, IndexOutOfBounds

AIC, AIV, GROUP = pl.FunctionType.AIC, pl.FunctionType.AIV, pl.FunctionType.Group


run = each_of(RANKED)


@pl.program
class Groups:
    """Every rank runs a group whose vector side talks to the other rank."""

    @pl.function(type=AIC)
    def cube(self, x: ONE):
        pl.tpush_to_aiv(pl.load(x, [0, 0], [1, 64]), split=0)

    @pl.function(type=AIV)
    def vector(self, w: pl.InOut[W], s: pl.InOut[S], r: pl.Scalar[pl.INT32], y: pl.Out[ONE]) -> ONE:
        t = pl.tpop_from_aic(shape=[1, 64], dtype=pl.FP32)
        pld.remote_store(t, w, 1 - r, [0, 0])
        pl.tfree_to_aic(t)
        pld.notify(s, 1 - r, [0, 0], 1, op=pld.NotifyOp.Set)
        pld.wait(s, [0, 0], 1, cmp=pld.WaitCmp.Ge)
        return pl.store(pl.load(w, [0, 0], [1, 64]), [0, 0], y)

    @pl.function(type=GROUP)
    def chip(
        self, x: ONE, y: pl.Out[ONE], w: pl.InOut[W], s: pl.InOut[S], r: pl.Scalar[pl.INT32]
    ) -> ONE:
        y = self.vector(w, s, r, y)
        self.cube(x)
        return y

    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def main(self, x: TWO, y: pl.Out[TWO]):
        wb = pld.alloc_window_buffer([1, 64], dtype=pl.FP32)
        sb = pld.alloc_window_buffer([2, 1], dtype=pl.INT32)
        for r in pl.range(pld.world_size()):
            w = pld.window(wb, [1, 64], dtype=pl.FP32)
            s = pld.window(sb, [2, 1], dtype=pl.INT32)
            self.chip(x[r], y[r], w, s, r, device=r)


def test_ranks_run_groups(run: Run) -> None:
    x, y = array(2, 1, 64), zeros(2, 1, 64)
    run(Groups, x, y, ranks=2)
    np.testing.assert_array_equal(y, x[::-1])


def test_a_group_that_waits_for_a_rank_that_is_not_there_names_its_place(run: Run) -> None:
    x, y = array(2, 1, 64), zeros(2, 1, 64)
    before = working_threads()
    with pytest.raises(IndexOutOfBounds, match="rank 1 of 1") as caught:
        run(Groups, x, y, ranks=1)
    assert caught.value.span is not None
    assert "pld.remote_store" in str(caught.value)
    assert comes_true(lambda: working_threads() <= before)


@pl.program
class OneFails:
    @pl.function(type=pl.FunctionType.InCore)
    def chip(
        self,
        table: pl.Tensor[[1, 2], pl.INT32],
        x: ONE,
        s: pl.InOut[S],
        r: pl.Scalar[pl.INDEX],
        y: pl.Out[ONE],
    ) -> ONE:
        at = pl.cast(pl.read(table, [0, r]), pl.INDEX)
        y = pl.store(pl.load(x, [at, 0], [1, 64]), [0, 0], y)
        s = pld.tensor.barrier(s)
        return y

    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def main(self, table: pl.Tensor[[1, 2], pl.INT32], x: TWO, y: pl.Out[TWO]):
        sb = pld.alloc_window_buffer([2, 1], dtype=pl.INT32)
        for r in pl.range(pld.world_size()):
            s = pld.window(sb, [2, 1], dtype=pl.INT32)
            self.chip(table, x[r], s, r, y[r], device=r)


def test_a_fault_on_one_rank_ends_all_and_is_raised_at_its_line(run: Run) -> None:
    before = working_threads()
    table: Any = np.array([[0, 5]], np.int32)
    with pytest.raises(IndexOutOfBounds) as caught:
        run(OneFails, table, array(2, 1, 64), zeros(2, 1, 64), ranks=2)
    assert "pl.load(x, [at, 0], [1, 64])" in str(caught.value)
    assert comes_true(lambda: working_threads() <= before)


def test_ranks_that_all_wait_are_named_by_their_lines(run: Run) -> None:
    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.InCore)
        def chip(self, s: pl.InOut[S]):
            pld.wait(s, [1, 0], 2, cmp=pld.WaitCmp.Eq)

        @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
        def main(self):
            sb = pld.alloc_window_buffer([2, 1], dtype=pl.INT32)
            for r in pl.range(pld.world_size()):
                self.chip(pld.window(sb, [2, 1], dtype=pl.INT32), device=r)

    with pytest.raises(Deadlock) as caught:
        run(P, ranks=3)
    notes = [text for text, _ in caught.value.notes]
    assert notes == [f"rank {r} waits for signal [1, 0] == 2" for r in range(3)]
    assert all(span is not None for _, span in caught.value.notes)


def test_a_deferred_wait_delays_the_end_of_its_task_only(run: Run) -> None:
    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.InCore)
        def chip(self, x: ONE, w: pl.InOut[W], s: pl.InOut[S], r: pl.Scalar[pl.INT32]):
            pld.defer_wait(s, [0, 0], 1, cmp=pld.WaitCmp.Ge)
            pld.put(w, 1 - r, x)
            pld.notify(s, 1 - r, [0, 0], 1, op=pld.NotifyOp.AtomicAdd)

        @pl.function(type=pl.FunctionType.InCore)
        def drain(self, w: W, y: pl.Out[ONE]):
            y = pl.store(pl.load(w, [0, 0], [1, 64]), [0, 0], y)

        @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
        def main(self, x: TWO, y: pl.Out[TWO]):
            wb = pld.alloc_window_buffer([1, 64], dtype=pl.FP32)
            sb = pld.alloc_window_buffer([2, 1], dtype=pl.INT32)
            w = pld.window(wb, [1, 64], dtype=pl.FP32)
            s = pld.window(sb, [2, 1], dtype=pl.INT32)
            for r in pl.range(pld.world_size()):
                self.chip(x[r], w, s, r, device=r)
                self.drain(w, y[r], device=r)

    x, y = array(2, 1, 64), zeros(2, 1, 64)
    run(P, x, y, ranks=2)
    np.testing.assert_array_equal(y, x[::-1])
    ir.assert_structural_equal(pl.parse(P.as_python()), P)


def test_an_interpreted_run_takes_the_same_course_every_time() -> None:
    @pl.function
    def main(out: pl.InOut[pl.Tensor[[1, 64], pl.FP32]]):
        for i in pl.spmd(5):
            for j in pl.range(3):
                value = pl.add(pl.mul(pl.load(out, [0, 0], [1, 64]), 3.0), pl.cast(i, pl.FP32))
                out = pl.store(value, [0, 0], out)
                pl.system.syncall()

    program = ir.Program("P", {"main": main})
    found = []
    for _ in range(3):
        out = zeros(1, 64)
        interpreted(program, out)
        found.append(out)
    assert (found[0] == found[1]).all() and (found[1] == found[2]).all() and found[0].any()
