"""Where participants meet: barriers of blocks, lanes and ranks, and the windows of ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.errors import IndexOutOfBounds, InternalError
from tilewright.interp.rings import Waiter
from tilewright.ops.participant import GATE_SHAPE


class Gate:
    """A place that opens when all who are expected have come, again and again."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.here = 0
        self.round = 0

    def arrive(self, actor: Waiter, what: str) -> None:
        """Waits for the others."""
        mine = self.round
        self.here += 1
        if self.here == self.expected:
            self.here, self.round = 0, mine + 1
            return
        actor.wait(lambda: self.round != mine, what)


class Crew:
    """The blocks, or the lanes, that run a region together."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.gates: dict[int, Gate] = {}
        self.parts: dict[int, Any] = {}
        self.before, self.after = Gate(count), Gate(count)

    def meet(self, actor: Waiter, count: int | None) -> None:
        """A barrier of the first `count` blocks, by default of all."""
        wanted = count or self.count
        gate = self.gates.setdefault(wanted, Gate(wanted))
        gate.arrive(actor, f"all {wanted} blocks to be at the barrier")

    def exchange(self, actor: Waiter, part: Any) -> list[Any]:
        """What every lane gives here, in order."""
        self.parts[actor.lane] = part
        self.before.arrive(actor, "the other lane's part")
        found = [self.parts[lane] for lane in sorted(self.parts)]
        self.after.arrive(actor, "the other lane")
        return found


RunRanks = Callable[["World", Sequence[Sequence[Callable[[], None]]]], None]
"""Runs what each rank has to do, all ranks at the same time."""
LINE = 64


class World:
    """The ranks of one run and the windows that they share; `run` runs compiled code on them.

    A window is one block with a row for each rank: its parts are equally far apart.
    """

    def __init__(self, size: int, run: RunRanks | None = None) -> None:
        self.size = size
        self.run = run
        self.everybody = Gate(size)
        self.blocks: list[Any] = []
        self.windows: list[list[Any]] = []
        self.gate = np.zeros(GATE_SHAPE, np.int64)

    def allocate(self, nbytes: int) -> Symmetric:
        """A window of zeros on every rank."""
        block = np.zeros((self.size, -(-nbytes // LINE) * LINE), np.uint8)
        parts = [row[:nbytes] for row in block]
        self.blocks.append(block)
        self.windows.append(parts)
        return Symmetric(parts)

    def peer(self, local: Any, mine: int, rank: int) -> Any:
        """The region of another rank that corresponds to one of `mine`."""
        if not 0 <= rank < self.size:
            raise IndexOutOfBounds(f"rank {rank} of {self.size}")
        address = local.__array_interface__["data"][0]
        for parts in self.windows:
            start = parts[mine].__array_interface__["data"][0]
            if start <= address < start + max(1, parts[mine].nbytes):
                offset = address - start
                return np.ndarray(local.shape, local.dtype, parts[rank], offset, local.strides)
        raise InternalError("an array that is in no window has no part on other ranks")


class Symmetric:
    """A window as the host sees it: the parts of all ranks, viewed alike."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = list(parts)

    def __getitem__(self, key: Any) -> Symmetric:
        return Symmetric([part[key] for part in self.parts])

    def view(self, dtype: Any) -> Symmetric:
        """Every part as elements of `dtype`."""
        return Symmetric([part.view(dtype) for part in self.parts])

    def reshape(self, shape: Any) -> Symmetric:
        """Every part in another shape."""
        return Symmetric([part.reshape(shape) for part in self.parts])

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of each part."""
        return self.parts[0].shape
