"""The order in which the operations of a block are lowered: products as late as uses allow.

What is computed from values of the nest before a product, and does not need the product, joins
that nest: the row is visited once. What has nothing to do with it stays after the product.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import Effect
from tilewright.ir.opdef import OpDef
from tilewright.passes.nodes import Node
from tilewright.passes.traits import Kind

LATE: set[OpDef[..., Any]] = set()
"""Operations that are put off until something needs them (filled by what lowers them)."""


class Order:
    """Puts the operations of one block in order.

    `open_values` are those computed since the last product, `awaited` those that come late.
    """

    def __init__(self, nodes: Mapping[Operation, Node]) -> None:
        self.nodes = nodes
        self.ordered: list[Operation] = []
        self.late: list[Operation] = []
        self.awaited: set[Value] = set()
        self.open_values: set[Value] = set()

    def take(self, op: Operation) -> None:
        """Places one operation."""
        if op.opdef in LATE:
            self.put_off(op)
        elif is_fixed(op):
            self.settle()
            self.ordered.append(op)
        elif not self.late:
            self.place(op)
        elif not self.awaited.isdisjoint(op.inputs):
            self.settle()
            self.place(op)
        elif self.is_free(op) or not self.open_values.isdisjoint(op.inputs):
            self.place(op)
        else:
            self.put_off(op)

    def put_off(self, op: Operation) -> None:
        """`op` comes after the next product."""
        self.late.append(op)
        self.awaited.update(op.results)

    def place(self, op: Operation) -> None:
        """`op` comes now."""
        self.ordered.append(op)
        if not self.is_free(op) or not self.open_values.isdisjoint(op.inputs):
            self.open_values.update(op.results)

    def settle(self) -> None:
        """What is late comes now; a new nest begins."""
        self.ordered += self.late
        self.late.clear()
        self.awaited.clear()
        self.open_values.clear()

    def is_free(self, op: Operation) -> bool:
        """True for scalars and rearrangements, which cost nothing where they stand."""
        node = self.nodes.get(op)
        return node is None or node.kind is Kind.FREE


def is_fixed(op: Operation) -> bool:
    """True for operations that nothing may be moved across."""
    return bool(op.regions) or op.opdef.terminator or op.opdef.effect >= Effect.WRITE


def in_order(block: Block, nodes: Mapping[Operation, Node]) -> list[Operation]:
    """The operations of `block` in the order in which they are lowered."""
    if not any(op.opdef in LATE for op in block.ops):
        return block.ops
    order = Order(nodes)
    for op in block.ops:
        order.take(op)
    return order.ordered
