"""The thread pool: every cell exactly once, failures in order, forks, nesting, interruption."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moments import pressed
from tilewright import dtypes, errors
from tilewright.abi import CTX, UNBOUNDED, Fault, Manifest, Signature, Site, tensor
from tilewright.runtime import pool
from tilewright.runtime.context import current_context
from tilewright.runtime.launch import Executable
from tilewright.runtime.native import missing_assumption
from tilewright.runtime.pool import Pool, available_processors, current_pool, require_pool
from unit.runtime.native_kernels import object_of

pytestmark = pytest.mark.skipif(bool(missing_assumption()), reason=missing_assumption())

_AT = {name: field.offset for name, field in CTX.items()}

# The loop of each test: its body is called with (env, ctx, begin, end); env is the array.
HEAD = f"""
define i32 @kernel(ptr %args, ptr %ctx) {{
  %out = load ptr, ptr %args
  %cells.at = getelementptr i64, ptr %args, i64 1
  %cells = load i64, ptr %cells.at
  %parallel.at = getelementptr i8, ptr %ctx, i64 {_AT["parallel"]}
  %parallel = load ptr, ptr %parallel.at
  %none = icmp eq ptr %parallel, null
  br i1 %none, label %alone, label %together
alone:
  %a = call i32 @body(ptr %out, ptr %ctx, i64 0, i64 %cells)
  ret i32 %a
together:
  %b = call i32 %parallel(ptr %ctx, ptr @body, ptr %out, i64 %cells)
  ret i32 %b
}}
"""

COUNT = (
    HEAD
    + """
define internal i32 @body(ptr %env, ptr %ctx, i64 %begin, i64 %end) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %p = getelementptr i64, ptr %env, i64 %i
  %v = load i64, ptr %p
  %w = add i64 %v, 1
  store i64 %w, ptr %p
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
"""
)

# Faults at every cell whose element is not zero; the cell is the first fault value.
FAULT = (
    HEAD
    + f"""
define internal i32 @body(ptr %env, ptr %ctx, i64 %begin, i64 %end) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %step ]
  %p = getelementptr i64, ptr %env, i64 %i
  %v = load volatile i64, ptr %p
  %bad = icmp ne i64 %v, 0
  br i1 %bad, label %fault, label %step
fault:
  %value = getelementptr i8, ptr %ctx, i64 {_AT["fault_values"]}
  store i64 %i, ptr %value
  %op = getelementptr i8, ptr %ctx, i64 {_AT["fault_op"]}
  store i32 9, ptr %op
  ret i32 {int(Fault.SHAPE_MISMATCH)}
step:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}}
"""
)

# Writes the worker's number to each cell, after making sure of its scratch memory.
WHO = (
    HEAD
    + f"""
define internal i32 @body(ptr %env, ptr %ctx, i64 %begin, i64 %end) {{
entry:
  %who.at = getelementptr i8, ptr %ctx, i64 {_AT["worker"]}
  %who = load i64, ptr %who.at
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %rest ]
  %p = getelementptr i64, ptr %env, i64 %i
  store i64 %who, ptr %p
  br label %spin
spin:
  %k = phi i64 [ 0, %loop ], [ %k1, %spin ]
  %k1 = add i64 %k, 1
  store volatile i64 %k1, ptr %p
  %busy = icmp slt i64 %k1, 2000
  br i1 %busy, label %spin, label %rest
rest:
  store i64 %who, ptr %p
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}}
"""
)

# Writes the cells of each share to the first of them.
SHARES = (
    HEAD
    + """
define internal i32 @body(ptr %env, ptr %ctx, i64 %begin, i64 %end) {
  %p = getelementptr i64, ptr %env, i64 %begin
  %n = sub i64 %end, %begin
  store i64 %n, ptr %p
  ret i32 0
}
"""
)

# Marks the first cell of each share, which lasts until somebody asks it to stop.
POLL = (
    HEAD
    + f"""
