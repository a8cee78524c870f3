"""Windows into arrays: bounds, valid regions, and the constraints that say where they end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.errors import IndexOutOfBounds, ShapeMismatch
from tilewright.ir.affine import Expr, as_expr, less_equal, maximum, minimum, simplify
from tilewright.ir.affine.constraints import Constraint
from tilewright.ir.core import Value
from tilewright.ir.types import Dim, Shape, ShapedType, render_dims
from tilewright.ops.extents import as_dims, same_dim, same_dims
from tilewright.ops.rules import is_fully_valid, require_length, valid_of


def require_inside(name: str, shape: Shape, offsets: Shape, extents: Shape) -> None:
    """Raises ShapeMismatch where a window certainly leaves an array of `shape`."""
    for axis, (bound, offset, extent) in enumerate(zip(shape, offsets, extents, strict=True)):
        if less_equal(0, offset) is False:
            raise ShapeMismatch(f"{name}: offset {offset} of axis {axis} is negative")
        if less_equal(as_expr(offset) + extent, bound) is False:
            raise ShapeMismatch(
                f"{name}: {extent} elements from {offset} leave axis {axis} of extent {bound}",
                hint="move the window inside, or pass clamp=True to shrink its valid region",
            )


def clip(extent: Dim, room: Dim | Expr) -> Dim:
    """How much of `extent` fits in `room`: between 0 and `extent`."""
    return simplify(maximum(0, minimum(extent, room)))


def require_valid(name: str, valid: Shape, shape: Shape) -> None:
    """Raises ShapeMismatch where a valid extent is certainly negative or above the physical one."""
    require_length(name, "valid_shape", valid, len(shape))
    for axis, (used, extent) in enumerate(zip(valid, shape, strict=True)):
        if less_equal(0, used) is False or less_equal(used, extent) is False:
            raise ShapeMismatch(
                f"{name}: valid_shape {render_dims(valid)} is not inside {render_dims(shape)} "
                f"on axis {axis}"
            )


def window_valid(
    name: str,
    source: ShapedType,
    offsets: Shape,
    extents: Shape,
    valid_shape: Sequence[Value] | None,
    clamp: bool,
) -> Shape:
    """The valid region of a window: what was asked for, what the source has, what exists."""
    valid = extents
    if valid_shape is not None:
        valid = as_dims(valid_shape)
        require_valid(name, valid, extents)
    if not is_fully_valid(source):
        rest = zip(valid, valid_of(source), offsets, strict=True)
        valid = tuple(clip(used, as_expr(bound) - offset) for used, bound, offset in rest)
    if clamp:
        rest = zip(valid, source.shape, offsets, strict=True)
        valid = tuple(clip(used, as_expr(bound) - offset) for used, bound, offset in rest)
    return valid


def require_window(
    name: str,
    source: ShapedType,
    offsets: Shape,
    extents: Shape,
    valid_shape: Sequence[Value] | None,
    clamp: bool,
) -> Shape:
    """Checks a window and gives its valid region; raises RankMismatch, ShapeMismatch."""
    require_length(name, "the offset", offsets, source.rank)
    require_length(name, "the shape", extents, source.rank)
    valid = window_valid(name, source, offsets, extents, valid_shape, clamp)
    require_inside(name, source.shape, offsets, offsets_only(valid) if clamp else valid)
    return valid


def offsets_only(extents: Shape) -> Shape:
    """Extents that no window can be too long for: all 0."""
    return (0,) * len(extents)


def inside(dims: Sequence[Any], valid: Shape, shape: Shape) -> tuple[Constraint, ...]:
    """The constraints that keep `dims` in the valid region, where it is not the whole shape."""
    return tuple(
        Constraint.less(dim, used)
        for dim, used, extent in zip(dims, valid, shape, strict=True)
        if not same_dim(used, extent)
    )


def region(offsets: Sequence[Any], extents: Sequence[Any], shape: Sequence[int]) -> tuple[Any, ...]:
    """The numpy index of a window; raises IndexOutOfBounds when it leaves an array of `shape`.

    A window of a negative extent is empty. What it gives is an array of rank 0 too, no scalar.
    """
    index: list[slice] = []
    for axis, (offset, extent, bound) in enumerate(zip(offsets, extents, shape, strict=True)):
        start, stop = int(offset), int(offset) + max(0, int(extent))
        if extent > 0 and not 0 <= start <= stop <= bound:
            raise IndexOutOfBounds(
                f"elements {start} to {stop - 1} of axis {axis}, which has {bound} elements"
            )
        index.append(slice(start, stop) if extent > 0 else slice(0))
    return (*index, ...)


def require_room(name: str, valid: Sequence[Any], shape: Sequence[int]) -> None:
    """Raises IndexOutOfBounds where more elements are valid than there are."""
    for used, extent in zip(valid, shape, strict=True):
        if used > extent:
            raise IndexOutOfBounds(f"{name}: {used} of {extent} elements")


def front(extents: Sequence[Any]) -> tuple[slice, ...]:
    """The numpy index of a window at the origin."""
    return tuple(slice(max(0, int(extent))) for extent in extents)


def point(indices: Sequence[Any], shape: Sequence[int]) -> tuple[int, ...]:
    """The numpy index of one element; raises IndexOutOfBounds when there is none."""
    for axis, (index, bound) in enumerate(zip(indices, shape, strict=True)):
        if not 0 <= index < bound:
            raise IndexOutOfBounds(
                f"element {int(index)} of axis {axis}, which has {bound} elements"
            )
    return tuple(map(int, indices))


def shrunk(valid: Shape | None, shape: Shape) -> Shape:
    """`valid`, or the whole `shape` when nothing is said."""
    return shape if valid is None or same_dims(valid, shape) else valid
