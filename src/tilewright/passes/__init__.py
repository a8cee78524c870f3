"""Passes: from the tile IR that a front end gives to the loop IR that code generation reads."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tilewright.choices import MemoryPlanner, OptimizationStrategy, PassDumpLevel, RuntimeKind
from tilewright.passes.context import (
    CallbackInstrument,
    DiagnosticCheck,
    DiagnosticCheckSet,
    DiagnosticPhase,
    DiagnosticSeverity,
    DumpInstrument,
    Instrument,
    PassContext,
    ReportInstrument,
    TimingInstrument,
    VerificationInstrument,
    VerificationLevel,
)
from tilewright.passes.fit import fit

if TYPE_CHECKING:
    from tilewright.passes import pipeline as pipeline


def __getattr__(name: str) -> Any:
    """`pipeline` is imported when it is first named: what is compiled already does without."""
    if name == "pipeline":
        return importlib.import_module("tilewright.passes.pipeline")
    raise AttributeError(f"module 'tilewright.passes' has no attribute '{name}'")


__all__ = [
    "RuntimeKind",
    "PassDumpLevel",
    "OptimizationStrategy",
    "MemoryPlanner",
    "CallbackInstrument",
    "DiagnosticCheck",
    "DiagnosticCheckSet",
    "DiagnosticPhase",
    "DiagnosticSeverity",
    "DumpInstrument",
    "Instrument",
    "PassContext",
    "ReportInstrument",
    "TimingInstrument",
    "VerificationInstrument",
    "VerificationLevel",
    "fit",
]
