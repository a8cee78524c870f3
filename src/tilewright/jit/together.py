"""Programs that are more than one kernel: ranks, recorded graphs.

The function that starts others is interpreted; what it starts are kernels of their own, a thread
for each rank. Where one of those that wait for each other cannot be compiled, all are interpreted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import tilewright.jit as room
from tilewright import runtime
from tilewright.abi import Manifest
from tilewright.dataclass import dataclass
from tilewright.errors import UnsupportedFeatureError, UnsupportedOnTarget
from tilewright.ir.builder import Builder, finish_program
from tilewright.ir.core import Block, Function, Operation, Program, Value
from tilewright.ir.enums import ForKind, FunctionType, ParamDirection, Role
from tilewright.ir.opdef import ties_of
from tilewright.ir.rewrite import Cloner
from tilewright.ir.types import ScalarType, TensorType
from tilewright.jit.artifact import Artifact
from tilewright.jit.kernels import InterpretedKernel, interpreter_of
from tilewright.jit.options import CompileOptions
from tilewright.jit.signature import calling_of
from tilewright.ops import control, host
from tilewright.ops.facts import Facts, callees, is_host_collective
from tilewright.ops.participant import participant
from tilewright.runtime.config import RuntimeKind

if TYPE_CHECKING:
    from tilewright.interp.meeting import World
    from tilewright.runtime.stage import Window

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
    collectives: dict[Operation, Artifact] = field(default_factory=dict[Operation, Artifact])
    is_compiled: bool = False
    interpreted: dict[str, str] = field(default_factory=dict[str, str])
    graphs: dict[str, GraphRecord] = field(default_factory=dict[str, GraphRecord])

    def natives(self) -> dict[Any, Native]:
        """Each kernel as the interpreter calls it, collectives of a host by operation."""
        made: dict[Any, Native] = {name: self._native(name, c) for name, c in self.children.items()}
        return made | {op: _of_values(self._native("", c)) for op, c in self.collectives.items()}

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


def _of_values(native: Native) -> Native:
    """A kernel called with the operands of an operation: without those that are absent."""
    return lambda *operands: native(*(each for each in operands if each is not None))


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
    is_host = facts.is_host(program[entry])
    if is_host:
        stay_together(facts, together)
    if is_host and not together.interpreted:
        compile_collectives(program, entry, options, together)
    kernel = TogetherKernel(program, entry, together, ranks)
    return Artifact(entry, calling, kernel, program)


def divide(
    program: Program, entry: str, options: CompileOptions, facts: Facts, together: Together
) -> None:
    """Finds the functions below `entry` that become kernels of their own, and compiles them."""
    pending, seen = [entry], {entry}
    is_host, shared = facts.is_host(program[entry]), run_by_several(facts, entry)
    parts = room.parts.find_parts(filter(facts.is_host, facts.reachable(entry)))
    while pending:
        caller = program[pending.pop()]
        for name in callees(caller.body):
            function = program.get_function(name)
            if function is None or name in seen:
                continue
            seen.add(name)
            why = why_interpreted(facts, function, is_host or name not in shared)
            if why is None and not parts.are_known(name):
                why = "it takes parts of windows whose rows are not the same distance apart"
            try:
                if why is None:
                    placed = parts.placed(program, name)
                    together.children[name] = room.build.build(placed, name, options)
            except UnsupportedFeatureError as error:
                if not facts.needs_participants(name):
                    raise
                why = error.message
            if why is not None:
                together.interpreted[name] = why
                pending.append(name)
            elif function.func_type is FunctionType.Graph:
                together.graphs[name] = GraphRecord(name)


def run_by_several(facts: Facts, entry: str) -> set[str]:
    """The functions below `entry` that blocks, lanes or sides run at the same time, if any does."""
    bodies = (f.body for f in facts.reachable(entry) if facts.is_group(f))
    calls = [name for body in bodies for name in callees(body)]
    for op in facts.ops_of(entry):
        if op.attrs.get("kind") in (*BLOCKS, "cluster"):
            calls += [name for region in op.regions for name in callees(region)]
    return {function.name for name in calls for function in facts.reachable(name)}


def stay_together(facts: Facts, together: Together) -> None:
    """Where one of those that wait for each other is interpreted, all of them are."""
    if any(map(facts.communicates, together.interpreted)):
        for name in [*filter(facts.communicates, together.children)]:
            del together.children[name]
            together.interpreted[name] = "it waits for others, one of which is interpreted"


def compile_collectives(
    program: Program, entry: str, options: CompileOptions, together: Together
) -> None:
    """Each collective that a host starts on its ranks, as a kernel; with it all are kernels."""
    for op in program[entry].body.walk():
        if is_host_collective(op):
            alone = collective_program(op)
            together.collectives[op] = room.build.build(alone, collective_name(op), options)
    together.is_compiled = True


def collective_program(op: Operation) -> Program:
    """A program whose function, called after the operation, does it to its arguments."""
    name = collective_name(op)
    builder, block = Builder(), Block()
    params = [Value(value.type, f"x{k}") for k, value in enumerate(op.inputs)]
    copies = dict(zip(op.inputs, params))
    with builder, builder.inside(block):
        cloner = Cloner(builder, dict(copies))
        cloner.clone(op)
        written = {old: cloner.value(new) for new, old in ties_of(op)}
        control.return_((), tuple(written[v] for v in op.inputs if v in written))
    ways = tuple(
        ParamDirection.InOut if value in written else ParamDirection.In for value in op.inputs
    )
    function = Function(name, ways, Block(tuple(params), block.ops), (), span=op.span)
    return finish_program(name, {name: function})


def collective_name(op: Operation) -> str:
    """What the function of a collective is called."""
    return op.name.replace(".", "_")


def why_interpreted(facts: Facts, function: Function, is_alone: bool) -> str | None:
    """Why a function cannot be a kernel of its own, or None.

    One that `is_alone`, on a rank for instance, waits at most for those that it starts itself.
    """
    if function.role is Role.SubWorker or any(op.opdef is host.python for op in function.body.ops):
        return "its body is Python"
    if facts.needs_participants(function.name) and not is_alone:
        return "it waits for others, or asks which one it is"
    if not all(isinstance(p.type, (TensorType, ScalarType)) for p in function.params):
        return "it takes what only the device has"
    return None


class TogetherKernel(InterpretedKernel):
    """A program whose participants are interpreted and whose kernels are compiled."""

    def __init__(self, program: Program, entry: str, together: Together, ranks: int) -> None:
        natives: Mapping[Any, Native] = together.natives()
        options = {"ranks": ranks, "run_ranks": run_ranks if together.is_compiled else None}
        super().__init__(program, entry, Manifest(name=entry), natives=natives, **options)
        self.together = together
        self._remake = partial(interpreter_of, program, **options)
        self._natives = natives

    def bind(self, callbacks: Mapping[str, Any]) -> None:
        """Gives host callbacks their bodies."""
        given = {name: _returning_tuple(body) for name, body in callbacks.items()}
        natives = {**self._natives, **given}
        self._make = lambda: self._remake(natives=natives)
        self.__dict__.pop("interpreter", None)


def run_ranks(world: World, queues: Sequence[Sequence[Callable[[], None]]]) -> None:
    """Runs what each rank has to do, all kernels, on a thread for each."""
    windows = [window_of(block) for block in world.blocks]
    staging = runtime.stage
    stage = staging.Stage()
    stage.running = 1
    members = [
        staging.Member(
            stage, f"rank {rank}", staging.Communicator(stage, rank, world.size, windows)
        )
        for rank in range(world.size)
    ]
    stage.run(members, [partial(run_queue, queue) for queue in queues])
    if stage.error is not None:
        raise stage.error


def run_queue(queue: Sequence[Callable[[], None]]) -> None:
    """One kernel after the other."""
    for launch in queue:
        launch()


def window_of(block: Any) -> Window:
    """Where a window is in memory."""
    begin: int = block.ctypes.data
    return begin, begin + block.nbytes, block.strides[0]


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
