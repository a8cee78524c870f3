"""Subscripts and other views: from what the author wrote to an access of the root buffer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import Any, cast

from tilewright.dataclass import dataclass
from tilewright.errors.nki_control import EXPECTED_CONSTANT
from tilewright.errors.nki_tensors import (
    ARANGE_1D,
    INDEX_TYPE,
    MIXED_INDEXING,
    NUMPY_SHAPES,
    SLICE_STEP,
)
from tilewright.frontend.trace.ambient import refusal
from tilewright.frontend.trace.index import DynamicSlice, TileIndex, broadcast, constant_int, mask
from tilewright.frontend.trace.predicates import scalar_expr
from tilewright.frontend.trace.sequences import as_entries, items_of
from tilewright.frontend.trace.tensors import DataTile, nki_tensor
from tilewright.frontend.trace.windows import Window
from tilewright.ir.affine import Dim, Expr, Operand, Symbol, as_expr, bounds, simplify, substitute
from tilewright.ir.affine.access import Access, fresh_dims
from tilewright.ir.affine.constraints import Constraint
from tilewright.ops.shape import reshaped_map


@dataclass
class Selection:
    """A subscript being read: coordinates of the tensor, and the dims of the result so far."""

    coordinates: list[Expr] = field(default_factory=list[Expr])
    domain: list[Dim] = field(default_factory=list[Dim])
    dims: list[Symbol] = field(default_factory=list[Symbol])
    constraints: list[Constraint] = field(default_factory=list[Constraint])
    dropped: list[int] = field(default_factory=list[int])

    def access(self) -> Access:
        """The access of the tensor that was subscripted."""
        return Access(
            tuple(self.coordinates),
            tuple(self.domain),
            tuple(self.dims),
            tuple(self.constraints),
        )

    def add_dim(self, extent: int) -> Symbol:
        """A new dim of the result."""
        (dim,) = fresh_dims([extent], [f"d{len(self.dims)}"])
        self.domain.append(extent)
        self.dims.append(dim)
        return dim


def subscript(tensor: nki_tensor, entries: Sequence[Any]) -> DataTile:
    """The view by basic or advanced indexing; bounds are checked where it is used."""
    varying = any(isinstance(entry, (TileIndex, mask)) for entry in entries)
    entries = entries if varying or tensor.root.is_hbm else on_chip_entries(tensor, entries)
    window = None if varying else _window(tensor, entries)
    outer = None if window is None else tensor.window
    if window is not None and outer is not None:
        blocks = tensor.partition_axis
        left = blocks - sum(axis < blocks for axis in window.dropped)
        return DataTile(tensor.root, window.within(outer), left)
    selection = _advanced(tensor, entries) if varying else _basic(tensor, entries)
    blocks = tensor.partition_axis
    left = 0 if varying else blocks - sum(axis < blocks for axis in selection.dropped)
    return DataTile(tensor.root, composed(tensor, selection.access()), left)


def on_chip_entries(tensor: nki_tensor, entries: Sequence[Any]) -> list[Any]:
    """The entries with slices of one element for positions where a tile needs a dimension.

    A tile has its partition dimension and at least one free dimension, whatever is picked of it.
    """
    kept = list(entries)
    partition = tensor.partition_axis
    axes = [place for place, entry in enumerate(entries) if entry is not None]
    free = axes[partition + 1 :]
    needed = axes[partition : partition + 1]
    if len(axes) == len(entries) and all(_is_position(entries[place]) for place in free):
        needed += free[-1:]
    for place in needed:
        if _is_position(kept[place]):
            kept[place] = DynamicSlice(kept[place], 1)
    return kept


def _is_position(entry: object) -> bool:
    return not isinstance(entry, (slice, DynamicSlice)) and scalar_expr(entry) is not None


def composed(tensor: nki_tensor, inner: Access) -> Access:
    """An access of a tensor as one of its root."""
    return inner if tensor.is_whole else tensor.access.compose(inner)


def expanded(tensor: nki_tensor, key: Any) -> list[Any]:
    """The entries of a subscript, one per axis of the tensor, `...` and missing ones filled in."""
    entries = list(as_entries(key))
    used = sum(entry is not None and entry is not Ellipsis for entry in entries)
    if used > tensor.ndim:
        given = f"{used} indices for {tensor.ndim} dimensions"
        raise refusal(INDEX_TYPE, name=tensor.name, given=given)
    fill = [slice(None)] * (tensor.ndim - used)
    place = next((k for k, entry in enumerate(entries) if entry is Ellipsis), None)
    if place is None:
        return entries + fill
    return entries[:place] + fill + entries[place + 1 :]


# ---------------------------------------------------------------------------- basic


def _window(tensor: nki_tensor, entries: Sequence[Any]) -> Window | None:
    """The window that positions and slices of known length and unit step select, or None."""
    offsets: list[Dim] = []
    extents: list[int] = []
    dropped: list[int] = []
    for axis, entry in enumerate(entries):
        if entry is None:
            return None
        if isinstance(entry, slice):
            part = _unit_slice(axis, cast(Any, entry), tensor.shape[axis])
            if part is None:
                return None
        elif isinstance(entry, DynamicSlice):
            start = _position(tensor, entry.start, tensor.shape[axis])
            part = simplify(start), entry.size
        else:
            dropped.append(axis)
            part = simplify(_position(tensor, entry, tensor.shape[axis])), 1
        offsets.append(part[0])
        extents.append(part[1])
    return Window(tuple(offsets), tuple(extents), tuple(dropped))


def _unit_slice(axis: int, entry: slice, extent: int) -> tuple[Dim, int] | None:
    if entry.step not in (None, 1):
        return None
    start = simplify(_slice_end(axis, entry.start, 0, extent))
    length = simplify(_slice_end(axis, entry.stop, extent, extent) - start)
    return (start, max(length, 0)) if isinstance(length, int) else None


def _basic(tensor: nki_tensor, entries: Sequence[Any]) -> Selection:
    selection = Selection()
    for entry in entries:
        axis = len(selection.coordinates)
        if entry is None:
            selection.add_dim(1)
        elif isinstance(entry, slice):
            _take_slice(selection, axis, cast(Any, entry), tensor.shape[axis])
        elif isinstance(entry, DynamicSlice):
            dim = selection.add_dim(entry.size)
            start = _position(tensor, entry.start, tensor.shape[axis])
            selection.coordinates.append(start + dim)
        else:
            selection.coordinates.append(_position(tensor, entry, tensor.shape[axis]))
            selection.dropped.append(axis)
    return selection


def _position(tensor: nki_tensor, entry: object, extent: int) -> Expr:
    expr = None if isinstance(entry, bool) else scalar_expr(entry)
    if expr is None:
        raise refusal(INDEX_TYPE, name=tensor.name, given=f"{entry!r} ({type(entry).__name__})")
    return expr + extent if expr.is_constant and expr.const < 0 else expr


def _take_slice(selection: Selection, axis: int, entry: slice, extent: int) -> None:
    step = 1 if entry.step is None else entry.step
    if not isinstance(step, int) or step < 1:
        raise refusal(SLICE_STEP, axis=axis, given=f"step {step!r}, which is not a positive int")
    start = _slice_end(axis, entry.start, 0, extent)
    stop = _slice_end(axis, entry.stop, extent, extent)
    length = simplify(stop - start)
    largest = length if isinstance(length, int) else _supremum(axis, length, step)
    dim = selection.add_dim(max(-(-largest // step), 0))
    if not isinstance(length, int):
        selection.constraints.append(Constraint.less(start + dim, stop))
    selection.coordinates.append(start + step * dim)


def _slice_end(axis: int, given: object, default: int, extent: int) -> Expr:
    if given is None:
        return as_expr(default)
    expr = None if isinstance(given, bool) else scalar_expr(given)
    if expr is None:
        raise refusal(SLICE_STEP, axis=axis, given=f"the bound {given!r}")
    return expr + extent if expr.is_constant and expr.const < 0 else expr


def _supremum(axis: int, length: Expr, step: int) -> int:
    """The largest length, where it is not constant; the elements beyond the real one are masked."""
    largest = bounds(length)[1]
    if step != 1 or largest is None:
        raise refusal(SLICE_STEP, axis=axis, given=f"the length `{length}`, which is not constant")
    return largest


# ---------------------------------------------------------------------------- advanced


def _advanced(tensor: nki_tensor, entries: Sequence[Any]) -> Selection:
    indices = [_index_of(entry) for entry in entries if isinstance(entry, (TileIndex, mask))]
    for index in indices:
        if index.ndim == 1 and index.axes:
            raise refusal(ARANGE_1D, name=tensor.name)
    return _placed(tensor, entries, broadcast([index.shape for index in indices]))


def _placed(tensor: nki_tensor, entries: Sequence[Any], shape: Sequence[int]) -> Selection:
    selection = Selection()
    for extent in shape:
        selection.add_dim(extent)
    for axis, entry in enumerate(entries):
        _take_index(selection, tensor, axis, entry)
    return selection


def selected(tensor: nki_tensor, entries: Sequence[Any], shape: Sequence[int]) -> Access:
    """The access of scalars, index objects and trailing slices, over dims of a given shape."""
    extra = [tensor.shape[k] for k, entry in enumerate(entries) if isinstance(entry, slice)]
    wide = [*shape[:1], *extra] if extra and len(shape) <= 2 else [*shape, *extra]
    selection = Selection()
    for extent in wide:
        selection.add_dim(extent)
    free = iter(selection.dims[len(wide) - len(extra) :])
    for axis, entry in enumerate(entries):
        if isinstance(entry, slice):
            _take_whole(selection, tensor, axis, cast("slice[Any, Any, Any]", entry), next(free))
        else:
            _take_index(selection, tensor, axis, entry)
    return selection.access()


def _take_whole(
    selection: Selection, tensor: nki_tensor, axis: int, entry: slice, dim: Symbol
) -> None:
    if entry != slice(None):
        raise refusal(MIXED_INDEXING, name=tensor.name)
    selection.coordinates.append(as_expr(dim))


def _index_of(entry: TileIndex | mask) -> TileIndex:
    """The positions that an index object, or a comparison used as one, stands for."""
    if isinstance(entry, TileIndex):
        return entry
    if entry.index is None:
        raise refusal(INDEX_TYPE, name="tensor", given="a mask that is not one comparison")
    return entry.index


def _take_index(selection: Selection, tensor: nki_tensor, axis: int, entry: Any) -> None:
    if isinstance(entry, (slice, DynamicSlice)) or entry is None:
        raise refusal(MIXED_INDEXING, name=tensor.name)
    if not isinstance(entry, (TileIndex, mask)):
        selection.coordinates.append(_position(tensor, entry, tensor.shape[axis]))
        return
    index = _index_of(entry)
    mapping = placed_axes(index.axes, selection.dims)
    selection.coordinates.append(substitute(index.expr, mapping))
    if isinstance(entry, mask):
        selection.constraints.extend(c.substitute(mapping) for c in entry.terms[0])


def placed_axes(axes: Any, dims: Sequence[Symbol]) -> dict[Symbol, Operand]:
    """The dim of a tile along which each range symbol of an index object or mask runs.

    A range of one position stays there along a dim of more.
    """
    placed: dict[Symbol, Symbol] = {
        symbol: dims[len(dims) - axis] for symbol, axis in axes.items() if axis <= len(dims)
    }
    return {
        symbol: 0 if symbol.interval() == (0, 0) != dim.interval() else dim
        for symbol, dim in placed.items()
    }


# ---------------------------------------------------------------------------- other views


def static_shape(given: Any, what: str = "a shape") -> tuple[int, ...]:
    """`given` as a tuple of ints; refuses what the trace cannot know."""
    if isinstance(given, int):
        return (given,)
    items = items_of(given)
    if items is None:
        raise refusal(EXPECTED_CONSTANT, what=what, given=repr(given))
    return tuple(constant_int(extent, what) for extent in items)


def reshaped(tensor: nki_tensor, shape: Any) -> DataTile:
    """The view of `tensor` under another shape; one extent may be -1."""
    wanted = static_shape(shape)
    total = math.prod(tensor.shape)
    if -1 in wanted:
        known = -math.prod(wanted)
        wanted = tuple(total // known if extent == -1 else extent for extent in wanted)
    if math.prod(wanted) != total:
        raise refusal(NUMPY_SHAPES, op="reshape", left=list(tensor.shape), right=list(wanted))
    dims = fresh_dims(wanted)
    inner = Access(reshaped_map(dims, wanted, tensor.shape), wanted, dims)
    return DataTile(tensor.root, composed(tensor, inner))


def broadcast_view(tensor: nki_tensor, shape: Any) -> nki_tensor:
    """The view of `tensor` with extents of 1 repeated."""
    wanted = static_shape(shape)
    if wanted == tensor.shape:
        return tensor
    missing = len(wanted) - tensor.ndim
    pairs = list(zip(tensor.shape, wanted[missing:]))
    if missing < 0 or any(old not in (1, new) for old, new in pairs):
        raise refusal(NUMPY_SHAPES, op="broadcast_to", left=list(tensor.shape), right=list(wanted))
    dims = fresh_dims(wanted)
    coordinates = tuple(
        as_expr(0) if old == 1 else as_expr(dim) for (old, _), dim in zip(pairs, dims[missing:])
    )
    return DataTile(tensor.root, composed(tensor, Access(coordinates, wanted, dims)))
