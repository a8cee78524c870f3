"""Pages of cores, tasks, pipes, ranks: their published names, their text, and one participant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
import tilewright.language.distributed as pld
from tilewright import ir
from tilewright.errors import (
    ArgumentTypeMismatch,
    Deadlock,
    DTypeMismatch,
    IndexOutOfBounds,
    ParserSyntaxError,
    ParserTypeError,
    ShapeMismatch,
    TilewrightError,
)
from tilewright.interp import run
from tilewright.ir.opdef import SPELLINGS
from unit.ops.test_published import accepts, shown

PUBLISHED = {
    "pl.system": """
        sync_set: event_id * pipe ffts_mode core_type
        sync_wait: event_id * pipe core_type
        set_ffts: workspace
        syncall: * core_type mode gm_workspace used_cores
        cacheinvalid: tensor shapes offsets
        tpush_to_aiv: tile * split lane_stride id
        tpush_to_aic: tile * split id
        tfree_to_aic: tile * split id
        tfree_to_aiv: tile * split id
        tpop_from_aic: * shape dtype split lane_stride id
        tpop_from_aiv: * shape dtype split id
        reserve_buffer: * name size base
        import_peer_buffer: * name peer_func
        task_invalid:
        task_dummy: * deps
        available_cluster_count:
        available_aiv_count:
    """,
    "pl": """
        get_block_idx:
        get_block_num:
        get_subblock_idx:
        aiv_shard: x
        aic_gather: x
        reserve_buffer: * name size base
        import_peer_buffer: * name peer_func
    """,
    "pl.prefetch": """
        make_context:
        async_prefetch: src ctx
        session: ctx
        wait: event session_handle
    """,
    "pld.system": """
        world_size:
        get_comm_ctx: dist_tensor
        rank: ctx
        nranks: ctx
        notify: target peer offsets value * op
        wait: signal offsets expected * cmp
        defer_wait: signal offsets expected * cmp
    """,
    "pld.tile": """
        remote_load: target peer offsets shape valid_shape
        remote_store: src_tile target peer offsets * atomic
        put: dst peer src stage stage2 dst_offsets src_offsets shape * atomic
        get: dst peer src stage stage2 dst_offsets src_offsets shape
    """,
    "pld.tensor": """
        alloc_window_buffer: size * dtype name
        window: buf shape * dtype
        remote_store: src target peer offsets * atomic
        put: dst peer src dst_offsets src_offsets shape * atomic chunk_rows chunk_cols pipeline
        get: dst peer src dst_offsets src_offsets shape * chunk_rows chunk_cols pipeline
        allreduce: target signal * op mode core_num
        barrier: signal
        broadcast: target signal * root
        allgather: local_data target signal
        reduce_scatter: target signal * op
        all_to_all: input target signal
        all_to_all_v: input target signal send_counts recv_counts
    """,
    "pld": """
        world_size:
        get_comm_ctx: dist_tensor
        rank: ctx
        nranks: ctx
        notify: target peer offsets value * op
        wait: signal offsets expected * cmp
        defer_wait: signal offsets expected * cmp
        alloc_window_buffer: size * dtype name
        window: buf shape * dtype
        remote_store: src target peer offsets * atomic
    """,
}


def published() -> Iterator[tuple[str, list[str]]]:
    for home, text in PUBLISHED.items():
        for line in text.strip().splitlines():
            name, _, parameters = line.strip().partition(":")
            yield f"{home}.{name}", parameters.split()


@pytest.mark.parametrize(("path", "parameters"), [pytest.param(*p, id=p[0]) for p in published()])
def test_a_published_name_takes_its_parameters(path: str, parameters: list[str]) -> None:
    found = [shown(spelling.signature) for spelling in SPELLINGS[path]]
    assert any(accepts(names, parameters) for names in found), found


# ---- text ----------------------------------------------------------------------------------------

T = pl.Tensor[[16, 16], pl.FP32]
W = pld.DistributedTensor[[16, 16], pl.FP32]
S = pld.DistributedTensor[[2, 1], pl.INT32]


@pl.function
def cores(x: T, out: pl.InOut[T]) -> T:
    pl.system.set_ffts(x)
    pl.system.cacheinvalid(x, [16, 16], [0, 0])
    pl.system.cacheinvalid()
    pl.system.sync_set(2, pipe=pl.PipeType.V, core_type="aiv")
    pl.system.sync_wait(2, pipe=pl.PipeType.MTE2)
    pl.system.syncall(core_type="aiv", mode="soft", gm_workspace=x, used_cores=1)
    base = pl.reserve_buffer(name="ring", size=4096, base=64)
    peer = pl.import_peer_buffer(name="ring", peer_func="cube")
    ctx = pl.prefetch.make_context()
    event = pl.prefetch.async_prefetch(x, ctx)
    done = pl.prefetch.wait(event, pl.prefetch.session(ctx))
    number = pl.cast(base + peer + done, pl.FP32)
    count = pl.cast(pl.system.available_aiv_count(), pl.FP32)
    t = pl.add(pl.load(x, [0, 0], [16, 16]), number)
    return pl.store(pl.mul(t, count), [0, 0], out)


@pl.function
def ranks(x: T, w: pl.InOut[W], s: pl.InOut[S], out: pl.InOut[T]) -> T:
    ctx = pld.get_comm_ctx(w)
    last = pld.nranks(ctx) - 1
    w = pld.put(w, last, x)
    w = pld.tensor.put(w, last, x, [8, 0], [0, 0], [8, 16], atomic=pld.AtomicType.Add)
    stage = pl.create_tile([8, 16], dtype=pl.FP32)
    w = pld.tile.put(w, 0, x, stage, None, [0, 0], [0, 0], [2, 16])
    out = pld.tensor.get(out, pld.rank(ctx), w, chunk_rows=4, pipeline=True)
    out = pld.tile.get(out, 0, w, stage)
    pld.remote_store(pl.load(x, [0, 0], [4, 16]), w, 0, [4, 0])
    t = pld.remote_load(w, 0, [4, 0], [4, 16], valid_shape=[2, 16])
    out = pl.store(t, [12, 0], out)
    pld.notify(s, 0, [1, 0], 3, op=pld.NotifyOp.AtomicAdd)
    pld.wait(s, [1, 0], 3, cmp=pld.WaitCmp.Eq)
    pld.defer_wait(s, [1, 0], 2, cmp=pld.WaitCmp.Ge)
    w = pld.tensor.allreduce(w, None, op=pld.ReduceOp.Max)
    w = pld.tensor.broadcast(w, s, root=0)
    s = pld.tensor.barrier(s)
    return out


def alone(function: ir.Function) -> ir.Program:
    return ir.Program("P", {"main": function})


@pytest.mark.parametrize("function", [cores, ranks])
def test_every_name_prints_and_reads_back(function: ir.Function) -> None:
    ir.assert_structural_equal(pl.parse(function.as_python()), function)
    ir.verify(alone(function))


def test_one_core_does_the_hints_and_waits_alone() -> None:
    x, out = np.ones((16, 16), np.float32), np.zeros((16, 16), np.float32)
    run(alone(cores), "main", [x, out])
    np.testing.assert_array_equal(out, (1 + 64) * 16)


def test_one_rank_talks_to_itself() -> None:
    x = np.arange(256, dtype=np.float32).reshape(16, 16)
    w, s = np.zeros((16, 16), np.float32), np.zeros((2, 1), np.int32)
    out = np.zeros((16, 16), np.float32)
    run(alone(ranks), "main", [x, w, s, out])
    wanted = x.copy()
    wanted[8:] += x[:8]
    wanted[:2] = x[:2]
    np.testing.assert_array_equal(out[:12], wanted[:12])
    np.testing.assert_array_equal(out[12:14], x[:2])
    np.testing.assert_array_equal(w[4:8], x[:4])
    assert s[1, 0] == 3


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "error", "message"),
    [
        ("pl.system.sync_set(x, pipe=pl.PipeType.V)", ArgumentTypeMismatch, "event_id"),
        ("pl.system.sync_wait(64, pipe=pl.PipeType.V)", ParserTypeError, "event_id is 64"),
        ("pl.system.syncall(core_type='gpu')", ParserTypeError, "core_type is 'gpu'"),
        ("pl.system.syncall(mode='soft')", ArgumentTypeMismatch, "needs gm_workspace"),
        ("pl.system.cacheinvalid(None, [1])", ArgumentTypeMismatch, "need a tensor"),
        ("pl.tpush_to_aiv(x, split=0)", ArgumentTypeMismatch, "not a tile"),
        ("pl.tpush_to_aiv(pl.load(x, [0, 0], [16, 16]), split=7)", ParserTypeError, "split is 7"),
        ("t = pl.tpop_from_aic(split=0)", ParserTypeError, "shape= and dtype= are missing"),
        ("t = pl.aiv_shard(x)", ParserSyntaxError, "stands outside pl.split_aiv"),
        ("t = pl.aic_gather(x)", ParserSyntaxError, "stands outside pl.split_aiv"),
        ("d = pl.system.task_dummy(deps=[3])", ParserTypeError, "takes task ids"),
        ("e = pl.prefetch.async_prefetch(x, x)", ArgumentTypeMismatch, "ctx is"),
        ("c = pld.get_comm_ctx(x)", ArgumentTypeMismatch, "not a window of every rank"),
        ("r = pld.rank(x)", ArgumentTypeMismatch, "not a communication context"),
        ("pld.put(x, 0, x)", ArgumentTypeMismatch, "dst is"),
        ("pld.put(w, 0, x, [0, 0])", ShapeMismatch, "offsets need shape="),
        ("pld.notify(s, 0, [0, 0], 1, op=3)", ParserTypeError, "pld.NotifyOp.AtomicAdd"),
        ("pld.notify(w, 0, [0, 0], 1, op=pld.NotifyOp.Set)", DTypeMismatch, "signals are"),
        ("pld.wait(s, [2, 0], 1, cmp=pld.WaitCmp.Ge)", ShapeMismatch, "leave axis 0"),
        ("pld.defer_wait(s, [0, 0], 1, cmp=pld.WaitCmp.Eq)", ParserTypeError, "must be"),
        ("b = pld.alloc_window_buffer([4, 4])", ParserTypeError, "needs dtype="),
        ("b = pld.alloc_window_buffer(0)", ShapeMismatch, "not positive"),
        ("w = pld.tensor.allreduce(w, s, op=2)", ParserTypeError, "op is 2"),
        ("w = pld.tensor.allgather(w, w, s)", ArgumentTypeMismatch, "the same buffer"),
    ],
)
def test_a_bad_use_is_refused_at_its_line(
    line: str, error: type[TilewrightError], message: str
) -> None:
    types = "x: pl.Tensor[[16, 16], pl.FP32]"
    windows = (
        "w: pl.InOut[pld.DistributedTensor[[16, 16], pl.FP32]], "
        "s: pl.InOut[pld.DistributedTensor[[2, 1], pl.INT32]]"
    )
    source = f"@pl.function\ndef f({types}, {windows}):\n    {line}\n"
    with pytest.raises(error, match=re.escape(message)) as caught:
        pl.parse(source)
    assert caught.value.span is not None and caught.value.span.line == 3


def test_a_window_too_small_for_its_tensor_is_refused() -> None:
    source = (
        "@pl.function\ndef f():\n    b = pld.alloc_window_buffer(64)\n"
        "    w = pld.window(b, [64], dtype=pl.FP32)\n"
    )
    with pytest.raises(ShapeMismatch, match="takes 256 bytes, more than 64"):
        pl.parse(source)


def test_a_wait_that_nobody_will_end_is_a_deadlock_at_its_line() -> None:
    @pl.function
    def main(s: pl.InOut[S]):
        pld.system.wait(s, [0, 0], 1, cmp=pld.WaitCmp.Ge)

    with pytest.raises(Deadlock, match="signal") as caught:
        run(alone(main), "main", [np.zeros((2, 1), np.int32)])
    assert caught.value.span is not None


def test_a_rank_that_does_not_exist_is_out_of_bounds() -> None:
    @pl.function
    def main(x: T, w: pl.InOut[W]):
        w = pld.put(w, 3, x)

    arrays: list[Any] = [np.zeros((16, 16), np.float32) for _ in range(2)]
    with pytest.raises(IndexOutOfBounds, match="rank 3 of 1"):
        run(alone(main), "main", arrays)
