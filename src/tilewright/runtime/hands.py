"""Threads that take one job at a time: as many as jobs have ever run at once, parked in between."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from tilewright.locks import make_bell

Job = Callable[[], object]


class Hand:
    """One thread; it takes itself to the idle ones when it is done."""

    def __init__(self, number: int) -> None:
        self.called = make_bell()
        self.job: Job | None = None
        name = f"tilewright-participant-{number}"
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def take(self, job: Job) -> None:
        """Runs `job`, which raises nothing, and then is idle."""
        self.job = job
        self.called.release()

    def _serve(self) -> None:
        while True:
            self.called.acquire()
            job, self.job = self.job, None
            if job is not None:
                job()
            _idle.append(self)


_idle: list[Hand] = []
_made = 0


def start(job: Job) -> None:
    """Runs `job`, which raises nothing, on a thread of its own."""
    global _made
    try:
        hand = _idle.pop()
    except IndexError:
        _made += 1
        hand = Hand(_made)
    hand.take(job)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)