define internal i32 @body(ptr %env, ptr %ctx, i64 %begin, i64 %end) {{
entry:
  %at = getelementptr i8, ptr %ctx, i64 {_AT["cancel"]}
  %word = load ptr, ptr %at
  %p = getelementptr i64, ptr %env, i64 %begin
  store i64 1, ptr %p
  br label %loop
loop:
  %v = load atomic i32, ptr %word monotonic, align 4
  %stop = icmp ne i32 %v, 0
  br i1 %stop, label %done, label %loop
done:
  ret i32 {int(Fault.CANCELLED)}
}}
"""
)

NESTED = HEAD.replace("@body", "@outer") + COUNT.replace(HEAD, "") + f"""
define internal i32 @outer(ptr %env, ptr %ctx, i64 %begin, i64 %end) {{
  %parallel.at = getelementptr i8, ptr %ctx, i64 {_AT["parallel"]}
  %parallel = load ptr, ptr %parallel.at
  %none = icmp eq ptr %parallel, null
  br i1 %none, label %alone, label %together
alone:
  %a = call i32 @body(ptr %env, ptr %ctx, i64 %begin, i64 %end)
  ret i32 %a
together:
  %start = getelementptr i64, ptr %env, i64 %begin
  %n = sub i64 %end, %begin
  %b = call i32 %parallel(ptr %ctx, ptr @body, ptr %start, i64 %n)
  ret i32 %b
}}
"""  # fmt: skip


@pytest.fixture(autouse=True)
def three_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two workers beside the caller, however many processors there are."""
    pool.stop_pool()
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "3")
    require_pool()
    yield
    pool.stop_pool()


def make(text: str, *, work: float = 1e5, **manifest: object) -> Executable:
    signature = Signature((tensor("out", dtypes.INT64, ("N",), "inout"),))
    options: dict[str, Any] = {"name": "loop", "work": ((work, ()),), "parallel": True, **manifest}
    made = Manifest(**options)
    return Executable.from_object(object_of(text), signature, made)


@pytest.mark.parametrize("cells", [0, 1, 2, 3, 7, 64, 1000])
def test_every_cell_runs_exactly_once(cells: int) -> None:
    kernel = make(COUNT) if cells else make(COUNT.replace("i64 %cells)", "i64 0)"))
    out = np.zeros(max(cells, 1), np.int64)[:cells]
    rounds = 300 if cells else 0
    for _ in range(rounds):
        kernel(out)
    assert (out == rounds).all()


def test_many_launches_with_pauses_lose_nothing() -> None:
    kernel, out = make(COUNT, work=0), np.zeros(64, np.int64)
    for number in range(20_000):
        kernel(out)
        if number % 5000 == 0:
            time.sleep(0.02)  # the workers fall asleep
    assert (out == 20_000).all()


LAUNCHES = 1000
"""So many at most until a worker has got a processor: others may want it, too."""


def test_several_threads_take_part() -> None:
    kernel, out = make(WHO), np.full(3000, -1, np.int64)
    seen: set[int] = set()
    for _ in range(LAUNCHES):
        kernel(out)
        assert set(out.tolist()) <= {0, 1, 2}
        seen |= set(out.tolist())
        if 0 in seen and len(seen) >= 2:
            return
    pytest.fail(f"only {seen} took part")


