"""Passes: from the tile IR that a front end gives to the loop IR that code generation reads."""

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
