"""Who watches a pipeline, and which checks it makes: contexts and diagnostic settings."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Any

from tilewright import settings
from tilewright.choices import EnumSet, MemoryPlanner, RuntimeKind
from tilewright.dataclass import dataclass
from tilewright.kinds import required

if TYPE_CHECKING:
    from tilewright.ir.core import Program


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
    """What is verified: nothing, validity, validity and print-parse identity.

    Where nothing is said, the validity of the program that goes into the pipeline; where a level is
    given, by a context or the environment, that and what each pass gives.
    """

    NONE = "none"
    BASIC = "basic"
    ROUNDTRIP = "roundtrip"


class DiagnosticCheckSet(EnumSet[DiagnosticCheck]):
    """A set of checks, as `disabled_diagnostics` takes it."""

    kind = DiagnosticCheck


class Instrument:
    """Sees every program before and after every pass; override what you need."""

    name = "instrument"

    def before_pass(self, pass_name: str, program: Program) -> None:
        """Called with the program a pass is about to get."""

    def after_pass(self, pass_name: str, program: Program) -> None:
        """Called with the program a pass gave."""

    def after_pipeline(self, program: Program) -> None:
        """Called with the program that the last pass gave."""


DEFAULT_DISABLED = DiagnosticCheckSet([DiagnosticCheck.UnusedControlFlowResult])
"""What is switched off where nothing is said."""


DIAGNOSTIC_SETTINGS: Mapping[str, type[Any]] = {
    "verification_level": VerificationLevel,
    "diagnostic_phase": DiagnosticPhase,
    "disabled_diagnostics": DiagnosticCheckSet,
}
"""What explicit settings and a PassContext say of verification and diagnostics, and as what."""


def diagnostic_setting(name: str, given: Any) -> Any:
    """A setting as it is kept; raises ValueError or TypeError for what it does not take."""
    kind = DIAGNOSTIC_SETTINGS[name]
    if given is None or isinstance(given, kind):
        return given
    try:
        if kind is DiagnosticCheckSet:
            return DiagnosticCheckSet([DiagnosticCheck(each) for each in given])
        return kind(given)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} is {given!r}: {error}") from None


@dataclass
class PassContext:
    """Settings for every pipeline run inside `with PassContext(...):`. Contexts nest.

    `disabled_diagnostics`, `diagnostic_phase` and `verification_level` are None where the context
    leaves the default; a phase and a level may be given by their values, and the checks as any
    iterable of them. Raises ValueError or TypeError for what is neither.
    """

    instruments: list[Instrument] = field(default_factory=list["Instrument"])
    verification_level: VerificationLevel | None = None
    diagnostic_phase: DiagnosticPhase | None = None
    disabled_diagnostics: DiagnosticCheckSet | None = None
    memory_planner: Any = None
    runtime: Any = None

    def __post_init__(self) -> None:
        required(self.instruments, [Instrument], "PassContext: instruments is")
        required(self.memory_planner, MemoryPlanner | None, "PassContext: memory_planner is")
        required(self.runtime, RuntimeKind | None, "PassContext: runtime is")
        for name in DIAGNOSTIC_SETTINGS:
            setattr(self, name, diagnostic_setting(name, getattr(self, name)))

    @staticmethod
    def current() -> PassContext | None:
        """The innermost active context of this thread, or None."""
        stack = _stack()
        return stack[-1] if stack else None

    def __enter__(self) -> PassContext:
        _stack().append(self)
        _notify()
        return self

    def __exit__(self, *_: object) -> None:
        _stack().pop()
        _notify()


def wanted_level() -> VerificationLevel | None:
    """The level that the active context, or else the environment, asks for; None for neither."""
    context = PassContext.current()
    if context is not None and context.verification_level is not None:
        return context.verification_level
    is_set = settings.VERIFY_LEVEL.find() is not None
    return VerificationLevel(settings.VERIFY_LEVEL.read()) if is_set else None


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
