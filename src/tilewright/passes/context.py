"""Who watches a pipeline, and which checks it makes: contexts, instruments, diagnostic settings."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import field
from enum import Enum
from pathlib import Path
from typing import Any

from tilewright.dataclass import dataclass
from tilewright.ir.core import Program
from tilewright.ir.verify import verify


class DiagnosticCheck(Enum):
    """Warnings and hints that can be switched off one by one."""

    UnusedVariable = "UnusedVariable"
    UnusedControlFlowResult = "UnusedControlFlowResult"
    TileInnermostDimGranularity = "TileInnermostDimGranularity"
    OutParamWriteDropped = "OutParamWriteDropped"
    InParamWritten = "InParamWritten"


class DiagnosticPhase(Enum):
    """When diagnostics run."""

    NONE = "none"
    PRE_PIPELINE = "pre_pipeline"
    POST_PASS = "post_pass"
    POST_PIPELINE = "post_pipeline"


class DiagnosticSeverity(Enum):
    """How serious a diagnostic is."""

    Hint = "hint"
    Warning = "warning"
    Error = "error"


class VerificationLevel(Enum):
    """How much is verified between passes: nothing, validity, validity and print-parse identity."""

    NONE = "none"
    BASIC = "basic"
    ROUNDTRIP = "roundtrip"


class DiagnosticCheckSet:
    """A set of checks, as `disabled_diagnostics` takes it."""

    def __init__(self, checks: Iterable[DiagnosticCheck] = ()) -> None:
        self._checks = set(checks)

    def insert(self, check: DiagnosticCheck) -> None:
        """Adds `check`."""
        self._checks.add(check)

    def remove(self, check: DiagnosticCheck) -> None:
        """Takes `check` out; nothing happens when it is not in the set."""
        self._checks.discard(check)

    def contains(self, check: DiagnosticCheck) -> bool:
        """True when `check` is in the set."""
        return check in self._checks

    def __contains__(self, check: object) -> bool:
        return check in self._checks

    def __len__(self) -> int:
        return len(self._checks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DiagnosticCheckSet) and self._checks == other._checks

    def __hash__(self) -> int:
        return hash(frozenset(self._checks))

    def __repr__(self) -> str:
        return f"DiagnosticCheckSet({sorted(check.name for check in self._checks)})"


class Instrument:
    """Sees every program before and after every pass; override what you need."""

    name = "instrument"

    def before_pass(self, pass_name: str, program: Program) -> None:
        """Called with the program a pass is about to get."""

    def after_pass(self, pass_name: str, program: Program) -> None:
        """Called with the program a pass gave."""


PassCallback = Callable[[str, Program], None]


class CallbackInstrument(Instrument):
    """Calls the given functions."""

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


class VerificationInstrument(Instrument):
    """Verifies every program that a pass gives."""

    name = "verification"

    def after_pass(self, pass_name: str, program: Program) -> None:
        """Raises VerificationError, with the pass named in a note."""
        verify(program)


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


@dataclass
class PassContext:
    """Settings for every pipeline run inside `with PassContext(...):`. Contexts nest.

    `disabled_diagnostics`, `diagnostic_phase` and `verification_level` are None where the context
    leaves the default.
    """

    instruments: list[Instrument] = field(default_factory=list[Instrument])
    verification_level: VerificationLevel | None = None
    diagnostic_phase: DiagnosticPhase | None = None
    disabled_diagnostics: DiagnosticCheckSet | None = None
    memory_planner: Any = None
    runtime: Any = None

    @staticmethod
    def current() -> PassContext | None:
        """The innermost active context of this thread, or None."""
        stack = _stack()
        return stack[-1] if stack else None

    @property
    def asks_for_diagnostics(self) -> bool:
        """True when it has instruments or settings other than the defaults."""
        return bool(self.instruments) or any(
            setting is not None
            for setting in (
                self.verification_level,
                self.diagnostic_phase,
                self.disabled_diagnostics,
            )
        )

    def __enter__(self) -> PassContext:
        _stack().append(self)
        _notify()
        return self

    def __exit__(self, *_: object) -> None:
        _stack().pop()
        _notify()


_listeners: list[Callable[[], object]] = []


def on_context_change(listener: Callable[[], object]) -> None:
    """Has `listener` called whenever a context is entered or left, on any thread."""
    _listeners.append(listener)


def _notify() -> None:
    for listener in _listeners:
        listener()


class _Active(threading.local):
    def __init__(self) -> None:
        self.stack: list[PassContext] = []


_ACTIVE = _Active()


def _stack() -> list[PassContext]:
    return _ACTIVE.stack
