"""Who runs: what communication needs from the one that executes it.

Whoever starts participants installs one per thread; with none installed there is one rank, one
block and one lane. A window is symmetric memory: the same region exists on every rank.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import IntEnum
from typing import Any

import numpy as np

from tilewright.errors import Deadlock, IndexOutOfBounds

Ready = Callable[[], bool]


class GateRow(IntEnum):
    """What the rows of the counters that all ranks share are for."""

    ARRIVALS = 0  # at barriers
    TICKETS = 1  # of those who want to write where others may
    SERVED = 2


GATE_SHAPE = (len(GateRow), 8)
"""A cache line for each row, of which only the first counter is used."""


class Participant:
    """One of those that run at the same time; this one is alone.

    `rank` of `size` ranks; block `block` of `blocks`; vector lane `lane` of `lanes`.
    """

    rank = 0
    size = 1
    block = 0
    blocks = 1
    lane = 0
    lanes = 1

    def __init__(self) -> None:
        self.gate = np.zeros(GATE_SHAPE, np.int64)

    def allocate(self, nbytes: int, name: str) -> Any:
        """This rank's part of a window of `nbytes` zeroed bytes, as a uint8 array."""
        return np.zeros(nbytes, np.uint8)

    def peer(self, local: Any, rank: int) -> Any:
        """The region of rank `rank` that corresponds to `local`, an array inside a window."""
        if rank != 0:
            raise IndexOutOfBounds(f"rank {rank} of 1")
        return local

    def wait(self, ready: Ready, what: str) -> None:
        """Blocks until `ready()`; raises Deadlock when that cannot happen any more."""
        if not ready():
            raise Deadlock(f"the only participant waits for {what}")

    def barrier(self) -> None:
        """Blocks until every rank is here."""

    def meet(self, count: int | None = None) -> None:
        """Blocks until every block (or the first `count`) and lane of this rank is here."""

    def push(self, to_vector: bool, pipe: int, tile: Any, split: int) -> None:
        """Sends a tile to the other side of a group; blocks while its ring is full."""
        raise Deadlock("a tile is pushed outside a group of cube and vector functions")

    def pop(self, from_cube: bool, pipe: int, split: int) -> list[Any]:
        """The next tile from the other side of a group, a part of each lane where it is split.

        Blocks until there is one.
        """
        raise Deadlock("a tile is popped outside a group of cube and vector functions")

    def free(self, from_cube: bool, pipe: int) -> None:
        """Gives the slot of the oldest popped tile back."""
        raise Deadlock("a slot is freed outside a group of cube and vector functions")

    def set_slots(self, pipe: int, slots: int) -> None:
        """Gives the rings of a pipe a number of slots."""

    def exchange(self, part: Any) -> list[Any]:
        """What every lane of this block gives here, in order; blocks until they have."""
        return [part] * self.lanes

    def set_event(self, event: int) -> None:
        """Sets an event for the other cores of the group."""

    def wait_event(self, event: int) -> None:
        """Blocks until another core has set an event."""

    def outside(self) -> AbstractContextManager[None]:
        """Others may run for the duration, in which this one touches only what is its own."""
        return nullcontext()

    def defer(self, ready: Ready, what: str) -> None:
        """Has the task of this participant be done only when `ready()`."""
        self.wait(ready, what)


def title(crew: str, index: int) -> str:
    """What participant `index` of a crew is called: blocks, lanes, or the sides of a group."""
    if crew == "side":
        return f"vector lane {index - 1}" if index else "the cube core"
    return f"{crew} {index}"


ALONE = Participant()
_RUNNING = threading.local()


def participant() -> Participant:
    """The participant that this thread runs."""
    return getattr(_RUNNING, "participant", ALONE)


@contextmanager
def running_as(one: Participant) -> Generator[None]:
    """This thread runs as `one` for the duration."""
    before = participant()
    _RUNNING.participant = one
    try:
        yield
    finally:
        _RUNNING.participant = before
