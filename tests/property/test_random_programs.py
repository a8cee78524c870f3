"""Random programs mean the same at every level, in every form, on every path."""

from __future__ import annotations

import os
import time

import pytest

from property.hunting import Failure, Hunt

PROGRAMS = int(os.environ.get("RANDOM_PROGRAMS", "2000"))
SECONDS = float(os.environ.get("RANDOM_SECONDS", "240"))
FIRST = int(os.environ.get("RANDOM_FIRST", "0"))
COMPILED = 10
"""One program in so many is compiled: that takes longer than all the rest."""
WANTED_COVERAGE = 0.95
ENOUGH = 500
"""Programs after which every op should have had its turn."""


@pytest.mark.timeout(600)
def test_random_programs_agree_at_every_level() -> None:
    """2,000 programs, or as many as 240 s allow; the failures are shrunk and replayable."""
    hunt = Hunt()
    quick = [name for name in hunt.checks if name != "native"]
    end = time.monotonic() + SECONDS
    for seed in range(FIRST, FIRST + PROGRAMS):
        hunt.try_seed(seed, None if seed % COMPILED == 0 else quick)
        if time.monotonic() > end or len(hunt.failures) >= 5:
            break
    print(hunt.table())
    assert not hunt.failures, "\n\n".join(map(Failure.report, hunt.smallest_failures()))
    if hunt.programs >= ENOUGH:
        assert hunt.coverage() >= WANTED_COVERAGE, f"never used: {hunt.never_used()}"
