"""Windows of ranks: parts of them, and waits that their tasks end with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
import tilewright.language.distributed as pld
from dist.running import RANKED, Run, array, each_of, zeros
from tilewright import ir
from tilewright.errors import Deadlock
from tilewright.runtime import DistributedConfig

HOST, ORCHESTRATOR, CORE = pl.Level.HOST, pl.Role.Orchestrator, pl.FunctionType.InCore
ONE = pl.Tensor[[1, 64], pl.FP32]
TWO = pl.Tensor[[2, 1, 64], pl.FP32]
W = pld.DistributedTensor[[1, 64], pl.FP32]
S = pld.DistributedTensor[[4, 1], pl.INT32]


run = each_of(RANKED)


# ---------------------------------------------------------------------------------- deferred waits


def deferring(defers: Any, signals: int = 4, kind: Any = CORE) -> ir.Program:
    """A kernel sends its row and defers waits for the other's; the next one on the rank reads."""

    @pl.program
    class P:
        @pl.function(type=kind)
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
        run(
            deferring(by_blocks, kind=pl.FunctionType.Orchestration),
            array(2, 1, 64),
            zeros(2, 1, 64),
            ranks=2,
        )
    assert "waits for signal [3, 0] >= 1" in str(caught.value)


# ----------------------------------------------------------------------------------------- parts

W4 = pld.DistributedTensor[[4, 64], pl.FP32]
SIGNAL = pld.DistributedTensor[[1, 1], pl.INT32]


@pl.program
class HostParts:
    """The host gives each rank a row of a window and of the signals."""

    @pl.function(type=CORE)
    def chip(
        self, x: ONE, y: pl.Out[ONE], w: pl.InOut[W], s: pl.InOut[SIGNAL], r: pl.Scalar[pl.INT32]
    ) -> ONE:
        w = pld.put(w, 1 - r, x)
        s = pld.notify(s, 1 - r, [0, 0], 1, op=pld.NotifyOp.AtomicAdd)
        s = pld.wait(s, [0, 0], 1, cmp=pld.WaitCmp.Ge)
        return pl.store(pl.load(w, [0, 0], [1, 64]), [0, 0], y)

    @pl.function(type=CORE)
    def whole(self, w: W4, s: S, y: pl.Out[pl.Tensor[[4, 64], pl.FP32]]):
        y = pl.store(pl.load(w, [0, 0], [4, 64]), [0, 0], y)

    @pl.function(level=HOST, role=ORCHESTRATOR)
    def main(self, x: TWO, y: pl.Out[TWO], all: pl.Out[pl.Tensor[[2, 4, 64], pl.FP32]]):
        wb = pld.alloc_window_buffer([4, 64], dtype=pl.FP32)
        sb = pld.alloc_window_buffer([4, 1], dtype=pl.INT32)
        w = pld.window(wb, [4, 64], dtype=pl.FP32)
        s = pld.window(sb, [4, 1], dtype=pl.INT32)
        for r in pl.range(pld.world_size()):
            self.chip(x[r], y[r], w[2:3, :], s[1:2, :], r, device=r)
            self.whole(w, s, all[r], device=r)


def test_a_kernel_takes_part_of_a_window(run: Run) -> None:
    x, y, everything = array(2, 1, 64), zeros(2, 1, 64), zeros(2, 4, 64)
    run(HostParts, x, y, everything, ranks=2)
    np.testing.assert_array_equal(y, x[::-1])
    wanted = zeros(2, 4, 64)
    wanted[:, 2] = x[::-1, 0]
    np.testing.assert_array_equal(everything, wanted)
    ir.assert_structural_equal(pl.parse(HostParts.as_python()), HostParts)


