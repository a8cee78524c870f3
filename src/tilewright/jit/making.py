"""From a request to a program and to code: what a request that finds its object goes without.

The decorator imports this when the first request of a process compiles, and with it the parser's
rules, the passes and code generation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.errors import ToolchainError, UnsupportedFeatureError
from tilewright.garbage import without_collections
from tilewright.ir.core import Program
from tilewright.jit import _call_binding, driver, placement, specializer
from tilewright.jit.artifact import Generated, SeveralKernels
from tilewright.jit.build import generate, lower
from tilewright.jit.compiled import CompiledProgram
from tilewright.jit.specializer import Specializer
from tilewright.jit.together import find_reason, waits_for_others
from tilewright.ops.facts import Facts

if TYPE_CHECKING:
    from tilewright.jit.decorator import Request

CALL_RULES = (_call_binding,)
"""Imported for the parser's rules that it registers."""


@without_collections()
def specialized(request: Request) -> Program:
    """The program of a request, before any pass; raises the author errors of its functions."""
    program = Specializer(request.graph).program(
        request.bound.constants, request.types, request.signature
    )
    if request.graph.entry.definition.kind in ("entry", "host"):
        placement.require_placed(program[request.name])
    return program


def source(request: Request) -> str:
    """The specialized program as Python text."""
    made = Specializer(request.graph)
    made.program(request.bound.constants, request.types, request.signature)
    return specializer.source_text(made)


def lowered(request: Request) -> Program:
    """The program after every pass."""
    with request.options.checks():
        return lower(specialized(request), request.name)


def compiled(request: Request, program: Program | None = None) -> CompiledProgram:
    """What runs a request, compiled without a look at what there is."""
    program = specialized(request) if program is None else program
    return driver.compile_program(program, request.name, request.options)


def generated(request: Request) -> tuple[Program, Generated]:
    """The program and the text of its one kernel; raises SeveralKernels when it is more."""
    program = specialized(request)
    if find_reason(program, request.name, request.options) is not None:
        raise SeveralKernels(program)
    driver.report(program, request.options)
    try:
        made = generate(program, request.name, request.options)
    except UnsupportedFeatureError:
        if waits_for_others(Facts(program), request.name):
            raise SeveralKernels(program) from None
        raise
    if not request.graph.has_same_sources():  # the key is not that of what was built
        raise ToolchainError(
            f"a C++ source of '{request.name}' changed while it was compiled",
            hint="Call it again.",
        )
    return program, made
