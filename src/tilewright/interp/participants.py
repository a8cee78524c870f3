"""Participants that run at the same time: one thread each, of which one at a time runs.

Whoever runs holds the baton and gives it away only where it waits or ends, to the next one in turn
that can go on; so a run takes the same course every time. In checked mode one goes on that a seeded
choice finds, at waits that are over already, too. When nobody can go on, those that wait are
abandoned and `Deadlock` names what each waits for and where. A participant that runs compiled code
holds no baton meanwhile: such code shares nothing with the others until it ends.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilewright.errors import Deadlock, LimitExceeded
from tilewright.interp.meeting import Crew, World
from tilewright.interp.rings import Group
from tilewright.locks import make_bell
from tilewright.ops.participant import Participant, Ready, participant, running_as
from tilewright.source import Span

Place = tuple[str, int]
Locate = Callable[[Place], "Span | None"]
INTERPRETED = "<interpreted "
KEPT = 0.5
"""How often, in checked mode, one that need not wait goes on."""


class Abandoned(BaseException):
    """Ends a participant whose run has failed elsewhere."""


class Stage:
    """Those that run together, and who has the baton; `choice`, if given, finds who is next."""

    def __init__(self, choice: random.Random | None = None) -> None:
        self.choice = choice
        self.actors: list[Actor] = []
        self.lock = threading.Lock()
        self.is_free = False
        self.error: BaseException | None = None

    def give_up(self, error: BaseException) -> None:
        """Ends every participant; the first error is the one that is raised."""
        self.error = self.error or error

    def goes_on(self) -> bool:
        """True where whoever runs may keep the baton."""
        return self.choice is None or self.choice.random() < KEPT

    def pass_on(self, current: Actor) -> None:
        """Gives the baton to the next actor that can go on; comes back when it is this one's."""
        with self.lock:
            chosen = self.choose(current)
            self.is_free = chosen is None
        if chosen is current:
            return
        if chosen is not None:
            chosen.baton.release()
        if not current.is_done and not current.is_outside:
            self.await_turn(current)

    def await_turn(self, actor: Actor) -> None:
        """Returns when the baton is an actor's. An interrupt ends the others; a second one, all."""
        try:
            actor.baton.acquire()
        except BaseException as error:
            self.give_up(error)
            actor.baton.acquire()

    def come_back(self, actor: Actor) -> None:
        """An actor that was outside wants to go on: at once if nobody runs, else in turn."""
        with self.lock:
            actor.is_outside = False
            taken, self.is_free = self.is_free, False
        if not taken:
            self.await_turn(actor)

    def choose(self, current: Actor) -> Actor | None:
        """The next actor in turn that can go on; None while those that could are outside."""
        at = self.actors.index(current)
        turn = [*self.actors[at + 1 :], *self.actors[: at + 1]]
        waiting = [actor for actor in turn if not actor.is_done]
        if self.choice is not None:
            self.choice.shuffle(waiting)
        for actor in waiting:
            if actor.can_go_on():
                return actor
        if any(actor.is_outside for actor in waiting):
            return None
        self.give_up(self.deadlock())
        return next(actor for actor in waiting if actor.can_go_on())

    def deadlock(self) -> Deadlock:
        """The error that says what everybody waits for."""
        blocked = [actor for actor in self.actors if not actor.is_done and not actor.joins]
        first = blocked[0]
        error = Deadlock(
            f"every participant waits for another one: {len(blocked)} of them are blocked",
            first.span(),
            "A wait needs a notify, a pop a push, and a barrier everybody.",
        )
        for actor in blocked:
            error.with_note(f"{actor.title} waits for {actor.awaited}", actor.span())
        return error


