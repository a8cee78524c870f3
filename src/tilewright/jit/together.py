"""Programs that are more than one kernel: ranks, groups, recorded graphs.

The function that starts others is interpreted; every function that runs alone is a kernel of its
own. Functions that wait for each other are interpreted too, a thread for each participant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from tilewright.abi import Manifest
from tilewright.errors import UnsupportedFeatureError, UnsupportedOnTarget
from tilewright.interp import Interpreter
from tilewright.ir.core import Block, Function, Operation, Program
from tilewright.ir.enums import ForKind, FunctionType, Role
from tilewright.ir.types import ScalarType, TensorType
from tilewright.jit.build import Artifact, build
from tilewright.jit.kernels import InterpretedKernel
from tilewright.jit.options import CompileOptions
from tilewright.jit.signature import calling_of
from tilewright.ops import control, host
from tilewright.ops.facts import Facts, callees
from tilewright.ops.participant import participant
from tilewright.runtime.config import RuntimeKind

Native = Callable[..., tuple[Any, ...]]
BLOCKS = (ForKind.Spmd, ForKind.SplitAiv)


@dataclass
class GraphRecord:
    """What became of the calls of one Graph function: recorded once, replayed afterwards."""

    name: str
    recorded: int = 0
    replayed: int = 0

    def count(self) -> None:
        """One more call."""
        if self.recorded:
            self.replayed += 1
        else:
            self.recorded = 1


@dataclass
class Together:
    """How a program is divided: the reason, the kernels of its own, what is interpreted."""

    reason: str
    children: dict[str, Artifact] = field(default_factory=dict[str, Artifact])
    interpreted: dict[str, str] = field(default_factory=dict[str, str])
    graphs: dict[str, GraphRecord] = field(default_factory=dict[str, GraphRecord])

    def natives(self) -> dict[str, Native]:
        """Each kernel as the interpreter calls it."""
        return {name: self._native(name, child) for name, child in self.children.items()}

    def _native(self, name: str, child: Artifact) -> Native:
        record = self.graphs.get(name)
        signature, scalars = child.calling.signature, child.calling.scalars

        def call(*args: Any) -> tuple[Any, ...]:
            if record is not None:
                record.count()
            with participant().outside():
                result = child.kernel.run(signature, args)
            return tuple(v[0] if k in scalars else v for k, v in enumerate(as_tuple(result)))

        return call

    def explain(self, entry: str) -> str:
        """What runs how, a line for each function."""
        lines = [f"{entry}: interpreted, because {self.reason}"]
        lines += [f"{name}: interpreted, because {why}" for name, why in self.interpreted.items()]
        lines += [f"{name}: a kernel of its own" for name in self.children]
        return "\n".join(lines)


class SeveralKernels(Exception):
    """Leaves the making of one kernel: the program is more than that."""

    def __init__(self, program: Program) -> None:
        super().__init__(program.name)
        self.program = program


def find_reason(program: Program, entry: str, options: CompileOptions) -> str | None:
    """Why function `entry` cannot be one kernel; None when it can.

    Raises the errors of calls of Graph functions where they may not be.
    """
    facts = Facts(program)
    graphs = check_graphs(program, entry, options)
    if facts.is_host(program[entry]):
        return "it starts functions on ranks"
    return "it launches recorded graphs" if graphs else None


def waits_for_others(facts: Facts, name: str) -> bool:
    """True when one thread of control cannot run function `name`."""
    functions = facts.reachable(name)
    starts = any(facts.is_host(f) or facts.is_group(f) for f in functions)
    return starts or facts.communicates(name)


def build_together(
    program: Program, entry: str, options: CompileOptions, reason: str, ranks: int
) -> Artifact:
    """Compiles what runs alone, and lets the interpreter run the rest."""
    together = Together(reason)
    facts = Facts(program)
    divide(program, entry, options, facts, together)
    calling = calling_of(program[entry])
    kernel = TogetherKernel(program, entry, together, ranks)
    return Artifact(entry, calling, kernel, program)


def divide(
    program: Program, entry: str, options: CompileOptions, facts: Facts, together: Together
) -> None:
    """Finds the functions below `entry` that become kernels of their own, and compiles them."""
    pending, seen = [entry], {entry}
    while pending:
        for name in callees(program[pending.pop()].body):
            function = program.get_function(name)
            if function is None or name in seen:
                continue
            seen.add(name)
            why = why_interpreted(facts, function)
            if why is None:
                together.children[name] = build(program, name, options)
                if function.func_type is FunctionType.Graph:
                    together.graphs[name] = GraphRecord(name)
            else:
                together.interpreted[name] = why
                pending.append(name)


def why_interpreted(facts: Facts, function: Function) -> str | None:
    """Why a function cannot be a kernel of its own, or None."""
    if function.role is Role.SubWorker or any(op.opdef is host.python for op in function.body.ops):
        return "its body is Python"
    if facts.needs_participants(function.name):
        return "it waits for others, or asks which one it is"
    if not all(isinstance(p.type, (TensorType, ScalarType)) for p in function.params):
        return "it takes what only the device has"
    return None


class TogetherKernel(InterpretedKernel):
    """A program whose participants are interpreted and whose kernels are compiled."""

    def __init__(self, program: Program, entry: str, together: Together, ranks: int) -> None:
        natives: Mapping[str, Native] = together.natives()
        super().__init__(program, entry, Manifest(name=entry), ranks=ranks, natives=natives)
        self.together = together
        self._remake = partial(Interpreter, program, ranks=ranks)
        self._natives = natives

    def bind(self, callbacks: Mapping[str, Any]) -> None:
        """Gives host callbacks their bodies."""
        given = {name: _returning_tuple(body) for name, body in callbacks.items()}
        natives = {**self._natives, **given}
        self._make = lambda: self._remake(natives=natives)
        self.__dict__.pop("interpreter", None)


def _returning_tuple(body: Any) -> Native:
    """A Python function as the interpreter calls it."""

    def call(*args: Any) -> tuple[Any, ...]:
        return as_tuple(body(*args))

    return call


def as_tuple(result: Any) -> tuple[Any, ...]:
    """What a call gives: nothing, one thing, or several."""
    if result is None:
        return ()
    return cast("tuple[Any, ...]", result) if isinstance(result, tuple) else (result,)


# ------------------------------------------------------------------------------------------ graphs


def check_graphs(program: Program, entry: str, options: CompileOptions) -> bool:
    """True when `entry` calls Graph functions; raises where one may not be called."""
    found = False
    for function in Facts(program).reachable(entry):
        inside = "a Graph function" if function.func_type is FunctionType.Graph else ""
        for op, place in graph_calls(program, function.body, inside):
            found = True
            if place:
                raise UnsupportedFeatureError(
                    f"Graph function '{op.attrs['callee']}' is called in {place}",
                    op.span,
                    "Call it in an orchestration, outside every scope that is one task.",
                )
            if options.runtime is not RuntimeKind.HOST_BUILD_GRAPH:
                raise UnsupportedOnTarget(
                    f"Graph function '{op.attrs['callee']}' needs the runtime HOST_BUILD_GRAPH, "
                    f"not {options.runtime.name}",
                    op.span,
                    "Pass RunConfig(runtime=RuntimeKind.HOST_BUILD_GRAPH).",
                )
    return found


def graph_calls(program: Program, block: Block, inside: str) -> list[tuple[Operation, str]]:
    """The calls of Graph functions in a block, and the place that forbids each, or ""."""
    found: list[tuple[Operation, str]] = []
    for op in block.ops:
        callee = program.get_function(op.attrs["callee"]) if op.opdef is control.call else None
        if callee is not None and callee.func_type is FunctionType.Graph:
            found.append((op, inside))
        for region in op.regions:
            found += graph_calls(program, region, inside or place_name(op))
    return found


def place_name(op: Operation) -> str:
    """The scope that is one task and that `op` opens, or ""."""
    if op.opdef is control.for_ and op.attrs["kind"] in BLOCKS:
        return f"pl.{op.attrs['kind'].value}"
    if op.opdef is control.scope and op.attrs["kind"] in ("at", "cluster"):
        return f"pl.{op.attrs['kind']}"
    return ""
