"""From a program to something that runs: lowering, code generation, and what watches them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tilewright.abi import Manifest, Site
from tilewright.codegen import machine
from tilewright.codegen.kernel import Kernel as TextKernel
from tilewright.codegen.kernel import emit_kernel
from tilewright.errors import InternalError, ToolchainError
from tilewright.ir.core import Program
from tilewright.jit.kernels import InterpretedKernel, Kernel, NativeKernel
from tilewright.jit.options import CompileOptions, CompileProfiler
from tilewright.jit.signature import Calling, calling_of, calling_of_lowered
from tilewright.passes import pipeline
from tilewright.target import Target


@dataclass
class Timings:
    """Seconds by stage of one compilation, in order."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measures what runs inside."""
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent
            profiler = CompileProfiler.current()
            if profiler is not None:
                profiler.seconds[name] = profiler.seconds.get(name, 0.0) + spent


@dataclass
class Artifact:
    """One compiled function: how it is called, what runs it, and what it was made from."""

    entry: str
    calling: Calling
    kernel: Kernel
    program: Program | None
    text: str | None = None
    timings: Timings = field(default_factory=Timings)

    @property
    def manifest(self) -> Manifest:
        """Its side tables."""
        return self.kernel.manifest


def build(program: Program, entry: str, options: CompileOptions) -> Artifact:
    """Compiles function `entry` of a program.

    Raises the author errors of lowering, located, and ToolchainError when this machine cannot
    compile.
    """
    timings = Timings()
    if options.execution != "native":
        return interpreted(program, entry, checked=options.execution == "checked")
    with options.checks():
        with timings.stage("lower"):
            lowered = lower_watched(program, entry)
        function = lowered[entry]
        calling = calling_of_lowered(program[entry], function)
        with timings.stage("emit"):
            target = machine.host_target()
            kernel = emit_kernel(function, calling.signature, target)
        with timings.stage("compile"):
            data = compile_text(kernel, target)
    manifest = Manifest(
        name=entry,
        symbol=kernel.symbol,
        sites={number: Site.of(span) for number, span in kernel.sites.items()},
        work=kernel.work,
        arena_bytes=kernel.arena_bytes,
        parallel=kernel.parallel,
    )
    native = NativeKernel(data, calling.signature, manifest)
    return Artifact(entry, calling, native, program, kernel.text, timings)


def interpreted(program: Program, entry: str, *, checked: bool = False) -> Artifact:
    """Function `entry` as the interpreter runs it."""
    calling = calling_of(program[entry])
    kernel = InterpretedKernel(program, entry, Manifest(name=entry), checked=checked)
    return Artifact(entry, calling, kernel, program)


def compile_text(kernel: TextKernel, target: Target) -> bytes:
    """The object file of a kernel; raises ToolchainError without LLVM."""
    try:
        return kernel.compile(target)
    except ImportError as error:
        raise ToolchainError(f"llvmlite cannot be imported: {error}") from error
    except RuntimeError as error:
        raise InternalError(f"LLVM refuses the text of a kernel: {error}") from error


def lower_watched(program: Program, entry: str) -> Program:
    """The loop-level program of one function, watched by the active pass context."""
    return pipeline.lower(program, entry)
