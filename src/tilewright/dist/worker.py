"""A live worker: runs a distributed program again and again, in order, two at most in flight."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from tilewright.errors import InvalidOperationError

IN_FLIGHT = 2
Run = Callable[..., Any]


class Handle:
    """A run that was submitted."""

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def done(self) -> bool:
        """True when it has ended."""
        return self._future.done()

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks until it has ended or `timeout` seconds are over; True when it has ended."""
        try:
            self._future.exception(timeout)
        except TimeoutError:
            return False
        return True

    def result(self, timeout: float | None = None) -> Any:
        """What it gives; raises what it raised, and TimeoutError."""
        return self._future.result(timeout)


class DistributedWorker:
    """Ranks that stay: call it with the program's arguments, or submit and wait later.

    Use it as a context manager, or close it. `run` is the program; `ranks` how many there are.
    """

    def __init__(self, run: Run, ranks: int) -> None:
        self._run = run
        self.ranks = ranks
        self._slots = threading.BoundedSemaphore(IN_FLIGHT)
        self._pool: ThreadPoolExecutor | None = ThreadPoolExecutor(1, "tilewright-worker")

    def __enter__(self) -> DistributedWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(self, *args: Any) -> Any:
        """One run; gives what the program gives."""
        return self.submit(*args).result()

    def run(self, program: Run, *args: Any) -> Any:
        """One run of another program that was prepared with this worker."""
        return self._start(program, args).result()

    def submit(self, *args: Any) -> Handle:
        """Starts a run; blocks while two others are in flight."""
        return self._start(self._run, args)

    def _start(self, program: Run, args: Sequence[Any]) -> Handle:
        if self._pool is None:
            raise InvalidOperationError(
                "the worker is closed", hint="Prepare another one with compiled.prepare()."
            )
        self._slots.acquire()
        try:
            future = self._pool.submit(program, *args)
        except BaseException:
            self._slots.release()
            raise
        future.add_done_callback(lambda _: self._slots.release())
        return Handle(future)

    def alloc_tensor(self, shape: Sequence[int], dtype: Any = np.float32) -> Any:
        """Memory that ranks can reach, zero at first: of torch, for a dtype of torch."""
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(dtype, torch.dtype):
            return torch.zeros(tuple(shape), dtype=dtype)
        return np.zeros(tuple(shape), getattr(dtype, "numpy", dtype))

    def alloc_stacked_tensor(self, shape: Sequence[int], dtype: Any = np.float32) -> Any:
        """Memory with one part per rank along a new first axis."""
        return self.alloc_tensor((self.ranks, *shape), dtype)

    def copy_to(self, target: Any, source: Any) -> None:
        """Copies host data into memory of the ranks; either may be of numpy or of torch."""
        if hasattr(target, "copy_"):
            target.copy_(sys.modules["torch"].as_tensor(source))
        else:
            target[...] = source

    def copy_from(self, source: Any, target: Any) -> None:
        """Copies memory of the ranks to the host; either may be of numpy or of torch."""
        self.copy_to(target, source)

    def close(self) -> None:
        """Waits for what is in flight; no run can be started afterwards."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)
