"""Memory: windows of global memory in and out, single elements, extents.

`store`, `assemble`, `write` give a new version of what they write to; their references write into
the array that is passed for it, and the caller passes a copy when the old version lives on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import FP16, INDEX, INT32
from tilewright.errors import (
    ArgumentTypeMismatch,
    DTypeMismatch,
    RankMismatch,
    ShapeMismatch,
)
from tilewright.ir.affine import as_expr, less_equal
from tilewright.ir.core import Operation, Value
from tilewright.ir.enums import AtomicType, Effect, MemorySpace, TileLayout
from tilewright.ir.opdef import op
from tilewright.ir.structure import AxisKind, Read, Structure, domain, identity_map
from tilewright.ir.types import Dim, ScalarType, Shape, ShapedType, Type, render_dims
from tilewright.ops import arith
from tilewright.ops.access import access_load as access_load
from tilewright.ops.access import access_store as access_store
from tilewright.ops.creation import create as create
from tilewright.ops.creation import full as full
from tilewright.ops.creation import iota as iota
from tilewright.ops.creation import splat as splat
from tilewright.ops.extents import DIM_OPS, as_dims, same_dim
from tilewright.ops.regions import (
    front,
    inside,
    point,
    region,
    require_inside,
    require_room,
    require_window,
    shrunk,
    window_valid,
)
from tilewright.ops.rules import (
    Offsets,
    is_fully_valid,
    meaning_of,
    normal_axis,
    require_length,
    require_same_shape,
    require_scalar,
    require_shaped,
    require_static,
    require_tensor,
    require_tile,
    tile_type,
    valid_of,
    with_valid,
)
from tilewright.ops.sampling import EVERY, NUMBERS, fails, indices, sample, scalar, tensor, tile
from tilewright.ops.shape import rearrangement, shape_of
from tilewright.ops.words import Array

Scalars = tuple[Value, ...]


@op("memory.dim")
def dim(tensor: Value, *, axis: int) -> Value:
    """Extent `axis` of a tensor, as INDEX."""
    ...


@dim.type_rule
def dim_type(tensor: Value, *, axis: int) -> Type:
    normal_axis("dim", axis, require_shaped("dim", "tensor", tensor).rank)
    return ScalarType(INDEX)


@dim.reference
def dim_numpy(tensor: Any, *, axis: int) -> Any:
    return np.int64(tensor.shape[axis])


def _dim_extent(operation: Operation) -> Dim:
    axis: int = operation.attrs["axis"]
    return shape_of(operation.operands[0])[axis]


DIM_OPS[dim] = _dim_extent
dim.samples(
    lambda: [
        sample(tensor(4, 8), axis=1),
        sample(tensor(4, 8), axis=-2),
        fails(RankMismatch, tensor(4, 8), axis=2),
    ]
)


@op("memory.valid_dim")
def valid_dim(x: Value, *, axis: int, extent: Dim) -> Value:
    """Extent `axis` of the valid region of x, as INDEX; `extent` is that extent."""
    ...


@valid_dim.type_rule
def valid_dim_type(x: Value, *, axis: int, extent: Dim) -> Type:
    type_ = require_shaped("valid_dim", "x", x)
    axis = normal_axis("valid_dim", axis, type_.rank)
    require_same_shape("valid_dim", "extent", (extent,), (valid_of(type_)[axis],))
    return ScalarType(INDEX)


@valid_dim.reference
def valid_dim_numpy(x: Any, *, axis: int, extent: Any) -> Any:
    return np.int64(extent)


def _valid_extent(operation: Operation) -> Dim:
    return operation.attrs["extent"]


DIM_OPS[valid_dim] = _valid_extent
valid_dim.samples(
    lambda: [
        sample(tile(4, 8, valid=(3, 8)), axis=0, extent=3),
        fails(ShapeMismatch, tile(4, 8, valid=(3, 8)), axis=0, extent=4),
    ]
)


@op("memory.move")
def move(
    tile: Value,
    *,
    target_memory: MemorySpace,
    blayout: TileLayout | None = None,
    slayout: TileLayout | None = None,
) -> Value:
    """The same elements in another memory space; layouts concern the device only."""
    ...


@move.type_rule
def move_type(
    tile: Value,
    *,
    target_memory: MemorySpace,
    blayout: TileLayout | None,
    slayout: TileLayout | None,
) -> Type:
    type_ = require_tile("move", "tile", tile)
    return tile_type(type_.shape, type_.dtype, target_memory, valid_of(type_))


@move.reference
def move_numpy(
    tile: Any,
    *,
    target_memory: MemorySpace,
    blayout: TileLayout | None,
    slayout: TileLayout | None,
) -> Array:
    return tile


@move.structure
def move_loops(
    tile: Value,
    *,
    target_memory: MemorySpace,
    blayout: TileLayout | None,
    slayout: TileLayout | None,
) -> Structure:
    dims = domain(shape_of(tile))
    return rearrangement(shape_of(tile), dims, Read(tile, identity_map(dims)))


move.samples(
    lambda: [
        sample(tile(4, 8), target_memory=MemorySpace.Left, dtypes=EVERY),
        sample(tile(4, 8, valid=(3, 8)), target_memory=MemorySpace.Mat),
        fails(ArgumentTypeMismatch, tensor(4, 8), target_memory=MemorySpace.Mat),
    ]
)


@op("memory.load", effect=Effect.READ)
def load(
    tensor: Value,
    offsets: Offsets,
    valid_shape: Offsets | None = None,
    *,
    shapes: Shape,
    target_memory: MemorySpace = MemorySpace.Vec,
    clamp: bool = False,
) -> Value:
    """A tile of extents `shapes` holding the window of `tensor` that starts at `offsets`.

    It is valid inside `valid_shape` (if given), where the tensor is, and, with `clamp`, where the
    tensor exists; elements outside that region are 0.
    """
    ...


@load.type_rule
def load_type(
    tensor: Value,
    offsets: Sequence[Value],
    valid_shape: Sequence[Value] | None,
    *,
    shapes: Shape,
    target_memory: MemorySpace,
    clamp: bool,
) -> Type:
    type_ = require_tensor("load", "tensor", tensor)
    require_static("load", "shapes", shapes)
    valid = require_window("load", type_, as_dims(offsets), shapes, valid_shape, clamp)
    return tile_type(shapes, type_.dtype, target_memory, valid)


@load.reference
def load_numpy(
    tensor: Any,
    offsets: Any,
    valid_shape: Any,
    *,
    shapes: tuple[int, ...],
    target_memory: MemorySpace,
    clamp: bool,
) -> Array:
    valid = shapes if valid_shape is None else tuple(map(int, valid_shape))
    require_room("load", valid, shapes)
    if clamp:
        room = [max(0, bound - int(at)) for bound, at in zip(tensor.shape, offsets, strict=True)]
        valid = tuple(min(used, free) for used, free in zip(valid, room, strict=True))
    window = tensor[region(offsets, valid, tensor.shape)]
    if valid == shapes:
        return window.copy()
    result = np.zeros(shapes, tensor.dtype)
    result[front(valid)] = window
    return result


@load.structure
def load_loops(
    tensor: Value,
    offsets: Sequence[Value],
    valid_shape: Sequence[Value] | None,
    *,
    shapes: Shape,
    target_memory: MemorySpace,
    clamp: bool,
) -> Structure:
    type_ = tensor.type
    assert isinstance(type_, ShapedType)
    starts = as_dims(offsets)
    valid = window_valid("load", type_, starts, shapes, valid_shape, clamp)
    dims = domain(shapes)
    index = tuple(as_expr(start) + at for at, start in zip(dims, starts, strict=True))
    return rearrangement(shapes, dims, Read(tensor, index, inside(dims, valid, shapes)))


load.samples(
    lambda: [
        sample(tensor(16, 24), indices(3, 5), shapes=(4, 8), dtypes=EVERY),
        sample(tensor(16, 24), indices(12, 0), indices(4, 3), shapes=(8, 8), dtypes=NUMBERS),
        sample(tensor(16, 24), indices(12, 20), shapes=(8, 8), clamp=True),
        sample(tensor(16), indices(0), shapes=(16,), target_memory=MemorySpace.Mat),
        fails(ShapeMismatch, tensor(16, 24), indices(12, 0), shapes=(8, 8)),
        fails(RankMismatch, tensor(16, 24), indices(0), shapes=(8,)),
        fails(ArgumentTypeMismatch, tile(16, 24), indices(0, 0), shapes=(8, 8)),
        fails(ShapeMismatch, tensor(16, 24), indices(0, 0), indices(9, 8), shapes=(8, 8)),
    ]
)


@op("memory.store", effect=Effect.WRITE, tied={0: 2})
def store(
    tile: Value,
    offsets: Offsets,
    output_tensor: Value,
    *,
    valid: Shape | None = None,
    atomic: AtomicType = AtomicType.None_,
) -> Value:
    """`output_tensor` with the valid region of `tile` written at `offsets`.

    `valid` is that region (None: all of the tile). A tile of lower rank is written along the last
    axes. With `atomic` Add the elements are added to what is there.
    """
    ...


def written_window(
    name: str, source: ShapedType, target: ShapedType, offsets: Shape, valid: Shape | None
) -> Shape:
    """Extents, one per axis of the target, of the window that a write fills; checks everything."""
    require_length(name, "the offset", offsets, target.rank)
    if source.rank > target.rank:
        raise RankMismatch(f"{name}: {source} has more axes than {target}")
    if source.dtype is not target.dtype:
        raise DTypeMismatch(
            f"{name}: a {source.dtype} value into a {target.dtype} target",
            hint="convert it with pl.cast",
        )
    filled = shrunk(valid, source.shape)
    require_same_shape(name, "valid", filled, valid_of(source))
    window = (*[1] * (target.rank - source.rank), *filled)
    require_inside(name, target.shape, offsets, window)
    return window


def window_structure(
    source: Value, offsets: Shape, target: Value, valid: Shape | None, atomic: AtomicType
) -> Structure:
    """One point per valid element of `source`, written into `target` at `offsets`."""
    shape = shrunk(valid, shape_of(source))
    dims = domain(shape)
    lead = len(offsets) - len(dims)
    window = (*[0] * lead, *dims)
    index = tuple(as_expr(start) + at for at, start in zip(window, offsets, strict=True))
    reads = [Read(source, identity_map(dims))]
    if atomic is AtomicType.Add:
        reads.append(Read(target, index))

    def body(scalars: Scalars, index: Scalars) -> Scalars:
        return scalars if len(scalars) == 1 else (arith.add(*scalars),)

    kinds = (AxisKind.PARALLEL,) * len(dims)
    return Structure(dims, shape, kinds, tuple(reads), (index,), body)


def write_window(source: Any, offsets: Any, target: Any, valid: Any, atomic: AtomicType) -> Array:
    """`target`, written in place; raises IndexOutOfBounds as `region` and `require_room` do."""
    filled = source.shape if valid is None else tuple(max(0, int(used)) for used in valid)
    if 0 not in filled:
        require_room("the valid region", filled, source.shape)
    window = (*[1] * (target.ndim - source.ndim), *filled)
    index = region(offsets, window, target.shape)
    given = np.reshape(source[front(filled)], window)
    if atomic is AtomicType.Add:
        given = meaning_of(arith.add)(target[index], given)
    target[index] = given
    return target


@store.type_rule
def store_type(
    tile: Value,
    offsets: Sequence[Value],
    output_tensor: Value,
    *,
    valid: Shape | None,
    atomic: AtomicType,
) -> Type:
    source = require_tile("store", "tile", tile)
    target = require_tensor("store", "output_tensor", output_tensor)
    written_window("store", source, target, as_dims(offsets), valid)
    return target


@store.reference
def store_numpy(
    tile: Any, offsets: Any, output_tensor: Any, *, valid: Any, atomic: AtomicType
) -> Array:
    return write_window(tile, offsets, output_tensor, valid, atomic)


@store.structure
def store_loops(
    tile: Value,
    offsets: Sequence[Value],
    output_tensor: Value,
    *,
    valid: Shape | None,
    atomic: AtomicType,
) -> Structure:
    return window_structure(tile, as_dims(offsets), output_tensor, valid, atomic)


store.samples(
    lambda: [
        sample(tile(4, 8), indices(3, 5), tensor(16, 24), dtypes=EVERY),
        sample(tile(4, 8, valid=(3, 2)), indices(13, 5), tensor(16, 24), valid=(3, 2)),
        sample(tile(4, 8), indices(1, 3, 5), tensor(2, 16, 24)),
        sample(tile(4, 8), indices(3, 5), tensor(16, 24), atomic=AtomicType.Add, dtypes=NUMBERS),
        fails(ShapeMismatch, tile(4, 8), indices(13, 5), tensor(16, 24)),
        fails(ShapeMismatch, tile(4, 8, valid=(3, 2)), indices(0, 0), tensor(16, 24)),
        fails(DTypeMismatch, tile(4, 8), indices(0, 0), tensor(16, 24, dtype=FP16)),
        fails(ArgumentTypeMismatch, tile(4, 8), indices(0, 0), tile(16, 24)),
        fails(RankMismatch, tile(4, 8), indices(0), tensor(16, 24)),
    ]
)


@op("memory.assemble", effect=Effect.WRITE, tied={0: 0})
def assemble(
    target: Value,
    source: Value,
    offset: Offsets,
    *,
    valid: Shape | None = None,
    atomic: AtomicType = AtomicType.None_,
) -> Value:
    """`target` with the valid region of `source` written at `offset`.

    `valid` is that region (None: all of the source). What the target is valid in must stay a
    rectangle at the origin. With `atomic` Add the elements are added to what is there.
    """
    ...


@assemble.type_rule
def assemble_type(
    target: Value,
    source: Value,
    offset: Sequence[Value],
    *,
    valid: Shape | None,
    atomic: AtomicType,
) -> Type:
    whole = require_shaped("assemble", "target", target)
    part = require_shaped("assemble", "source", source)
    offsets = as_dims(offset)
    window = written_window("assemble", part, whole, offsets, valid)
    return assembled_type(whole, offsets, window)


def assembled_type(whole: ShapedType, offsets: Shape, window: Shape) -> Type:
    """The type of a target after a window has been written: its valid region may have grown."""
    if is_fully_valid(whole):
        return whole
    grown = joined_region(valid_of(whole), offsets, window)
    if grown is None:
        raise ShapeMismatch(
            f"assemble: the valid region {render_dims(valid_of(whole))} and a window of "
            f"{render_dims(window)} at {render_dims(offsets)} do not form a rectangle",
            hint="start from a fully valid target, for example pl.full(...)",
        )
    return with_valid(whole, grown)


def joined_region(valid: Shape, offsets: Shape, window: Shape) -> Shape | None:
    """The rectangle at the origin that is the union of a valid region and a window, or None."""
    ends = tuple(as_expr(start) + extent for start, extent in zip(offsets, window, strict=True))
    axes = range(len(valid))
    grows = [axis for axis in axes if not less_equal(ends[axis], valid[axis])]
    if not grows:
        return valid
    covers = [same_dim(offsets[axis], 0) and less_equal(valid[axis], ends[axis]) for axis in axes]
    if all(covers):
        return tuple(as_dims(ends))
    (axis, *more) = grows
    rest = all(covers[k] and same_dim(as_dims(ends)[k], valid[k]) for k in axes if k != axis)
    touches = less_equal(offsets[axis], valid[axis])
    if more or not rest or not touches:
        return None
    return tuple(as_dims(ends)[k] if k == axis else valid[k] for k in axes)


@assemble.reference
def assemble_numpy(
    target: Any, source: Any, offset: Any, *, valid: Any, atomic: AtomicType
) -> Array:
    return write_window(source, offset, target, valid, atomic)


@assemble.structure
def assemble_loops(
    target: Value,
    source: Value,
    offset: Sequence[Value],
    *,
    valid: Shape | None,
    atomic: AtomicType,
) -> Structure:
    return window_structure(source, as_dims(offset), target, valid, atomic)


assemble.samples(
    lambda: [
        sample(tile(16, 24), tile(4, 8), indices(3, 5), dtypes=EVERY),
        sample(tensor(16, 24), tensor(4, 24), indices(12, 0), atomic=AtomicType.Add),
        sample(tile(8, 8, valid=(4, 8)), tile(4, 8), indices(4, 0)),
        fails(ShapeMismatch, tile(8, 8, valid=(4, 8)), tile(2, 4), indices(4, 0)),
        fails(ShapeMismatch, tile(16, 24), tile(4, 8), indices(13, 0)),
    ]
)


@op("memory.read", effect=Effect.READ)
def read(x: Value, indices: Offsets) -> Value:
    """The element of x at `indices`, as a scalar."""
    ...


@read.type_rule
def read_type(x: Value, indices: Sequence[Value]) -> Type:
    type_ = require_shaped("read", "x", x)
    require_length("read", "indices", indices, type_.rank)
    require_inside("read", type_.shape, as_dims(indices), (1,) * type_.rank)
    return ScalarType(type_.dtype)


@read.reference
def read_numpy(x: Any, indices: Any) -> Any:
    return x[point(indices, x.shape)]


read.samples(
    lambda: [
        sample(tensor(4, 8), indices(3, 7), dtypes=EVERY),
        fails(ShapeMismatch, tile(4, 8), indices(4, 0)),
        fails(RankMismatch, tile(4, 8), indices(1)),
    ]
)


@op("memory.write", effect=Effect.WRITE, tied={0: 0})
def write(x: Value, indices: Offsets, value: Value) -> Value:
    """x with the scalar `value` at `indices`."""
    ...


@write.type_rule
def write_type(x: Value, indices: Sequence[Value], value: Value) -> Type:
    read_type(x, indices)
    type_ = require_shaped("write", "x", x)
    if require_scalar("write", "value", value).dtype is not type_.dtype:
        raise DTypeMismatch(f"write: value is {value.type}, not {type_.dtype}")
    return type_


@write.reference
def write_numpy(x: Any, indices: Any, value: Any) -> Array:
    x[point(indices, x.shape)] = value
    return x


write.samples(
    lambda: [
        sample(tensor(4, 8), indices(3, 7), scalar(5), dtypes=EVERY),
        fails(DTypeMismatch, tile(4, 8), indices(3, 0), scalar(5, INT32)),
        fails(ShapeMismatch, tile(4, 8), indices(3, 8), scalar(5)),
    ]
)
