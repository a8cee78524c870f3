"""Passes: from the tile IR that a front end gives to the loop IR that code generation reads."""

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

__all__ = [
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
]
