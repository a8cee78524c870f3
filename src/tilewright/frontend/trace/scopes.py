"""Scopes of a trace: whose life a tensor shares, and which device regions it is used from.

A device region (loop, while, guarded arm) is traced once. The first use of an outer tensor inside
it is remembered, so that at its end every outer tensor that was written becomes a carried value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tilewright.frontend.trace.predicates import ALWAYS, Terms
from tilewright.ir.affine import Symbol
from tilewright.ir.core import Block, Value

if TYPE_CHECKING:
    from tilewright.frontend.trace.roots import Root


class Scope:
    """A stretch of the trace; tensors made in it live until it closes."""

    def __init__(self, name: str, parent_scope: Scope | None = None) -> None:
        self.name = name
        self.parent_scope = parent_scope
        self.is_alive = True

    @property
    def depth(self) -> int:
        """Number of scopes around this one."""
        return 0 if self.parent_scope is None else 1 + self.parent_scope.depth

    def encloses(self, other: Scope | None) -> bool:
        """True when `other` is this scope or inside it."""
        while other is not None and other is not self:
            other = other.parent_scope
        return other is self

    def describe(self) -> str:
        """How a message names this scope."""
        return f"{type(self).__name__} '{self.name}'"

    def __repr__(self) -> str:
        return f"<{self.describe()}>"


class KernelScope(Scope):
    """The whole kernel; the root of the chain."""


class FunctionScope(Scope):
    """The body of a helper that is traced in place; leaving a `with` statement closes it.

    `is_kernel` tells the body of a kernel that another one calls.
    """

    is_kernel = False

    def __init__(
        self, name: str, parent_scope: Scope | None, leave: Callable[[FunctionScope], None]
    ) -> None:
        super().__init__(name, parent_scope)
        self.leave = leave

    def __enter__(self) -> FunctionScope:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave(self)


class StmtScope(Scope):
    """A statement; it has no region of its own."""


class ScopeRegion(Scope):
    """A region without a meaning of its own."""


class AllocationScope(Scope):
    """A stretch in which on-chip memory is allocated together."""


class DeviceRegion(Scope):
    """A scope that becomes a region of an operation."""

    def __init__(self, name: str, parent_scope: Scope | None, block: Block) -> None:
        super().__init__(name, parent_scope)
        self.block = block
        self.outer: dict[Root, Value] = {}

    @property
    def predicates(self) -> Terms:
        """What holds inside."""
        return ALWAYS

    def touch(self, root: Root) -> None:
        """Notes the first use of an outer tensor."""
        self.outer.setdefault(root, root.version)

    def written(self) -> list[Root]:
        """The outer tensors that have another version than at entry, oldest first."""
        roots = [root for root, version in self.outer.items() if root.version is not version]
        return sorted(roots, key=lambda root: root.serial)


class CarryingRegion(DeviceRegion):
    """A region that may run again: inside, an outer tensor is a parameter of the region."""

    def __init__(self, name: str, parent_scope: Scope | None, block: Block) -> None:
        super().__init__(name, parent_scope, block)
        self.params: dict[Root, Value] = {}
        self.carried: list[Root] = []

    def touch(self, root: Root) -> None:
        if root not in self.outer:
            self.outer[root] = root.version
            self.params[root] = Value(root.version.type, root.version.name, self.block)
            root.version = self.params[root]

    def written(self) -> list[Root]:
        roots = [root for root, param in self.params.items() if root.version is not param]
        return sorted(roots, key=lambda root: root.serial)


class LoopScope(CarryingRegion):
    """The body of a loop that runs on the device; `symbol` counts its iterations from 0."""

    def __init__(
        self,
        name: str,
        parent_scope: Scope | None,
        block: Block,
        symbol: Symbol,
        *,
        trip: int | None,
        is_affine: bool,
    ) -> None:
        super().__init__(name, parent_scope, block)
        self.symbol = symbol
        self.trip = trip
        self.is_affine = is_affine
        self.has_dependence = False

    @property
    def forbids_same_place(self) -> bool:
        """True when iterations must not write the same place."""
        return self.is_affine and self.trip != 1


class WhileScope(CarryingRegion):
    """The body of a do-while loop."""


class IfScope(DeviceRegion):
    """An arm of a branch that is guarded on the device."""

    def __init__(
        self, name: str, parent_scope: Scope | None, block: Block, condition: Terms
    ) -> None:
        super().__init__(name, parent_scope, block)
        self.condition = condition

    @property
    def predicates(self) -> Terms:
        return self.condition
