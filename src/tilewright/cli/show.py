"""Programs of a file, as text, at the station that is asked for."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.syntax import Syntax

from tilewright.codegen import machine
from tilewright.dataclass import dataclass
from tilewright.errors import render
from tilewright.ir.core import Function, Program
from tilewright.jit.compiled import CompiledProgram
from tilewright.jit.decorator import JITFunction
from tilewright.jit.driver import compile_program, entry_names
from tilewright.nki import TraceKernel
from tilewright.passes import CallbackInstrument, PassContext, fit

NOT_CALLED = "the file makes no call of it when it is imported"


class NothingToShow(Exception):
    """The file holds nothing of the kind asked for; the message says what it holds."""


@dataclass(frozen=True)
class Wish:
    """What to show: after which pass, at which level, or which text."""

    after: str = ""
    level: str = "tile"
    llvm: bool = False
    assembly: bool = False
    source: bool = False
    timings: bool = False
    fit: str = ""

    @property
    def needs_compiling(self) -> bool:
        """True for stations below the tile level."""
        below = self.after or self.llvm or self.assembly or self.timings
        return bool(below) or self.level != "tile"


def load_kernels(file: Path) -> dict[str, Any]:
    """The programs, functions and kernels that a file binds, by name.

    A traced kernel stands for the programs of the calls that the file makes of it.
    """
    sys.path.insert(0, str(file.parent.absolute()))
    names = runpy.run_path(str(file), run_name="<shown>")
    kinds = (JITFunction, Program, Function)
    found = {name: value for name, value in names.items() if isinstance(value, kinds)}
    kept = {name: value for name, value in found.items() if not _is_helper(value)}
    for name, value in names.items():
        if isinstance(value, TraceKernel):
            kept.update(_traced(name, value))
    return kept


def _traced(name: str, kernel: TraceKernel) -> dict[str, Program]:
    programs = [made.program for made in kernel.specializations.values()]
    if not programs:
        typer.echo(f"show: {name} is traced when it is called, and {NOT_CALLED}", err=True)
    places = [""] if len(programs) == 1 else [f"#{k + 1}" for k in range(len(programs))]
    return {name + place: program for place, program in zip(places, programs)}


def _is_helper(value: Any) -> bool:
    return isinstance(value, JITFunction) and value.definition.kind not in ("entry", "host")


def shown_programs(file: Path, kernel: str, wish: Wish) -> Iterator[str]:
    """The texts to show; raises NothingToShow and the author errors of the kernels."""
    if wish.level not in ("tile", "loop"):
        raise NothingToShow(f"level {wish.level!r} does not exist; 'tile' and 'loop' do")
    found = load_kernels(file)
    chosen = {
        name: value for name, value in found.items() if kernel in ("", name, name.partition("#")[0])
    }
    if not chosen:
        names = ", ".join(found) or "nothing that can be compiled"
        wanted = f"{kernel!r} is not in {file}, which has" if kernel else f"{file} has"
        raise NothingToShow(f"{wanted} {names}")
    for name, value in chosen.items():
        yield _shown(name, value, wish)


def _shown(name: str, value: Any, wish: Wish) -> str:
    if wish.source:
        return value.source() if isinstance(value, JITFunction) else value.as_python()
    if not wish.needs_compiling:
        program = value.specialize() if isinstance(value, JITFunction) else value
        return _fitting(name, program, wish.fit) if wish.fit else program.as_python()
    compiled, stations = _watched(value)
    if wish.timings:
        return _timing_lines(name, compiled)
    if wish.llvm:
        return compiled.artifact.text or ""
    if wish.assembly:
        return machine.assembly(compiled.artifact.text or "", machine.host_target())
    return _station(wish.after or list(stations)[-1], stations)


def _fitting(name: str, program: Program | Function, device: str) -> str:
    """How a program uses the memories of a device; broken limits at the author's lines."""
    if isinstance(program, Function):
        program = Program(program.name, {program.name: program}, program.span)
    try:
        found = fit(program, device)
    except ValueError as error:
        raise NothingToShow(str(error)) from None
    return "\n\n".join([f"{name} {found}", *map(render, found.broken)])


def _watched(value: Any) -> tuple[CompiledProgram, dict[str, str]]:
    """The compiled program, and its text after each pass."""
    stations: dict[str, str] = {}

    def note(name: str, program: Program) -> None:
        stations[name] = program.as_python()

    with PassContext([CallbackInstrument(after_pass=note)]):
        if isinstance(value, JITFunction):
            compiled = value.compile()
        elif isinstance(value, Program):
            compiled = compile_program(value, entry_names(value)[0])
        else:
            compiled = compile_program(value)
    return compiled, stations


def _station(name: str, stations: dict[str, str]) -> str:
    if name not in stations:
        raise NothingToShow(f"there is no pass {name!r}; passes are {', '.join(stations)}")
    return stations[name]


def _timing_lines(name: str, compiled: CompiledProgram) -> str:
    rows = [f"{stage:>10} {seconds * 1e3:9.3f} ms" for stage, seconds in compiled.timings.items()]
    total = sum(compiled.timings.values()) * 1e3
    asked = [f"undecided: {q} ×{n}" for q, n in sorted(compiled.unknown_answers.items())]
    return "\n".join([name, *rows, f"{'total':>10} {total:9.3f} ms", *asked])


def write_code(text: str, language: str) -> None:
    """Writes a text, coloured on a terminal."""
    if sys.stdout.isatty():
        Console().print(Syntax(text, language, background_color="default"))
    else:
        typer.echo(text)
