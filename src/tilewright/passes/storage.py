"""Memory that values live in, and who is about to read or write it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from tilewright.dataclass import dataclass
from tilewright.ir.core import Value
from tilewright.ir.types import BufferType, Shape

if TYPE_CHECKING:
    from tilewright.passes.traits import Indices
from tilewright.passes.nodes import Node


class Accesses:
    """Nodes of open groups that read, or write, a buffer, each with the index of the element.

    They are kept by the number of the group; `latest` is the greatest of these, -1 without any.
    """

    __slots__ = ("_by_group", "latest")

    def __init__(self) -> None:
        self._by_group: dict[int, list[tuple[Node, Indices | None]]] = {}
        self.latest = -1

    def add(self, group: int, node: Node, indices: Indices | None) -> None:
        """One more access, by a node of group number `group`."""
        self._by_group.setdefault(group, []).append((node, indices))
        self.latest = max(self.latest, group)

    def of(self, group: int) -> Sequence[tuple[Node, Indices | None]]:
        """The accesses of group number `group`."""
        return self._by_group.get(group, ())

    def clear(self) -> None:
        """No group is open any more."""
        self._by_group.clear()
        self.latest = -1


@dataclass(eq=False, slots=True)
class Storage:
    """A buffer. Global memory belongs to the caller: its old contents cannot be kept silently.
    Remote memory is a window of another rank, perhaps under another name as well.

    `holders` are the values that are what it holds now: all the same, under different names.
    `readers` and `writers` are the nodes of open groups that touch it; where nobody ever writes,
    readers are not noted.
    """

    buffer: Value
    holders: list[Value] = field(default_factory=list[Value])
    is_global: bool = False
    is_written: bool = True
    is_blank: bool = False
    is_remote: bool = False
    readers: Accesses = field(default_factory=Accesses)
    writers: Accesses = field(default_factory=Accesses)

    @property
    def type(self) -> BufferType:
        """The type of the buffer."""
        assert isinstance(self.buffer.type, BufferType)
        return self.buffer.type

    @property
    def shape(self) -> Shape:
        """Extents of the buffer."""
        return self.type.shape
