"""Warnings and hints about a program; each check can be switched off.

They are looked for in the program as it was written and, as the phase asks, in what the passes make
of it. A finding is reported once.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from tilewright import settings
from tilewright.dataclass import dataclass
from tilewright.ir.core import Block, BodyText, Function, Operation, Program, Value
from tilewright.ir.enums import Effect, ParamDirection
from tilewright.ir.types import CommCtxType, HandleType, ShapedType, TaskIdType
from tilewright.ops import arith, control, memory
from tilewright.ops.extents import DIM_OPS
from tilewright.passes.context import (
    DEFAULT_DISABLED,
    DiagnosticCheck,
    DiagnosticPhase,
    DiagnosticSeverity,
    PassContext,
)
from tilewright.passes.instruments import Instrument
from tilewright.passes.lost_writes import find_lost_writes
from tilewright.source import Span

INPUT = "pipeline_input"
LOUDNESS = ("debug", "info", "warning", "error")
LEVELS = {
    DiagnosticSeverity.Hint: "info",
    DiagnosticSeverity.Warning: "warning",
    DiagnosticSeverity.Error: "error",
}
"""The log level of a finding: what is below TILEWRIGHT_LOG_LEVEL is not written."""


@dataclass(frozen=True)
class Diagnostic:
    """One finding: which check made it, where, and what it says."""

    check: DiagnosticCheck
    message: str
    span: Span | None
    stage: str = INPUT
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


def active_phase() -> DiagnosticPhase:
    """When the active context, or else the environment, wants diagnostics."""
    context = PassContext.current()
    explicit = None if context is None else context.diagnostic_phase
    return DiagnosticPhase(explicit or settings.WARNING_LEVEL.read())


def active_checks() -> list[Check]:
    """The checks that the active context leaves switched on."""
    context = PassContext.current()
    explicit = None if context is None else context.disabled_diagnostics
    disabled = DEFAULT_DISABLED if explicit is None else explicit
    return [check for name, check in CHECKS.items() if name not in disabled]


def diagnose(program: Program, stage: str = INPUT) -> list[Diagnostic]:
    """What the active settings want to be said, in statement order per function."""
    if active_phase() is DiagnosticPhase.NONE:
        return []
    enabled, functions = active_checks(), program.functions.values()
    found = [found for each in functions for check in enabled for found in check(each)]
    return found if stage == INPUT else [replace(each, stage=stage) for each in found]


def report(program: Program) -> None:
    """Writes what `diagnose` finds to standard error."""
    show(diagnose(program))


def show(diagnostics: Iterable[Diagnostic]) -> None:
    """Writes findings of at least TILEWRIGHT_LOG_LEVEL to standard error, one line each."""
    threshold = LOUDNESS.index(settings.LOG_LEVEL.read())
    for found in diagnostics:
        if LOUDNESS.index(LEVELS[found.severity]) >= threshold:
            print(found, file=sys.stderr)


def hints(program: Program) -> list[str]:
    """The performance hints about a program, one line each."""
    return [str(d) for d in diagnose(program) if d.severity is DiagnosticSeverity.Hint]


class DiagnosticInstrument(Instrument):
    """Reports what is found in a program after passes that was not found before.

    With phase POST_PASS it looks after every pass, with POST_PIPELINE after the last one; `found`
    are its findings. The active settings choose the phase where None is given.
    """

    name = "diagnostics"

    def __init__(self, phase: DiagnosticPhase | None = None) -> None:
        self.phase = phase or active_phase()
        self.found: list[Diagnostic] = []
        self._known: set[tuple[DiagnosticCheck, Span | None]] | None = None

    def before_pass(self, pass_name: str, program: Program) -> None:
        if self._known is None:
            self._known = set()
            self._new(diagnose(program))

    def after_pass(self, pass_name: str, program: Program) -> None:
        if self.phase is DiagnosticPhase.POST_PASS:
            self._tell(program, f"after {pass_name}")

    def after_pipeline(self, program: Program) -> None:
        if self.phase is DiagnosticPhase.POST_PIPELINE:
            self._tell(program, "pipeline_output")

    def _tell(self, program: Program, stage: str) -> None:
        new = self._new(diagnose(program, stage))
        self.found += new
        show(new)

    def _new(self, diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
        """Those of a check and a place that are not known yet, which they are from then on."""
        assert self._known is not None
        new = {(d.check, d.span): d for d in diagnostics}
        fresh = [d for key, d in new.items() if key not in self._known]
        self._known.update(new)
        return fresh


def watchers() -> list[Instrument]:
    """The instruments that the active settings ask for."""
    later = (DiagnosticPhase.POST_PASS, DiagnosticPhase.POST_PIPELINE)
    return [DiagnosticInstrument()] if active_phase() in later else []


# ---- OutParamWriteDropped ------------------------------------------------------------------------


@checks(DiagnosticCheck.OutParamWriteDropped)
def find_dropped_writes(function: Function) -> Iterator[Diagnostic]:
    """Assignments that rebind the name of an output to a value which does not come from it, and
    writes into copies of one."""
    directions = dict(zip(function.params, function.directions))
    owners = _owners(function.body)
    for param, value, span in function.rebound:
        if not _comes_from(value, param, owners):
            yield _dropped(function, param.name, directions[param], span)
    for param, write in find_lost_writes(function):
        yield Diagnostic(
            DiagnosticCheck.OutParamWriteDropped,
            f"Writing into {directions[param].name} parameter '{param.name}' in function "
            f"'{function.name}' under another shape writes a copy that nothing reads — the "
            f"caller's buffer is never written. Write into pl.tensor.view({param.name}, <shape>), "
            f"or put the copy back with '{param.name}[:] = <expr>'.",
            write.span,
        )


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


# ---- UnusedVariable, UnusedControlFlowResult -----------------------------------------------------


@checks(DiagnosticCheck.UnusedVariable)
def find_unused_variables(function: Function) -> Iterator[Diagnostic]:
    """Names that are given what an operation without effect computes, and that stand nowhere else.

    Only of what an author wrote and is as it was written; names of outputs are judged above.
    """
    if function.body_text is None:
        return
    rebound = {value for _, value, _ in function.rebound}
    unused = [op for op in _unused(function) if _is_quiet(op) and rebound.isdisjoint(op.results)]
    counts = _word_counts(function.body_text) if unused else Counter[str]()
    for op in unused:
        if all(counts[value.name] == 1 for value in op.results):
            what = f"Variable {_names(op)} in function '{function.name}' is never used."
            yield Diagnostic(
                DiagnosticCheck.UnusedVariable, f"{what} Remove it, or name it '_'.", op.span
            )


@checks(DiagnosticCheck.UnusedControlFlowResult)
def find_unused_results(function: Function) -> Iterator[Diagnostic]:
    """Results of loops and branches that nothing reads."""
    used = _read(function)
    for op in function.body.walk():
        for result in op.results if op.opdef in (control.for_, control.while_, control.if_) else ():
            if not _is_used(result, used):
                yield Diagnostic(
                    DiagnosticCheck.UnusedControlFlowResult,
                    f"Result '{result.name}' of a {_KINDS[op.opdef]} in function "
                    f"'{function.name}' is never used.",
                    op.span,
                )


_KINDS = {control.for_: "for", control.while_: "while", control.if_: "branch"}


def _read(function: Function) -> set[Value]:
    return {value for op in function.body.walk() for value in op.inputs}


def _unused(function: Function) -> Iterator[Operation]:
    """Operations with results, each with a name of the author's, none of which is read."""
    used = _read(function)
    for op in function.body.walk():
        if op.results and not any(_is_used(value, used) for value in op.results):
            yield op


