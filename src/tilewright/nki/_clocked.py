"""A compiled program with clocks: what `nki.profile` launches."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import tilewright.jit as room
from tilewright.abi import Signature, TensorParam
from tilewright.dataclass import dataclass
from tilewright.ir.core import Program
from tilewright.ir.enums import ParamDirection
from tilewright.jit.signature import calling_of_lowered
from tilewright.nki._contents import Contents
from tilewright.nki._profile import Part, Profile
from tilewright.passes.insert_ticks import insert_ticks
from tilewright.runtime.launch import Executable

CALIBRATION_SECONDS = 0.01
LAUNCHES = 3
"""Launches of which the shortest counts."""


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
        wall = after.seconds * 1e6
        rest = max(0.0, wall - sum(part.microseconds for part in parts))
        self.profile = Profile(wall, [Part("launch", rest, {}), *parts])

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