@pytest.mark.parametrize("cells", [2, 22, 88, 1000, 100_000])
def test_shares_become_smaller_so_that_threads_end_together(cells: int) -> None:
    out = np.zeros(cells, np.int64)
    make(SHARES)(out)
    shares = out[out > 0]
    assert shares.sum() == cells
    assert (np.diff(shares) <= 0).all()
    assert shares[0] <= max(1, cells // 6) and shares[-1] <= 1 + cells // 96
    assert len(shares) <= 48


@pytest.mark.parametrize("bad", [(0,), (999,), (500, 501), (37, 500, 999), tuple(range(1000))])
def test_the_failure_with_the_lowest_cell_is_reported(bad: tuple[int, ...]) -> None:
    kernel = make(FAULT, sites={9: Site("author.py", 4, 1, 4, 2, "x")})
    out = np.zeros(1000, np.int64)
    out[list(bad)] = 1
    for _ in range(100):
        with pytest.raises(errors.RuntimeShapeMismatch, match=f"an extent is {min(bad)};"):
            kernel(out)
    out[:] = 0
    kernel(out)


def test_a_loop_inside_a_loop_runs_where_it_is() -> None:
    kernel, out = make(NESTED), np.zeros(1000, np.int64)
    for _ in range(100):
        kernel(out)
    assert (out == 100).all()


def test_threads_that_launch_at_once_do_not_mix() -> None:
    kernel = make(COUNT)
    outs = [np.zeros(500 + i, np.int64) for i in range(4)]

    def run(out: np.ndarray) -> None:
        for _ in range(500):
            kernel(out)

    threads = [threading.Thread(target=run, args=(out,)) for out in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((out == 500).all() for out in outs)


def test_control_c_reaches_every_thread() -> None:
    kernel, begun = make(POLL, work=UNBOUNDED), np.zeros(1000, np.int64)
    with pytest.raises(errors.CancelledError), pressed(once=begun.any):
        kernel(begun)
    out = np.zeros(1000, np.int64)
    make(COUNT)(out)
    assert (out == 1).all()


def test_without_a_pool_the_kernel_runs_its_loop_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = make(COUNT)
    pool.stop_pool()
    out = np.zeros(100, np.int64)
    kernel(out)
    assert (out == 1).all() and current_pool() is None
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "1")
    assert require_pool() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_has_a_pool_of_its_own() -> None:
    kernel, out = make(WHO), np.zeros(3000, np.int64)
    kernel(out)
    child = os.fork()
    if child == 0:
        seen: set[int] = set()
        for _ in range(LAUNCHES):
            kernel(out)
            seen |= set(out.tolist())
            if len(seen) >= 2:
                os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    kernel(out)
    assert os.waitstatus_to_exitcode(status) == 0


def test_workers_have_the_scratch_memory_that_callers_have() -> None:
    running = current_pool()
    assert running is not None
    context = current_context()
    context.require_arena(context.get("arena_bytes") + 1)
    sizes = [worker.get("arena_bytes") for worker in running.contexts]
    assert all(size >= context.get("arena_bytes") for size in sizes)
    addresses = {worker.get("arena") for worker in running.contexts} | {context.get("arena")}
    assert len(addresses) == 3


def test_a_pool_that_stops_ends_its_threads() -> None:
    extra = Pool(2)
    extra.start()
    extra.stop()
    assert not any(t.name.startswith("tilewright-") and t.is_alive() for t in extra.threads)


def test_the_processors_are_those_the_process_may_use() -> None:
    if hasattr(os, "sched_getaffinity"):
        assert 1 <= available_processors() <= len(os.sched_getaffinity(0))
    else:
        assert available_processors() >= 1


def test_exiting_with_a_pool_is_quiet() -> None:
    program = "from tilewright.runtime.pool import require_pool; assert require_pool() is not None"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ctypes.sizeof(ctypes.c_void_p) == 8


QUOTAS = {
    "none": ({}, 64),
    "no limit": ({"cpu.max": "max 100000"}, 64),
    "of its own group": ({"app/inner/cpu.max": "250000 100000"}, 2),
    "of a group around it": (
        {"app/inner/cpu.max": "max 100000", "app/cpu.max": "300000 100000"},
        3,
    ),
    "the smallest": ({"app/inner/cpu.max": "400000 100000", "cpu.max": "150000 100000"}, 1),
    "less than one processor": ({"cpu.max": "50000 100000"}, 1),
    "of version 1": (
        {"cpu/app/inner/cpu.cfs_quota_us": "500000", "cpu/app/inner/cpu.cfs_period_us": "100000"},
        5,
    ),
    "no limit of version 1": (
        {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"},
        64,
    ),
    "unreadable": ({"cpu.max": "nonsense"}, 64),
}


@pytest.mark.parametrize("files, wanted", QUOTAS.values(), ids=QUOTAS)
def test_quotas_of_control_groups_bound_the_threads(
    files: dict[str, str], wanted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    own = tmp_path / "own"
    own.write_text("3:memory:/elsewhere\n2:cpu,cpuacct:/app/inner\n0::/app/inner\n")
    monkeypatch.setattr(pool, "_CGROUPS", tmp_path)
    monkeypatch.setattr(pool, "_OWN_CGROUPS", own)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert available_processors() == wanted
    own.unlink()
    assert available_processors() == 64
