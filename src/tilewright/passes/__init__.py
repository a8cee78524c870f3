"""Passes: from the tile IR that a front end gives to the loop IR that code generation reads."""

from __future__ import annotations

import importlib
from typing import Any

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

_MANAGED = ("Pass", "PassManager", "PassPipeline", "create_function_pass", "create_program_pass")


def __getattr__(name: str) -> Any:
    """What runs passes is imported when it is first named, with all of them."""
    if name in _MANAGED:
        return getattr(importlib.import_module("tilewright.passes.manager"), name)
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
