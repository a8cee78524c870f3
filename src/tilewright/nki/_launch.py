"""How a traced program runs: one function, which everything that launches goes through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import tilewright.jit as room
from tilewright.abi import Signature, TensorParam
from tilewright.cache import current_config
from tilewright.ir.core import Program
from tilewright.ir.stops import Stop
from tilewright.jit.compiled import CompiledProgram
from tilewright.jit.kernels import NativeKernel, interpreter_of

Launch = Callable[[Sequence[Any]], None]


class CompiledLaunch:
    """A compiled program, ready to run on arrays, one per parameter."""

    def __init__(self, compiled: CompiledProgram) -> None:
        self.compiled = compiled

    def __call__(self, arrays: Sequence[Any]) -> None:
        self.compiled(*arrays)

    @cached_property
    def kernel(self) -> NativeKernel | None:
        """The machine code, if that is what runs."""
        kernel = self.compiled.kernel
        return kernel if isinstance(kernel, NativeKernel) else None

    def returning(self, results: tuple[int, ...], returns_tuple: bool) -> Signature:
        """The signature of a call that gives the results, and lets the runtime make the outputs."""
        signature = self.compiled.signature
        params = tuple(
            replace(p, implicit=True) if isinstance(p, TensorParam) and p.direction == "out" else p
            for p in signature.params
        )
        return Signature(params, results, returns_tuple)


def prepare(
    program: Program, stops: Sequence[Stop] = (), enable_cache: bool | None = None
) -> Launch:
    """The only function of `program`, compiled; kept on disk or not, where that is said."""
    (entry,) = program.functions
    config: dict[str, Any] = {}
    if enable_cache is not None:
        config["cache_config"] = replace(current_config(), enabled=enable_cache)
    return CompiledLaunch(room.driver.compile_program(program, entry, **config))


def interpret(program: Program, stops: Sequence[Stop] = ()) -> Launch:
    """The same, run by the interpreter, which stops where the author says: the simulator.

    Tiles that nothing has written hold NaN, or the greatest integer, so that reading them shows.
    """
    (entry,) = program.functions
    ready = interpreter_of(program, stops=stops, poisons=True)

    def launch(arrays: Sequence[Any]) -> None:
        ready.run(entry, arrays)

    return launch
