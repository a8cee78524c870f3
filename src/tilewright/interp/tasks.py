"""Regions that are tasks, as Python: functions that are started with what they read and write."""

from __future__ import annotations

from typing import Any

from tilewright.interp.blocks import region_inputs
from tilewright.interp.emit import Emitter, tuple_text
from tilewright.interp.task_regions import (
    arrays,
    home_of,
    is_literal,
    is_read,
    loop_inputs,
    room_for,
    symbol_names,
)
from tilewright.ir.core import Function, Operation, Value
from tilewright.ops import control, task


class NotingEmitter(Emitter):
    """Writes a function that notes what it starts.

    `launches` is the name of what notes it; `kind` is "rank", "group", "task" or "" for nothing.
    """

    kind = ""
    launches = ""

    def join(self) -> None:
        """Lets everything started run."""
        if self.kind:
            self.text.line(f"{self.launches}.join()")


def used_values(function: Function) -> set[Value]:
    """Every value that some operation of the function uses."""
    return {value for op in function.body.walk() for value in op.inputs}


def emit_task(e: NotingEmitter, op: Operation) -> None:
    """A region that is one task: a function, started with what it reads and writes."""
    region = op.regions[0] if op.opdef is control.scope else None
    inputs = region_inputs(region) if region is not None else loop_inputs(op)
    given = [value for value in inputs if not is_literal(e, value)]
    name, handle = e.text.fresh("task"), e.text.fresh("launch")
    captured = [e.name(value) for value in given] + symbol_names(e, op)
    captured = [text for text in dict.fromkeys(captured) if text.isidentifier()]
    yields = _task_results(op)
    homes = [home_of(value, op) for value in yields]
    rooms = [room_for(e, value, home) for value, home in zip(yields, homes)]
    listed = ", ".join(f"{text}={text}" for text in [*captured, *filter(None, rooms)])
    written = {home for home in homes if home is not None}
    reads = arrays(e, [v for v in given if v not in written or is_read(e, op, v)], op)
    writes = arrays(e, [v for v in given if v in written], op)
    deps = e.sequence(op.operands[0]) if op.opdef is control.scope else "()"
    kind, launches = e.kind, e.launches
    with e.suite(f"def {name}({listed}):"):
        e.kind = e.launches = ""
        results = _emit_body(e, op)
        pairs = [f"put({room}, {text})" for room, text in zip(rooms, results) if room]
        e.text.line(f"return {tuple_text([*results, *pairs])}")
    e.kind, e.launches = kind, launches
    options = f"reads={reads}, writes={writes}, deps={deps}"
    e.text.line(f"{handle} = {launches}.launch({name}, (), {options})")
    _define_results(e, op, handle, list(zip(yields, homes, rooms)))


def _task_results(op: Operation) -> list[Value]:
    return list(op.results) if op.opdef is control.for_ else list(_yielded(op))


def _yielded(op: Operation) -> tuple[Value, ...]:
    return op.regions[0].terminator.operands[0]


def _emit_body(e: NotingEmitter, op: Operation) -> list[str]:
    if op.opdef is control.scope:
        return e.block(op.regions[0])
    Emitter.operation(e, op)
    return [e.name(value) for value in op.results]


def _define_results(
    e: NotingEmitter, op: Operation, handle: str, given: list[tuple[Value, Any, str]]
) -> None:
    late: list[int] = []
    used = used_values(e.function)
    for position, (result, (value, home, room)) in enumerate(zip(op.results, given, strict=True)):
        if home is not None:
            e.define(result, e.name(home))
        elif value.op is not None and value.op.opdef is task.current:
            e.define(result, f"{handle}.id")
        elif room:
            e.define(result, room)
        elif result in used:
            late.append(position)
    if late:
        e.join()
    for position in late:
        e.text.line(f"{e.define(op.results[position])} = {handle}.results[{position}]")
