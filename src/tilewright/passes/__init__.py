"""Passes: from the tile IR that a front end gives to the loop IR that code generation reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.choices import MemoryPlanner, OptimizationStrategy, PassDumpLevel, RuntimeKind
from tilewright.late import late

if TYPE_CHECKING:
    from tilewright.passes.context import (
        DiagnosticCheck,
        DiagnosticCheckSet,
        DiagnosticPhase,
        DiagnosticSeverity,
        PassContext,
        VerificationLevel,
    )
    from tilewright.passes.diagnostics import Diagnostic, DiagnosticInstrument
    from tilewright.passes.fitting import fit
    from tilewright.passes.instruments import (
        CallbackInstrument,
        Instrument,
        TimingInstrument,
        VerificationInstrument,
        VerificationMode,
    )
    from tilewright.passes.manager import (
        IRProperty,
        IRPropertySet,
        Pass,
        PassManager,
        PassPipeline,
        create_function_pass,
        create_program_pass,
        run_verifier,
        verify_properties,
    )
    from tilewright.passes.records import DumpInstrument, ReportInstrument


__all__ = [
    "RuntimeKind",
    "PassDumpLevel",
    "OptimizationStrategy",
    "MemoryPlanner",
    "CallbackInstrument",
    "Diagnostic",
    "DiagnosticCheck",
    "DiagnosticCheckSet",
    "DiagnosticInstrument",
    "DiagnosticPhase",
    "DiagnosticSeverity",
    "DumpInstrument",
    "IRProperty",
    "IRPropertySet",
    "Instrument",
    "Pass",
    "PassContext",
    "PassManager",
    "PassPipeline",
    "ReportInstrument",
    "TimingInstrument",
    "VerificationInstrument",
    "VerificationLevel",
    "VerificationMode",
    "create_function_pass",
    "create_program_pass",
    "fit",
    "run_verifier",
    "verify_properties",
]

__getattr__, __dir__ = late(
    __name__, __all__, ("context", "instruments", "records", "diagnostics", "fitting", "manager")
)
