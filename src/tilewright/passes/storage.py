"""Memory that values live in, and who is about to read or write it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.ir.core import Value
from tilewright.ir.types import BufferType, Shape

if TYPE_CHECKING:
    from tilewright.passes.traits import Indices
from tilewright.passes.nodes import Node


@dataclass(eq=False, slots=True)
class Storage:
    """A buffer. Global memory belongs to the caller: its old contents cannot be kept silently.
    Remote memory is a window of another rank, perhaps under another name as well.

    `holders` are the values that are what it holds now: all the same, under different names.
    `readers` and `writers` are the nodes of open groups that touch it, with the index of each
    element over the dims of the node.
    """

    buffer: Value
    holders: list[Value] = field(default_factory=list[Value])
    is_global: bool = False
    is_written: bool = True
    is_blank: bool = False
    is_remote: bool = False
    readers: list[tuple[Node, Indices | None]] = field(
        default_factory=list["tuple[Node, Indices | None]"]
    )
    writers: list[Node] = field(default_factory=list["Node"])

    @property
    def type(self) -> BufferType:
        """The type of the buffer."""
        assert isinstance(self.buffer.type, BufferType)
        return self.buffer.type

    @property
    def shape(self) -> Shape:
        """Extents of the buffer."""
        return self.type.shape
