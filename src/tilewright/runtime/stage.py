"""Participants of compiled code: a thread each, asleep outside the GIL where they wait.

Compiled code waits by itself for a while and signals by itself; only who falls asleep, and who
signals while somebody sleeps, comes here. When everybody sleeps and nobody's wait is over, that is
a `Deadlock`; it, a fault of one and an interrupt release the others, which then give up.
"""

from __future__ import annotations

import ctypes
import threading
from bisect import insort
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import cache
from itertools import takewhile

from tilewright.abi import (
    COMM,
    COMM_SIZE,
    CREWS,
    CTX,
    FAULT_VALUES,
    GATE_BYTES,
    WAIT_VALUES,
    WINDOW_SIZE,
    Fault,
    Manifest,
    WaitKind,
)
from tilewright.dataclass import dataclass
from tilewright.errors import CancelledError, Deadlock, LimitExceeded
from tilewright.locks import make_bell
from tilewright.runtime import hands
from tilewright.runtime.context import AlignedMemory, Context, attending, current_context

POLL_SECONDS = 0.02
NO_WORD = 0
FAULT_BYTES = 8 * (1 + FAULT_VALUES)
Window = tuple[int, int, int]
"""Where a window begins, where it ends, and how far the parts of two ranks are apart."""


@dataclass(eq=False)
class Sleeper:
    """A member that waits for a word; its bell rings when the wait is over."""

    member: Member
    address: int
    number: int
    kind: int
    site: int
    shown: tuple[int, ...] = ()
    bell: threading.Lock = field(default_factory=make_bell)

    def is_over(self) -> bool:
        """Whether the word compares."""
        wide = self.kind & WaitKind.WIDE
        word = (ctypes.c_int64 if wide else ctypes.c_int32).from_address(self.address).value
        return word == self.number if self.kind & WaitKind.EQUAL else word >= self.number


class Sleepers:
    """Those that wait, in the order in which they came, and by the word that they wait for.

    Of those that wait for a word to be at least a number, the one with the least is looked at.
    """

    def __init__(self) -> None:
        self._all: dict[Sleeper, None] = {}
        self._by_word: dict[tuple[int, int], list[Sleeper]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Sleeper]:
        return iter(self._all)

    def add(self, sleeper: Sleeper) -> None:
        """One more."""
        self._all[sleeper] = None
        same = self._by_word.setdefault((sleeper.address, sleeper.kind), [])
        insort(same, sleeper, key=lambda each: each.number)

    def take_over(self, address: int | None = None) -> list[Sleeper]:
        """Takes those out whose wait, for the word at an address or for any, is over."""
        kinds = range(1 + (WaitKind.EQUAL | WaitKind.WIDE))
        keys = [*self._by_word] if address is None else [(address, kind) for kind in kinds]
        over = [each for key in keys for each in _over(self._by_word.get(key, ()))]
        for each in over:
            self._remove(each)
        return over

    def take_all(self) -> list[Sleeper]:
        """Takes everybody out."""
        found = [*self._all]
        self._all, self._by_word = {}, {}
        return found

    def _remove(self, sleeper: Sleeper) -> None:
        del self._all[sleeper]
        key = sleeper.address, sleeper.kind
        same = self._by_word[key]
        same.remove(sleeper)
        if not same:
            del self._by_word[key]


def _over(sleepers: Sequence[Sleeper]) -> list[Sleeper]:
    """Those of one word and kind whose wait is over; they are in the order of their numbers."""
    if sleepers and not sleepers[0].kind & WaitKind.EQUAL:
        return [*takewhile(Sleeper.is_over, sleepers)]
    return [each for each in sleepers if each.is_over()]


class Communicator:
    """The `COMM` record of one rank."""

    def __init__(self, stage: Stage, rank: int, ranks: int, windows: Sequence[Window]) -> None:
        self._memory = AlignedMemory(COMM_SIZE)
        self._windows = AlignedMemory(WINDOW_SIZE * len(windows))
        self.address = self._memory.address
        words = [word for window in windows for word in window]
        (ctypes.c_int64 * len(words)).from_address(self._windows.address)[:] = words
        for name, value in (
            ("waiters", stage.waiters.address),
            ("rank", rank),
            ("ranks", ranks),
            ("gate", stage.gate.address),
            ("windows", self._windows.address),
            ("window_count", len(windows)),
            *callbacks().items(),
        ):
            ctypes.c_int64.from_address(self.address + COMM[name].offset).value = value


@dataclass(eq=False)
class Member:
    """A participant: what it is called, what it runs, and its communicator."""

    stage: Stage
    title: str
    comm: Communicator
    suffix: str = ""
    manifest: Manifest = field(default_factory=Manifest)


