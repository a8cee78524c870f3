"""Compiled programs that run on ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright import dist
from tilewright.ir.core import Function, Program
from tilewright.ir.enums import Role
from tilewright.jit.artifact import Artifact
from tilewright.jit.compiled import CompiledProgram
from tilewright.jit.together import TogetherKernel
from tilewright.ops.facts import Facts

Callback = Any


class DistributedCompiledProgram(CompiledProgram):
    """A program whose host starts functions on ranks, as many as its configuration has devices.

    Calling it is one run. `prepare` gives a worker that runs it again and again.
    """

    @property
    def ranks(self) -> int:
        """How many ranks run it."""
        return self.options.ranks

    @property
    def children(self) -> Mapping[str, Artifact]:
        """The functions that are kernels of their own."""
        kernel = self.kernel
        return kernel.together.children if isinstance(kernel, TogetherKernel) else {}

    @property
    def requires_runtime_binding(self) -> bool:
        """True when it calls host callbacks that have no body."""
        return bool(abstract_callbacks(self.program, self.name))

    def load(self) -> DistributedCompiledProgram:
        """Loads the machine code of every child; starts nothing."""
        for child in self.children.values():
            getattr(child.kernel, "image", None)
        super().load()
        return self

    def prepare(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        config: Any = None,
        *,
        extra_compiled: Sequence[CompiledProgram] = (),
        persistent: bool = False,
        reset_persistent_windows: bool = True,
        callbacks: Mapping[str, Callback] | None = None,
        sub_worker_overrides: Mapping[str, Callback] | None = None,
        startup_timeout_s: float | None = None,
    ) -> dist.DistributedWorker:
        """A live worker. `callbacks` are the host functions whose body is `...`, by name.

        Raises ValueError when one of them is missing, or is the name of no host callback.
        """
        del config, persistent, reset_persistent_windows, startup_timeout_s
        given = {**(callbacks or {}), **(sub_worker_overrides or {})}
        missing = abstract_callbacks(self.program, self.name) - given.keys()
        if missing:
            names = ", ".join(sorted(missing))
            raise ValueError(f"{self.name} needs callbacks for {names}: pass callbacks={{...}}")
        known = {f.name for f in host_callbacks(self.program, self.name)}
        for name in given.keys() - known if self.program else ():
            there = ", ".join(sorted(known)) or "none"
            raise ValueError(f"{self.name} calls no host callback '{name}'; it calls {there}")
        self.load()
        for other in extra_compiled:
            other.load()
        if given and isinstance(self.kernel, TogetherKernel):
            self.kernel.bind(given)
        return dist.DistributedWorker(self, self.ranks)


def host_callbacks(program: Program | None, entry: str) -> list[Function]:
    """The host callbacks that `entry` may call."""
    reachable = () if program is None else Facts(program).reachable(entry)
    return [function for function in reachable if function.role is Role.SubWorker]


def abstract_callbacks(program: Program | None, entry: str) -> set[str]:
    """The names of those without a body."""
    return {f.name for f in host_callbacks(program, entry) if f.requires_runtime_binding}
