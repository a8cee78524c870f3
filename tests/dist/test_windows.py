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


@pl.program
class Stored:
    """A kernel replaces parts of its window, one after the other."""

    @pl.function(type=CORE)
    def fill(self, x: pl.Tensor[[4, 64], pl.FP32], w: pl.InOut[W4]):
        pl.store(pl.load(x, [0, 0], [1, 64]), [0, 0], w[1:2, :])
        lower = w[2:4, :]
        for i in pl.range(2):
            pl.store(pl.load(x, [i, 0], [1, 64]), [0, 0], lower[i : i + 1, :])

    @pl.function(type=CORE)
    def all(self, w: W4, z: pl.Out[pl.Tensor[[4, 64], pl.FP32]]):
        z = pl.store(pl.load(w, [0, 0], [4, 64]), [0, 0], z)

    @pl.function(level=HOST, role=ORCHESTRATOR)
    def main(self, x: pl.Tensor[[4, 64], pl.FP32], z: pl.Out[pl.Tensor[[1, 4, 64], pl.FP32]]):
        wb = pld.alloc_window_buffer([4, 64], dtype=pl.FP32)
        w = pld.window(wb, [4, 64], dtype=pl.FP32)
        for r in pl.range(pld.world_size()):
            self.fill(x, w, device=r)
            self.all(w, z[r], device=r)


def test_a_kernel_replaces_parts_of_its_windows(run: Run) -> None:
    x, z = array(4, 64), zeros(1, 4, 64)
    run(Stored, x, z)
    np.testing.assert_array_equal(z[0], [0 * x[0], x[0], x[0], x[1]])


@pl.program
class Replaced:
    """Tiles and numbers that are read before a part is replaced, and after it."""

    @pl.function(type=CORE)
    def chip(
        self,
        x: pl.Tensor[[4, 64], pl.FP32],
        w: pl.InOut[W4],
        y: pl.Out[pl.Tensor[[4, 64], pl.FP32]],
        z: pl.Out[pl.Tensor[[4, 64], pl.FP32]],
    ):
        w = pl.store(pl.load(x, [0, 0], [4, 64]), [0, 0], w)
        old = pl.load(w, [0, 0], [1, 64])
        pl.store(pl.mul(old, 2.0), [0, 0], w[0:1, :])
        new = pl.load(w, [0, 0], [1, 64])
        y = pl.store(old, [0, 0], y)
        y = pl.store(new, [1, 0], y)
        pl.store(pl.add(new, old), [0, 0], w[1:2, :])
        both = pl.load(w[0:2, :], [0, 0], [2, 64])
        for i in pl.range(4):
            number = pl.read(w, [i, 0])
            part = w[i : i + 1, :]
            before = pl.load(w, [i, 0], [1, 64])
            pl.store(pl.add(pl.load(part, [0, 0], [1, 64]), number), [0, 0], part)
            z = pl.store(pl.mul(before, pl.read(part, [0, 0])), [i, 0], z)
        y = pl.store(both, [2, 0], y)

    @pl.function(level=HOST, role=ORCHESTRATOR)
    def main(
        self,
        x: pl.Tensor[[4, 64], pl.FP32],
        y: pl.Out[pl.Tensor[[4, 64], pl.FP32]],
        z: pl.Out[pl.Tensor[[4, 64], pl.FP32]],
    ):
        wb = pld.alloc_window_buffer([4, 64], dtype=pl.FP32)
        w = pld.window(wb, [4, 64], dtype=pl.FP32)
        self.chip(x, w, y, z, device=0)


def test_what_was_read_before_a_part_is_replaced_stays(run: Run) -> None:
    x, y, z = array(4, 64), zeros(4, 64), zeros(4, 64)
    run(Replaced, x, y, z)
    w = np.stack([x[0] * np.float32(2), x[0] * np.float32(2) + x[0], x[2], x[3]])
    np.testing.assert_array_equal(y, [x[0], w[0], w[0], w[1]])
    np.testing.assert_array_equal(z, w * (w[:, :1] + w[:, :1]))


def columns(width: int) -> ir.Program:
    """The host gives each rank some of the columns of a window, and then the whole of it."""
    row, part = pl.Tensor[[2, width], pl.FP32], pld.DistributedTensor[[2, width], pl.FP32]
    rows, whole = pl.Tensor[[2, 2, width], pl.FP32], pl.Tensor[[4, 64], pl.FP32]

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

        @pl.function(type=CORE)
        def all(self, w: W4, y: pl.Out[whole]) -> whole:
            return pl.store(pl.load(w, [0, 0], [4, 64]), [0, 0], y)

        @pl.function(level=HOST, role=ORCHESTRATOR)
        def main(self, x: rows, y: pl.Out[rows], z: pl.Out[pl.Tensor[[2, 4, 64], pl.FP32]]):
            wb = pld.alloc_window_buffer([4, 64], dtype=pl.FP32)
            sb = pld.alloc_window_buffer([4, 1], dtype=pl.INT32)
            w = pld.window(wb, [4, 64], dtype=pl.FP32)
            s = pld.window(sb, [4, 1], dtype=pl.INT32)
            right = w[:, 64 - width : 64]
            for r in pl.range(pld.world_size()):
                self.chip(x[r], y[r], right[1:3, :], s, r, device=r)
                self.all(w, z[r], device=r)

    return P


