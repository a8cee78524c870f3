"""The sides of a group at the same time: one loop over the cube core and the vector lanes.

Every iteration runs the whole group without the calls of the other side, so each side makes its
calls in order. What the calls write stays where it is, for all to see.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.dtypes import INDEX
from tilewright.errors import UnsupportedFeatureError
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import ForKind, FunctionType
from tilewright.ir.types import ScalarType, ShapedType
from tilewright.ops import arith, control, creation, memory, shape
from tilewright.ops.extents import DIM_OPS
from tilewright.ops.facts import Facts
from tilewright.passes.cores import Around

if TYPE_CHECKING:
    from tilewright.passes.inline_calls import Inliner

CREATING = (creation.create, creation.full, creation.iota, creation.splat, memory.create)
QUIET = (*DIM_OPS, shape.slice_, shape.reshape, control.for_, control.if_, control.scope)
CUBE, VECTOR = 0, 1


def is_group(facts: Facts, ops: Sequence[Operation]) -> bool:
    """True when the calls among `ops` have to run at the same time."""
    calls = {name for op in _walk(ops) for name in _callee(op)}
    return any(facts.communicates(name) or facts.lanes(name) > 1 for name in calls)


def _walk(ops: Sequence[Operation]) -> list[Operation]:
    return [each for op in ops for each in (op, *(i for r in op.regions for i in r.walk()))]


def _callee(op: Operation) -> list[str]:
    return [op.attrs["callee"]] if op.opdef is control.call else []


def side_of(inliner: Inliner, op: Operation) -> int:
    """Which side makes a call."""
    is_vector = inliner.callee(op).func_type is FunctionType.AIV
    return VECTOR if is_vector else CUBE


class Versions:
    """Whose versions values are: `written` are the tensors that the group's calls write to."""

    def __init__(self, ops: Sequence[Operation]) -> None:
        self.before: dict[Value, Value] = {}
        self.written: list[Value] = []
        self.last: dict[Value, Value] = {}
        for op in ops:
            self._note(op)
        for op in ops:
            for value in op.results:
                root = self.root(value)
                if root is not value and root in self.written:
                    self.last[root] = value

    def root(self, value: Value) -> Value:
        """The first version."""
        while value in self.before:
            value = self.before[value]
        return value

    def _note(self, op: Operation) -> None:
        if op.opdef is control.call:
            args, tied = op.operands[0], op.attrs["tied_args"]
            for result, position in zip(op.results[len(op.results) - len(tied) :], tied):
                self.before[result] = args[position]
                root = self.root(args[position])
                if root not in self.written:
                    self.written.append(root)
        if op.opdef is control.for_:
            inits = op.operands[3]
            self.before.update(zip(op.regions[0].params[1:], inits))
            self.before.update(zip(op.results, inits))
        for region in op.regions:
            for inner in region.ops:
                self._note(inner)


def require_plain(inliner: Inliner, ops: Sequence[Operation]) -> None:
    """Raises UnsupportedFeatureError where a group does more than call its sides."""
    used = {value for op in _walk(ops) for value in op.inputs}
    for op in _walk(ops):
        if op.opdef is control.call:
            own = op.results[: len(op.results) - len(op.attrs["tied_args"])]
            if used.intersection(own):
                raise UnsupportedFeatureError("a side of a group uses what another gives", op.span)
        elif looks_at_data(op):
            raise UnsupportedFeatureError(f"a group does {op.name} between its calls", op.span)


def looks_at_data(op: Operation) -> bool:
    """True for what both sides of a group would do, and on memory."""
    is_quiet = op.opdef in QUIET or op.opdef.terminator
    return not is_quiet and any(isinstance(value.type, ShapedType) for value in op.inputs)


def emit_sides(inliner: Inliner, ops: Sequence[Operation], facts: Facts) -> None:
    """The loop that stands for `ops`, which call cube and vector functions."""
    made = [op for op in ops if op.opdef in CREATING]
    for op in made:
        inliner.clone(op)
    ops = [op for op in ops if op.opdef not in CREATING]
    require_plain(inliner, ops)
    versions = Versions(ops)
    lanes = max((facts.lanes(n) for op in _walk(ops) for n in _callee(op)), default=1)
    builder = inliner.builder
    inits = tuple(map(inliner.value, versions.written))
    index = Value(ScalarType(INDEX), "side")
    body = Block((index, *(Value(init.type, init.name) for init in inits)))
    with builder.inside(body):
        is_cube = arith.eq(index, builder.index(0))
        arms = tuple(emit_arm(inliner, ops, versions, body, side, lanes) for side in (CUBE, VECTOR))
        both = builder.emit(control.if_, (is_cube,), {}, arms)
        control.yield_(both.results)
    bounds = builder.index(0), builder.index(1 + lanes), builder.index(1)
    attrs = {"kind": ForKind.Together, "combine": (), "stage": 0, "attrs": (("crew", "side"),)}
    loop = builder.emit(control.for_, (*bounds, inits), attrs, (body,), span=ops[0].span)
    for root, result in zip(versions.written, loop.results, strict=True):
        inliner.bind(versions.last[root], result)


def emit_arm(
    inliner: Inliner,
    ops: Sequence[Operation],
    versions: Versions,
    body: Block,
    side: int,
    lanes: int,
) -> Block:
    """What one side does."""
    index, *carried = body.params
    block = Block()
    with inliner.builder.inside(block):
        arm = inliner.for_side(side)
        arm.mapping.update(zip(versions.written, carried, strict=True))
        if side == VECTOR:
            lane = arith.sub(index, inliner.builder.index(1))
            count = inliner.builder.index(lanes)
            arm.loops = (*arm.loops, Around(ForKind.SplitAiv, lane, count))
        for op in ops:
            arm.clone(op)
        control.yield_(tuple(arm.value(versions.last[root]) for root in versions.written))
    return block


def require_known(inliner: Inliner, values: Sequence[Value]) -> None:
    """Raises UnsupportedFeatureError where a group gives more than what its sides write."""
    for value in values:
        if value not in inliner.mapping and isinstance(value.owner, Operation):
            raise UnsupportedFeatureError(
                f"{value.name or 'a value'} is what one side of a group gives", value.owner.span
            )
