"""Counts of what the cache did in this process."""

from __future__ import annotations

from dataclasses import fields

from tilewright.dataclass import dataclass
from tilewright.locks import make_lock


@dataclass(frozen=True)
class CacheStats:
    """A snapshot.

    `requests` ended as `object_hits` (an object of this process), `ready_hits` (machine code from
    disk), `generated_hits` (text from disk, built here) or `misses`. `bypasses` could not use the
    disk, for `last_bypass_reason`; `disabled_requests` were told not to; `forced_rebuilds` asked
    for diagnostics. `invalid_entries` were damaged and ignored.
    """

    requests: int = 0
    object_hits: int = 0
    ready_hits: int = 0
    generated_hits: int = 0
    misses: int = 0
    invalid_entries: int = 0
    storage_errors: int = 0
    generation_builds: int = 0
    binary_builds: int = 0
    disabled_requests: int = 0
    forced_rebuilds: int = 0
    bypasses: int = 0
    last_bypass_reason: str | None = None
    lookup_ns: int = 0
    build_ns: int = 0


_lock = make_lock()
_counts: dict[str, int] = {field.name: 0 for field in fields(CacheStats) if field.default == 0}
_bypasses: list[str] = []
"""The last reason why a request could not use the disk."""


def cache_stats() -> CacheStats:
    """What the cache has done in this process so far."""
    with _lock:
        return CacheStats(last_bypass_reason=next(iter(_bypasses), None), **_counts)


def count(name: str, amount: int = 1) -> None:
    """Adds to one of the counts."""
    with _lock:
        _counts[name] += amount


def note_bypass(reason: str) -> None:
    """Counts a request that cannot use the disk."""
    with _lock:
        _counts["bypasses"] += 1
        _bypasses[:] = [reason]
