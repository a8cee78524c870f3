"""The current version of each tensor that the caller owns.

A write to a tensor parameter gives a new version of it. However many names and views it has, one
version is current; the function ends with the last. A loop that writes a parameter carries it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from tilewright.dataclass import dataclass
from tilewright.ir.core import Operation, Value


@dataclass
class Versions:
    """`current[r]` is the newest version of root `r`; `roots` maps every version to its root.

    `same` maps what a branch or loop gave of a version that it did not write to that version: both
    are current then, may be read, and are written as one.
    `parts` are slices and views of versions, and views of other tensors, and what writes made of
    them. `mixed` are values that may be a version or part on one path and something else on
    another: nothing may be written through them.
    """

    current: list[Value] = field(default_factory=list[Value])
    roots: dict[Value, int] = field(default_factory=dict[Value, int])
    same: dict[Value, Value] = field(default_factory=dict[Value, Value])
    parts: set[Value] = field(default_factory=set[Value])
    mixed: set[Value] = field(default_factory=set[Value])

    def own(self, value: Value) -> None:
        """Makes `value` the first version of a new root."""
        self.roots[value] = len(self.current)
        self.current.append(value)

    def root(self, value: Value) -> int | None:
        """The root that `value` is a version of, or None."""
        return self.roots.get(value)

    def advance(self, root: int, value: Value) -> None:
        """Makes `value` the newest version of `root`."""
        self.roots[value] = root
        self.current[root] = value

    def repeat(self, value: Value, version: Value) -> None:
        """Makes `value` another value with the contents of `version`, in the same memory."""
        self.roots[value] = self.roots[version]
        self.same[value] = self.version(version)

    def version(self, value: Value) -> Value:
        """The version whose contents `value` has; `value` itself when it is one, or has none."""
        return self.same.get(value, value)

    def newest(self, value: Value) -> Value:
        """The current version of the root of `value`; `value` itself when it has its contents."""
        return self.current[self.roots[value]] if self.is_stale(value) else value

    def is_stale(self, value: Value) -> bool:
        """True when a newer version of the same root exists."""
        root = self.roots.get(value)
        return root is not None and self.current[root] is not self.same.get(value, value)

    def is_owned(self, value: Value) -> bool:
        """True for what is, or may be, memory of a parameter."""
        return value in self.roots or value in self.parts or value in self.mixed

    def join(self, result: Value, *sides: object) -> None:
        """Notes a value that is one of `sides`, not all versions of one root."""
        if any(isinstance(side, Value) and self.is_owned(side) for side in sides):
            self.mixed.add(result)

    def follow(self, inner: Value, result: Value, outside: Mapping[Value, Value]) -> None:
        """Makes `result` what `inner` is, outside a scope, where versions are those of `outside`;
        parts cannot be written from there."""
        root = self.roots.get(inner)
        if root is not None:
            self.roots[result] = root
            version = self.version(inner)
            if version is not inner:
                self.same[result] = outside.get(version, version)
        elif inner in self.parts or inner in self.mixed:
            self.mixed.add(result)

    def note_writes(self, op: Operation, ties: Iterable[tuple[Value, Value]]) -> None:
        """Follows the results of an operation that has just been emitted."""
        for result, operand in ties:
            root = self.roots.get(operand)
            if root is not None:
                self.advance(root, result)
            elif operand in self.parts:
                self.parts.add(result)
        if op.opdef.name == "shape.view" or (
            op.opdef.name in ("shape.slice", "shape.set_valid") and self.is_owned(op.operands[0])
        ):
            self.parts.add(op.results[0])

    def mark(self) -> list[Value]:
        """The current versions, to compare or restore later."""
        return list(self.current)

    def restore(self, mark: list[Value]) -> None:
        """Goes back to the versions of `mark`."""
        self.current[:] = mark

    def changed_since(self, mark: list[Value]) -> list[int]:
        """Roots that were written since `mark`, in order."""
        pairs = enumerate(zip(self.current, mark, strict=True))
        return [root for root, (now, then) in pairs if now is not then]
