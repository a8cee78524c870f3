"""Who watches a pipeline, and which checks it makes: contexts and diagnostic settings."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Any

from tilewright.dataclass import dataclass

if TYPE_CHECKING:
    from tilewright.passes.instruments import Instrument


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


@dataclass
class PassContext:
    """Settings for every pipeline run inside `with PassContext(...):`. Contexts nest.

    `disabled_diagnostics`, `diagnostic_phase` and `verification_level` are None where the context
    leaves the default.
    """

    instruments: list[Instrument] = field(default_factory=list["Instrument"])
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
