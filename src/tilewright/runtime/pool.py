"""The thread pool: Python daemon threads parked in native code, and who may use them.

Kernels reach it through their context (`parallel`); without a pool they run their loops themselves,
with the same results. It starts when the first kernel that can use it is loaded, with as many
threads as the process may use processors, and starts anew in a forked child.
"""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import threading
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tilewright import settings
from tilewright.locks import make_lock
from tilewright.runtime.context import (
    AlignedMemory,
    Context,
    all_contexts,
    on_arena_growth,
    on_new_context,
)
from tilewright.runtime.native import stub_address
from tilewright.runtime.records import POOL, POOL_SIZE

_SPIN = 2000
_MAX_WORKERS = 255
_CGROUPS, _OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_QUOTA_FILES = (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
"""Microseconds of processor time, and in how many, of control groups of version 2 and 1."""


def available_processors() -> int:
    """Processors this process may use: its affinity, and the quotas of its control groups."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, int(min([count or 1, *map(_quota, _control_groups())])))


def _control_groups() -> Iterator[Path]:
    """Those that may limit this process, each with the groups around it."""
    try:
        lines = _OWN_CGROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        own = PurePosixPath(group)
        for each in (own, *own.parents):
            yield _CGROUPS / ("cpu" if controllers else "") / each.relative_to("/")


def _quota(group: Path) -> float:
    """How many processors' time a control group grants."""
    for names in _QUOTA_FILES:
        try:
            allowed, period = " ".join((group / name).read_text() for name in names).split()
            return int(allowed) / int(period) if int(allowed) > 0 else math.inf
        except (OSError, ValueError):  # not this version, or "max"
            continue
    return math.inf


class Pool:
    """`workers` threads that help whoever launches; start it once."""

    def __init__(self, workers: int) -> None:
        self.contexts = [Context() for _ in range(workers)]
        self._addresses = (ctypes.c_uint64 * workers)(*(c.address for c in self.contexts))
        self._memory = AlignedMemory(POOL_SIZE)
        self.address = self._memory.address
        self._set("contexts", ctypes.addressof(self._addresses))
        self._set("spin", _SPIN)
        self.threads: list[threading.Thread] = []

    def _set(self, field: str, value: int) -> None:
        ctypes.c_int64.from_address(self.address + POOL[field]).value = value

    def start(self) -> None:
        """Park the threads and let every context know."""
        worker = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(
            stub_address("worker")
        )
        for number, context in enumerate(self.contexts):
            context.set("worker", 1 + number)
            thread = threading.Thread(
                target=worker, args=(self.address, number), name=f"tilewright-{number}", daemon=True
            )
            thread.start()
            self.threads.append(thread)
        self._set("workers", len(self.contexts))

    def serve(self, context: Context) -> None:
        """Let kernels that run in this context use the pool."""
        self.grow(context.get("arena_bytes"))
        context.set("pool", self.address)
        context.set("parallel", stub_address("parallel"))

    def grow(self, size: int) -> None:
        """Give each worker at least as much scratch as any caller has."""
        for context in self.contexts:
            context.require_arena(size)

    def stop(self) -> None:
        """Let the threads return, and wait for them."""
        stop = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
        stop(stub_address("stop"))(self.address)
        for thread in self.threads:
            thread.join(1.0)


_pool: Pool | None = None
_stopped: list[Pool] = []  # a thread that did not return in time still reads its pool
_lock = make_lock()


def current_pool() -> Pool | None:
    """The pool, if it has been started."""
    return _pool


def require_pool() -> Pool | None:
    """Start the pool unless it runs; None where one thread is all there is."""
    global _pool
    with _lock:
        workers = min((settings.NUM_THREADS.read() or available_processors()) - 1, _MAX_WORKERS)
        if _pool is None and workers > 0 and stub_address("worker"):
            _pool = Pool(workers)
            _pool.start()
            on_new_context(_pool.serve)
            on_arena_growth(_pool.grow)
            for context in all_contexts():
                _pool.serve(context)
        return _pool


def stop_pool() -> None:
    """Stop the threads; kernels run their loops themselves until the pool is required again."""
    global _pool
    with _lock:
        before, _pool = _pool, None
        if before is not None:
            _forget()
            before.stop()
            _stopped.append(before)


def _forget() -> None:
    on_new_context(None)
    on_arena_growth(None)
    for context in all_contexts():
        context.set("parallel", 0)
        context.set("pool", 0)


def _restart_in_child() -> None:
    """The threads did not survive the fork: forget them, start others."""
    global _pool
    if _pool is not None:
        _pool = None
        _forget()
        require_pool()


atexit.register(stop_pool)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restart_in_child)
