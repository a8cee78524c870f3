"""`nki.profile`: where the time of a compiled kernel goes, by the author's lines."""

from __future__ import annotations

import json
from dataclasses import field
from pathlib import Path
from typing import Any

from tilewright.dataclass import dataclass
from tilewright.passes.insert_ticks import Shares
from tilewright.source import Span, source_lines


@dataclass(frozen=True)
class Part:
    """The time, in microseconds, that one nest of a kernel spent, and the lines it is made of.

    The part `launch` has no lines: it is the rest of the call, before and after the kernel.
    """

    name: str
    microseconds: float
    shares: Shares


@dataclass
class Profile:
    """One measured launch, in microseconds: `wall` as the caller saw it, and its parts.

    Loops around nests run on one thread, so that every moment belongs to one nest.
    """

    wall: float
    parts: list[Part] = field(default_factory=list[Part])
    path: Path | None = None

    @property
    def lines(self) -> dict[int, float]:
        """Microseconds by line number; the lines of a fused nest share its time by their work."""
        found: dict[int, float] = {}
        for part in self.parts:
            for span, share in part.shares.items():
                found[span.line] = found.get(span.line, 0.0) + part.microseconds * share
        return dict(sorted(found.items()))

    @property
    def total(self) -> float:
        """The sum over all parts."""
        return sum(part.microseconds for part in self.parts)

    def trace(self) -> dict[str, Any]:
        """The profile as Chrome reads it: bars for the launch, and nests and lines, end to end."""
        events: list[dict[str, Any]] = []
        start = 0.0
        for part in self.parts:
            for span, share in (part.shares or {None: 1.0}).items():
                spent = part.microseconds * share
                events.append(_event(part, span, start, spent))
                start += spent
        return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"wall": self.wall}}


def _event(part: Part, span: Span | None, start: float, spent: float) -> dict[str, Any]:
    common = {"ph": "X", "pid": 0, "tid": 0, "cat": part.name, "ts": start, "dur": spent}
    if span is None:
        return {"name": part.name, "args": {}, **common}
    lines = source_lines(span.file)
    text = lines[span.line - 1].strip() if 0 < span.line <= len(lines) else part.name
    return {"name": text, "args": {"file": span.file, "line": span.line}, **common}


def write_trace(profile: Profile, directory: str, name: str, overwrite: bool) -> Path:
    """Writes the trace; raises FileExistsError unless an older one may be replaced."""
    path = Path(directory) / name
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists; pass overwrite=True to replace it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(profile.trace(), indent=1) + "\n", encoding="utf-8")
    profile.path = path
    return path
