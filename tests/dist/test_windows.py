"""Windows of ranks: parts of them, and waits that their tasks end with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
import tilewright.language.distributed as pld
from dist.running import RANKED, array, zeros
from tilewright import ir
from tilewright.errors import Deadlock

HOST, ORCHESTRATOR, CORE = pl.Level.HOST, pl.Role.Orchestrator, pl.FunctionType.InCore
ONE = pl.Tensor[[1, 64], pl.FP32]
TWO = pl.Tensor[[2, 1, 64], pl.FP32]
W = pld.DistributedTensor[[1, 64], pl.FP32]
S = pld.DistributedTensor[[4, 1], pl.INT32]
Run = Callable[..., object]


@pytest.fixture(params=RANKED, ids=lambda runner: runner.__name__)
def run(request: pytest.FixtureRequest) -> Run:
    """Each way to run a program; all give the same."""
    way: Any = request.param
    return way


# ---------------------------------------------------------------------------------- deferred waits


def deferring(defers: Any, signals: int = 4) -> ir.Program:
    """A kernel sends its row and defers waits for the other's; the next one on the rank reads."""

    @pl.program
    class P:
        @pl.function(type=CORE)
        def chip(self, x: ONE, w: pl.InOut[W], s: pl.InOut[S], r: pl.Scalar[pl.INT32]):
            defers(s)
            pld.put(w, 1 - r, x)
            for i in pl.range(signals):
                for j in pl.range(i + 1):
                    pld.notify(s, 1 - r, [i, 0], 1, op=pld.NotifyOp.AtomicAdd)

        @pl.function(type=CORE)
        def drain(self, w: W, y: pl.Out[ONE]):
            y = pl.store(pl.load(w, [0, 0], [1, 64]), [0, 0], y)

        @pl.function(level=HOST, role=ORCHESTRATOR)
        def main(self, x: TWO, y: pl.Out[TWO]):
            wb = pld.alloc_window_buffer([1, 64], dtype=pl.FP32)
            sb = pld.alloc_window_buffer([4, 1], dtype=pl.INT32)
            w = pld.window(wb, [1, 64], dtype=pl.FP32)
            s = pld.window(sb, [4, 1], dtype=pl.INT32)
            for r in pl.range(pld.world_size()):
                self.chip(x[r], w, s, r, device=r)
                self.drain(w, y[r], device=r)

    return P


@pl.inline
def in_a_loop(s):
    for i in pl.range(4):
        pld.defer_wait(s, [i, 0], pl.cast(i + 1, pl.INT32), cmp=pld.WaitCmp.Ge)


@pl.inline
def in_branches(s):
    for i in pl.range(4):
        if i > 1:
            pld.defer_wait(s, [i, 0], 1, cmp=pld.WaitCmp.Ge)
        else:
            pld.defer_wait(s, [0, 0], 1, cmp=pld.WaitCmp.Ge)
    pld.defer_wait(s, [3, 0], 4, cmp=pld.WaitCmp.Ge)


@pl.inline
def by_blocks(s):
    for i in pl.spmd(4):
        pl.system.syncall()
        pld.defer_wait(s, [3 - i, 0], 1, cmp=pld.WaitCmp.Ge)


@pytest.mark.parametrize("defers", [in_a_loop, in_branches], ids=["loop", "branches"])
def test_waits_that_a_loop_defers_delay_the_end_of_its_task_only(run: Run, defers: Any) -> None:
    x, y = array(2, 1, 64), zeros(2, 1, 64)
    run(deferring(defers), x, y, ranks=2)
    np.testing.assert_array_equal(y, x[::-1])


def test_a_deferred_wait_that_nobody_ends_is_named_with_its_slot(run: Run) -> None:
    with pytest.raises(Deadlock, match="2 of them are blocked") as caught:
        run(deferring(in_a_loop, signals=3), array(2, 1, 64), zeros(2, 1, 64), ranks=2)
    notes = [text for text, _ in caught.value.notes]
    assert notes == [f"rank {r} waits for signal [3, 0] >= 4" for r in range(2)]
    assert "pld.defer_wait(s, [i, 0]" in str(caught.value)


def test_blocks_end_with_the_waits_that_they_defer(run: Run) -> None:
    """A block's task is over only when its slot has come, so nobody can come afterwards."""
    with pytest.raises(Deadlock) as caught:
        run(deferring(by_blocks), array(2, 1, 64), zeros(2, 1, 64), ranks=2)
    assert "waits for signal [3, 0] >= 1" in str(caught.value)