@pl.program
class KernelParts:
    """A kernel gives parts of its windows, strided ones too, to transfers and to its helper."""

    @pl.function(type=CORE)
    def inner(
        self,
        x: pl.Tensor[[1, 32], pl.FP32],
        w: pl.InOut[pld.DistributedTensor[[1, 32], pl.FP32]],
        s: pl.InOut[SIGNAL],
        r: pl.Scalar[pl.INT32],
    ):
        w = pld.put(w, 1 - r, x)
        s = pld.notify(s, 1 - r, [0, 0], 1, op=pld.NotifyOp.AtomicAdd)

    @pl.function(type=pl.FunctionType.Orchestration)
    def chip(
        self, x: ONE, y: pl.Out[ONE], w: pl.InOut[W4], s: pl.InOut[S], r: pl.Scalar[pl.INT32]
    ) -> ONE:
        for i in pl.range(4):
            self.inner(x[:, 32:64], w[i : i + 1, 0:32], s[i : i + 1, :], r)
        column = w[:, 32:64]
        pld.put(column[1:3, :], 1 - r, pl.slice(w, [2, 32], [0, 32]), shape=[2, 32])
        pld.put(w[3:4, 32:64], 1 - r, x[:, 0:32])
        for i in pl.range(4):
            last = s[3 - i : 4 - i, :]
            pld.notify(last, 1 - r, [0, 0], 1, op=pld.NotifyOp.AtomicAdd)
        for i in pl.range(4):
            pld.wait(s[i : i + 1, :], [0, 0], 2, cmp=pld.WaitCmp.Ge)
        with pl.at(level=pl.Level.CORE_GROUP):
            right = pl.load(w[3:4, 32:64], [0, 0], [1, 32])
            left = pl.add(pl.load(w[2:3, 0:32], [0, 0], [1, 32]), pl.load(w, [0, 0], [1, 32]))
            y = pl.store(left, [0, 0], y)
            y = pl.store(right, [0, 32], y)
        return y

    @pl.function(level=HOST, role=ORCHESTRATOR)
    def main(self, x: TWO, y: pl.Out[TWO]):
        wb = pld.alloc_window_buffer([4, 64], dtype=pl.FP32)
        sb = pld.alloc_window_buffer([4, 1], dtype=pl.INT32)
        w = pld.window(wb, [4, 64], dtype=pl.FP32)
        s = pld.window(sb, [4, 1], dtype=pl.INT32)
        for r in pl.range(pld.world_size()):
            self.chip(x[r], y[r], w, s, r, device=r)


def test_a_kernel_gives_parts_of_its_windows_on(run: Run) -> None:
    x, y = array(2, 1, 64), zeros(2, 1, 64)
    run(KernelParts, x, y, ranks=2)
    other = x[::-1]
    np.testing.assert_array_equal(y[:, :, :32], other[:, :, 32:] + other[:, :, 32:])
    np.testing.assert_array_equal(y[:, :, 32:], other[:, :, :32])


def columns(width: int) -> ir.Program:
    """The host gives each rank some of the columns of a window."""
    row, part = pl.Tensor[[2, width], pl.FP32], pld.DistributedTensor[[2, width], pl.FP32]
    rows = pl.Tensor[[2, 2, width], pl.FP32]

    @pl.program
    class P:
        @pl.function(type=CORE)
        def chip(
            self, x: row, y: pl.Out[row], w: pl.InOut[part], s: pl.InOut[S], r: pl.Scalar[pl.INT32]
        ) -> row:
            w = pld.put(w, 1 - r, x)
            s = pld.notify(s, 1 - r, [0, 0], 1, op=pld.NotifyOp.AtomicAdd)
            s = pld.wait(s, [0, 0], 1, cmp=pld.WaitCmp.Ge)
            return pl.store(pl.load(w, [0, 0], [2, width]), [0, 0], y)

        @pl.function(level=HOST, role=ORCHESTRATOR)
        def main(self, x: rows, y: pl.Out[rows]):
            wb = pld.alloc_window_buffer([4, 64], dtype=pl.FP32)
            sb = pld.alloc_window_buffer([4, 1], dtype=pl.INT32)
            w = pld.window(wb, [4, 64], dtype=pl.FP32)
            s = pld.window(sb, [4, 1], dtype=pl.INT32)
            for r in pl.range(pld.world_size()):
                self.chip(x[r], y[r], w[1:3, 64 - width : 64], s, r, device=r)

    return P


@pytest.mark.parametrize("width", [64, 32])
def test_a_part_whose_rows_lie_apart_is_interpreted_and_says_so(width: int) -> None:
    x, y = array(2, 2, width), zeros(2, 2, width)
    made: Any = ir.compile(columns(width), distributed_config=DistributedConfig(device_ids=[0, 1]))
    made(x, y)
    np.testing.assert_array_equal(y, x[::-1])
    assert made.kernel.together.is_compiled == (width == 64)
    said = "chip: interpreted, because it takes a part of a window whose rows lie apart"
    assert (said in made.explain()) == (width < 64)
