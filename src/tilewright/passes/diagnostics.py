"""Warnings about a program, looked for before the first pass; each check can be switched off."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from tilewright import settings
from tilewright.dataclass import dataclass
from tilewright.ir.core import Block, Function, Operation, Program, Value
from tilewright.ir.enums import ParamDirection
from tilewright.ops import control
from tilewright.passes.context import (
    DiagnosticCheck,
    DiagnosticCheckSet,
    DiagnosticPhase,
    DiagnosticSeverity,
    PassContext,
)
from tilewright.source import Span


@dataclass(frozen=True)
class Diagnostic:
    """One finding: which check made it, where, and what it says."""

    check: DiagnosticCheck
    message: str
    span: Span | None
    stage: str = "pipeline_input"
    severity: DiagnosticSeverity = DiagnosticSeverity.Warning

    def __str__(self) -> str:
        place = f" at {self.span}" if self.span else ""
        return f"[{self.severity.value}] [{self.check.name}] ({self.stage}) {self.message}{place}"


Check = Callable[[Function], Iterator[Diagnostic]]
CHECKS: dict[DiagnosticCheck, Check] = {}


def checks(name: DiagnosticCheck) -> Callable[[Check], Check]:
    """Registers the function that looks for one kind of finding."""

    def register(check: Check) -> Check:
        CHECKS[name] = check
        return check

    return register


def diagnose(program: Program) -> list[Diagnostic]:
    """What the active settings want to be warned about, in statement order per function."""
    context = PassContext.current() or PassContext()
    phase = DiagnosticPhase(context.diagnostic_phase or settings.WARNING_LEVEL.read())
    if phase is DiagnosticPhase.NONE:
        return []
    disabled = context.disabled_diagnostics or DiagnosticCheckSet()
    enabled = [check for name, check in CHECKS.items() if name not in disabled]
    functions = program.functions.values()
    return [found for each in functions for check in enabled for found in check(each)]


def report(program: Program) -> None:
    """Writes what `diagnose` finds to standard error, one line each."""
    for found in diagnose(program):
        print(found, file=sys.stderr)


# ---- OutParamWriteDropped ------------------------------------------------------------------------


@checks(DiagnosticCheck.OutParamWriteDropped)
def find_dropped_writes(function: Function) -> Iterator[Diagnostic]:
    """Assignments that rebind the name of an output to a value which does not come from it."""
    directions = dict(zip(function.params, function.directions))
    owners = _owners(function.body)
    for param, value, span in function.rebound:
        if not _comes_from(value, param, owners):
            yield _dropped(function, param.name, directions[param], span)


def _dropped(
    function: Function, name: str, direction: ParamDirection, span: Span | None
) -> Diagnostic:
    return Diagnostic(
        DiagnosticCheck.OutParamWriteDropped,
        f"Assigning to {direction.name} parameter '{name}' in function '{function.name}' rebinds "
        f"the name only — the caller's buffer is never written. Use '{name}[:] = <expr>' to write "
        f"the whole tensor, or '{name}[<slices>] = <expr>' for a sub-window.",
        span,
    )


def _owners(body: Block) -> dict[Block, Operation]:
    return {region: op for op in body.walk() for region in op.regions}


def _comes_from(value: Value, source: Value, owners: dict[Block, Operation]) -> bool:
    """True when some operand, carry or branch leads from `value` back to `source`."""
    seen: set[Value] = set()
    pending = [value]
    while pending:
        current = pending.pop()
        if current is source:
            return True
        if current not in seen:
            seen.add(current)
            pending.extend(_sources(current, owners))
    return False


def _sources(value: Value, owners: dict[Block, Operation]) -> Iterator[Value]:
    owner = value.owner
    op = owners.get(owner) if isinstance(owner, Block) else owner
    if op is None:
        return
    yield from op.inputs
    for region in op.regions:
        if region.terminator.opdef is not control.return_:
            yield from region.terminator.inputs


# ---- InParamWritten ------------------------------------------------------------------------------


@checks(DiagnosticCheck.InParamWritten)
def find_undeclared_writes(function: Function) -> Iterator[Diagnostic]:
    """Parameters that are written and declared without a direction, at their declaration."""
    for param, span in function.undeclared:
        yield Diagnostic(
            DiagnosticCheck.InParamWritten,
            f"Parameter '{param.name}' of function '{function.name}' is written — it is taken as "
            f"InOut. Declare it as pl.InOut[...], or as pl.Out[...] where its contents before the "
            f"call do not matter.",
            span,
        )
