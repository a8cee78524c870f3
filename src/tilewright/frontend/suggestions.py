"""What an author may have meant by a name that stands for nothing."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """A hint naming the candidate closest to `name`, if one is close."""
    close = difflib.get_close_matches(name, list(candidates), n=1, cutoff=0.6)
    return f"Did you mean '{close[0]}'?" if close else None
