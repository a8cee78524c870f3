"""What goes between ranks, and what is refused while they run: interpreted and in machine code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
import tilewright.language.distributed as pld
from dist.running import RANKED, array, zeros
from tilewright import ir
from tilewright.errors import IndexOutOfBounds, RuntimeShapeMismatch

HOST, ORCHESTRATOR = pl.Level.HOST, pl.Role.Orchestrator
RANKS = 4
ROW = pl.Tensor[[1, 64], pl.FP32]
ROWS = pl.Tensor[[RANKS, 1, 64], pl.FP32]
HALF = pl.Tensor[[RANKS, 4, 8], pl.FP16]
W = pld.DistributedTensor[[1, 64], pl.FP32]
H = pld.DistributedTensor[[4, 8], pl.FP16]
S = pld.DistributedTensor[[RANKS, 1], pl.INT32]

each_way = pytest.mark.parametrize("run", RANKED, ids=lambda runner: runner.__name__)


def on_every_rank(body: Any) -> ir.Program:
    """A program that runs an inline helper on every rank, with a window and signals."""

    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.InCore)
        def chip(
            self, x: ROW, y: pl.InOut[ROW], w: pl.InOut[W], s: pl.InOut[S], r: pl.Scalar[pl.INT32]
        ):
            body(x, y, w, s, r)

        @pl.function(level=HOST, role=ORCHESTRATOR)
        def main(self, x: ROWS, y: pl.InOut[ROWS]):
            wb = pld.alloc_window_buffer([1, 64], dtype=pl.FP32)
            sb = pld.alloc_window_buffer([RANKS, 1], dtype=pl.INT32)
            w = pld.window(wb, [1, 64], dtype=pl.FP32)
            s = pld.window(sb, [RANKS, 1], dtype=pl.INT32)
            for r in pl.range(pld.world_size()):
                self.chip(x[r], y[r], w, s, r, device=r)

    return P


@pl.inline
def fetched(x, y, w, s, r):
    w = pl.store(pl.load(x, [0, 0], [1, 64]), [0, 0], w)
    s = pld.tensor.barrier(s)
    y = pld.tensor.get(y, (r + 1) % RANKS, w, [0, 0], [0, 32], [1, 32])


@pl.inline
def added(x, y, w, s, r):
    for i in pl.range(8):
        w = pld.tensor.put(w, 0, x, atomic=pld.AtomicType.Add)
    pld.system.notify(s, 0, [1, 0], 1, op=pld.NotifyOp.AtomicAdd)
    if r == 0:
        pld.system.wait(s, [1, 0], RANKS, cmp=pld.WaitCmp.Eq)
        y = pl.store(pl.load(w, [0, 0], [1, 64]), [0, 0], y)


@pl.inline
def passed_on(x, y, w, s, r):
    w = pl.store(pl.load(x, [0, 0], [1, 64]), [0, 0], w)
    for i in pl.range(1, RANKS + 1):
        s = pld.tensor.barrier(s)
        t = pld.tile.remote_load(w, (r + 1) % RANKS, [0, 0], [1, 64])
        s = pld.tensor.barrier(s)
        w = pl.store(pl.add(t, 1.0), [0, 0], w)
        pld.system.notify(s, (r + 1) % RANKS, [2, 0], 1, op=pld.NotifyOp.AtomicAdd)
        pld.system.wait(s, [2, 0], i, cmp=pld.WaitCmp.Ge)
    y = pl.store(pl.load(w, [0, 0], [1, 64]), [0, 0], y)


@each_way
def test_a_rank_gets_a_region_of_another_one(run: Any) -> None:
    x, y = array(RANKS, 1, 64), zeros(RANKS, 1, 64)
    run(on_every_rank(fetched), x, y, ranks=RANKS)
    np.testing.assert_array_equal(y[:, :, :32], np.roll(x, -1, axis=0)[:, :, 32:])
    assert not y[:, :, 32:].any()


@each_way
def test_what_ranks_add_at_the_same_time_is_all_there(run: Any) -> None:
    x = np.round(array(RANKS, 1, 64) * 8)
    y = zeros(RANKS, 1, 64)
    run(on_every_rank(added), x, y, ranks=RANKS)
    np.testing.assert_array_equal(y[0], 8 * x.sum(0))


@each_way
def test_a_window_goes_around_in_a_loop(run: Any) -> None:
    x, y = array(RANKS, 1, 64), zeros(RANKS, 1, 64)
    run(on_every_rank(passed_on), x, y, ranks=RANKS)
    wanted = x
    for _ in range(RANKS):
        wanted = np.roll(wanted, -1, axis=0) + np.float32(1)
    np.testing.assert_array_equal(y, wanted)


@each_way
@pytest.mark.parametrize("mode", ["mesh", "ring"])
def test_halves_are_summed_in_fp32_and_rounded_once(run: Any, mode: str) -> None:
    shape = [RANKS, 1] if mode == "mesh" else [2 * (RANKS - 1), RANKS]

    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.InCore)
        def chip(
            self,
            x: pl.Tensor[[4, 8], pl.FP16],
            y: pl.InOut[pl.Tensor[[4, 8], pl.FP16]],
            w: pl.InOut[H],
            s: pl.InOut[pld.DistributedTensor[shape, pl.INT32]],
        ):
            w = pl.store(pl.load(x, [0, 0], [4, 8]), [0, 0], w)
            w = pld.tensor.allreduce(w, s, mode=mode)
            y = pl.store(pl.load(w, [0, 0], [4, 8]), [0, 0], y)

        @pl.function(level=HOST, role=ORCHESTRATOR)
        def main(self, x: HALF, y: pl.InOut[HALF]):
            wb = pld.alloc_window_buffer([4, 8], dtype=pl.FP16)
            sb = pld.alloc_window_buffer(shape, dtype=pl.INT32)
            w = pld.window(wb, [4, 8], dtype=pl.FP16)
            s = pld.window(sb, shape, dtype=pl.INT32)
            for r in pl.range(pld.world_size()):
                self.chip(x[r], y[r], w, s, device=r)

    x = array(RANKS, 4, 8).astype(np.float16)
    y = np.zeros_like(x)
    run(P, x, y, ranks=RANKS)
    total = x[0].astype(np.float32)
    for part in x[1:]:
        total = total + part.astype(np.float32)
    np.testing.assert_array_equal(y, np.repeat(total.astype(np.float16)[None], RANKS, 0))


# --------------------------------------------------------------------------------- what is refused


@pl.inline
def from_nobody(x, y, w, s, r):
    w = pld.tensor.broadcast(w, s, root=7)


@pl.inline
def to_nobody(x, y, w, s, r):
    w = pld.tensor.put(w, r + 1, x)
    s = pld.tensor.barrier(s)


@pl.inline
def beside_the_signals(x, y, w, s, r):
    pld.system.notify(s, r, [r + 3, 0], 1, op=pld.NotifyOp.Set)
    s = pld.tensor.barrier(s)


@each_way
@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        (from_nobody, RuntimeShapeMismatch, "broadcast: root 7 of 4 ranks"),
        (to_nobody, IndexOutOfBounds, "rank 4 of 4"),
        (beside_the_signals, IndexOutOfBounds, "4"),
    ],
    ids=["root", "peer", "slot"],
)
def test_what_ranks_do_wrong_is_refused_at_its_line(
    run: Any, body: Any, error: Any, text: str
) -> None:
    with pytest.raises(error, match=text) as caught:
        run(on_every_rank(body), array(RANKS, 1, 64), zeros(RANKS, 1, 64), ranks=RANKS)
    assert caught.value.span is not None and caught.value.span.file == __file__


@each_way
def test_more_rows_than_a_chunk_has_are_refused(run: Any) -> None:
    chunks = pl.Tensor[[RANKS, 2, 8], pl.FP32]
    window = pld.DistributedTensor[[RANKS, 2, 8], pl.FP32]

    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.InCore)
        def chip(
            self,
            x: chunks,
            send: pl.Tensor[[RANKS], pl.INT32],
            w: pl.InOut[window],
            c: pl.InOut[pld.DistributedTensor[[RANKS], pl.INT32]],
            s: pl.InOut[S],
        ):
            w, c = pld.tensor.all_to_all_v(x, w, s, send, c)

        @pl.function(level=HOST, role=ORCHESTRATOR)
        def main(self, x: chunks, send: pl.Tensor[[RANKS], pl.INT32]):
            wb = pld.alloc_window_buffer([RANKS, 2, 8], dtype=pl.FP32)
            cb = pld.alloc_window_buffer([RANKS], dtype=pl.INT32)
            sb = pld.alloc_window_buffer([RANKS, 1], dtype=pl.INT32)
            w = pld.window(wb, [RANKS, 2, 8], dtype=pl.FP32)
            c = pld.window(cb, [RANKS], dtype=pl.INT32)
            s = pld.window(sb, [RANKS, 1], dtype=pl.INT32)
            for r in pl.range(pld.world_size()):
                self.chip(x, send, w, c, s, device=r)

    with pytest.raises(RuntimeShapeMismatch, match="3 rows of a chunk of 2 for rank 1"):
        run(P, array(RANKS, 2, 8), np.array([1, 3, 0, 2], np.int32), ranks=RANKS)
