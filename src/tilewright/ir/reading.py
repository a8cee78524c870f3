"""Printed programs read back: what the front end reads is compared with what was printed."""

from __future__ import annotations

import tilewright
from tilewright.errors import VerificationError
from tilewright.ir.core import Program
from tilewright.ir.enums import ParamDirection
from tilewright.ir.equal import find_difference


def verify_text(program: Program) -> Program:
    """`program` itself; raises VerificationError unless its text is read back as the same program.

    What is read may find that an In parameter is written, which no text can hide.
    """
    again: Program = tilewright.frontend.text.parse_program(program.as_python())
    difference = None if says_more(program, again) else find_difference(program, again)
    if difference is not None:
        raise VerificationError(f"the printed program is read back differently at {difference}")
    return program


def says_more(program: Program, again: Program) -> bool:
    """True when reading the text of a program found that an In parameter is written."""
    return any(
        here is ParamDirection.In and there is not ParamDirection.In
        for name, function in program.functions.items()
        for here, there in zip(function.directions, again[name].directions, strict=True)
    )
