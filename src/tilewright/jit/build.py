"""From a program to something that runs: lowering, code generation, and what watches them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tilewright import external as libraries
from tilewright.abi import ExternalKernel, Manifest, Signature, Site
from tilewright.codegen import machine
from tilewright.codegen.kernel import emit_kernel
from tilewright.errors import (
    InternalError,
    TilewrightError,
    ToolchainError,
    UnsupportedFeatureError,
)
from tilewright.ir.affine import counting_unknown
from tilewright.ir.core import Function, Program
from tilewright.ir.enums import Role
from tilewright.jit.artifact import Artifact, Generated, Timings
from tilewright.jit.kernels import InterpretedKernel, NativeKernel, UnlinkedKernel
from tilewright.jit.options import CompileOptions
from tilewright.jit.signature import calling_of, calling_of_lowered
from tilewright.ops import external
from tilewright.ops.facts import find_foreign
from tilewright.passes import pipeline
from tilewright.passes.context import VerificationLevel, wanted_level
from tilewright.passes.instruments import Instrument, verify_at
from tilewright.passes.records import DumpInstrument, ReportInstrument
from tilewright.runtime.config import PassDumpLevel
from tilewright.target import Target


def build(
    program: Program, entry: str, options: CompileOptions, directory: Path | None = None
) -> Artifact:
    """Compiles function `entry` of a program; requested dumps go to `directory`.

    Raises the author errors of lowering, located, and ToolchainError when this machine cannot
    compile.
    """
    if options.execution != "native":
        is_checked = options.execution == "checked"
        return interpreted(program, entry, checked=is_checked, ranks=options.ranks)
    foreign = find_foreign(program, entry)
    if foreign is not None:
        return unlinked(program, entry, foreign)
    return finish(generate(program, entry, options, directory), program)


def generate(
    program: Program, entry: str, options: CompileOptions, directory: Path | None = None
) -> Generated:
    """Lowers function `entry` and writes it as text for this machine."""
    timings = Timings()
    with options.checks(), timings.stage("lower"), counting_unknown() as unknown:
        lowered = lower(program, entry, watchers(options, directory))
    timings.unknown.update(unknown)
    with timings.stage("target"):
        find_target()
    with timings.stage("emit"):
        calling = calling_of_lowered(program[entry], lowered[entry])
        text, manifest = written(lowered, entry, calling.signature)
    return Generated(entry, calling, manifest, text, timings)


def written(lowered: Program, entry: str, signature: Signature) -> tuple[str, Manifest]:
    """A lowered function as text for this machine, and what its object needs to run."""
    kernel = emit_kernel(lowered[entry], signature, find_target())
    manifest = Manifest(
        name=entry,
        symbol=kernel.symbol,
        sites={number: Site.of(span) for number, span in kernel.sites.items()},
        work=kernel.work,
        arena_bytes=kernel.arena_bytes,
        parallel=kernel.parallel,
        communicates=kernel.communicates,
        texts=kernel.texts,
        externals=prepare_externals(kernel.externals, lowered, entry),
    )
    return kernel.text, manifest


def prepare_externals(
    kernels: Mapping[str, ExternalKernel], lowered: Program, entry: str
) -> dict[str, ExternalKernel]:
    """The kernels in C++ that an object refers to, built; errors at the first call of each."""
    calls = [op for op in lowered[entry].body.walk() if op.opdef is external.on_buffers]
    spans = {external.external_kernel(op): op.span for op in reversed(calls)}
    built: dict[str, ExternalKernel] = {}
    for symbol, kernel in kernels.items():
        try:
            built[symbol] = libraries.prepare(kernel)
        except TilewrightError as error:
            error.locate(spans[kernel])
            raise
    return built


def lower(program: Program, entry: str, instruments: Sequence[Instrument] = ()) -> Program:
    """The loop-level program; an error for what has no native form says what else can run it.

    The program is verified first, unless the verification level is "none".
    """
    verify_at(wanted_level() or VerificationLevel.BASIC, program)
    try:
        return pipeline.lower(program, entry, instruments)
    except UnsupportedFeatureError as error:
        raise error.with_note(
            "the interpreter can run what is not compiled yet: RunConfig(execution='interpret')"
        ) from error


def finish(generated: Generated, program: Program | None) -> Artifact:
    """Makes the object of generated text."""
    g = generated
    target = find_target()
    with g.timings.stage("compile"):
        data = compile_text(g.text, target)
    kernel = NativeKernel(data, g.calling.signature, g.manifest)
    return Artifact(g.entry, g.calling, kernel, program, g.text, g.timings)


def unlinked(program: Program, entry: str, foreign: Function) -> Artifact:
    """A program that can be looked at but not run, because of one of its functions."""
    if foreign.role is Role.SubWorker:
        reason = UnsupportedFeatureError(
            f"{entry} calls '{foreign.name}', whose body is a host callback; code of a device "
            "cannot",
            foreign.span,
            "Call it in a host orchestration, or leave it out of what runs here.",
        )
    else:
        reason = UnsupportedFeatureError(
            f"'{foreign.name}' is declared only: its body is '...'",
            foreign.span,
            "Write its body, or leave it out of what runs here.",
        )
    kernel = UnlinkedKernel(Manifest(name=entry), reason)
    return Artifact(entry, calling_of(program[entry]), kernel, program)


def interpreted(program: Program, entry: str, *, checked: bool = False, ranks: int = 1) -> Artifact:
    """Function `entry` as the interpreter runs it, on `ranks` ranks where it starts them."""
    calling = calling_of(program[entry])
    manifest = Manifest(name=entry)
    kernel = InterpretedKernel(program, entry, manifest, checked=checked, ranks=ranks)
    return Artifact(entry, calling, kernel, program)


def find_target() -> Target:
    """This machine; raises ToolchainError without LLVM."""
    try:
        return machine.host_target()
    except ImportError as error:
        raise ToolchainError(
            f"native code cannot be made: llvmlite cannot be imported ({error})",
            hint="Install llvmlite, or run the program with execution='interpret'.",
        ) from error


def compile_text(text: str, target: Target) -> bytes:
    """The object file of a kernel's text."""
    try:
        return machine.compile_text(text, target)
    except RuntimeError as error:
        raise InternalError(f"LLVM refuses the text of a kernel: {error}") from error


def watchers(options: CompileOptions, directory: Path | None) -> list[Instrument]:
    """The instruments that a compilation's dump and profiling options ask for."""
    if directory is None:
        return []
    made: list[Instrument] = []
    if options.dump is not PassDumpLevel.NONE:
        is_concise = options.dump is PassDumpLevel.CONCISE
        made.append(DumpInstrument(directory / "passes_dump", concise=is_concise))
    if options.profiling:
        made.append(ReportInstrument(directory / "report"))
    return made
