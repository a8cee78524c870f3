"""How runs of participants end that do not end well: no threads, interrupts, faults, forks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
import tilewright.language.distributed as pld
from dist.running import RUNNERS, Run, array, compiled, run, zeros
from dist.test_groups import mixed
from dist.test_ranks import Ring
from moments import comes_true, pressed, working_threads
from tilewright import errors, ir
from tilewright.errors import Deadlock, IndexOutOfBounds, LimitExceeded
from tilewright.runtime import DistributedConfig, hands

ROWS = pl.Tensor[[64, 16], pl.FP32]
HOST, ORCHESTRATOR, CORE = pl.Level.HOST, pl.Role.Orchestrator, pl.FunctionType.InCore


def program(function: Any) -> ir.Program:
    """A program of one function."""
    return ir.Program("P", {"main": function})


@pl.function
def main(n: pl.Scalar[pl.INDEX], x: ROWS, out: pl.InOut[ROWS]) -> ROWS:
    for i in pl.spmd(n):
        for j in pl.range(3):
            pl.system.syncall()
        out = pl.store(pl.load(x, [i, 0], [1, 16]), [i, 0], out)
    return out


MEETING = program(main)


@contextmanager
def few_threads(monkeypatch: pytest.MonkeyPatch, left: int) -> Generator[None]:
    """The system starts so many threads more, and then no other."""
    start = threading.Thread.start
    count = [left]

    def limited(thread: threading.Thread) -> None:
        count[0] -= 1
        if count[0] < 0:
            raise RuntimeError("can't start new thread")
        start(thread)

    idle = hands._idle[:]  # type: ignore[attr-defined]
    hands._idle.clear()  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", limited)
        yield
    hands._idle.extend(idle)  # type: ignore[attr-defined]


@pytest.mark.parametrize("left", [0, 1, 5])
@pytest.mark.parametrize("way", ["native", "interpreted"])
def test_blocks_without_threads_end_by_name_and_leave_nobody(
    way: str, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = compiled(MEETING)
    x, out = array(64, 16), zeros(64, 16)
    with (
        few_threads(monkeypatch, left),
        pytest.raises(LimitExceeded, match="8 participants need a thread each"),
    ):
        kernel(8, x, out) if way == "native" else run(MEETING, 8, x, out)
    assert not out.any()
    for again in (kernel, lambda *given: run(MEETING, *given)):
        again(8, x, out)
        np.testing.assert_array_equal(out[:8], x[:8])


# --------------------------------------------------------------------------------------- interrupts


@pl.program
class Patient:
    """Every rank works for ever, meeting the others now and then."""

    @pl.function(type=CORE)
    def chip(self, b: pl.InOut[pld.DistributedTensor[[2, 1], pl.INT32]], n: pl.Scalar[pl.INDEX]):
        for i in pl.range(1 << 40):
            for j in pl.range(n):
                b = pld.tensor.barrier(b)

    @pl.function(level=HOST, role=ORCHESTRATOR)
    def main(self, n: pl.Scalar[pl.INDEX]):
        sb = pld.alloc_window_buffer([2, 1], dtype=pl.INT32)
        for r in pl.range(pld.world_size()):
            self.chip(pld.window(sb, [2, 1], dtype=pl.INT32), n, device=r)


@pytest.mark.parametrize("meets", [0, 1])
def test_control_c_ends_ranks(meets: int) -> None:
    config = DistributedConfig(device_ids=[0, 1])
    made: Any = ir.compile(Patient, distributed_config=config)
    assert made.kernel.together.is_compiled, made.explain()
    with pytest.raises(KeyboardInterrupt), pressed():
        made(meets)
    ring: Any = ir.compile(Ring, distributed_config=config)
    x, y = array(2, 1, 64), zeros(2, 1, 64)
    ring(x, y)
    np.testing.assert_array_equal(y, x[::-1])


def test_control_c_ends_interpreted_participants() -> None:
    before = working_threads()
    with pytest.raises(KeyboardInterrupt), pressed():
        run(Patient, 1, ranks=2)
    assert comes_true(lambda: working_threads() <= before)


# ------------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize("run_it", RUNNERS, ids=lambda runner: runner.__name__)
@pytest.mark.parametrize("wrong", [0, 3, 7])
def test_a_fault_of_any_block_releases_those_at_the_barrier(run_it: Run, wrong: int) -> None:
    @pl.function
    def main(table: pl.Tensor[[8], pl.INT32], x: ROWS, out: pl.InOut[ROWS]) -> ROWS:
        for i in pl.spmd(8):
            pl.system.syncall()
            row = pl.cast(pl.read(table, [i]), pl.INDEX)
            out = pl.store(pl.load(x, [row, 0], [1, 16]), [i, 0], out)
            pl.system.syncall()
        return out

    table = np.arange(8, dtype=np.int32)
    table[wrong] = 64
    for _ in range(5):
        with pytest.raises(IndexOutOfBounds) as caught:
            run_it(program(main), table, array(64, 16), zeros(64, 16))
        assert "pl.load(x, [row, 0], [1, 16])" in str(caught.value)


@pytest.mark.parametrize("run_it", RUNNERS, ids=lambda runner: runner.__name__)
def test_a_deadlock_in_one_of_nested_crews_names_all(run_it: Run) -> None:
    """Two blocks of groups: one group is stuck, so the other block waits at the barrier."""

    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.AIC)
        def cube(self, x: ROWS, i: pl.Scalar[pl.INDEX]):
            if i < 1:
                pl.tpush_to_aiv(pl.load(x, [i, 0], [1, 16]), split=0)

        @pl.function(type=pl.FunctionType.AIV)
        def vector(self, i: pl.Scalar[pl.INDEX], out: pl.InOut[ROWS]) -> ROWS:
            t = pl.tpop_from_aic(shape=[1, 16], dtype=pl.FP32)
            out = pl.store(t, [i, 0], out)
            pl.tfree_to_aic(t)
            pl.system.syncall()
            return out

        @pl.function(type=pl.FunctionType.Group)
        def pair(self, x: ROWS, i: pl.Scalar[pl.INDEX], out: pl.InOut[ROWS]) -> ROWS:
            self.cube(x, i)
            return self.vector(i, out)

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, x: ROWS, out: pl.InOut[ROWS]) -> ROWS:
            for i in pl.spmd(2):
                out = self.pair(x, i, out)
            return out

    with pytest.raises(Deadlock, match="2 of them are blocked") as caught:
        run_it(P, array(64, 16), zeros(64, 16))
    notes = sorted(text.replace(" 2 ", " ") for text, _ in caught.value.notes)
    assert "vector lane 0 waits for a tile from the cube core in pipe=0" in notes
    assert "vector lane 0 waits for all blocks to be at the barrier" in notes


# ------------------------------------------------------------------------------- threads, processes


def test_threads_that_run_blocks_do_not_meet_each_other() -> None:
    kernel, x = compiled(MEETING), array(64, 16)
    failed: list[BaseException] = []

    def repeat(count: int) -> None:
        try:
            for _ in range(20):
                out = zeros(64, 16)
                kernel(count, x, out)
                np.testing.assert_array_equal(out[:count], x[:count])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=repeat, args=(2 + k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


FORKING = """
import os, sys
import numpy as np
from dist.running import array, compiled, run, zeros
from dist.test_endings import MEETING
from dist.test_groups import mixed

