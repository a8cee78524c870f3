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
from tilewright.ops import host
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

        Raises ValueError when one of them is missing.
        """
        del config, persistent, reset_persistent_windows, startup_timeout_s
        given = {**(callbacks or {}), **(sub_worker_overrides or {})}
        missing = abstract_callbacks(self.program, self.name) - given.keys()
        if missing:
            names = ", ".join(sorted(missing))
            raise ValueError(f"{self.name} needs callbacks for {names}: pass callbacks={{...}}")
        self.load()
        for other in extra_compiled:
            other.load()
        if given and isinstance(self.kernel, TogetherKernel):
            self.kernel.bind(given)
        return dist.DistributedWorker(self, self.ranks)


def abstract_callbacks(program: Program | None, entry: str) -> set[str]:
    """The host callbacks without a body that `entry` may call."""
    if program is None:
        return set()
    return {f.name for f in Facts(program).reachable(entry) if is_abstract(f)}


def is_abstract(function: Function) -> bool:
    """True for a host callback whose body is `...`."""
    bodies = [op.attrs["body"] for op in function.body.ops if op.opdef is host.python]
    return function.role is Role.SubWorker and bodies == [None]