class Stage:
    """Those that run together. `cancel` is the address of a word that asks all of them to stop."""

    def __init__(self, cancel: int | None = None) -> None:
        self.lock = threading.Lock()
        self.waiters, self.gate = AlignedMemory(8), AlignedMemory(GATE_BYTES)
        self._own = AlignedMemory(8)
        self.cancel = ctypes.c_int32.from_address(cancel or self._own.address)
        self.running = 0
        self.asleep = Sleepers()
        self.is_stopped = False
        self.error: BaseException | None = None
        self.failure: tuple[int, bytes] | None = None

    # ------------------------------------------------------------------ sleeping

    def wait(self, sleeper: Sleeper) -> int:
        """Sleeps until the wait is over; the status says whether it ever is."""
        with self.lock:
            self.asleep.add(sleeper)
            self.ring(sleeper.address)
        while not sleeper.bell.acquire(timeout=POLL_SECONDS * max(1, len(self.asleep))):
            with self.lock:
                self.ring()
        return Fault.CANCELLED if self.is_stopped else Fault.OK

    def wake(self, address: int) -> None:
        """Wakes those whose wait for a word is over."""
        with self.lock:
            self.ring(address)

    def ring(self, address: int | None = None) -> None:
        """Wakes those who wait for a word, or for any; finds a deadlock. Holds the lock."""
        self._count()
        if self.cancel.value:
            self.is_stopped = True
        awake = [] if self.is_stopped else self.asleep.take_over(address)
        if not awake and self.asleep and len(self.asleep) >= self.running:
            awake = self.asleep.take_over()
            if not awake and not self.is_stopped:
                self.error = self.error or self.deadlock()
                self.give_up()
        if self.is_stopped:
            awake += self.asleep.take_all()
        for sleeper in awake:
            sleeper.bell.release()
        self._count()

    def _count(self) -> None:
        ctypes.c_int32.from_address(self.waiters.address).value = len(self.asleep)

    def give_up(self) -> None:
        """Asks everybody to stop. Holds the lock."""
        self.is_stopped = True
        self.cancel.value = 1

    def stop(self, error: BaseException | None = None) -> None:
        """Ends every participant; the first error is raised, but for those that say one gave up."""
        with self.lock:
            if self.error is None and not (self.is_stopped and isinstance(error, CancelledError)):
                self.error = error
            self.give_up()
            self.ring()

    def fail(self, status: int, context: Context) -> None:
        """Ends every participant because one has stopped with `status`."""
        with self.lock:
            if self.failure is None and not self.is_stopped:
                at = context.address + CTX["fault_code"].offset
                self.failure = status, ctypes.string_at(at, FAULT_BYTES)
            self.give_up()
            self.ring()

    def deadlock(self) -> Deadlock:
        """The error that says what everybody waits for."""
        first = next(iter(self.asleep))
        site = first.member.manifest.sites.get(first.site)
        error = Deadlock(
            f"every participant waits for another one: {len(self.asleep)} of them are blocked",
            None if site is None else site.span,
            "A wait needs a notify, a pop a push, and a barrier everybody.",
            source_lines=None if site is None else site.lines(),
        )
        for sleeper in sorted(self.asleep, key=lambda s: (s.member.suffix, s.member.title)):
            manifest = sleeper.member.manifest
            what = manifest.texts.get(sleeper.site, "another one")
            what = what.format(sleeper.number, *sleeper.shown)
            site = manifest.sites.get(sleeper.site)
            who = sleeper.member.title + sleeper.member.suffix
            error.with_note(f"{who} waits for {what}", None if site is None else site.span)
        return error

    # ------------------------------------------------------------------ running

    def run(self, members: Sequence[Member], jobs: Sequence[Callable[[], object]]) -> None:
        """Runs a job as each member, all at the same time: the first here, in the caller's place.

        Who calls may be interrupted, or find that there are no more threads; then everybody is
        asked to stop, and it waits for those who run.
        """
        left, done = len(jobs), threading.Event()

        def run_one(member: Member, job: Callable[[], object]) -> None:
            nonlocal left
            outer, _running.member = _running.member, member
            try:
                if not self.is_stopped:
                    job()
            except BaseException as error:
                self.stop(error)
            _running.member = outer
            with self.lock:
                left -= 1
                self.running -= left > 0
                self.ring(NO_WORD)
            if not left:
                done.set()

        with self.lock:
            self.running += left - 1
        for number, (member, job) in enumerate(zip(members, jobs, strict=True)):
            try:
                if number:
                    hands.start(lambda member=member, job=job: run_one(member, job))
            except RuntimeError as error:
                self.stop(LimitExceeded.of_threads(len(jobs), error))
                with self.lock:
                    missing = len(jobs) - number
                    left, self.running = left - missing, self.running - missing
                break
        run_one(members[0], jobs[0])
        wait_for(done, self.stop)


def wait_for(done: threading.Event, stop: Callable[[BaseException], object]) -> None:
    """Waits for an event; what interrupts that is handed to `stop`."""
    while not done.is_set():
        try:
            done.wait()
        except BaseException as error:
            stop(error)


