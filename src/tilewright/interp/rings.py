"""What the cube core and the vector lanes of a group share: rings of tiles, and events."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import field
from typing import Any, Protocol

from tilewright.dataclass import dataclass
from tilewright.ops.participant import Ready
from tilewright.ops.pipe import lane_parts

SLOTS = 8
"""Slots of a ring whose pipe is not set up with another number."""


class Waiter(Protocol):
    """A member of a group that can wait."""

    lane: int
    is_cube: bool

    def wait(self, ready: Ready, what: str) -> None:
        """Blocks until `ready()`."""
        ...


@dataclass
class Ring:
    """Tiles on their way to or from one lane; `used` slots are filled or not yet given back."""

    tiles: deque[Any] = field(default_factory=deque[Any])
    used: int = 0


class Group:
    """The pipes and events of a group with `lanes` vector lanes."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.rings: dict[tuple[bool, int, int], Ring] = {}
        self.slots: dict[int, int] = {}
        self.events: Counter[tuple[bool, int, int]] = Counter()

    def set_slots(self, pipe: int, slots: int) -> None:
        """Gives the rings of a pipe a number of slots."""
        self.slots[pipe] = slots

    def ring(self, to_vector: bool, pipe: int, lane: int) -> Ring:
        """The ring of a pipe in one direction, at one lane."""
        return self.rings.setdefault((to_vector, pipe, lane), Ring())

    def push(self, actor: Waiter, to_vector: bool, pipe: int, tile: Any, split: int) -> None:
        """Sends a tile; waits while the ring is full."""
        lanes = range(self.lanes) if to_vector else (actor.lane,)
        rings = [self.ring(to_vector, pipe, lane) for lane in lanes]
        parts = lane_parts(tile, split, self.lanes) if to_vector else [tile]
        slots = self.slots.get(pipe, SLOTS)
        what = f"a free slot in pipe {pipe}, which has {slots}"
        actor.wait(lambda: all(ring.used < slots for ring in rings), what)
        for ring, part in zip(rings, parts, strict=True):
            ring.tiles.append(part)
            ring.used += 1

    def pop(self, actor: Waiter, from_cube: bool, pipe: int, split: int) -> list[Any]:
        """The next tile, a part of each lane where it is split; waits until there is one."""
        lanes = (actor.lane,) if from_cube else range(self.lanes if split else 1)
        rings = [self.ring(from_cube, pipe, lane) for lane in lanes]
        side = "cube core" if from_cube else "vector lanes"
        actor.wait(lambda: all(ring.tiles for ring in rings), f"a tile from the {side} in {pipe=}")
        return [ring.tiles.popleft() for ring in rings]

    def free(self, actor: Waiter, from_cube: bool, pipe: int) -> None:
        """Gives the slot of the oldest popped tile back, on every lane that it came from."""
        for lane in (actor.lane,) if from_cube else range(self.lanes):
            ring = self.ring(from_cube, pipe, lane)
            if ring.used > len(ring.tiles):
                ring.used -= 1

    def set_event(self, actor: Waiter, event: int) -> None:
        """Sets an event for the other side: the cube core's for every lane."""
        for lane in range(self.lanes) if actor.is_cube else (actor.lane,):
            self.events[actor.is_cube, event, lane] += 1

    def wait_event(self, actor: Waiter, event: int) -> None:
        """Waits for an event of the other side: the cube core for every lane's."""
        lanes = range(self.lanes) if actor.is_cube else (actor.lane,)
        keys = [(not actor.is_cube, event, lane) for lane in lanes]
        actor.wait(lambda: all(self.events[key] for key in keys), f"event {event}")
        for key in keys:
            self.events[key] -= 1
