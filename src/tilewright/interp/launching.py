"""Functions that start others and do not wait: hosts, groups and, in checked mode, orchestrations.

Such a function works on memory, not on values: parts are views, written arguments stay where they
are, and everything started runs before its data is looked at.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from tilewright.errors import UnsupportedFeatureError
from tilewright.interp.emit import Emitter, tuple_text
from tilewright.interp.launches import (
    Computed,
    GroupLaunches,
    Launches,
    RankLaunches,
    TaskLaunches,
    got,
    resolved,
)
from tilewright.interp.meeting import Symmetric
from tilewright.interp.ownership import LOOPS
from tilewright.interp.support import NAMESPACE
from tilewright.interp.task_regions import symbol_names
from tilewright.interp.tasks import NotingEmitter, emit_task, used_values
from tilewright.ir.core import Block, Function, Operation, Value
from tilewright.ir.enums import CORES, AtomicType, Effect, ForKind, FunctionType, Level, ScopeMode
from tilewright.ir.types import DistributedTensorType, ShapedType
from tilewright.ops import control, creation, memory, shape, task
from tilewright.ops.control import tied_pairs
from tilewright.ops.extents import DIM_OPS
from tilewright.ops.facts import is_host_collective
from tilewright.ops.regions import region as window_of
from tilewright.ops.view import view

CREATING = (creation.create, creation.full, creation.iota, creation.splat)
VIEWS = (shape.reshape, view)
BLOCKS = (ForKind.Spmd, ForKind.SplitAiv)
TASK_SCOPES = ("submit", "task")


def part_view(x: Any, offset: Any, valid: Any, *, shape: Any, drop: Any) -> Any:
    """A part of an array, in place; of a window, on every rank."""
    if isinstance(x, Symmetric):
        return Symmetric(
            [part_view(each, offset, valid, shape=shape, drop=drop) for each in x.parts]
        )
    part = x[window_of(offset, shape, x.shape)]
    kept = tuple(extent for axis, extent in enumerate(shape) if axis not in drop)
    return part.reshape(kept) if part.flags.c_contiguous or not drop else np.squeeze(part, drop)


def require_part(window: Symmetric, source: Any, offset: Any) -> None:
    """Raises UnsupportedFeatureError unless `source` is the part of a window at an offset."""
    if isinstance(source, Symmetric):
        shape = (*[1] * (len(window.shape) - len(source.shape)), *source.shape)
        here = window.parts[0][window_of(offset, shape, window.shape)]
        where = [x.__array_interface__["data"][0] for x in (here, source.parts[0])]
        if where[0] == where[1]:
            return
    raise UnsupportedFeatureError(
        "a host writes into a window; only what it starts on a rank can",
        hint="Write it in a function that is called with device=.",
    )


def put_part(launches: Launches, target: Any, source: Any, offset: Any, atomic: bool) -> Any:
    """`target` with `source` written at an offset; nothing to do where it is that part already."""
    if isinstance(target, Symmetric):
        require_part(target, source, offset)
        return target
    extents = (*[1] * (target.ndim - source.ndim), *source.shape)
    room = target[window_of(offset, extents, target.shape)]
    where = [array.__array_interface__["data"][0] for array in (room, source)]
    if where[0] == where[1] and not atomic:
        return target
    launches.join()
    given = np.reshape(source, extents)
    room[...] = room + given if atomic else given
    return target


NAMESPACE.update(
    {
        "group_launches": GroupLaunches,
        "rank_launches": RankLaunches,
        "task_launches": TaskLaunches,
        "part_view": part_view,
        "resolved": resolved,
        "got": got,
        "Computed": Computed,
        "put_part": put_part,
        "Symmetric": Symmetric,
    }
)


class LaunchingEmitter(NotingEmitter):
    """Writes a function that starts others."""

    # ------------------------------------------------------------------ what kind of function

    def prologue(self) -> None:
        """Makes what notes the launches of this function."""
        self.kind = kind_of(self)
        self.changed_here = changed_here(self.function)
        self.clusters: set[Block] = set()
        groups = [op.regions[0] for op in self.function.body.walk() if is_cluster(op)]
        groups += [self.function.body] * (self.kind == "group")
        self.givens = find_givens(self.function, [c for g in groups for c in core_calls(self, g)])
        if self.kind:
            self.launches = self.text.fresh("launches")
            self.text.line(f"{self.launches} = {self.kind}_launches()")

    @contextmanager
    def noting(self, kind: str) -> Generator[None]:
        """What is started for the duration is noted apart, and joined at the end."""
        outer = self.kind, self.launches
        self.join()
        self.kind, self.launches = kind, self.text.fresh("launches")
        self.text.line(f"{self.launches} = {kind}_launches()")
        yield
        self.join()
        self.kind, self.launches = outer

    # ------------------------------------------------------------------ operations

    def terminator(self, op: Operation) -> list[str]:
        if op.opdef is control.return_:
            self.join()
        if op.opdef is not control.yield_ or self.at[0] in self.clusters:
            self.resolve(op.inputs)
        return super().terminator(op)

    def resolve(self, values: Iterable[Value]) -> None:
        """What sides of a group return is there before somebody looks at it."""
        for value in self.givens.intersection(values):
            name = self.name(value)
            self.text.line(f"{name} = resolved({self.launches}, {name})")

    def handed(self, value: Value) -> str:
        if self.kind and self.owned.needs_copy(value, *self.at):
            self.join()
        return super().handed(value)

    def operation(self, op: Operation) -> None:
        launches = self.kind and op.opdef is control.call and launches_call(self, op)
        if self.kind == "group" and is_done_later(op) and self.givens.intersection(op.inputs):
            emit_later(self, op)
            return
        if not launches:
            self.resolve(looked_at(op))
        if is_cluster(op):
            self.clusters.add(op.regions[0])
            with self.noting("group"):
                super().operation(op)
        elif not self.kind:
            super().operation(op)
        elif launches:
            emit_launch_call(self, op)
        elif self.kind == "task" and is_task(op):
            emit_task(self, op)
        else:
            self.in_place(op)

    def in_place(self, op: Operation) -> None:
        """An operation that the function does itself."""
        if is_manual(op) and self.kind == "task":
            self.text.line(f"{self.launches}.manual += 1")
            super().operation(op)
            self.text.line(f"{self.launches}.manual -= 1")
        elif op.opdef is task.dummy and self.kind == "task":
            deps = tuple_text([self.name(value) for value in op.operands[0]])
            self.text.line(f"{self.define(op.result)} = {self.launches}.dummy({deps})")
        elif is_part(op) and (is_window(op.result) or op.result not in self.changed_here):
            emit_part(self, op)
        elif op.opdef is memory.assemble and op.attrs["valid"] is None:
            emit_put(self, op)
        elif self.kind == "rank" and is_host_collective(op):
            emit_everywhere(self, op)
        else:
            if looks_at_data(op):
                self.join()
            super().operation(op)
            if op.opdef is creation.create and op.attrs["manual_dep"] and self.kind == "task":
                self.text.line(f"{self.launches}.untrack({self.name(op.result)})")


def kind_of(e: Emitter) -> str:
    """What a function starts."""
    function, facts = e.function, e.mode.facts
    assert facts is not None
    if facts.is_host(function):
        return "rank"
    if facts.is_group(function):
        return "group"
    is_orchestration = function.func_type in (FunctionType.Orchestration, FunctionType.Graph)
    starts = any(is_task(op) or calls_core(e, op) for op in function.body.walk())
    plain = function.func_type is FunctionType.Opaque and starts
    return "task" if e.mode.checked and (is_orchestration or plain) else ""


def calls_core(e: Emitter, op: Operation) -> bool:
    """True for a call of a kernel."""
    if op.opdef is not control.call or e.mode.facts is None:
        return False
    callee = e.mode.facts.program.get_function(op.attrs["callee"])
    return callee is not None and callee.func_type in (*CORES, FunctionType.Group)


def launches_call(e: LaunchingEmitter, op: Operation) -> bool:
    """True for a call that this function starts and does not wait for."""
    if e.kind == "rank":
        return "device" in dict(op.attrs["attrs"])
    return calls_core(e, op)


def is_cluster(op: Operation) -> bool:
    """True for a scope whose calls run at the same time."""
    return op.opdef is control.scope and op.attrs["kind"] == "cluster"


def looked_at(op: Operation) -> list[Value]:
    """What an operation uses itself: a loop only hands on what it carries."""
    if op.opdef not in LOOPS:
        return list(op.inputs)
    *bounds, _ = op.operands
    return bounds


def core_calls(e: Emitter, block: Block) -> list[Operation]:
    """The calls of kernels in a block."""
    return [op for op in block.walk() if calls_core(e, op)]


def find_givens(function: Function, calls: Sequence[Operation]) -> set[Value]:
    """Values that may be what one of `calls` returns, which has been started only."""
    found: set[Value] = set()
    for op in calls:
        found.update(op.results[: len(op.results) - len(op.attrs["tied_args"])])
    ops = list(function.body.walk()) if found else []
    before = -1
    while found and before != len(found):
        before = len(found)
        for op in ops:
            found.update(heir for value, heir in handed_on(op) if value in found)
    return found


def handed_on(op: Operation) -> list[tuple[Value, Value]]:
    """Pairs of a value and one that is the same, perhaps: into, around and out of regions."""
    if op.opdef in LOOPS:
        inits: tuple[Value, ...] = op.operands[-1]
        heads = [region.params[len(region.params) - len(inits) :] for region in op.regions]
        given = (inits, op.regions[-1].terminator.operands[0])
        return [pair for values in given for to in (*heads, op.results) for pair in zip(values, to)]
    if op.opdef is control.call:
        tied: tuple[int, ...] = op.attrs["tied_args"]
        news = op.results[len(op.results) - len(tied) :]
        return [(op.operands[0][position], new) for position, new in zip(tied, news)]
    if op.opdef is control.if_:
        arms = (region.terminator.operands[0] for region in op.regions)
        return [pair for values in arms for pair in zip(values, op.results)]
    if is_done_later(op):
        return [(value, result) for value in op.inputs for result in op.results]
    return []


def is_done_later(op: Operation) -> bool:
    """True for what each side may do by itself: numbers, and parts of arrays."""
    is_quiet = is_part(op) or not looks_at_data(op)
    return op.opdef.effect is Effect.PURE and not op.regions and is_quiet


def emit_later(e: LaunchingEmitter, op: Operation) -> None:
    """An operation on given values: a function that each side calls."""
    name = e.text.fresh("later")
    listed = [e.name(value) for value in dict.fromkeys(op.inputs)]
    captured = [text for text in [*listed, *symbol_names(e, op)] if text.isidentifier()]
    with e.suite(f"def {name}({', '.join(f'{text}={text}' for text in dict.fromkeys(captured))}):"):
        for text in dict.fromkeys(captured):
            e.text.line(f"{text} = got({text})")
        e.in_place(op)
        e.text.line(f"return {tuple_text([e.name(value) for value in op.results])}")
    for position, result in enumerate(op.results):
        e.text.line(f"{e.define(result)} = Computed({name}, {position})")


def is_manual(op: Operation) -> bool:
    """True for a scope without automatic dependencies."""
    if op.opdef is not control.scope:
        return False
    manual = dict(op.attrs["attrs"]).get("mode") is ScopeMode.MANUAL
    return op.attrs["kind"] == "manual_scope" or (op.attrs["kind"] == "scope" and manual)


def is_task(op: Operation) -> bool:
    """True for a region that is one task."""
    if op.opdef is control.for_:
        return op.attrs["kind"] in BLOCKS
    if op.opdef is not control.scope:
        return False
    level = dict(op.attrs["attrs"]).get("level")
    return op.attrs["kind"] in TASK_SCOPES or (
        op.attrs["kind"] == "at" and level is Level.CORE_GROUP
    )


def looks_at_data(op: Operation) -> bool:
    """True for an operation that reads or writes what tasks may be working on."""
    quiet = (*CREATING, *VIEWS, *DIM_OPS, control.for_, control.if_, control.while_, control.scope)
    if op.opdef in quiet or op.name.startswith(("comm.alloc", "comm.window", "comm.context")):
        return False
    return any(isinstance(value.type, ShapedType) for value in op.inputs)


# ---------------------------------------------------------------------------------- parts in place


def is_window(value: Value) -> bool:
    """True for memory that other ranks reach."""
    return isinstance(value.type, DistributedTensorType)


def is_part(op: Operation) -> bool:
    """True for a whole window of an array, which may be seen in place."""
    return op.opdef is shape.slice_ and not op.attrs["clamp"] and op.operands[2] is None


def changed_here(function: Function) -> set[Value]:
    """Values that an operation of the function itself writes to, or a loop carries: no views.

    What a callee writes, it writes in place; what the function writes is a new version.
    """
    found: set[Value] = set()
    for op in function.body.walk():
        if op.opdef is not control.call:
            found.update(operand for _, operand in tied_pairs(op))
        if op.opdef in LOOPS:
            found.update(op.operands[-1])
    return found


def emit_part(e: LaunchingEmitter, op: Operation) -> None:
    """A view."""
    x, offset, _ = op.operands
    extents, drop = e.extents(op.attrs["shape"]), e.text.constant(op.attrs["drop_dims"])
    args = f"{e.name(x)}, {e.sequence(offset)}, None, shape={extents}, drop={drop}"
    e.text.line(f"{e.define(op.result)} = part_view({args})")


def emit_put(e: LaunchingEmitter, op: Operation) -> None:
    """A write, unless the part is in place already."""
    target, source, offset = op.operands
    whole = e.handed(target)
    atomic = op.attrs["atomic"] is AtomicType.Add
    args = f"{e.launches}, {whole}, {e.name(source)}, {e.sequence(offset)}, {atomic}"
    e.text.line(f"{e.define(op.result)} = put_part({args})")


def emit_everywhere(e: LaunchingEmitter, op: Operation) -> None:
    """A collective, started on every rank."""
    function = e.text.constant(e.callees.get(op) or _evaluate(op), "f")
    args = [e.entry(entry) for entry in op.operands]
    e.text.line(f"{e.launches}.everywhere({', '.join([function, *args])})")
    for result, position in op.opdef.tied.items():
        e.define(op.results[result], args[position])


def _evaluate(op: Operation) -> Any:
    assert op.opdef.evaluate is not None
    return partial(op.opdef.evaluate, **op.attrs)


# ------------------------------------------------------------------------------------------ calls


def emit_launch_call(e: LaunchingEmitter, op: Operation) -> None:
    """A call that is started; what it writes stays where it is."""
    args: tuple[Value, ...] = op.operands[0]
    tied: tuple[int, ...] = op.attrs["tied_args"]
    names = [e.name(value) for value in args]
    function = e.text.constant(e.callees[op.attrs["callee"]], "call")
    handle = e.text.fresh("launch")
    options = call_options(e, op, names)
    e.text.line(f"{handle} = {e.launches}.launch({function}, {tuple_text(names)}{options})")
    results = op.results[: len(op.results) - len(tied)]
    if e.kind == "group":
        for position, result in enumerate(results):
            e.text.line(f"{e.define(result)} = {e.launches}.given({handle}, {position})")
    else:
        take_results(e, handle, list(results), used_values(e.function))
    for result, position in zip(op.results[len(results) :], tied):
        e.define(result, names[position])


def call_options(e: LaunchingEmitter, op: Operation, names: list[str]) -> str:
    """The keyword arguments of a launch."""
    attrs = dict(op.attrs["attrs"])
    callee = e.mode.facts.program[op.attrs["callee"]]
    if e.kind == "rank":
        return f", device={e.expr(attrs['device'])}"
    if e.kind == "group":
        is_vector = callee.func_type is FunctionType.AIV
        return f", lanes={e.mode.facts.lanes(callee.name) if is_vector else 0}"
    free = attrs.get("no_dep", ())
    touched = [
        (name, direction.name)
        for position, (name, direction, value) in enumerate(
            zip(names, callee.directions, op.operands[0], strict=True)
        )
        if position not in free and isinstance(value.type, ShapedType)
    ]
    reads = tuple_text([name for name, way in touched if way != "Out"])
    writes = tuple_text([name for name, way in touched if way != "In"])
    return f", reads={reads}, writes={writes}"


def take_results(e: LaunchingEmitter, handle: str, results: list[Value], used: set[Value]) -> None:
    """What a launch gives, once it has run, where somebody wants it."""
    if any(result in used for result in results):
        e.join()
    for position, result in enumerate(results):
        if result in used:
            e.text.line(f"{e.define(result)} = {handle}.results[{position}]")