class _Running(threading.local):
    member: Member | None = None


_running = _Running()
_members: dict[int, Member] = {}


def current_member() -> Member | None:
    """The participant that this thread runs as, or None."""
    return _running.member


@contextmanager
def standing(member: Member, context: Context, manifest: Manifest) -> Generator[None]:
    """Kernels that run in this context run as `member`, whose kernel has this manifest."""
    before = {name: context.get(name) for name in ("comm", "cancel", "attend")}
    outer, member.manifest = member.manifest, manifest
    context.set("comm", member.comm.address)
    context.set("cancel", ctypes.addressof(member.stage.cancel))
    context.set("attend", attending("give_up"))  # handlers would run between calls of Python
    known = _members.get(context.address)
    _members[context.address] = member
    try:
        yield
    finally:
        member.manifest = outer
        for name, value in before.items():
            context.set(name, value)
        del _members[context.address]
        if known is not None:
            _members[context.address] = known


# ---------------------------------------------------------------------------- called by kernels

_BODY = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)
_WAIT = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_int32,
    ctypes.c_int32,
    *[ctypes.c_int64] * WAIT_VALUES,
)
_WAKE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_TOGETHER = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_int64,
)


def wait(context: int, address: int, number: int, kind: int, site: int, *shown: int) -> int:
    """`COMM["wait"]`."""
    member = _members[context]
    try:
        return member.stage.wait(Sleeper(member, address, number, kind, site, shown))
    except BaseException as error:
        member.stage.stop(error)
        return Fault.CANCELLED


def wake(context: int, address: int) -> None:
    """`COMM["wake"]`."""
    stage = _members[context].stage
    try:
        stage.wake(address)
    except BaseException as error:
        stage.stop(error)


def together(context: int, body: int, env: int | None, count: int, crew: int) -> int:
    """`COMM["together"]`."""
    parent = _members[context]
    stage = parent.stage
    try:
        return run_crew(parent, context, _BODY(body), env, count, crew)
    except BaseException as error:
        stage.stop(error)
        return Fault.CANCELLED


_FUNCTIONS = {"wait": _WAIT(wait), "wake": _WAKE(wake), "together": _TOGETHER(together)}


@cache
def callbacks() -> dict[str, int]:
    """The addresses of what kernels call, by the field of the communicator."""
    found = {name: ctypes.cast(f, ctypes.c_void_p).value for name, f in _FUNCTIONS.items()}
    return {name: address or 0 for name, address in found.items()}


def run_crew(
    parent: Member, context: int, body: Callable[..., int], env: int | None, count: int, crew: int
) -> int:
    """Runs the iterations of a loop at the same time; the status of the first that failed."""
    stage = parent.stage
    given = {name: word(context, name) for name in ("arena_bytes", "print_ring")}
    members = [
        Member(stage, title(CREWS[crew], k), parent.comm, parent.suffix, parent.manifest)
        for k in range(count)
    ]

    def run(number: int) -> None:
        own = current_context()
        if own.address != context:
            own.require_arena(given["arena_bytes"])
            own.set("print_ring", given["print_ring"])
        with standing(members[number], own, parent.manifest):
            status = body(env, own.address, number, number + 1)
        if own.address != context:
            own.set("print_ring", 0)
        if status:
            stage.fail(status, own)

    if count > 0:
        stage.run(members, [lambda k=k: run(k) for k in range(count)])
    if stage.failure is not None:
        status, record = stage.failure
        ctypes.memmove(context + CTX["fault_code"].offset, record, len(record))
        return status
    return Fault.CANCELLED if stage.is_stopped else Fault.OK


def word(context: int, name: str) -> int:
    """A word of a context."""
    return ctypes.c_int64.from_address(context + CTX[name].offset).value


def title(crew: str, index: int) -> str:
    """What participant `index` of a crew is called."""
    if crew == "side":
        return f"vector lane {index - 1}" if index else "the cube core"
    return f"{crew} {index}"


# ---------------------------------------------------------------------------- called by the runtime


def run_as_participant(kernel: Callable[[], int], context: Context, manifest: Manifest) -> int:
    """Runs a kernel that communicates: as who this thread is, else as the first of a new stage.

    Raises what ended a stage of its own, unless that is a fault or an interrupt: a status.
    """
    member = current_member()
    if member is not None:
        with standing(member, context, manifest):
            return kernel()
    stage = Stage(context.get("cancel"))
    stage.running = 1
    member = Member(stage, "the caller", Communicator(stage, 0, 1, ()))
    with standing(member, context, manifest):
        status = kernel()
    context.clear_cancel()
    if isinstance(stage.error, KeyboardInterrupt):
        return Fault.CANCELLED
    if stage.error is not None:
        raise stage.error
    return status
