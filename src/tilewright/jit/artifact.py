"""What compiling gives: text, then something that runs. A restored kernel needs nothing else."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import field

from tilewright.abi import Manifest
from tilewright.dataclass import dataclass
from tilewright.ir.core import Program
from tilewright.jit.kernels import Kernel
from tilewright.jit.signature import Calling
from tilewright.runtime.profiling import CompileProfiler


@dataclass
class Timings:
    """Seconds by stage of one compilation, in order.

    `unknown` counts, by question, what the affine engine could not decide: each is a guard at run
    time, a copy, or a loop that stays serial.
    """

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    unknown: dict[str, int] = field(default_factory=dict[str, int])

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        """Measures what runs inside."""
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent
            profiler = CompileProfiler.current()
            if profiler is not None:
                profiler.add(name, spent)


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


@dataclass(frozen=True)
class Generated:
    """One function as text that a machine's LLVM makes an object of."""

    entry: str
    calling: Calling
    manifest: Manifest
    text: str
    timings: Timings = field(default_factory=Timings, compare=False)


class SeveralKernels(Exception):
    """Leaves the making of one kernel: the program is more than that."""

    def __init__(self, program: Program) -> None:
        super().__init__(program.name)
        self.program = program
