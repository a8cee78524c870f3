"""A group of nodes that have nothing to do with each other is as many nests.

Nodes join a group because they walk the same rows; what they share may turn up later, or never.
Tiles of an unrolled loop never do: side by side in one nest they would push each other out of the
nearest cache, and be compiled anew each.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from tilewright.ir.affine import symbols
from tilewright.ir.core import Value
from tilewright.passes.groups import Group
from tilewright.passes.nodes import Node
from tilewright.passes.plan import Target
from tilewright.passes.storage import Storage
from tilewright.passes.traits import Indices, compose

FILLS = "fills"


def parts(group: Group, targets: Mapping[Value, Target]) -> list[list[Node]]:
    """The nodes of `group`, in their order, in as many lists as there are nests.

    Nodes stay together where one reads what the other gives or overwrites, where they read the same
    elements, and where they read nothing. `targets` says where a value may be put, too.
    """
    first = group.nodes[0]
    if len(related(group, first)) == len(group.nodes):
        return [group.nodes]
    ties = Ties()
    for node in group.nodes:
        for source in node.sources:
            ties.join(node, source)
        target = targets.get(node.result)
        for storage in (node.storage, target and target.storage):
            if storage is not None and storage.readers.of(group.index):
                ties.join(node, storage)
                for reader, _ in storage.readers.of(group.index):
                    ties.join(reader, storage)
        if not node.leaves and not node.consumers:
            ties.join(FILLS, node)
        for element in shared_elements(group, node):
            ties.join(node, element)
    return ties.sets(group.nodes)


def related(group: Group, first: Node) -> set[Node]:
    """The nodes of `group` that need what `first` needs or gives, directly or not."""
    found, stack = {first}, [first]
    while stack:
        node = stack.pop()
        for other in (*node.sources, *node.consumers):
            if other.group is group and other not in found:
                found.add(other)
                stack.append(other)
    return found


def shared_elements(group: Group, node: Node) -> Iterator[tuple[Storage | Value, Indices]]:
    """What a node reads of memory, if that is another element at each point of its domain."""
    point = group.mapping(node)
    axes = {symbol for expr in point.values() for symbol in symbols(expr)}
    for leaf in node.leaves:
        if leaf.producer is None and leaf.indices is not None:
            indices = compose(leaf.indices, point)
            if axes <= {symbol for index in indices for symbol in symbols(index)}:
                yield (leaf.storage or leaf.base, indices)


class Ties:
    """Sets of things that grow together as they are joined."""

    def __init__(self) -> None:
        self.above: dict[Hashable, Hashable] = {}

    def find(self, thing: Hashable) -> Hashable:
        """What stands for the set that `thing` is in."""
        above = self.above
        while (higher := above.get(thing, thing)) is not thing:
            above[thing] = thing = above.get(higher, higher)
        return thing

    def join(self, one: Hashable, other: Hashable) -> None:
        """Makes one set of two."""
        first, second = self.find(one), self.find(other)
        if first is not second:
            self.above[second] = first

    def sets(self, nodes: list[Node]) -> list[list[Node]]:
        """`nodes` by the set that they are in."""
        found: dict[Hashable, list[Node]] = {}
        for node in nodes:
            found.setdefault(self.find(node), []).append(node)
        return list(found.values())
