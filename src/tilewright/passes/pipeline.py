"""The one pipeline from tile IR to loop IR."""

from __future__ import annotations

from tilewright.ir.builder import finish_program
from tilewright.ir.core import Program
from tilewright.passes import contract, regions, scans, single
from tilewright.passes.function import lower_function
from tilewright.passes.inline_calls import inline_calls

REGISTERED = (contract, regions, scans, single)
"""Modules that say how operations without a structure are lowered."""


def lower(program: Program, entry: str) -> Program:
    """The program of one loop-level function that does what `entry` of `program` does.

    Its parameters are those of `entry`, tensors as buffers, then one Out buffer per returned value
    that is not a parameter; attribute `results` says where each returned value is (see
    `passes.function`). Raises UnsupportedFeatureError and StaleRead, located.
    """
    flat = inline_calls(program, entry)
    return finish_program(program.name, {entry: lower_function(flat[entry])})
