"""The sides of a group at the same time: one loop over the cube core and the vector lanes.

Every iteration runs the whole group without the calls of the other side, so each side makes its
calls in order. What the calls write stays where it is, for all to see. What a group does itself on
data stands between two such loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from tilewright.dtypes import INDEX
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import ForKind, FunctionType
from tilewright.ir.types import ScalarType, ShapedType
from tilewright.ops import arith, control, creation, memory, shape
from tilewright.ops.extents import DIM_OPS
from tilewright.ops.facts import Facts
from tilewright.ops.view import view
from tilewright.passes.cores import Around
from tilewright.passes.givens import (
    CUBE,
    VECTOR,
    Givens,
    depending,
    find_givens,
    from_room,
    into_room,
    room_for,
    walk,
)
from tilewright.passes.versions import Versions, is_put_back

if TYPE_CHECKING:
    from tilewright.passes.inline_calls import Inliner

CREATING = (creation.create, creation.full, creation.iota, creation.splat, memory.create)
REGIONS = (control.for_, control.while_, control.if_, control.scope)
QUIET = (*DIM_OPS, shape.slice_, shape.reshape, view, *REGIONS)


def is_group(facts: Facts, ops: Sequence[Operation]) -> bool:
    """True when the calls among `ops` have to run at the same time."""
    calls = {op.attrs["callee"] for op in calls_of(ops)}
    return any(facts.communicates(name) or facts.lanes(name) > 1 for name in calls)


def calls_of(ops: Sequence[Operation]) -> list[Operation]:
    """The calls among operations and in them."""
    return [op for op in walk(ops) if op.opdef is control.call]


def side_of(inliner: Inliner, op: Operation) -> int:
    """Which side makes a call."""
    is_vector = inliner.callee(op).func_type is FunctionType.AIV
    return VECTOR if is_vector else CUBE


def looks_at_data(op: Operation) -> bool:
    """True for what the group itself does on memory."""
    is_quiet = op.opdef in (*QUIET, *CREATING, control.call) or op.opdef.terminator
    is_quiet = is_quiet or is_put_back(op)
    return not is_quiet and any(isinstance(value.type, ShapedType) for value in op.inputs)


def phases(ops: Sequence[Operation]) -> Iterator[tuple[bool, list[Operation]]]:
    """Runs of operations that the sides do, or else the group itself, between two of those."""
    for is_own, run in groupby(ops, lambda op: any(map(looks_at_data, walk([op])))):
        yield not is_own, list(run)


def emit_group(inliner: Inliner, ops: Sequence[Operation], end: Operation) -> None:
    """The operations of a group, which ends with `end`."""
    facts = Facts(inliner.program)
    done = 0
    for is_of_sides, run in phases(ops):
        done += len(run)
        if is_of_sides and is_group(facts, run):
            emit_sides(inliner, run, facts, [*ops[done:], end])
        else:
            inliner.clone_in_group(run)


def emit_sides(
    inliner: Inliner, ops: Sequence[Operation], facts: Facts, later: Sequence[Operation]
) -> None:
    """The loop that stands for `ops`, which call cube and vector functions."""
    sides = {op: side_of(inliner, op) for op in calls_of(ops)}
    lanes = max(facts.lanes(op.attrs["callee"]) for op in sides)
    ops = hoist(inliner, ops, sides)
    versions = Versions(ops, sides, lanes)
    givens = find_givens(ops, sides, lanes, versions)
    after, parts = wanted_later(ops, sides, versions, later)
    builder = inliner.builder
    carried = (
        room_for(root) if root in versions.shared else inliner.value(root)
        for root in versions.written
    )
    inits = (*carried, *map(room_for, after))
    index = Value(ScalarType(INDEX), "side")
    body = Block((index, *(Value(init.type, init.name) for init in inits)))
    with builder.inside(body):
        is_cube = arith.eq(index, builder.index(0))
        arm = partial(emit_arm, inliner, ops, versions, after, body, givens)
        both = builder.emit(control.if_, (is_cube,), {}, (arm(CUBE), arm(VECTOR)))
        control.yield_(both.results)
    bounds = builder.index(0), builder.index(1 + lanes), builder.index(1)
    attrs = {"kind": ForKind.Together, "combine": (), "stage": 0, "attrs": (("crew", "side"),)}
    loop = builder.emit(control.for_, (*bounds, inits), attrs, (body,), span=ops[0].span)
    for root, result in zip(versions.written, loop.results):
        inliner.bind(versions.last[root], result)
    for value, room in zip(after, loop.results[len(versions.written) :], strict=True):
        inliner.bind(value, from_room(room, value.type))
    for op in parts:
        inliner.clone(op)


def hoist(
    inliner: Inliner, ops: Sequence[Operation], sides: Mapping[Operation, int]
) -> list[Operation]:
    """Does before the loop what depends on none of its calls: fresh memory, and numbers."""
    made = [value for call in sides for value in call.results]
    busy = depending(ops, made)
    left: list[Operation] = []
    for op in ops:
        is_free = not op.regions and not busy.intersection(op.results)
        numbers = all(isinstance(value.type, ScalarType) for value in op.results)
        if op not in sides and is_free and (numbers or op.opdef in CREATING):
            inliner.clone(op)
        else:
            left.append(op)
    return left


def wanted_later(
    ops: Sequence[Operation],
    sides: Mapping[Operation, int],
    versions: Versions,
    later: Sequence[Operation],
) -> tuple[list[Value], list[Operation]]:
    """What operations that come later use of what the sides have: values that are put into memory,
    and parts of arrays that are made again. Raises StaleRead."""
    own = depending(ops, versions.own_values(sides))
    values: list[Value] = []
    parts: dict[Operation, None] = {}
    for value in dict.fromkeys(value for op in walk(later) for value in op.inputs):
        if value.op is None or value.op not in ops:
            continue
        versions.require_latest(value)
        if versions.root(value) in versions.written:
            continue
        if value in own or value.op.regions:
            values.append(value)
        else:
            parts.setdefault(value.op)
            for given in value.op.inputs:
                versions.require_latest(given)
    return values, list(parts)


def emit_arm(
    inliner: Inliner,
    ops: Sequence[Operation],
    versions: Versions,
    after: Sequence[Value],
    body: Block,
    givens: Givens,
    side: int,
) -> Block:
    """What one side does."""
    index, *carried = body.params
    count = len(versions.written)
    block = Block()
    with inliner.builder.inside(block):
        rooms = dict(zip(versions.written, carried))
        given = {root: rooms.pop(root) for root in versions.shared}
        arm = inliner.for_side(side, replace(givens, rooms=given))
        arm.mapping.update(rooms)
        if side == VECTOR:
            arm.lane = arith.sub(index, inliner.builder.index(1))
            lanes = inliner.builder.index(givens.lanes)
            arm.loops = (*arm.loops, Around(ForKind.SplitAiv, arm.lane, lanes))
        for op in ops:
            arm.clone(op)
        written = [arm.value(versions.last[root]) for root in versions.written]
        left = list(carried[count:])
        for number, value in enumerate(after):
            if givens.home(value) == side:
                left[number] = into_room(left[number], arm.value(value), arm.lane, givens.lanes)
        control.yield_((*written, *left))
    return block
