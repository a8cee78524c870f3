"""What a function starts and does not wait for: sides of a group, ranks, tasks.

A launching function notes what it starts and, before it looks at data, lets all of it run: `join`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import Any, cast

import numpy as np

from tilewright.dataclass import dataclass
from tilewright.errors import IndexOutOfBounds
from tilewright.interp.meeting import Symmetric
from tilewright.interp.participants import Actor, Place, place_of_caller, run_together
from tilewright.interp.rings import Group
from tilewright.interp.support import overlap
from tilewright.ops.participant import participant

Function = Callable[..., Any]


@dataclass(eq=False)
class Launch:
    """Something started: what it returns once it has run, for each lane, and its task id."""

    function: Function
    args: tuple[Any, ...]
    id: Any = 0
    returned: dict[int, Any] = field(default_factory=dict[int, Any])

    @property
    def results(self) -> Any:
        """What it returns; of two lanes, what the first one does."""
        return self.returned[min(self.returned)]

    def run(self, args: tuple[Any, ...] | None = None) -> None:
        """Runs it now, once what others return to it is there."""
        given = self.args if args is None else args
        found = self.function(*map(got, given))
        self.returned[participant().lane] = found


class Given:
    """A value that a group knows once its sides run: each lane gets it by itself."""

    def get(self) -> Any:
        """The value; waits until it is there."""
        raise NotImplementedError


@dataclass(frozen=True)
class Returned(Given):
    """One result of a launch; `place` is the line of it."""

    launch: Launch
    position: int
    is_vector: bool
    place: Place | None

    def get(self) -> Any:
        """The result, once it is there: a lane gets its own, the cube core the first lane's."""
        lane = participant().lane if self.is_vector else 0
        who = "vector lane 0" if self.is_vector else "the cube core"
        actor = me()
        actor.place = self.place
        actor.wait(lambda: lane in self.launch.returned, f"what {who} returns")
        return self.launch.returned[lane][self.position]


@dataclass
class Computed(Given):
    """One result of what a group does with given values; `evaluate` gives all of them."""

    evaluate: Function
    position: int
    known: dict[int, Any] = field(default_factory=dict[int, Any])

    def get(self) -> Any:
        """The result, computed once by each lane."""
        lane = participant().lane
        if lane not in self.known:
            self.known[lane] = self.evaluate()[self.position]
        return self.known[lane]


def got(value: Any) -> Any:
    """A value that may be given."""
    return value.get() if isinstance(value, Given) else value


def resolved(launches: Launches, value: Any) -> Any:
    """A value that a function looks at itself: everything that it has started runs before."""
    if isinstance(value, Given):
        launches.join()
    return got(value)


def me() -> Actor:
    """The actor that this thread runs."""
    actor = participant()
    assert isinstance(actor, Actor)
    return actor


class GroupLaunches:
    """The cube and vector functions of a group: they run at the same time."""

    def __init__(self) -> None:
        self.cube: list[Launch] = []
        self.vector: list[Launch] = []
        self.lanes = 1

    def given(self, launch: Launch, position: int) -> Given:
        """A result of something that was started."""
        return Returned(launch, position, launch in self.vector, place_of_caller())

    def launch(self, function: Function, args: tuple[Any, ...], *, lanes: int) -> Launch:
        """Starts a cube function (`lanes` 0) or a vector function on so many lanes."""
        launch = Launch(function, args)
        (self.vector if lanes else self.cube).append(launch)
        self.lanes = max(self.lanes, lanes)
        return launch

    def join(self) -> None:
        """Lets everything that was started run to its end."""
        if not (self.cube or self.vector):
            return
        parent, group = me(), Group(self.lanes)
        actors: list[Actor] = []
        jobs: list[Callable[[], None]] = []
        for lane, launches in self._sides():
            side = "the cube core" if lane is None else f"vector lane {lane}"
            actor = Actor(parent.stage, parent, f"{side}{_rank(parent)}", parent.locate)
            actor.group, actor.is_cube = group, lane is None
            actor.lane, actor.lanes = lane or 0, self.lanes
            actors.append(actor)
            jobs.append(lambda launches=launches: _run_all(launches))
        self.cube, self.vector = [], []
        run_together(actors, jobs)

    def _sides(self) -> list[tuple[int | None, list[Launch]]]:
        lanes = [(lane, self.vector) for lane in range(self.lanes if self.vector else 0)]
        return [*([(None, self.cube)] if self.cube else []), *lanes]


def _run_all(launches: Sequence[Launch]) -> None:
    for launch in launches:
        launch.run()


def _rank(actor: Actor) -> str:
    return f" of rank {actor.rank}" if actor.size > 1 else ""