def _is_handle(op: Operation) -> bool:
    """True for what nothing is computed for: extents, which come many at a time, and tasks."""
    types = [value.type for value in op.results]
    return op.opdef in DIM_OPS or any(
        isinstance(t, (HandleType, CommCtxType)) or t == TaskIdType for t in types
    )


def _is_quiet(op: Operation) -> bool:
    """True for what only computes values that an author would want."""
    is_plain = op.opdef is not arith.const and op.opdef.effect <= Effect.READ
    return is_plain and not op.regions and not _is_handle(op)


def _word_counts(text: BodyText) -> Counter[str]:
    """How often each word stands in a text: a shape has a name by what that is made of, as
    `rows * 8` is for `width`, and an arm that is not taken is not there."""
    source, first, last = text
    return Counter(re.findall(r"\w+", "\n".join(source.lines[first - 1 : last])))


def _is_used(value: Value, used: set[Value]) -> bool:
    """True for what is read, what a type may mention and what the author does not name."""
    return value in used or value.has_symbol or value.name.startswith("_") or not value.name


def _names(op: Operation) -> str:
    return ", ".join(f"'{value.name}'" for value in op.results)


# ---- TileInnermostDimGranularity -----------------------------------------------------------------

LINE_BYTES = 64
"""What memory is moved in, at least, on the machines that are compiled for: a cache line."""


@checks(DiagnosticCheck.TileInnermostDimGranularity)
def find_narrow_tiles(function: Function) -> Iterator[Diagnostic]:
    """Loads and stores of tiles whose rows are parts of lines, of tensors with longer rows."""
    for op in function.body.walk():
        moved = _moved(op)
        if moved is None:
            continue
        tile, tensor = moved
        extent, whole = tile.shape[-1], tensor.shape[-1]
        width = extent * tile.dtype.nbytes if isinstance(extent, int) else LINE_BYTES
        if width < LINE_BYTES and whole != extent:
            yield Diagnostic(
                DiagnosticCheck.TileInnermostDimGranularity,
                f"PH001: {op.name.rpartition('.')[2]} in function '{function.name}' moves rows of "
                f"{width} bytes; memory is moved in lines of {LINE_BYTES}. Make the innermost "
                f"extent at least {LINE_BYTES // tile.dtype.nbytes}.",
                op.span,
                severity=DiagnosticSeverity.Hint,
            )


def _moved(op: Operation) -> tuple[ShapedType, ShapedType] | None:
    """The types of the tile and of the tensor of a load or store of matrices."""
    if op.opdef is memory.load:
        tile, tensor = op.result.type, op.operands[0].type
    elif op.opdef is memory.store:
        tile, tensor = op.operands[0].type, op.result.type
    else:
        return None
    assert isinstance(tile, ShapedType) and isinstance(tensor, ShapedType)
    return (tile, tensor) if tile.rank > 1 and tensor.rank > 1 else None
