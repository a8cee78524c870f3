"""Compiled programs that are more than one kernel: ranks, groups, recorded graphs."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
import tilewright.language.distributed as pld
from dist.running import array, zeros
from dist.test_groups import mixed
from dist.test_ranks import ONE, TWO, Ring, S, W
from moments import PATIENCE
from tilewright import ir
from tilewright.errors import InvalidOperationError, UnsupportedFeatureError, UnsupportedOnTarget
from tilewright.jit import DistributedCompiledProgram
from tilewright.runtime import DistributedConfig, RunConfig, RuntimeKind

PAIR = DistributedConfig(device_ids=[0, 1])
GRAPHS = RuntimeKind.HOST_BUILD_GRAPH


# ---- ranks ---------------------------------------------------------------------------------------


def test_a_program_with_a_host_runs_on_as_many_ranks_as_devices() -> None:
    compiled = ir.compile(Ring, distributed_config=PAIR)
    assert isinstance(compiled, DistributedCompiledProgram) and compiled.ranks == 2
    x, y = array(2, 1, 64), zeros(2, 1, 64)
    compiled(x, y)
    np.testing.assert_array_equal(y, x[::-1])
    assert compiled.explain().splitlines() == [
        "main: interpreted, because it starts functions on ranks",
        "chip: a kernel of its own",
    ]


@pl.program
class Alone:
    """Each rank works on its own."""

    @pl.function(type=pl.FunctionType.InCore)
    def chip(self, x: ONE, y: pl.Out[ONE]) -> ONE:
        return pl.store(pl.mul(pl.load(x, [0, 0], [1, 64]), 2.0), [0, 0], y)

    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def main(self, x: TWO, y: pl.Out[TWO]):
        for r in pl.range(pld.world_size()):
            self.chip(x[r], y[r], device=r)


def test_what_runs_alone_on_a_rank_is_a_kernel_of_its_own() -> None:
    compiled = ir.compile(Alone, distributed_config=PAIR)
    assert list(compiled.children) == ["chip"]
    assert "chip: a kernel of its own" in compiled.explain()
    x, y = array(2, 1, 64), zeros(2, 1, 64)
    compiled(x, y)
    np.testing.assert_array_equal(y, 2 * x)


def test_kernels_of_several_ranks_run_at_the_same_time() -> None:
    compiled = ir.compile(Alone, distributed_config=PAIR)
    assert isinstance(compiled, DistributedCompiledProgram)
    child = compiled.children["chip"].kernel
    inside, run = threading.Barrier(2, timeout=PATIENCE), child.run

    def meet(*args: Any) -> Any:
        inside.wait()
        return run(*args)

    child.run = meet
    x, y = array(2, 1, 64), zeros(2, 1, 64)
    compiled(x, y)
    np.testing.assert_array_equal(y, 2 * x)


def test_a_worker_runs_again_and_again_in_order() -> None:
    compiled = ir.compile(Ring, distributed_config=PAIR)
    x, y, z = array(2, 1, 64), zeros(2, 1, 64), zeros(2, 1, 64)
    with compiled.prepare() as worker:
        worker(x, y)
        handle = worker.submit(y, z)
        handle.result()
        assert handle.done() and handle.wait()
        stacked = worker.alloc_stacked_tensor([1, 64], pl.FP32)
        worker.copy_to(stacked, x)
        worker.run(compiled, stacked, y)
    np.testing.assert_array_equal(z, x)
    np.testing.assert_array_equal(y, x[::-1])
    with pytest.raises(InvalidOperationError, match="closed"):
        worker(x, y)


def test_warming_up_prepares_every_child_and_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    @pl.jit
    def chip(x: ONE, y: pl.Out[ONE]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y = pl.store(pl.add(pl.load(x, [0, 0], [1, 64]), 1.0), [0, 0], y)
        return y

    @pl.jit.host
    def host(x: TWO, y: pl.Out[TWO]):
        for r in pl.range(pld.world_size()):
            chip(x[r], y[r], device=r)

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("warming up prepares no worker")

    monkeypatch.setattr(DistributedCompiledProgram, "prepare", refuse)
    config = RunConfig(distributed_config=PAIR)
    prepared = host.warmup(config=config)
    assert isinstance(prepared, DistributedCompiledProgram)
    assert all(child.kernel.data for child in prepared.children.values())
    x, y = array(2, 1, 64), zeros(2, 1, 64)
    prepared(x, y)
    np.testing.assert_array_equal(y, x + 1)
    host(x, y, config=config)
    np.testing.assert_array_equal(y, x + 1)


def test_host_callbacks_without_a_body_must_be_given() -> None:
    @pl.program
    class P:
        @pl.function(level=pl.Level.HOST, role=pl.Role.SubWorker)
        def check(self, y: TWO): ...

        @pl.function(type=pl.FunctionType.InCore)
        def chip(self, x: ONE, y: pl.Out[ONE]) -> ONE:
            return pl.store(pl.load(x, [0, 0], [1, 64]), [0, 0], y)

        @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
        def main(self, x: TWO, y: pl.Out[TWO]):
            for r in pl.range(pld.world_size()):
                self.chip(x[r], y[r], device=r)
            self.check(y)

    compiled = ir.compile(P, distributed_config=PAIR)
    assert compiled.requires_runtime_binding
    with pytest.raises(ValueError, match="check"):
        compiled.prepare()
    seen: list[Any] = []
    x, y = array(2, 1, 64), zeros(2, 1, 64)
    with compiled.prepare(callbacks={"check": lambda y: seen.append(y.copy())}) as worker:
        worker(x, y)
    np.testing.assert_array_equal(seen[0], x)


def test_checked_mode_runs_ranks_and_tasks_too() -> None:
    compiled = ir.compile(Ring, distributed_config=PAIR)
    x, y = array(2, 1, 64), zeros(2, 1, 64)
    compiled(x, y, config=RunConfig(checked=True))
    np.testing.assert_array_equal(y, x[::-1])


# ---- groups --------------------------------------------------------------------------------------


def test_a_compiled_group_runs_and_says_how() -> None:
    compiled = ir.compile(mixed(frees=True))
    a, b, out = array(16, 16), array(16, 16, seed=1), zeros(16, 16)
    compiled(a, b, out)
    np.testing.assert_allclose(out, 4 * (a @ b), rtol=1e-5, atol=1e-5)
    assert compiled.explain() == "main: one kernel"


def test_blocks_that_read_how_many_of_so_many_meet_are_one_kernel() -> None:
    """Neither the blocks nor those of them that meet have a number before they run."""

    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.InCore)
        def row(
            self, i: pl.Scalar[pl.INDEX], meeting: pl.Tensor[[8], pl.INT32], y: pl.InOut[ONE]
        ) -> ONE:
            pl.system.syncall(used_cores=pl.read(meeting, [i]))
            return pl.store(pl.full([1, 8], dtype=pl.FP32, value=1.0), [0, 8 * i], y)

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(
            self, n: pl.Scalar[pl.INDEX], meeting: pl.Tensor[[8], pl.INT32], y: pl.InOut[ONE]
        ) -> ONE:
            for i in pl.spmd(n):
                y = self.row(i, meeting, y)
            return y

    compiled = ir.compile(P)
    y = zeros(1, 64)
    compiled(5, np.array([5] * 8, np.int32), y)
    assert y[0, :40].all() and not y[0, 40:].any()
    assert compiled.explain() == "main: one kernel"


def test_one_kernel_says_that_it_is_one() -> None:
    @pl.function
    def main(x: ONE, y: pl.Out[ONE]) -> ONE:
        return pl.store(pl.load(x, [0, 0], [1, 64]), [0, 0], y)

    assert ir.compile(main).explain() == "main: one kernel"


# ---- graphs --------------------------------------------------------------------------------------

ROW = pl.Tensor[[8], pl.FP32]
ROWS = pl.Tensor[[40, 8], pl.FP32]


@pl.program
class Decoder:
    @pl.function(type=pl.FunctionType.Graph)
    def layer(self, cur: pl.InOut[ROW], weights: ROWS, row: pl.Scalar[pl.INDEX]) -> ROW:
        with pl.at(level=pl.Level.CORE_GROUP):
            cur[:] = pl.add(cur, pl.reshape(pl.slice(weights, [1, 8], [row, 0]), [8]))
        return cur

    @pl.function(type=pl.FunctionType.Graph)
    def final(self, cur: pl.InOut[ROW]) -> ROW:
        with pl.at(level=pl.Level.CORE_GROUP):
            cur[:] = pl.mul(cur, 2.0)
        return cur

    @pl.function
    def decode(self, cur: pl.InOut[ROW], weights: ROWS) -> ROW:
        for i in pl.range(40):
            cur = self.layer(cur, weights, i)
        cur = self.final(cur)
        return cur


def test_a_graph_is_recorded_by_its_first_call_and_replayed_by_the_others() -> None:
    compiled = ir.compile(Decoder, runtime=GRAPHS)
    cur, weights = np.zeros(8, np.float32), np.arange(320, dtype=np.float32).reshape(40, 8)
    compiled(cur, weights)
    np.testing.assert_array_equal(cur, 2 * weights.sum(axis=0))
    counts = {name: (g.recorded, g.replayed) for name, g in compiled.graphs.items()}
    assert counts == {"layer": (1, 39), "final": (1, 0)}
    compiled(cur, weights)
    assert (compiled.graphs["layer"].recorded, compiled.graphs["layer"].replayed) == (1, 79)
    assert "layer: a kernel of its own" in compiled.explain()


SQUARE = pl.Tensor[[16, 16], pl.FP32]


@pl.program
class Meeting:
    """A launch of recorded graphs and groups, whose participants wait for each other only."""

    @pl.function(type=pl.FunctionType.Graph)
    def turn(self, x: pl.InOut[SQUARE], y: pl.InOut[SQUARE]) -> SQUARE:
        for i in pl.spmd(16):
            y = pl.store(pl.load(x, [i, 0], [1, 16]), [i, 0], y)
            pl.system.syncall()
            x = pl.store(pl.add(pl.load(y, [15 - i, 0], [1, 16]), 1.0), [i, 0], x)
        return x

    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, x: SQUARE):
        pl.tpush_to_aiv(pl.load(x, [0, 0], [16, 16]), split=0)

    @pl.function(type=pl.FunctionType.AIV)
    def vector(self, y: pl.InOut[SQUARE]) -> SQUARE:
        t = pl.tpop_from_aic(shape=[16, 16], dtype=pl.FP32, split=0)
        y = pl.store(pl.mul(t, 2.0), [0, 0], y)
        pl.tfree_to_aic(t)
        return y

    @pl.function(type=pl.FunctionType.Group)
    def group(self, x: SQUARE, y: pl.InOut[SQUARE]) -> SQUARE:
        self.cube(x)
        y = self.vector(y)
        return y

    @pl.function(type=pl.FunctionType.InCore)
    def meet(self, i: pl.Scalar[pl.INDEX], y: pl.InOut[SQUARE]) -> SQUARE:
        t = pl.load(y, [15 - i, 0], [1, 16])
        pl.system.syncall()
        return pl.store(t, [i, 0], y)

    @pl.function
    def main(self, x: pl.InOut[SQUARE], y: pl.InOut[SQUARE]) -> SQUARE:
        for _ in pl.range(3):
            x = self.turn(x, y)
        y = self.group(x, y)
        for i in pl.spmd(16):
            y = self.meet(i, y)
        return y


def test_graphs_and_groups_that_wait_only_for_their_own_are_kernels() -> None:
    """What blocks of the interpreted function run at the same time is interpreted with it."""
    compiled = ir.compile(Meeting, runtime=GRAPHS)
    x, y = array(16, 16), zeros(16, 16)
    wanted = 2 * (x + np.float32(1) + np.float32(1) + np.float32(1))
    compiled(x, y)
    np.testing.assert_array_equal(y, wanted)
    assert compiled.explain().splitlines() == [
        "main: interpreted, because it launches recorded graphs",
        "meet: interpreted, because it waits for others, or asks which one it is",
        "turn: a kernel of its own",
        "group: a kernel of its own",
    ]


def test_graphs_need_the_runtime_that_records_them() -> None:
    with pytest.raises(UnsupportedOnTarget, match="'layer' needs the runtime HOST_BUILD_GRAPH"):
        ir.compile(Decoder)


def test_a_graph_is_not_called_inside_one_task() -> None:
    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.Graph)
        def double(self, x: pl.InOut[ROW]) -> ROW:
            with pl.at(level=pl.Level.CORE_GROUP):
                x[:] = pl.mul(x, 2.0)
            return x

        @pl.function
        def main(self, x: pl.InOut[ROW]) -> ROW:
            with pl.cluster():
                x = self.double(x)
            return x

    with pytest.raises(UnsupportedFeatureError, match=r"'double' is called in pl\.cluster"):
        ir.compile(P, runtime=GRAPHS)


# ---- the founding document's loop ----------------------------------------------------------------


def test_a_window_that_a_loop_writes_and_ranks_combine_is_a_write_through(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.InCore)
        def chip(self, x: ONE, data: pl.InOut[W], signal: pl.InOut[S], y: pl.Out[ONE]) -> ONE:
            for col, (d,) in pl.range(0, 64, 16, init_values=(data,)):
                local = pl.load(x, [0, col], [1, 16])
                d = pl.store(local, [0, col], d)
                staged = pl.yield_(d)
            data = pld.tensor.allreduce(staged, signal)
            return pl.store(pl.load(data, [0, 0], [1, 64]), [0, 0], y)

        @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
        def main(self, x: TWO, y: pl.Out[TWO]):
            wb = pld.alloc_window_buffer([1, 64], dtype=pl.FP32)
            sb = pld.alloc_window_buffer([2, 1], dtype=pl.INT32)
            for r in pl.range(pld.world_size()):
                w = pld.window(wb, [1, 64], dtype=pl.FP32)
                s = pld.window(sb, [2, 1], dtype=pl.INT32)
                self.chip(x[r], w, s, y[r], device=r)

    ir.assert_structural_equal(pl.parse(P.as_python()), P)
    compiled = ir.compile(P, distributed_config=PAIR)
    assert "OutParamWriteDropped" not in capsys.readouterr().err
    x, y = array(2, 1, 64), zeros(2, 1, 64)
    compiled(x, y)
    np.testing.assert_allclose(y, np.repeat(x.sum(0, keepdims=True), 2, 0), rtol=1e-6)


def test_hints_and_words_of_the_machine_compile() -> None:
    @pl.function
    def main(x: ONE, y: pl.Out[ONE]) -> ONE:
        pl.system.set_ffts(x)
        pl.system.cacheinvalid(x, [1, 64], [0, 0])
        base = pl.reserve_buffer(name="ring", size=4096)
        ctx = pl.prefetch.make_context()
        event = pl.prefetch.async_prefetch(x, ctx)
        done = pl.prefetch.wait(event, pl.prefetch.session(ctx))
        count = pl.system.available_cluster_count() + pl.cast(base + done, pl.INDEX)
        t = pl.mul(pl.load(x, [0, 0], [1, 64]), pl.cast(count, pl.FP32))
        return pl.store(t, [0, 0], y)

    compiled = ir.compile(main)
    assert compiled.explain() == "main: one kernel"
    x, y = array(1, 64), zeros(1, 64)
    compiled(x, y)
    np.testing.assert_array_equal(y, 8 * x)


def test_lanes_that_do_not_meet_compile_to_one_kernel() -> None:
    @pl.function
    def main(x: pl.Tensor[[16, 64], pl.FP32], y: pl.InOut[pl.Tensor[[16, 64], pl.FP32]]):
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            half = pl.aiv_shard(pl.load(x, [0, 0], [16, 64]))
            y = pl.store(pl.add(half, pl.cast(lane, pl.FP32)), [lane * 8, 0], y)

    compiled = ir.compile(main)
    assert compiled.explain() == "main: one kernel"
    x, y = array(16, 64), zeros(16, 64)
    compiled(x, y)
    np.testing.assert_array_equal(y[:8], x[:8])
    np.testing.assert_array_equal(y[8:], x[8:] + 1)
