"""Random programs mean the same at every level, in every form, on every path.

`RANDOM_PROGRAMS=20000 HYPOTHESIS_PROFILE=random pytest tests/property` looks further; what fails is
shrunk, shown as text, and comes with the line that replays it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from property import levels, memory_steps, steps  # noqa: F401
from property.generator import Case, generate_from, known_ops
from property.tally import RANDOM_PROGRAMS, Tally

PROGRAMS = int(os.environ.get("RANDOM_PROGRAMS", "2000"))
SECONDS = float(os.environ.get("RANDOM_SECONDS", "240"))
SHARES = 4
"""Independent parts, so that several processes can take part."""
SIZE = 16
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


@pytest.mark.timeout(900)
@pytest.mark.parametrize("share", range(SHARES))
def test_random_programs_agree_at_every_level(
    share: int, record_property: Callable[[str, object], None]
) -> None:
    """500 programs a share, each also natively; after 240 s no more than half of them."""
    tally, end, wanted = Tally(), time.monotonic() + SECONDS, PROGRAMS // SHARES

    @seed(share)
    @settings(
        max_examples=wanted,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases())
    def agree(case: Case) -> None:
        if tally.programs >= wanted // 2 and time.monotonic() > end:
            return
        tally.programs += 1
        for name, check in levels.CHECKS.items():
            with tally.counting(case, name):
                check(case)

    agree()
    record_property(RANDOM_PROGRAMS, tally.as_property())
    assert tally.programs >= wanted // 2, f"{tally.programs} programs of {wanted}"
    if tally.programs >= ENOUGH:
        coverage = 1 - len(tally.never_used()) / len(known_ops())
        assert coverage >= WANTED_COVERAGE, f"never used: {tally.never_used()}"