kernel, group = compiled(MEETING), compiled(mixed(frees=True))

def work():
    x, out = array(64, 16), zeros(64, 16)
    kernel(9, x, out)
    run(MEETING, 9, x, out)
    a, b, c = array(16, 16), array(16, 16, seed=1), zeros(16, 16)
    group(a, b, c)
    return (out[:9] == x[:9]).all() and np.allclose(c, 4 * (a @ b), atol=1e-4)

assert work()
children = []
for depth in range(3):
    child = os.fork()
    if not child:
        inner = os.fork()
        if not inner:
            os._exit(0 if work() else 3)
        ended = os.waitpid(inner, 0)[1] == 0
        os._exit(0 if work() and ended else 4)
    children.append(child)
assert work()
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
print("ended well")
"""


def test_forked_processes_run_participants_of_their_own() -> None:
    paths = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", FORKING],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert done.stdout.strip() == "ended well", done.stderr


def test_a_callback_runs_kernels_whose_blocks_meet_inside_a_run_of_ranks() -> None:
    """Nested launches: Python between kernels of ranks calls another program of participants."""
    inner, ran = compiled(mixed(frees=True)), list[Any]()

    @pl.program
    class P:
        @pl.function(level=HOST, role=pl.Role.SubWorker)
        def between(self, y: pl.InOut[pl.Tensor[[2, 1, 64], pl.FP32]]): ...

        @pl.function(type=CORE)
        def chip(
            self,
            x: pl.Tensor[[1, 64], pl.FP32],
            y: pl.Out[pl.Tensor[[1, 64], pl.FP32]],
            b: pl.InOut[pld.DistributedTensor[[2, 1], pl.INT32]],
        ):
            b = pld.tensor.barrier(b)
            y = pl.store(pl.load(x, [0, 0], [1, 64]), [0, 0], y)

        @pl.function(level=HOST, role=ORCHESTRATOR)
        def main(
            self,
            x: pl.Tensor[[2, 1, 64], pl.FP32],
            y: pl.Out[pl.Tensor[[2, 1, 64], pl.FP32]],
        ):
            sb = pld.alloc_window_buffer([2, 1], dtype=pl.INT32)
            for r in pl.range(pld.world_size()):
                self.chip(x[r], y[r], pld.window(sb, [2, 1], dtype=pl.INT32), device=r)
            self.between(y)
            for r in pl.range(pld.world_size()):
                self.chip(x[r], y[r], pld.window(sb, [2, 1], dtype=pl.INT32), device=r)

    def between(y: Any) -> None:
        a, b, out = array(16, 16), array(16, 16, seed=1), zeros(16, 16)
        inner(a, b, out)
        ran.append(np.allclose(out, 4 * (a @ b), atol=1e-4) and y.any())

    made: Any = ir.compile(P, distributed_config=DistributedConfig(device_ids=[0, 1]))
    x, y = array(2, 1, 64), zeros(2, 1, 64)
    with made.prepare(callbacks={"between": between}) as worker:
        worker(x, y)
    assert ran == [True]
    np.testing.assert_array_equal(y, x)


def test_errors_of_participants_are_ours() -> None:
    assert issubclass(LimitExceeded, errors.TilewrightError)
