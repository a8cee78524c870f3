"""Whether the machine is quiet: a short reference before and after everything that is timed.

A processor that is shared loses up to half of its speed, for milliseconds or for minutes, and says
so nowhere. So a loop of Python and one of multiply-adds, always the same, stand around each sample.
Where they take a tenth longer than the fastest of the run, the sample counts as disturbed, and more
are taken, as long as patience lasts. Which samples count is decided by the references alone.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from functools import cache

TOLERANCE = 1.1
"""How many times longer than the best of the run a reference of a quiet machine takes."""
SHARE, ADVANCE = 0.2, 15.0
"""Patience: this share of the time that samples took so far, and so many seconds more."""
MOST = 4.0
"""The seconds of patience that one measurement may use."""
PAUSE = 2e-3

Take = Callable[[], float]
"""Takes one sample."""


class Figure(float):
    """A number that was measured; what is computed from it is one, too.

    `reference` is the slowest reference beside it, in seconds.
    """

    reference: float

    def __new__(cls, value: float, reference: float = 0.0) -> Figure:
        figure = super().__new__(cls, value)
        figure.reference = reference
        return figure

    def __mul__(self, other: float) -> Figure:
        return Figure(float(self) * other, self.reference)

    __rmul__ = __mul__

    def __truediv__(self, other: float) -> Figure:
        return Figure(float(self) / other, self.reference)

    def __sub__(self, other: float) -> Figure:
        return Figure(float(self) - other, self.reference)


def reference_of(value: float) -> float:
    """The slowest reference beside a figure; 0 of a number that was not measured."""
    return getattr(value, "reference", 0.0)


class Samples:
    """Values with the slower of the two references around each; `count` of them are wanted."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.taken: list[tuple[float, float]] = []

    def level(self) -> float:
        """What the references of the `count` least disturbed values stay within, in seconds."""
        references = sorted(reference for reference, _ in self.taken)
        return references[self.count - 1]

    def figure(self, best: float) -> Figure:
        """The median of the quiet values; if fewer are, of about as disturbed ones as `count`."""
        level = self.level()
        most = TOLERANCE * (best if level <= TOLERANCE * best else level)
        kept = [value for reference, value in self.taken if reference <= most]
        return Figure(statistics.median(kept), level)


class Watch:
    """Takes references, and samples until enough of them were quiet.

    `reference()` gives seconds, the same as long as the machine is as fast; `clock()` and
    `pause(seconds)` are those of the module `time`.
    """

    def __init__(
        self,
        reference: Callable[[], float],
        clock: Callable[[], float] = time.perf_counter,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.reference, self.clock, self.pause = reference, clock, pause
        self.best = math.inf
        self.patience = ADVANCE

    def look(self) -> float:
        """A reference; the best one is remembered."""
        took = self.reference()
        self.best = min(self.best, took)
        return took

    def is_quiet(self, reference: float) -> bool:
        """Whether a reference, or the level of samples, is that of a quiet machine."""
        return reference <= TOLERANCE * self.best

    def settle(self, seconds: float) -> None:
        """Looks for so many seconds how fast the machine is at its best."""
        end = self.clock() + seconds
        while self.clock() < end:
            self.look()
            self.pause(PAUSE)

    def median(self, take: Take, count: int) -> Figure:
        """The median of at least `count` values of `take`."""
        return self.medians({"": take}, count)[""]

    def medians(
        self, takes: Mapping[str, Take], count: int, seconds: float = 0.0
    ) -> dict[str, Figure]:
        """The medians of what `takes` give, turn and turn about.

        There are at least `count` rounds, and more for `seconds`. Where fewer than `count` values
        of one are quiet, more are waited for and taken, as `MOST` and patience permit.
        """
        samples = {name: Samples(count) for name in takes}
        begin = self.clock()
        rounds = 0
        while rounds < count or self.clock() - begin < seconds:
            self._round(takes, samples)
            rounds += 1
        spent = self.clock() - begin
        self.patience += SHARE * spent
        latest = begin + spent + min(self.patience, MOST) - spent / rounds
        while self.clock() < latest and not all(map(self._is_settled, samples.values())):
            self._wait(min(self.clock() + spent / rounds, latest))
            self._round(takes, samples)
        self.patience -= self.clock() - begin - spent
        return {name: kept.figure(self.best) for name, kept in samples.items()}

    def _round(self, takes: Mapping[str, Take], samples: Mapping[str, Samples]) -> None:
        before = self.look()
        for name, take in takes.items():
            value = take()
            after = self.look()
            samples[name].taken.append((max(before, after), value))
            before = after

    def _is_settled(self, samples: Samples) -> bool:
        return self.is_quiet(samples.level())

    def _wait(self, end: float) -> None:
        """Until the machine is quiet, but no longer than to a time on the clock."""
        while not self.is_quiet(self.look()) and self.clock() < end:
            self.pause(PAUSE)


STEPS = 10_000
FLOPS = 3e7
"""Each of the two loops takes about 0.2 ms."""


def reference() -> float:
    """Seconds of the two loops; the first has run a little before, so that caches have it."""
    multiply_adds = _multiply_adds()
    _count(STEPS // 10)
    start = time.perf_counter()
    _count(STEPS)
    multiply_adds()
    return time.perf_counter() - start


def _count(steps: int) -> int:
    total = 0
    for step in range(steps):
        total += step
    return total


@cache
def _multiply_adds() -> Callable[[], object]:
    """A loop of them in machine code; none where this machine has no such instruction."""
    import numpy as np

    from benchmarks.floors import arithmetic  # late: it loads what compiles

    found = arithmetic(np.float32, FLOPS)
    if found is None:
        return lambda: None
    calls = range(max(1, round(found.scale)))

    def run() -> None:
        for _ in calls:
            found.run()

    run()
    return run


WATCH = Watch(reference)
"""That of this process."""
