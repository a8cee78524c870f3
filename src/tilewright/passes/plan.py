"""How long the values of a block live: one backward walk before the block is lowered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.dataclass import dataclass
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.opdef import ties_of
from tilewright.ops import control
from tilewright.ops.extents import DIM_OPS
from tilewright.passes.storage import Storage
from tilewright.source import Span


@dataclass(frozen=True, slots=True)
class Target:
    """Memory in which a value ends up; `version` is what it holds until then."""

    storage: Storage
    version: Value | None


NEVER = -1


class Plan:
    """The last use of each value in one block, in positions of its operations.

    `last` counts direct uses, those inside regions at the position of the operation that has the
    region; `end` counts uses through rearrangements, too, once they are known. `outer` is the plan
    of the enclosing block and `is_loop` says that the block runs many times.
    """

    def __init__(
        self, block: Block, ops: Sequence[Operation], outer: Plan | None, is_loop: bool
    ) -> None:
        self.ops = ops
        self.outer = outer
        self.is_loop = is_loop
        self.position = 0
        self.span: Span | None = None
        self.last: dict[Value, int] = {}
        self.end: dict[Value, int] = {}
        self.targets: dict[Value, Target] = {}
        self.undo: list[Callable[[], None]] = []
        self.local = set(block.params)
        self.positions = {op: position for position, op in enumerate(ops)}
        for position, op in enumerate(ops):
            self.local.update(op.results)
            for value in uses(op):
                self.last[value] = position
        self.end.update(self.last)

    def extend(self, value: Value, through: Value) -> None:
        """A use of `through` is a use of `value`."""
        self.end[value] = max(self.end.get(value, NEVER), self.end.get(through, NEVER))

    def is_read_after(self, value: Value, position: int) -> bool:
        """True when an operation after `position` reads `value`."""
        return self.last.get(value, NEVER) > position

    def outlives(self, value: Value, op: Operation) -> bool:
        """True when `value` is used after `op`, directly or through rearrangements."""
        return self.end.get(value, NEVER) > self.positions.get(op, NEVER)

    def is_read_later(self, value: Value) -> bool:
        """True when an operation after the current one reads `value`."""
        return self.last.get(value, NEVER) > self.position

    def is_read_now(self, value: Value) -> bool:
        """True when the current operation, or one after it, reads `value`."""
        return self.last.get(value, NEVER) >= self.position

    def is_needed(self, value: Value) -> bool:
        """True when `value` is used by the current operation or later."""
        return self.end.get(value, NEVER) >= self.position

    def is_left_to(self, value: Value, ops: Sequence[Operation]) -> bool:
        """As `owns`, but that `ops` of this block still read it."""
        others = [op for op in self.ops[self.position + 1 :] if op not in ops]
        if any(value in uses(op) for op in others):
            return False
        if value in self.local:
            return True
        return not self.is_loop and self.outer is not None and self.outer.owns(value)

    def owns(self, value: Value) -> bool:
        """True when nobody else reads `value`: it is written here at most once, and then dead."""
        plan: Plan | None = self
        while plan is not None and not plan.is_read_later(value):
            if value in plan.local:
                return True
            plan = None if plan.is_loop else plan.outer
        return False


def uses(op: Operation) -> list[Any]:
    """The values whose elements `op` uses, directly and in its regions."""
    inside = [inner for region in op.regions for inner in region.walk()]
    reading = [each for each in (op, *inside) if each.opdef not in DIM_OPS]
    return [value for each in reading for value in each.inputs]


def tied_root(value: Value) -> Value:
    """The version that a chain of writes started from."""
    while (before := previous_version(value)) is not None:
        value = before
    return value


def previous_version(value: Value) -> Value | None:
    """The version that the operation of `value` replaces, if it replaces one."""
    op = value.op
    if op is None:
        return None
    position = op.results.index(value)
    if op.opdef in (control.for_, control.while_):
        init: Value = op.operands[-1][position]
        return init
    return next((before for result, before in ties_of(op) if result is value), None)
