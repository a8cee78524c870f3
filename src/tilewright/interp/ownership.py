"""Which writes may happen in place: those whose old version nobody reads afterwards.

A tied result takes over the memory of its operand; so do the carries and results of regions.
Such a *handover* of a value is free when it is the last use of that value and cannot be repeated
by a loop around it; otherwise the interpreter copies first. One walk, linear in the uses.
"""

from __future__ import annotations

from tilewright.ir.core import Block, Function, Operation, Value
from tilewright.ir.types import DistributedTensorType, ScalarType
from tilewright.ops import control
from tilewright.ops.control import LOOPS, tied_pairs
from tilewright.ops.extents import DIM_OPS

FRESH_FAMILIES = ("arith", "elementwise", "reduce", "matmul", "scan")
"""Families whose references give new arrays, never views of their operands."""


def handovers(op: Operation) -> list[tuple[Value, Value]]:
    """(value, the value that takes over its memory) at the boundary of the regions of `op`."""
    if op.opdef is control.if_:
        yields = [region.terminator.operands[0] for region in op.regions]
        return [(v, r) for arm in yields for v, r in zip(arm, op.results)]
    if op.opdef is control.scope:
        return list(zip(op.regions[0].terminator.operands[0], op.results))
    if op.opdef not in LOOPS:
        return []
    inits = op.operands[-1]
    body = op.regions[-1]
    carried = body.params[len(body.params) - len(inits) :]
    pairs = [*zip(inits, op.results), *zip(body.terminator.operands[0], op.results)]
    pairs += zip(carried, op.results)
    if op.opdef is control.while_:
        pairs += zip(op.regions[0].params, op.results)
    return pairs


def holds_memory(value: Value) -> bool:
    """True for arrays of any kind; scalars are immutable."""
    return not isinstance(value.type, ScalarType)


def may_alias(op: Operation) -> bool:
    """True when a result of `op` may be a view of an operand."""
    family = op.opdef.name.partition(".")[0]
    if any(isinstance(value.type, DistributedTensorType) for value in op.results):
        return False  # one memory for all ranks: a part of it is that memory, too
    return family not in (*FRESH_FAMILIES, "control", "comm", "pipe") and not op.opdef.tied


class Ownership:
    """Answers, for one function, which handovers need a copy first."""

    def __init__(self, function: Function) -> None:
        self._parent: dict[Value, Value] = {}
        self._written: set[Value] = set()
        self._home: dict[Value, Block] = {}
        self._place: dict[Block, tuple[Block, int, Operation]] = {}
        self._last: dict[tuple[Value, Block], tuple[int, int]] = {}
        self._borrowed: set[Value] = set()
        self._walk(function.body)
        self._written = {self._find(value) for value in self._written}

    def needs_copy(self, value: Value, block: Block, index: int) -> bool:
        """True when op `index` of `block`, which hands `value` over, must hand over a copy."""
        if not holds_memory(value) or self._find(value) not in self._written:
            return False
        if isinstance(value.type, DistributedTensorType):
            return False  # one memory for all ranks, whatever its versions
        return value in self._borrowed or not self._is_last_use(value, block, index)

    def must_be_fresh(self, op: Operation) -> bool:
        """True when a result of `op` is written in place later and so may not be a view."""
        return may_alias(op) and any(
            self._find(result) in self._written for result in op.results if holds_memory(result)
        )

    def borrow(self, values: tuple[Value, ...]) -> None:
        """Marks `values` as memory of somebody else, never written in place."""
        self._borrowed.update(values)

    def _is_last_use(self, value: Value, block: Block, index: int) -> bool:
        if self._last.get((value, block)) != (index, 1):
            return False
        home = self._home[value]
        while block is not home:
            block, index, op = self._place[block]
            if op.opdef in LOOPS or self._last[value, block][0] != index:
                return False
        return True

    def _walk(self, body: Block) -> None:
        stack = [body]
        while stack:
            block = stack.pop()
            self._home.update(dict.fromkeys(block.params, block))
            for index, op in enumerate(block.ops):
                self._visit(op, block, index)
                for region in op.regions:
                    self._place[region] = (block, index, op)
                    stack.append(region)

    def _visit(self, op: Operation, block: Block, index: int) -> None:
        self._home.update(dict.fromkeys(op.results, block))
        if op.opdef not in DIM_OPS:
            for value in filter(holds_memory, op.inputs):
                self._use(value, block, index)
        for result, operand in tied_pairs(op):
            self._join(result, operand)
            self._written.add(operand)
        for value, heir in handovers(op):
            self._join(value, heir)
        if op.opdef is control.while_:
            self.borrow(op.regions[0].params)
        if may_alias(op):
            for result in op.results:
                for value in op.inputs:
                    self._join(result, value)

    def _use(self, value: Value, block: Block, index: int) -> None:
        home = self._home[value]
        while True:
            last, count = self._last.get((value, block), (-1, 0))
            if index >= last:
                self._last[value, block] = (index, count + 1 if index == last else 1)
            if block is home:
                return
            block, index, _ = self._place[block]

    def _find(self, value: Value) -> Value:
        root = value
        while (above := self._parent.get(root, root)) is not root:
            root = above
        while (above := self._parent.get(value, value)) is not root:
            self._parent[value], value = root, above
        return root

    def _join(self, a: Value, b: Value) -> None:
        if holds_memory(a) and holds_memory(b):
            self._parent[self._find(a)] = self._find(b)
