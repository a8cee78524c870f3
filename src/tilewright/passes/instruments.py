"""What watches a pipeline: callbacks, verification, times, dumps and reports."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path

import tilewright.ir as room
from tilewright.errors import VerificationError
from tilewright.ir.core import Program
from tilewright.ir.verifier import verify
from tilewright.passes.context import VerificationLevel


class Instrument:
    """Sees every program before and after every pass; override what you need."""

    name = "instrument"

    def before_pass(self, pass_name: str, program: Program) -> None:
        """Called with the program a pass is about to get."""

    def after_pass(self, pass_name: str, program: Program) -> None:
        """Called with the program a pass gave."""

    def after_pipeline(self, program: Program) -> None:
        """Called with the program that the last pass gave."""


PassCallback = Callable[[str, Program], None]


class CallbackInstrument(Instrument):
    """Calls `before_pass(name, program)` and `after_pass(name, program)`, where they are given."""

    def __init__(
        self,
        before_pass: PassCallback | None = None,
        after_pass: PassCallback | None = None,
        name: str = "callback",
    ) -> None:
        self.name = name
        self._before = before_pass
        self._after = after_pass

    def before_pass(self, pass_name: str, program: Program) -> None:
        if self._before:
            self._before(pass_name, program)

    def after_pass(self, pass_name: str, program: Program) -> None:
        if self._after:
            self._after(pass_name, program)


class VerificationMode(Enum):
    """Which programs are verified: those a pass gets, those it gives, or both."""

    BEFORE = "before"
    AFTER = "after"
    BEFORE_AND_AFTER = "before_and_after"


class VerificationInstrument(Instrument):
    """Verifies the programs that passes get or give; at level ROUNDTRIP their text, too."""

    name = "verification"

    def __init__(
        self,
        mode: VerificationMode = VerificationMode.AFTER,
        level: VerificationLevel = VerificationLevel.BASIC,
    ) -> None:
        self.mode = mode
        self.level = level

    def before_pass(self, pass_name: str, program: Program) -> None:
        """Raises VerificationError, with the pass named in a note."""
        if self.mode is not VerificationMode.AFTER:
            self._verify(program, f"before {pass_name}")

    def after_pass(self, pass_name: str, program: Program) -> None:
        """Raises VerificationError, with the pass named in a note."""
        if self.mode is not VerificationMode.BEFORE:
            self._verify(program, f"after {pass_name}")

    def _verify(self, program: Program, when: str) -> None:
        try:
            verify_at(self.level, program)
        except VerificationError as error:
            error.with_note(when)
            raise


def verify_at(level: VerificationLevel, program: Program) -> None:
    """Raises VerificationError for what a level asks for and a program does not satisfy."""
    if level is not VerificationLevel.NONE:
        verify(program)
    if level is VerificationLevel.ROUNDTRIP:
        room.reading.verify_text(program)


class TimingInstrument(Instrument):
    """Measures each pass: `seconds` by pass name, in order of first run."""

    name = "timing"

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._start = 0.0

    def before_pass(self, pass_name: str, program: Program) -> None:
        self._start = time.perf_counter()

    def after_pass(self, pass_name: str, program: Program) -> None:
        spent = time.perf_counter() - self._start
        self.seconds[pass_name] = self.seconds.get(pass_name, 0.0) + spent


class LogInstrument(Instrument):
    """Writes a line per pass, with its time, to standard error: what log level "debug" asks for."""

    name = "log"

    def __init__(self) -> None:
        self._start = 0.0

    def before_pass(self, pass_name: str, program: Program) -> None:
        self._start = time.perf_counter()

    def after_pass(self, pass_name: str, program: Program) -> None:
        spent = (time.perf_counter() - self._start) * 1e3
        print(f"[debug] {program.name}: {pass_name} took {spent:.3f} ms", file=sys.stderr)


class DumpInstrument(Instrument):
    """Writes the program after each pass as `NN_after_PASS.py` into `directory`."""

    name = "dump"

    def __init__(self, directory: str | Path, *, concise: bool = True) -> None:
        self.directory = Path(directory)
        self.concise = concise
        self._count = 0

    def before_pass(self, pass_name: str, program: Program) -> None:
        if self._count == 0:
            self._write("pipeline_input", program)

    def after_pass(self, pass_name: str, program: Program) -> None:
        self._write(f"after_{pass_name}", program)

    def _write(self, name: str, program: Program) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        text = program.as_python(concise=self.concise)
        (self.directory / f"{self._count:02d}_{name}.py").write_text(text, encoding="utf-8")
        self._count += 1


class ReportInstrument(Instrument):
    """Writes one line per pass, with its time and the number of operations, to `report.txt`."""

    name = "report"

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self._timing = TimingInstrument()

    def before_pass(self, pass_name: str, program: Program) -> None:
        self._timing.before_pass(pass_name, program)

    def after_pass(self, pass_name: str, program: Program) -> None:
        self._timing.after_pass(pass_name, program)
        count = sum(1 for f in program.functions.values() for _ in f.body.walk())
        spent = self._timing.seconds[pass_name]
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "report.txt").open("a", encoding="utf-8") as file:
            file.write(f"{pass_name}: {spent * 1e3:.3f} ms, {count} operations\n")