class Actor(Participant):
    """A participant of a stage."""

    def __init__(self, stage: Stage, parent: Actor | None, title: str, locate: Locate) -> None:
        self.stage = stage
        self.title = title
        self.locate = locate
        self.parent = parent
        self.baton = make_bell()
        self.is_done = False
        self.is_outside = False
        self.joins = False
        self.is_cube = False
        self.awaited = ""
        self.place: Place | None = None
        self.ready: Ready | None = None
        self.world: World | None = None
        self.crew: Crew | None = None
        self.group: Group | None = None
        self.deferred: list[tuple[Ready, str, Place | None]] = []
        super().__init__()
        if parent is not None:
            self.inherit(parent)
        stage.actors.append(self)

    def inherit(self, parent: Participant) -> None:
        """Takes over where in ranks, blocks and lanes the parent is."""
        self.rank, self.size = parent.rank, parent.size
        self.block, self.blocks = parent.block, parent.blocks
        self.lane, self.lanes = parent.lane, parent.lanes
        if isinstance(parent, Actor):
            self.gate = parent.gate
            self.world, self.crew, self.group = parent.world, parent.crew, parent.group

    def span(self) -> Span | None:
        """The author's line at which it waits."""
        return None if self.place is None else self.locate(self.place)

    def can_go_on(self) -> bool:
        """True when what it waits for has come, or nothing will any more."""
        if self.is_outside:
            return False
        if self.ready is None or self.ready():
            return True
        return self.stage.error is not None and not self.joins

    def wait(self, ready: Ready, what: str) -> None:
        if self.stage.error is None and ready() and self.stage.goes_on():
            return
        self.ready, self.awaited, self.place = ready, what, place_of_caller() or self.place
        self.stage.pass_on(self)
        self.ready = self.place = None
        if self.stage.error is not None and not self.joins:
            raise self.stage.error if self.parent is None else Abandoned

    @contextmanager
    def outside(self) -> Generator[None]:
        """Others may run for the duration, in which this one touches only what is its own."""
        self.is_outside = True
        self.stage.pass_on(self)
        try:
            yield
        finally:
            self.stage.come_back(self)

    # Ranks

    def allocate(self, nbytes: int, name: str) -> Any:
        return super().allocate(nbytes, name) if self.world is None else self.world.allocate(nbytes)

    def peer(self, local: Any, rank: int) -> Any:
        if self.world is None:
            return super().peer(local, rank)
        return self.world.peer(local, self.rank, rank)

    def barrier(self) -> None:
        if self.world is not None:
            self.world.everybody.arrive(self, "every rank to be at the barrier")

    # Blocks and lanes

    def meet(self, count: int | None = None) -> None:
        if self.crew is not None and (count is None or self.block < count):
            self.crew.meet(self, count)

    def exchange(self, part: Any) -> list[Any]:
        return super().exchange(part) if self.crew is None else self.crew.exchange(self, part)

    def push(self, to_vector: bool, pipe: int, tile: Any, split: int) -> None:
        self.group_of("pushed").push(self, to_vector, pipe, tile, split)

    def pop(self, from_cube: bool, pipe: int, split: int) -> list[Any]:
        return self.group_of("popped").pop(self, from_cube, pipe, split)

    def free(self, from_cube: bool, pipe: int) -> None:
        self.group_of("freed").free(self, from_cube, pipe)

    def group_of(self, what: str) -> Group:
        """The group of cube and vector functions that it runs in; raises Deadlock."""
        if self.group is None:
            raise Deadlock(f"a tile is {what} outside a group of cube and vector functions")
        return self.group

    def set_slots(self, pipe: int, slots: int) -> None:
        if self.group is not None:
            self.group.set_slots(pipe, slots)

    def set_event(self, event: int) -> None:
        if self.group is not None:
            self.group.set_event(self, event)

    def wait_event(self, event: int) -> None:
        if self.group is not None:
            self.group.wait_event(self, event)

    def defer(self, ready: Ready, what: str) -> None:
        self.deferred.append((ready, what, place_of_caller()))

    def settle(self) -> None:
        """Waits for everything that its task was said to be done after."""
        while self.deferred:
            ready, what, self.place = self.deferred.pop(0)
            self.wait(ready, what)


def place_of_caller() -> Place | None:
    """The line of interpreted text that is running in this thread."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(INTERPRETED):
            return name, frame.f_lineno
        frame = frame.f_back
    return None


Job = Callable[[], Any]


def run_together(actors: Sequence[Actor], jobs: Sequence[Job]) -> list[Any]:
    """Runs each job as its actor, all at the same time; gives what they give.

    The calling thread must run as an actor of the same stage. Raises the first error.
    """
    me = participant()
    assert isinstance(me, Actor)
    results: list[Any] = [None] * len(jobs)

    def run(position: int) -> None:
        actor = actors[position]
        actor.baton.acquire()
        try:
            with running_as(actor), np.errstate(all="ignore"):
                if me.stage.error is None:
                    results[position] = jobs[position]()
                    actor.settle()
        except Abandoned:
            pass
        except BaseException as error:
            me.stage.give_up(error)
        actor.is_done = True
        me.stage.pass_on(actor)

    threads = [threading.Thread(target=run, args=(k,), daemon=True) for k in range(len(jobs))]
    started = start_all(threads)
    for actor in actors[started:]:
        actor.is_done = True
    if started < len(threads):
        me.stage.give_up(LimitExceeded.of_threads(len(threads), RuntimeError("no thread is left")))
    me.joins = True
    me.wait(lambda: all(actor.is_done for actor in actors), "those that it started")
    me.joins = False
    for thread in threads[:started]:
        thread.join()
    for actor in actors:
        me.stage.actors.remove(actor)
    if me.stage.error is not None:
        raise me.stage.error if me.parent is None else Abandoned
    return results


def start_all(threads: Sequence[threading.Thread]) -> int:
    """How many of the threads could be started."""
    for number, thread in enumerate(threads):
        try:
            thread.start()
        except RuntimeError:
            return number
    return len(threads)


def as_actor(locate: Locate, seed: int | None = None) -> Actor:
    """The actor that this thread runs as: its own, or the first of a new stage.

    With a seed, the next one to run is chosen at random there.
    """
    me = participant()
    if isinstance(me, Actor):
        return me
    actor = Actor(Stage(None if seed is None else random.Random(seed)), None, "the caller", locate)
    actor.inherit(me)
    return actor
