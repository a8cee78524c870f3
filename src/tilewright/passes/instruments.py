"""What watches a pipeline: callbacks, verification and times."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from enum import Enum

import tilewright.ir as room
from tilewright.errors import VerificationError
from tilewright.ir.core import Program
from tilewright.ir.verifier import verify
from tilewright.kinds import accepts
from tilewright.passes.context import Instrument, VerificationLevel

PassCallback = Callable[[str, Program], None]


@accepts(before_pass=Callable | None, after_pass=Callable | None, name=str)
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


@accepts(mode=VerificationMode, level=VerificationLevel)
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
