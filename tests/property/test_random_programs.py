"""Random programs mean the same at every level, in every form, on every path.

`RANDOM_PROGRAMS=20000 HYPOTHESIS_PROFILE=random pytest tests/property` looks further; what fails is
shrunk, shown as text, and comes with the line that replays it.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from property import levels, memory_steps, steps  # noqa: F401
from property.generator import Case, generate_from, known_ops

PROGRAMS = int(os.environ.get("RANDOM_PROGRAMS", "2000"))
SECONDS = float(os.environ.get("RANDOM_SECONDS", "240"))
SIZE = 16
COMPILED = 6
"""One program in so many is compiled: that takes longer than all the rest."""
WANTED_COVERAGE = 0.95
ENOUGH = 500
"""Programs after which every op should have had its turn."""


@dataclass
class Drawn:
    """Decisions of hypothesis, as the generator asks for them."""

    draw: Callable[[st.SearchStrategy[int]], int]

    def randint(self, a: int, b: int, /) -> int:
        return self.draw(st.integers(a, b))


@st.composite
def cases(draw: Callable[[st.SearchStrategy[int]], int]) -> Case:
    """Programs with inputs."""
    return generate_from(Drawn(draw), SIZE)


@dataclass
class Tally:
    """How many programs of each op passed each check."""

    programs: int = 0
    used: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    skipped: Counter[str] = field(default_factory=Counter[str])

    @contextmanager
    def counting(self, case: Case, check: str) -> Iterator[None]:
        """Counts one check of one program, made or skipped."""
        try:
            yield
        except levels.Skipped as reason:
            self.skipped[f"{check} ({reason})"] += 1
        else:
            self.used.update((op, check) for op in case.used)

    def never_used(self) -> list[str]:
        """Ops that no program used."""
        used = {op for op, _ in self.used}
        return [op for op in known_ops() if op not in used]

    def table(self) -> str:
        """The counts, a row an op and a column a check."""
        ops = sorted({op for op, _ in self.used} | set(known_ops()))
        width = max(map(len, ops))
        head = " ".join(f"{check:>10}" for check in levels.CHECKS)
        rows = [
            f"{op:<{width}} " + " ".join(f"{self.used[op, check]:>10}" for check in levels.CHECKS)
            for op in ops
        ]
        skipped = ", ".join(f"{why}: {count}" for why, count in self.skipped.items()) or "none"
        return "\n".join(
            [f"{self.programs} programs; skipped: {skipped}", f"{'':<{width}} {head}", *rows]
        )


@pytest.mark.timeout(900)
def test_random_programs_agree_at_every_level() -> None:
    """2,000 programs, or as many as 240 s allow."""
    tally, end = Tally(), time.monotonic() + SECONDS

    @settings(
        max_examples=PROGRAMS,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases(), turn=st.integers(1, COMPILED))
    def agree(case: Case, turn: int) -> None:
        if time.monotonic() > end:
            return
        tally.programs += 1
        for name, check in levels.CHECKS.items():
            if name != "native" or turn == COMPILED:
                with tally.counting(case, name):
                    check(case)

    agree()
    print(tally.table())
    if tally.programs >= ENOUGH:
        coverage = 1 - len(tally.never_used()) / len(known_ops())
        assert coverage >= WANTED_COVERAGE, f"never used: {tally.never_used()}"