@pytest.mark.parametrize("width", [64, 32, 1])
def test_a_kernel_takes_columns_of_a_window_where_they_are(run: Run, width: int) -> None:
    x, y, z = array(2, 2, width), zeros(2, 2, width), zeros(2, 4, 64)
    run(columns(width), x, y, z, ranks=2)
    np.testing.assert_array_equal(y, x[::-1])
    wanted = zeros(2, 4, 64)
    wanted[:, 1:3, 64 - width :] = x[::-1]
    np.testing.assert_array_equal(z, wanted)


COLUMN = pld.DistributedTensor[[4], pl.FP32]
PLANE = pld.DistributedTensor[[2, 4, 32], pl.FP32]


@pl.program
class Planes:
    """A matrix product on columns of planes, one column that is no matrix any more, and helpers."""

    @pl.function(type=CORE)
    def product(self, w: pl.InOut[PLANE], x: pl.Tensor[[4, 32], pl.FP32]):
        for k in pl.range(2):
            left = pl.load(w[k, :, 0:4], [0, 0], [4, 4])
            found = pl.matmul(left, pl.load(x, [0, 0], [4, 32]))
            pl.store(found, [0, 0], w[k, :, :])

    @pl.function(type=CORE)
    def column(self, c: pl.InOut[COLUMN], y: pl.Out[pl.Tensor[[4], pl.FP32]]):
        t = pl.load(c, [0], [4])
        pl.store(t, [0], y)
        pl.store(pl.add(t, 1.0), [0], c)

    @pl.function(type=CORE)
    def all(
        self,
        w: pld.DistributedTensor[[2, 4, 64], pl.FP32],
        z: pl.Out[pl.Tensor[[2, 4, 64], pl.FP32]],
    ):
        pl.store(pl.load(w, [0, 0, 0], [2, 4, 64]), [0, 0, 0], z)

    @pl.function(type=CORE)
    def fill(
        self,
        x: pl.Tensor[[2, 4, 64], pl.FP32],
        w: pl.InOut[pld.DistributedTensor[[2, 4, 64], pl.FP32]],
    ):
        pl.store(pl.load(x, [0, 0, 0], [2, 4, 64]), [0, 0, 0], w)

    @pl.function(level=HOST, role=ORCHESTRATOR)
    def main(
        self,
        x: pl.Tensor[[2, 4, 64], pl.FP32],
        a: pl.Tensor[[4, 32], pl.FP32],
        y: pl.Out[pl.Tensor[[2, 4], pl.FP32]],
        z: pl.Out[pl.Tensor[[2, 2, 4, 64], pl.FP32]],
    ):
        wb = pld.alloc_window_buffer([2, 4, 64], dtype=pl.FP32)
        w = pld.window(wb, [2, 4, 64], dtype=pl.FP32)
        for r in pl.range(pld.world_size()):
            self.fill(x, w, device=r)
            self.product(w[:, :, 32:64], a, device=r)
            self.column(w[1, :, 5], y[r], device=r)
            self.all(w, z[r], device=r)


def test_parts_of_planes_and_single_columns_are_taken_where_they_are(run: Run) -> None:
    x, a = array(2, 4, 64), array(4, 32, seed=1)
    y, z = zeros(2, 4), zeros(2, 2, 4, 64)
    run(Planes, x, a, y, z, ranks=2)
    wanted = x.copy()
    wanted[:, :, 32:] = x[:, :, 32:36] @ a
    wanted[1, :, 5] += np.float32(1)
    np.testing.assert_array_equal(y, np.stack([x[1, :, 5]] * 2))
    np.testing.assert_allclose(z, np.stack([wanted] * 2), rtol=1e-5, atol=1e-6)


@pl.program
class OfTwoWidths:
    """One kernel is given columns of two windows whose rows are not equally long."""

    @pl.function(type=CORE)
    def one(self, w: pl.InOut[pld.DistributedTensor[[4, 8], pl.FP32]], v: pl.Scalar[pl.FP32]):
        pl.store(pl.full([4, 8], dtype=pl.FP32, value=v), [0, 0], w)

    @pl.function(level=HOST, role=ORCHESTRATOR)
    def main(self, x: TWO, y: pl.Out[TWO]):
        w = pld.window(pld.alloc_window_buffer([4, 64], dtype=pl.FP32), [4, 64], dtype=pl.FP32)
        v = pld.window(pld.alloc_window_buffer([4, 16], dtype=pl.FP32), [4, 16], dtype=pl.FP32)
        for r in pl.range(pld.world_size()):
            self.one(w[:, 8:16], 1.0, device=r)
            self.one(v[:, 8:16], 2.0, device=r)


def test_parts_that_lie_differently_are_interpreted_and_say_so() -> None:
    made = ir.compile(OfTwoWidths, distributed_config=DistributedConfig(device_ids=[0, 1]))
    made(array(2, 1, 64), zeros(2, 1, 64))
    said = (
        "one: interpreted, because it takes parts of windows whose rows are not the same distance"
    )
    assert said in made.explain()
