"""`nki.profile`: where the time of a compiled kernel goes, by the author's lines."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import numpy as np

import tilewright.jit as room
from tilewright.abi import Signature, TensorParam
from tilewright.dataclass import dataclass
from tilewright.ir.core import Program
from tilewright.ir.enums import ParamDirection
from tilewright.jit.signature import calling_of_lowered
from tilewright.nki._contents import Contents
from tilewright.passes.insert_ticks import Shares, insert_ticks
from tilewright.runtime.launch import Executable
from tilewright.source import Span, source_lines

CALIBRATION_SECONDS = 0.01
LAUNCHES = 3
"""Launches of which the shortest counts."""


@dataclass(frozen=True)
class Part:
    """The time, in microseconds, that one nest of a kernel spent, and the lines it is made of."""

    name: str
    microseconds: float
    shares: Shares


@dataclass
class Profile:
    """One measured launch, in microseconds: `wall` as the caller saw it, and its parts."""

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
        """The profile as Chrome reads it: one bar per nest and line, end to end."""
        events: list[dict[str, Any]] = []
        start = 0.0
        for part in self.parts:
            for span, share in part.shares.items():
                spent = part.microseconds * share
                events.append(_event(part, span, start, spent))
                start += spent
        return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"wall": self.wall}}


def _event(part: Part, span: Span, start: float, spent: float) -> dict[str, Any]:
    lines = source_lines(span.file)
    text = lines[span.line - 1].strip() if 0 < span.line <= len(lines) else part.name
    where = {"file": span.file, "line": span.line}
    common = {"ph": "X", "pid": 0, "tid": 0, "cat": part.name}
    return {"name": text, "ts": start, "dur": spent, "args": where, **common}


@dataclass(frozen=True)
class Measured:
    """One launch: seconds that it took, when it ended, and what its clocks said."""

    seconds: float
    end: float
    table: list[int]


class ProfiledLaunch:
    """A compiled program with clocks, ready to run on arrays, one per parameter."""

    def __init__(self, program: Program) -> None:
        (entry,) = program.functions
        ticked = insert_ticks(room.build.lower(program, entry), entry)
        function = ticked.program[entry]
        signature = _with_table(calling_of_lowered(program[entry], function).signature)
        text, manifest = room.build.written(ticked.program, entry, signature)
        self.nests = ticked.nests
        self.updates = [each is ParamDirection.InOut for each in program[entry].directions]
        data = room.build.compile_text(text, room.build.find_target())
        self.executable = Executable.from_object(data, signature, manifest)
        (extent,) = signature.tensors[-1].shape
        self.table = np.zeros(extent.evaluate({}), np.int64)
        self.profile: Profile | None = None

    def __call__(self, arrays: Sequence[Any]) -> None:
        contents = Contents([each for each, is_updated in zip(arrays, self.updates) if is_updated])
        before = self._shortest(arrays, contents)
        time.sleep(max(0.0, CALIBRATION_SECONDS - (time.perf_counter() - before.end)))
        self._run(arrays, contents)  # again warm after the pause
        after = self._shortest(arrays, contents)
        cycles = (after.table[0] - before.table[0]) / ((after.end - before.end) * 1e6)
        parts = [
            Part(name, int(ticks) / cycles, shares)
            for (name, shares), ticks in zip(self.nests, after.table[1:])
        ]
        self.profile = Profile(after.seconds * 1e6, parts)

    def _shortest(self, arrays: Sequence[Any], contents: Contents) -> Measured:
        """The launch of a few that something else disturbed least."""
        launches = [self._run(arrays, contents) for _ in range(LAUNCHES)]
        return min(launches, key=lambda launch: launch.seconds)

    def _run(self, arrays: Sequence[Any], contents: Contents) -> Measured:
        contents.restore()
        self.table[1:] = 0
        start = time.perf_counter()
        self.executable(*arrays, self.table)
        end = time.perf_counter()
        return Measured(end - start, end, self.table.tolist())


def _with_table(signature: Signature) -> Signature:
    *params, table = signature.params
    assert isinstance(table, TensorParam)
    return replace(signature, params=(*params, replace(table, implicit=False)))


def write_trace(profile: Profile, directory: str, name: str, overwrite: bool) -> Path:
    """Writes the trace; raises FileExistsError unless an older one may be replaced."""
    path = Path(directory) / name
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists; pass overwrite=True to replace it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(profile.trace(), indent=1) + "\n", encoding="utf-8")
    profile.path = path
    return path
