"""Random programs mean the same at every level, in every form, on every path.

Every run checks the same programs: a seed decides them, whatever else is imported. Tests marked
`long` take another seed each time and print it; `RANDOM_SEED=7 RANDOM_PROGRAMS=20000 pytest -m long
tests/property` looks further. What fails is shrunk, shown as text, and comes with the line that
replays it.
"""

from __future__ import annotations

import os
import secrets
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
FRESH = int(os.environ.get("RANDOM_SEED", secrets.randbelow(1 << 32)))
"""The seed of long runs."""
SIZE = 16
WANTED_COVERAGE = 0.95
ENOUGH = 500
"""Programs after which every op should have had its turn."""


FAR = 7**21
"""Hypothesis draws numbers that stand in the loaded modules more often; here none stands."""


@dataclass
class Drawn:
    """Decisions of hypothesis, as the generator asks for them."""

    draw: Callable[[st.SearchStrategy[int]], int]

    def randint(self, a: int, b: int, /) -> int:
        return self.draw(st.integers(FAR + a, FAR + b)) - FAR


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
    require_agreement(share, PROGRAMS // SHARES, record_property)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("share", range(SHARES))
def test_programs_that_no_run_has_drawn_agree(
    share: int, record_property: Callable[[str, object], None]
) -> None:
    """As many again, of a seed of their own."""
    print(f"RANDOM_SEED={FRESH} draws these programs again")
    require_agreement(FRESH + share, PROGRAMS // SHARES, record_property)


def require_agreement(
    begin: int, wanted: int, record_property: Callable[[str, object], None]
) -> None:
    """Every check of `levels` on `wanted` programs of the seed `begin`."""
    tally, end = Tally(), time.monotonic() + SECONDS
    has_failed = False

    @seed(begin)
    @settings(
        max_examples=wanted,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases())
    def agree(case: Case) -> None:
        nonlocal has_failed
        late = tally.programs >= wanted // 2 and time.monotonic() > end
        if late and not has_failed:  # what has failed is shrunk, however long it takes
            return
        tally.programs += 1
        try:
            for name, check in levels.CHECKS.items():
                with tally.counting(case, name):
                    check(case)
        except BaseException:
            has_failed = True
            raise

    agree()
    record_property(RANDOM_PROGRAMS, tally.as_property())
    assert tally.programs >= wanted // 2, f"{tally.programs} programs of {wanted}"
    if tally.programs >= ENOUGH:
        coverage = 1 - len(tally.never_used()) / len(known_ops())
        assert coverage >= WANTED_COVERAGE, f"never used: {tally.never_used()}"