class RankLaunches:
    """Functions started on ranks: each rank runs its own in order, all ranks at the same time."""

    def __init__(self) -> None:
        self.size = participant().size
        self.queues: list[list[Launch]] = [[] for _ in range(self.size)]

    def launch(self, function: Function, args: tuple[Any, ...], *, device: int) -> Launch:
        """Starts a function on one rank; raises IndexOutOfBounds."""
        if not 0 <= device < self.size:
            raise IndexOutOfBounds(
                f"device {device} of {self.size}", hint="Loop over pl.range(pld.world_size())."
            )
        launch = Launch(function, args)
        self.queues[device].append(launch)
        return launch

    def everywhere(self, function: Function, *args: Any) -> Any:
        """Starts a collective on every rank; gives the argument that it writes."""
        for device in range(self.size):
            self.launch(function, args, device=device)

    def join(self) -> None:
        """Lets every rank run what was started on it."""
        if not any(self.queues):
            return
        parent = me()
        queues, self.queues = self.queues, [[] for _ in range(self.size)]
        if parent.world is not None and parent.world.run is not None:
            parent.world.run(parent.world, [on_ranks(r, queue) for r, queue in enumerate(queues)])
            return
        actors: list[Actor] = []
        jobs: list[Callable[[], None]] = []
        for rank, queue in enumerate(queues):
            actor = Actor(parent.stage, parent, f"rank {rank}", parent.locate)
            actor.rank, actor.size = rank, self.size
            actors.append(actor)
            jobs.append(lambda rank=rank, queue=queue: _run_rank(rank, queue))
        run_together(actors, jobs)


def on_ranks(rank: int, queue: Sequence[Launch]) -> list[Callable[[], None]]:
    """What one rank runs, one after the other."""
    return [partial(_launch_on, rank, launch) for launch in queue]


def _launch_on(rank: int, launch: Launch) -> None:
    launch.run(tuple(on_rank(arg, rank) for arg in launch.args))


def _run_rank(rank: int, queue: Sequence[Launch]) -> None:
    for launch in queue:
        _launch_on(rank, launch)
        me().settle()


def on_rank(arg: Any, rank: int) -> Any:
    """An argument as one rank sees it: its own part of a window."""
    return arg.parts[rank] if isinstance(arg, Symmetric) else arg


# ------------------------------------------------------------------------------------------ tasks


@dataclass
class Task:
    """A started task: what it reads and writes, and which tasks must be done before it."""

    launch: Launch
    reads: list[Any]
    writes: list[Any]
    before: set[int] = field(default_factory=set[int])


class TaskLaunches:
    """Tasks in a random order of those that their declared dependencies allow.

    A task waits for the tasks named in its deps and, outside manual scopes, for those earlier ones
    that touch the same memory where one of both writes. The order depends on the program alone.
    """

    def __init__(self) -> None:
        self.tasks: dict[int, Task] = {}
        self.untracked: list[Any] = []
        self.manual = 0
        self.count = 0

    def untrack(self, array: Any) -> Any:
        """Never derives dependencies from this tensor."""
        self.untracked.append(array)
        return array

    def launch(
        self,
        function: Function,
        args: tuple[Any, ...],
        *,
        reads: Sequence[Any] = (),
        writes: Sequence[Any] = (),
        deps: Sequence[Any] = (),
    ) -> Launch:
        """Starts a task; its id stands in deps= of later ones."""
        self.count += 1
        launch = Launch(function, args, np.int64(self.count))
        task = Task(launch, self._tracked(reads), self._tracked(writes))
        task.before.update(self._named(deps))
        if not self.manual:
            task.before.update(k for k, other in self.tasks.items() if conflicts(other, task))
        self.tasks[self.count] = task
        return launch

    def dummy(self, deps: Sequence[Any]) -> Any:
        """A task that only waits for others."""
        return self.launch(lambda: (), (), deps=deps).id

    def _tracked(self, arrays: Sequence[Any]) -> list[Any]:
        return [a for a in arrays if not any(overlap(a, other) for other in self.untracked)]

    def _named(self, deps: Sequence[Any]) -> set[int]:
        ids = [int(one) for given in deps for one in np.atleast_1d(given)]
        return {one for one in ids if one in self.tasks}

    def join(self) -> None:
        """Runs every task, in one of the orders that their dependencies allow."""
        order = random.Random(self.count)
        left, self.tasks = self.tasks, {}
        while left:
            free = [number for number, task in left.items() if not task.before & left.keys()]
            left.pop(order.choice(free)).launch.run()


def conflicts(first: Task, second: Task) -> bool:
    """True when two tasks touch the same memory and one of them writes it."""
    return (
        _touch(first.writes, second.reads)
        or _touch(first.writes, second.writes)
        or _touch(first.reads, second.writes)
    )


def _touch(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return any(share(a, b) for a in some for b in others)


def share(a: Any, b: Any) -> bool:
    """True when two arrays have an element in common, as far as that is quickly known."""
    if not overlap(a, b):
        return False
    try:
        return bool(np.shares_memory(a, b, max_work=cast(Any, 10_000)))
    except np.exceptions.TooHardError:
        return True


Launches = GroupLaunches | RankLaunches | TaskLaunches
