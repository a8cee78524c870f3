"""Ranks over shared windows: a host starts a function on each, and they talk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
import tilewright.language.distributed as pld
from dist.running import RANKED, Run, array, each_of, zeros
from tilewright import ir
from tilewright.errors import Deadlock, IndexOutOfBounds

HOST, ORCHESTRATOR = pl.Level.HOST, pl.Role.Orchestrator
W = pld.DistributedTensor[[1, 64], pl.FP32]
S = pld.DistributedTensor[[2, 1], pl.INT32]
ONE = pl.Tensor[[1, 64], pl.FP32]
TWO = pl.Tensor[[2, 1, 64], pl.FP32]


run = each_of(RANKED)


@pl.program
class Ring:
    """Each rank sends its row to the other one."""

    @pl.function(type=pl.FunctionType.InCore)
    def chip(
        self, x: ONE, y: pl.Out[ONE], w: pl.InOut[W], s: pl.InOut[S], r: pl.Scalar[pl.INT32]
    ) -> ONE:
        peer = 1 - r
        w = pld.tensor.put(w, peer, x)
        pld.system.notify(s, peer, [0, 0], 1, op=pld.NotifyOp.Set)
        pld.system.wait(s, [0, 0], 1, cmp=pld.WaitCmp.Ge)
        return pl.store(pl.load(w, [0, 0], [1, 64]), [0, 0], y)

    @pl.function(level=HOST, role=ORCHESTRATOR)
    def main(self, x: TWO, y: pl.Out[TWO]):
        wb = pld.alloc_window_buffer(64 * pl.FP32.get_byte())
        sb = pld.alloc_window_buffer([2, 1], dtype=pl.INT32)
        for r in pl.range(pld.world_size()):
            w = pld.window(wb, [1, 64], dtype=pl.FP32)
            s = pld.window(sb, [2, 1], dtype=pl.INT32)
            self.chip(x[r], y[r], w, s, r, device=r)


def test_ranks_exchange_what_they_have(run: Run) -> None:
    x, y = array(2, 1, 64), zeros(2, 1, 64)
    run(Ring, x, y, ranks=2)
    np.testing.assert_array_equal(y, x[::-1])


def test_a_host_prints_and_reads_back() -> None:
    text = Ring.as_python()
    assert "self.chip(" in text and "device=r)" in text
    assert "pld.notify(" in text or "pld.system.notify(" in text
    ir.assert_structural_equal(pl.parse(text), Ring)


def test_a_device_outside_the_world_is_refused(run: Run) -> None:
    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.InCore)
        def chip(self, x: ONE, y: pl.Out[ONE]) -> ONE:
            return pl.store(pl.load(x, [0, 0], [1, 64]), [0, 0], y)

        @pl.function(level=HOST, role=ORCHESTRATOR)
        def main(self, x: TWO, y: pl.Out[TWO]):
            for r in pl.range(2):
                self.chip(x[r], y[r], device=r + 1)

    with pytest.raises(IndexOutOfBounds, match="device 2 of 2"):
        run(P, array(2, 1, 64), zeros(2, 1, 64), ranks=2)


def waiting(first_waits: bool) -> ir.Program:
    """Two ranks that notify before or after they wait."""

    @pl.inline
    def asking(s, r):
        pld.system.wait(s, [0, 0], 1, cmp=pld.WaitCmp.Ge)
        pld.system.notify(s, 1 - r, [0, 0], 1, op=pld.NotifyOp.AtomicAdd)

    @pl.inline
    def telling(s, r):
        pld.system.notify(s, 1 - r, [0, 0], 1, op=pld.NotifyOp.AtomicAdd)
        pld.system.wait(s, [0, 0], 1, cmp=pld.WaitCmp.Ge)

    talk = asking if first_waits else telling

    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.InCore)
        def chip(self, s: pl.InOut[S], r: pl.Scalar[pl.INT32]):
            talk(s, r)

        @pl.function(level=HOST, role=ORCHESTRATOR)
        def main(self):
            sb = pld.alloc_window_buffer([2, 1], dtype=pl.INT32)
            for r in pl.range(pld.world_size()):
                self.chip(pld.window(sb, [2, 1], dtype=pl.INT32), r, device=r)

    return P


def test_waiting_before_notifying_is_a_deadlock(run: Run) -> None:
    run(waiting(first_waits=False), ranks=2)
    with pytest.raises(Deadlock) as caught:
        run(waiting(first_waits=True), ranks=2)
    text = str(caught.value)
    assert "rank 0 waits for signal [0, 0] >= 1" in text
    assert "rank 1 waits for signal [0, 0] >= 1" in text


RANKS = 3


def collective(body: Any) -> ir.Program:
    """A program that runs an inline helper on every rank."""

    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.InCore)
        def chip(
            self,
            x: pl.Tensor[[RANKS, 8], pl.FP32],
            y: pl.Out[pl.Tensor[[RANKS, 8], pl.FP32]],
            w: pl.InOut[pld.DistributedTensor[[RANKS, 8], pl.FP32]],
            s: pl.InOut[pld.DistributedTensor[[RANKS, 1], pl.INT32]],
        ):
            w = body(x, w, s)
            y = pl.store(pl.load(w, [0, 0], [RANKS, 8]), [0, 0], y)

        @pl.function(level=HOST, role=ORCHESTRATOR)
        def main(
            self,
            x: pl.Tensor[[RANKS, RANKS, 8], pl.FP32],
            y: pl.Out[pl.Tensor[[RANKS, RANKS, 8], pl.FP32]],
        ):
            wb = pld.alloc_window_buffer([RANKS, 8], dtype=pl.FP32)
            sb = pld.alloc_window_buffer([RANKS, 1], dtype=pl.INT32)
            for r in pl.range(pld.world_size()):
                w = pld.window(wb, [RANKS, 8], dtype=pl.FP32)
                s = pld.window(sb, [RANKS, 1], dtype=pl.INT32)
                self.chip(x[r], y[r], w, s, device=r)

    return P


@pl.inline
def summed(x, w, s):
    w = pl.store(pl.load(x, [0, 0], [RANKS, 8]), [0, 0], w)
    return pld.tensor.allreduce(w, s)


@pl.inline
def greatest(x, w, s):
    w = pl.store(pl.load(x, [0, 0], [RANKS, 8]), [0, 0], w)
    return pld.tensor.allreduce(w, s, op=pld.ReduceOp.Max)


@pl.inline
def scattered(x, w, s):
    w = pl.store(pl.load(x, [0, 0], [RANKS, 8]), [0, 0], w)
    return pld.tensor.reduce_scatter(w, s)


@pl.inline
def exchanged(x, w, s):
    return pld.tensor.all_to_all(x, w, s)


@pl.inline
def gathered(x, w, s):
    ctx = pld.get_comm_ctx(w)
    row = pl.slice(x, [1, 8], [pl.cast(pld.rank(ctx), pl.INDEX), 0])
    return pld.tensor.allgather(row, w, s)


@pl.inline
def sent(x, w, s):
    w = pl.store(pl.load(x, [0, 0], [RANKS, 8]), [0, 0], w)
    s = pld.tensor.barrier(s)
    return pld.tensor.broadcast(w, s, root=1)


def scattered_of(x: Any) -> Any:
    y = x.copy()
    for rank in range(RANKS):
        y[rank, rank] = x[:, rank].sum(0)
    return y


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (summed, lambda x: np.repeat(x.sum(0, keepdims=True), RANKS, 0)),
        (greatest, lambda x: np.repeat(x.max(0, keepdims=True), RANKS, 0)),
        (scattered, scattered_of),
        (exchanged, lambda x: x.transpose(1, 0, 2)),
        (gathered, lambda x: np.repeat(x[range(RANKS), range(RANKS)][None], RANKS, 0)),
        (sent, lambda x: np.repeat(x[1:2], RANKS, 0)),
    ],
    ids=["allreduce", "allreduce-max", "reduce_scatter", "all_to_all", "allgather", "broadcast"],
)
def test_collectives_give_every_rank_its_result(run: Run, body: Any, wanted: Any) -> None:
    x, y = array(RANKS, RANKS, 8), zeros(RANKS, RANKS, 8)
    run(collective(body), x, y, ranks=RANKS)
    np.testing.assert_allclose(y, wanted(x), rtol=1e-6)


def test_rows_of_different_counts_are_exchanged(run: Run) -> None:
    counts = pl.Tensor[[2], pl.INT32]
    data = pl.Tensor[[2, 4, 8], pl.FP32]

    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.InCore)
        def chip(
            self,
            x: data,
            send: counts,
            y: pl.Out[data],
            got: pl.Out[counts],
            w: pl.InOut[pld.DistributedTensor[[2, 4, 8], pl.FP32]],
            c: pl.InOut[pld.DistributedTensor[[2], pl.INT32]],
            s: pl.InOut[pld.DistributedTensor[[2, 1], pl.INT32]],
        ):
            w, c = pld.tensor.all_to_all_v(x, w, s, send, c)
            y[:] = pl.load(w, [0, 0, 0], [2, 4, 8])
            got[:] = pl.load(c, [0], [2])

        @pl.function(level=HOST, role=ORCHESTRATOR)
        def main(
            self,
            x: pl.Tensor[[2, 2, 4, 8], pl.FP32],
            send: pl.Tensor[[2, 2], pl.INT32],
            y: pl.Out[pl.Tensor[[2, 2, 4, 8], pl.FP32]],
            got: pl.Out[pl.Tensor[[2, 2], pl.INT32]],
        ):
            wb = pld.alloc_window_buffer([2, 4, 8], dtype=pl.FP32)
            cb = pld.alloc_window_buffer([2], dtype=pl.INT32)
            sb = pld.alloc_window_buffer([2, 1], dtype=pl.INT32)
            for r in pl.range(pld.world_size()):
                w = pld.window(wb, [2, 4, 8], dtype=pl.FP32)
                c = pld.window(cb, [2], dtype=pl.INT32)
                s = pld.window(sb, [2, 1], dtype=pl.INT32)
                self.chip(x[r], send[r], y[r], got[r], w, c, s, device=r)

    x, send = array(2, 2, 4, 8), np.array([[1, 3], [4, 0]], np.int32)
    y, got = zeros(2, 2, 4, 8), np.zeros((2, 2), np.int32)
    run(P, x, send, y, got, ranks=2)
    np.testing.assert_array_equal(got, send.T)
    np.testing.assert_array_equal(y[1, 0, :3], x[0, 1, :3])
    np.testing.assert_array_equal(y[0, 1], x[1, 0])
    assert not y[1, 1].any()


def test_tiles_go_into_and_come_from_other_ranks(run: Run) -> None:
    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.InCore)
        def chip(
            self, x: ONE, y: pl.Out[ONE], w: pl.InOut[W], s: pl.InOut[S], r: pl.Scalar[pl.INT32]
        ):
            t = pl.load(x, [0, 0], [1, 64])
            pld.tile.remote_store(t, w, r, [0, 0])
            pld.system.notify(s, 1 - r, [1, 0], 1, op=pld.NotifyOp.AtomicAdd)
            pld.system.wait(s, [1, 0], 1, cmp=pld.WaitCmp.Ge)
            mine = pl.load(w, [0, 0], [1, 64])
            other = pld.tile.remote_load(w, 1 - r, [0, 0], [1, 64])
            y = pl.store(pl.sub(mine, other), [0, 0], y)

        @pl.function(level=HOST, role=ORCHESTRATOR)
        def main(self, x: TWO, y: pl.Out[TWO]):
            wb = pld.alloc_window_buffer([1, 64], dtype=pl.FP32)
            sb = pld.alloc_window_buffer([2, 1], dtype=pl.INT32)
            for r in pl.range(pld.world_size()):
                w = pld.window(wb, [1, 64], dtype=pl.FP32)
                s = pld.window(sb, [2, 1], dtype=pl.INT32)
                self.chip(x[r], y[r], w, s, r, device=r)

    x, y = array(2, 1, 64), zeros(2, 1, 64)
    run(P, x, y, ranks=2)
    np.testing.assert_array_equal(y, x - x[::-1])


def test_a_host_may_combine_the_windows_of_its_ranks(run: Run) -> None:
    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.InCore)
        def fill(self, x: ONE, w: pl.InOut[W]):
            w = pl.store(pl.load(x, [0, 0], [1, 64]), [0, 0], w)

        @pl.function(type=pl.FunctionType.InCore)
        def drain(self, w: W, y: pl.Out[ONE]):
            y = pl.store(pl.load(w, [0, 0], [1, 64]), [0, 0], y)

        @pl.function(level=HOST, role=ORCHESTRATOR)
        def main(self, x: TWO, y: pl.Out[TWO]):
            wb = pld.alloc_window_buffer([1, 64], dtype=pl.FP32)
            w = pld.window(wb, [1, 64], dtype=pl.FP32)
            for r in pl.range(pld.world_size()):
                self.fill(x[r], w, device=r)
            w = pld.tensor.allreduce(w)
            for r in pl.range(pld.world_size()):
                self.drain(w, y[r], device=r)

    x, y = array(2, 1, 64), zeros(2, 1, 64)
    run(P, x, y, ranks=2)
    np.testing.assert_allclose(y, np.repeat(x.sum(0, keepdims=True), 2, 0), rtol=1e-6)
