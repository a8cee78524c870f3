"""Rectangular parts of a tensor with unit steps: what most subscripts are, without an index map."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from tilewright.dataclass import dataclass
from tilewright.ir.affine import (
    Access,
    Dim,
    Expr,
    Symbol,
    as_expr,
    bounds,
    coefficient,
    simplify,
    symbols,
)
from tilewright.ir.affine.access import fresh_dims


@dataclass(frozen=True)
class Window:
    """Offsets and extents per axis of a tensor; the view has no dimension for a dropped axis."""

    offsets: tuple[Dim, ...]
    extents: tuple[int, ...]
    dropped: tuple[int, ...] = ()

    @staticmethod
    def whole(shape: tuple[int, ...]) -> Window:
        """All of a tensor of `shape`."""
        return Window((0,) * len(shape), shape)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The extents of the view."""
        if not self.dropped:
            return self.extents
        return tuple(e for axis, e in enumerate(self.extents) if axis not in self.dropped)

    @property
    def symbols(self) -> set[Symbol]:
        """The symbols that the offsets depend on."""
        moving = [offset for offset in self.offsets if not isinstance(offset, int)]
        return {symbol for offset in moving for symbol in symbols(offset)}

    @cached_property
    def access(self) -> Access:
        """The same as an index map."""
        dims = fresh_dims(self.shape)
        waiting = iter(dims)
        index = tuple(
            as_expr(offset) if axis in self.dropped else as_expr(offset) + next(waiting)
            for axis, offset in enumerate(self.offsets)
        )
        return Access(index, self.shape, dims)

    def within(self, outer: Window) -> Window:
        """A window of the view that `outer` makes, as one of the tensor below."""
        inner = iter(range(len(self.offsets)))
        offsets: list[Dim] = []
        extents: list[int] = []
        dropped: list[int] = []
        for axis, offset in enumerate(outer.offsets):
            place = None if axis in outer.dropped else next(inner)
            if place is None or place in self.dropped:
                dropped.append(axis)
            offsets.append(offset if place is None else _sum(offset, self.offsets[place]))
            extents.append(1 if place is None else self.extents[place])
        return Window(tuple(offsets), tuple(extents), tuple(dropped))

    def is_whole(self, shape: tuple[int, ...]) -> bool:
        """True for all of a tensor of `shape`."""
        return (
            not self.dropped
            and self.extents == shape
            and all(offset == 0 for offset in self.offsets)
        )

    def is_inside(self, shape: Sequence[int]) -> bool:
        """True when the ranges of the offsets alone show that it lies within `shape`."""
        for offset, extent, whole in zip(self.offsets, self.extents, shape):
            low, high = (offset, offset) if isinstance(offset, int) else bounds(offset)
            if low is None or high is None or low < 0 or high + extent > whole:
                return False
        return True


def _sum(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return simplify(as_expr(a) + b)


def as_window(access: Access) -> Window | None:
    """The access as a window whose dims are axes of the tensor in order, or None."""
    if access.constraints:
        return None
    waiting = list(zip(access.dims, access.domain))
    offsets: list[Expr] = []
    lengths: list[int] = []
    dropped: list[int] = []
    for axis, expr in enumerate(access.map):
        if waiting and coefficient(expr, waiting[0][0]) == 1:
            dim, extent = waiting.pop(0)
            offsets.append(expr - dim)
            lengths.append(int(extent))
        else:
            dropped.append(axis)
            offsets.append(expr)
            lengths.append(1)
    used = {symbol for offset in offsets for symbol in symbols(offset)}
    if waiting or used & set(access.dims):
        return None
    return Window(tuple(map(simplify, offsets)), tuple(lengths), tuple(dropped))
