"""Tests that act at a moment: when a kernel has begun, a process holds a lock, a thread is parked.

They wait for what they mean, and no test says that something is over soon: on a busy machine any
thread may stand still for a second. What never happens is ended by the time limit of the test.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tilewright.runtime import hands

PATIENCE = 60.0
"""Seconds after which something that would take milliseconds does not happen any more."""


def comes_true(claim: Callable[[], object]) -> bool:
    """Waits until a claim holds, and says whether it ever did."""
    end = time.monotonic() + PATIENCE
    while not claim():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


@contextmanager
def pressed(
    once: Callable[[], object] | float = 0.2, number: int = signal.SIGINT
) -> Iterator[None]:
    """While inside, this process gets a signal once a claim holds, or after so many seconds.

    Whoever expects an exception says so around this: the signal may come at its first line.
    """

    def press() -> None:
        if callable(once):
            comes_true(once)
        else:
            time.sleep(once)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=press)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def working_threads() -> int:
    """How many threads there are that are not parked until somebody needs them."""
    return threading.active_count() - len(hands._idle)  # type: ignore[attr-defined]
