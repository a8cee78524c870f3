"""Rearrangements: reshape, transpose, broadcast, slice, concat, reinterpret, valid regions.

Each gives a tensor for a tensor and a tile in the same memory space for a tile. Valid regions
follow the elements; where they cannot, the op is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import BOOL, FP16, INT32, UINT8, DType
from tilewright.errors import (
    DTypeMismatch,
    RankMismatch,
    RuntimeShapeMismatch,
    ShapeMismatch,
)
from tilewright.ir.affine import Expr, as_expr, exact_quotient, less_equal
from tilewright.ir.affine.constraints import Constraint
from tilewright.ir.core import Value
from tilewright.ir.opdef import op
from tilewright.ir.structure import AxisKind, Read, Structure, broadcast_map, domain, identity_map
from tilewright.ir.types import (
    DistributedTensorType,
    Shape,
    ShapedType,
    TensorType,
    Type,
    element_count,
    render_dims,
)
from tilewright.ops import arith
from tilewright.ops.cast import bitcast
from tilewright.ops.extents import as_dims, same_dim, same_dims
from tilewright.ops.regions import (
    front,
    inside,
    region,
    require_room,
    require_valid,
    require_window,
)
from tilewright.ops.rules import (
    Offsets,
    is_fully_valid,
    moved_type,
    require_equal_dtypes,
    require_length,
    require_same_shape,
    require_shaped,
    valid_of,
    with_layout,
    with_valid,
)
from tilewright.ops.sampling import (
    EVERY,
    FLOATS,
    INTS,
    fails,
    indices,
    sample,
    strided,
    tensor,
    tile,
)
from tilewright.ops.words import Array

Scalars = tuple[Value, ...]


def shape_of(x: Value) -> Shape:
    """Extents of a tensor or tile operand."""
    assert isinstance(x.type, ShapedType)
    return x.type.shape


def keep(scalars: Scalars, index: Scalars) -> Scalars:
    """The body of a rearrangement: the one element read."""
    return scalars[:1]


def rearrangement(shape: Shape, dims: tuple[Any, ...], *reads: Read, **more: Any) -> Structure:
    """A pointwise structure over `shape` that keeps the element read."""
    kinds = (AxisKind.PARALLEL,) * len(shape)
    body = more.pop("body", keep)
    return Structure(dims, shape, kinds, reads, (identity_map(dims),), body, **more)


@op("shape.reshape")
def reshape(x: Value, *, shape: Shape) -> Value:
    """The elements of x in row-major order under another shape of as many elements."""
    ...


def require_count(name: str, given: Shape, wanted: Shape) -> None:
    """Raises ShapeMismatch when the shapes certainly have different numbers of elements."""
    if same_dim(element_count(given), element_count(wanted)) is False:
        raise ShapeMismatch(
            f"{name}: {render_dims(given)} has {element_count(given)} elements, "
            f"{render_dims(wanted)} has {element_count(wanted)}"
        )


@reshape.type_rule
def reshape_type(x: Value, *, shape: Shape) -> Type:
    type_ = require_shaped("reshape", "x", x)
    require_count("reshape", type_.shape, shape)
    return moved_type(type_, shape, type_.dtype, reshaped_valid(type_, shape))


def reshaped_valid(type_: ShapedType, shape: Shape) -> Shape:
    """The valid region after a reshape; only leading rows may be partly used."""
    if is_fully_valid(type_):
        return shape
    valid = valid_of(type_)
    inner = element_count(shape[1:])
    rows = exact_quotient(element_count(valid), inner) if isinstance(inner, int) and inner else None
    if rows is None or not same_dims(valid[1:], type_.shape[1:]):
        raise ShapeMismatch(
            f"reshape: the valid region {render_dims(valid)} of {render_dims(type_.shape)} is not "
            f"a number of whole rows of {render_dims(shape)}",
            hint="fill the padding first, for example with pl.fillpad",
        )
    return (rows, *shape[1:])


@reshape.reference
def reshape_numpy(x: Any, *, shape: tuple[int, ...]) -> Array:
    if int(np.prod(shape)) != x.size:
        raise RuntimeShapeMismatch(f"reshape: {x.shape} does not have the elements of {shape}")
    return np.reshape(x, shape)


def delinearize(position: Expr, shape: Shape) -> tuple[Expr, ...]:
    """The index into an array of `shape` of the element at a row-major position."""
    found: list[Expr] = []
    for extent in reversed(shape[1:]):
        found.append(position % extent)
        position = position // extent
    return (position, *reversed(found)) if shape else ()


def linearize(dims: Sequence[Any], shape: Shape) -> Expr:
    """The row-major position of the element at `dims`."""
    position = as_expr(0)
    for dim, extent in zip(dims, shape, strict=True):
        position = position * as_expr(extent) + as_expr(dim)
    return position


def reshaped_map(dims: Sequence[Any], shape: Shape, source: Shape) -> tuple[Expr, ...]:
    """Where the element at `dims` of a reshaped array lies in the array of shape `source`."""
    wide = [axis for axis, extent in enumerate(shape) if extent != 1]
    kept = tuple(extent for extent in source if extent != 1)
    if not same_dims(tuple(shape[axis] for axis in wide), kept):
        return delinearize(linearize(dims, shape), source)
    moved = iter(as_expr(dims[axis]) for axis in wide)
    return tuple(as_expr(0) if extent == 1 else next(moved) for extent in source)


@reshape.structure
def reshape_loops(x: Value, *, shape: Shape) -> Structure:
    dims = domain(shape)
    return rearrangement(shape, dims, Read(x, reshaped_map(dims, shape, shape_of(x))))


reshape.samples(
    lambda: [
        sample(tile(6, 8), shape=(8, 6), dtypes=EVERY),
        sample(tensor(5, 7, make=strided), shape=(35,), dtypes=EVERY),
        sample(tile(4, 8), shape=(4, 1, 8)),
        sample(tile(0, 8), shape=(2, 0)),
        sample(tile(4, 6, valid=(3, 6)), shape=(12, 2)),
        fails(ShapeMismatch, tile(4, 8), shape=(4, 9)),
        fails(ShapeMismatch, tile(4, 6, valid=(3, 5)), shape=(24,)),
    ]
)


@op("shape.transpose")
def transpose(x: Value, *, perm: tuple[int, ...]) -> Value:
    """x with its axes permuted: axis k of the result is axis `perm[k]` of x."""
    ...


@transpose.type_rule
def transpose_type(x: Value, *, perm: tuple[int, ...]) -> Type:
    type_ = require_shaped("transpose", "x", x)
    if sorted(perm) != list(range(type_.rank)):
        raise RankMismatch(f"transpose: {list(perm)} is no order of {type_.rank} axes")
    valid = valid_of(type_)
    shape = tuple(type_.shape[axis] for axis in perm)
    return moved_type(type_, shape, type_.dtype, tuple(valid[axis] for axis in perm))


@transpose.reference
def transpose_numpy(x: Any, *, perm: tuple[int, ...]) -> Array:
    return np.transpose(x, perm)


@transpose.structure
def transpose_loops(x: Value, *, perm: tuple[int, ...]) -> Structure:
    shape = tuple(shape_of(x)[axis] for axis in perm)
    dims = domain(shape)
    source = tuple(as_expr(dims[perm.index(axis)]) for axis in range(len(perm)))
    return rearrangement(shape, dims, Read(x, source))


transpose.samples(
    lambda: [
        sample(tile(7, 13), perm=(1, 0), dtypes=EVERY),
        sample(tensor(2, 3, 5), perm=(2, 0, 1)),
        sample(tile(0, 4), perm=(1, 0)),
        sample(tile(4, 8, valid=(3, 5)), perm=(1, 0)),
        fails(RankMismatch, tile(4, 8), perm=(0, 2)),
    ]
)


@op("shape.broadcast_to")
def broadcast_to(x: Value, *, shape: Shape) -> Value:
    """x repeated, numpy style, along its unit axes and along new leading axes."""
    ...


@broadcast_to.type_rule
def broadcast_to_type(x: Value, *, shape: Shape) -> Type:
    type_ = require_shaped("broadcast_to", "x", x)
    if type_.rank > len(shape):
        raise RankMismatch(f"broadcast_to: {type_} has more axes than {render_dims(shape)}")
    lead = len(shape) - type_.rank
    valid = list(shape)
    for axis, extent in enumerate(type_.shape):
        wanted = shape[lead + axis]
        if extent != 1 and not same_dim(extent, wanted):
            raise ShapeMismatch(f"broadcast_to: axis {axis} of {type_} is not 1 or {wanted}")
        if extent != 1 or not same_dim(valid_of(type_)[axis], 1):
            valid[lead + axis] = valid_of(type_)[axis]
    return moved_type(type_, shape, type_.dtype, tuple(valid))


@broadcast_to.reference
def broadcast_to_numpy(x: Any, *, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(x, shape)


@broadcast_to.structure
def broadcast_to_loops(x: Value, *, shape: Shape) -> Structure:
    dims = domain(shape)
    return rearrangement(shape, dims, Read(x, broadcast_map(dims, shape_of(x))))


broadcast_to.samples(
    lambda: [
        sample(tile(4, 1), shape=(4, 8), dtypes=EVERY),
        sample(tile(1, 8), shape=(4, 8)),
        sample(tensor(3), shape=(2, 5, 3)),
        sample(tile(4, 1, valid=(3, 1)), shape=(4, 8)),
        fails(ShapeMismatch, tile(4, 2), shape=(4, 8)),
        fails(RankMismatch, tile(4, 2), shape=(8,)),
    ]
)


@op("shape.slice")
def slice_(
    x: Value,
    offset: Offsets,
    valid_shape: Offsets | None = None,
    *,
    shape: Shape,
    drop_dims: tuple[int, ...] = (),
    clamp: bool = False,
) -> Value:
    """The part of x of extents `shape` that starts at `offset`, without the unit axes `drop_dims`.

    It is valid where x is and, if given, inside `valid_shape`. With `clamp` it may leave x: the
    valid region ends there. Elements outside x are 0. A part of a window is a window, the same
    part on every rank; else it is what x holds here.
    """
    ...


def require_droppable(shape: Shape, drop_dims: tuple[int, ...]) -> None:
    """Raises ShapeMismatch unless every axis of `drop_dims` has extent 1."""
    for axis in drop_dims:
        if not 0 <= axis < len(shape) or shape[axis] != 1:
            raise ShapeMismatch(f"slice: axis {axis} of {render_dims(shape)} is not a unit axis")


def without(shape: tuple[Any, ...], axes: tuple[int, ...]) -> tuple[Any, ...]:
    """The entries of `shape` whose position is not in `axes`."""
    return tuple(extent for axis, extent in enumerate(shape) if axis not in axes)


@slice_.type_rule
def slice_type(
    x: Value,
    offset: Sequence[Value],
    valid_shape: Sequence[Value] | None,
    *,
    shape: Shape,
    drop_dims: tuple[int, ...],
    clamp: bool,
) -> Type:
    type_ = require_shaped("slice", "x", x)
    valid = require_window("slice", type_, as_dims(offset), shape, valid_shape, clamp)
    require_droppable(shape, drop_dims)
    kept = without(shape, drop_dims)
    if isinstance(type_, DistributedTensorType) and valid_shape is None and not clamp:
        return DistributedTensorType(kept, type_.dtype)
    part = moved_type(type_, kept, type_.dtype, without(valid, drop_dims))
    is_matrix = all(axis < len(shape) - 2 for axis in drop_dims)
    layout = type_.view.layout if isinstance(type_, TensorType) and type_.view else None
    return with_layout(part, layout) if layout and is_matrix else part


@slice_.reference
def slice_numpy(
    x: Any,
    offset: Any,
    valid_shape: Any,
    *,
    shape: tuple[int, ...],
    drop_dims: tuple[int, ...],
    clamp: bool,
) -> Array:
    room = [max(0, bound - int(start)) for bound, start in zip(x.shape, offset, strict=True)]
    exists = shape
    if valid_shape is not None:
        require_room("slice", valid_shape, shape)
    if clamp or valid_shape is not None:
        exists = tuple(min(extent, free) for extent, free in zip(shape, room, strict=True))
    part = x[region(offset, exists, x.shape)]
    if exists != tuple(shape):
        padding = [(0, extent - there) for extent, there in zip(shape, exists, strict=True)]
        part = np.pad(part, padding)
    return np.reshape(part, without(shape, drop_dims))


@slice_.structure
def slice_loops(
    x: Value,
    offset: Sequence[Value],
    valid_shape: Sequence[Value] | None,
    *,
    shape: Shape,
    drop_dims: tuple[int, ...],
    clamp: bool,
) -> Structure:
    kept = without(shape, drop_dims)
    dims = domain(kept)
    free = iter(dims)
    starts = as_dims(offset)
    index = tuple(
        as_expr(start) if axis in drop_dims else next(free) + start
        for axis, start in enumerate(starts)
    )
    may_leave = clamp or valid_shape is not None
    bounds = zip(index, starts, shape, shape_of(x), strict=True) if may_leave else ()
    mask = tuple(
        Constraint.less(at, bound)
        for at, start, extent, bound in bounds
        if not less_equal(as_expr(start) + extent, bound)
    )
    return rearrangement(kept, dims, Read(x, index, mask))


slice_.samples(
    lambda: [
        sample(tile(7, 13), indices(2, 3), shape=(4, 8), dtypes=EVERY),
        sample(tensor(7, 13), indices(6, 0), shape=(1, 13), drop_dims=(0,)),
        sample(tensor(4, 8, make=strided), indices(0, 0), shape=(4, 8)),
        sample(tile(4, 8, valid=(3, 8)), indices(2, 0), shape=(2, 8)),
        sample(tile(4, 8), indices(0, 0), indices(2, 5), shape=(4, 8)),
        sample(tile(4, 8), indices(2, 4), shape=(4, 8), clamp=True),
        fails(ShapeMismatch, tile(4, 8), indices(2, 0), shape=(4, 8)),
        fails(RankMismatch, tile(4, 8), indices(2), shape=(4, 8)),
        fails(ShapeMismatch, tile(4, 8), indices(0, 0), shape=(4, 8), drop_dims=(0,)),
    ]
)


@op("shape.concat")
def concat(parts: Sequence[Value], *, axis: int = -1) -> Value:
    """The parts one after the other along `axis`; they agree on every other axis and on dtype."""
    ...


@concat.type_rule
def concat_type(parts: Sequence[Value], *, axis: int) -> Type:
    types = [require_shaped("concat", "a part", part) for part in parts]
    first = types[0]
    total = 0
    for type_ in types:
        require_length("concat", "a part's shape", type_.shape, first.rank)
        if not is_fully_valid(type_):
            raise ShapeMismatch(f"concat: {type_} is not fully valid", hint="use pl.fillpad first")
        extent = type_.shape[axis]
        if not isinstance(extent, int):
            raise ShapeMismatch(f"concat: the extent {extent} of axis {axis} is not static")
        require_same_shape(
            "concat", "a part", _resized(type_.shape, axis, 1), _resized(first.shape, axis, 1)
        )
        total += extent
    return moved_type(
        first, _resized(first.shape, axis, total), require_equal_dtypes("concat", *types)
    )


def _resized(shape: Shape, axis: int, extent: int) -> Shape:
    axis %= len(shape)
    return (*shape[:axis], extent, *shape[axis + 1 :])


@concat.reference
def concat_numpy(parts: Any, *, axis: int) -> Array:
    return np.concatenate(parts, axis)


@concat.structure
def concat_loops(parts: Sequence[Value], *, axis: int) -> Structure:
    axis %= len(shape_of(parts[0]))
    ends = np.cumsum([int(shape_of(part)[axis]) for part in parts]).tolist()
    shape = _resized(shape_of(parts[0]), axis, ends[-1])
    dims = domain(shape)
    reads: list[Read] = []
    for start, end, part in zip([0, *ends], ends, parts, strict=False):
        index = (*dims[:axis], dims[axis] - start, *dims[axis + 1 :])
        here = (Constraint.less_equal(start, dims[axis]), Constraint.less(dims[axis], end))
        reads.append(Read(part, tuple(map(as_expr, index)), here))
    tests = tuple((Constraint.less(dims[axis], end),) for end in ends[:-1])

    def body(scalars: Scalars, index: Scalars) -> Scalars:
        chosen = scalars[len(reads) - 1]
        for k in reversed(range(len(reads) - 1)):
            chosen = arith.select(scalars[len(reads) + k], scalars[k], chosen)
        return (chosen,)

    return rearrangement(shape, dims, *reads, body=body, tests=tests)


concat.samples(
    lambda: [
        sample((tile(4, 8), tile(4, 3)), dtypes=EVERY),
        sample((tensor(2, 5), tensor(3, 5), tensor(1, 5)), axis=0),
        fails(ShapeMismatch, (tile(4, 8), tile(5, 8))),
        fails(DTypeMismatch, (tile(4, 8), tile(4, 8, dtype=INT32))),
    ]
)


@op("shape.reinterpret")
def reinterpret(x: Value, *, dtype: DType, shape: Shape) -> Value:
    """The bytes of dense x as `dtype` under `shape`; as many bytes."""
    ...


@reinterpret.type_rule
def reinterpret_type(x: Value, *, dtype: DType, shape: Shape) -> Type:
    type_ = require_shaped("reinterpret_view", "x", x)
    given = element_count(type_.shape) * type_.dtype.nbytes
    wanted = element_count(shape) * dtype.nbytes
    if not same_dim(given, wanted):
        raise ShapeMismatch(
            f"reinterpret_view: {type_} has {given} bytes, {render_dims(shape)} of {dtype} {wanted}"
        )
    if not is_fully_valid(type_):
        raise ShapeMismatch(f"reinterpret_view: {type_} is not fully valid")
    return moved_type(type_, shape, dtype)


@reinterpret.reference
def reinterpret_numpy(x: Any, *, dtype: DType, shape: tuple[int, ...]) -> Array:
    flat: Any = np.reshape(np.ascontiguousarray(x), -1)
    return np.reshape(flat.view(dtype.numpy), shape)


@reinterpret.structure
def reinterpret_loops(x: Value, *, dtype: DType, shape: Shape) -> Structure | None:
    """None where the widths differ: then it is a view of memory, and nothing else."""
    assert isinstance(x.type, ShapedType)
    if x.type.dtype.nbytes != dtype.nbytes:
        return None
    dims = domain(shape)
    read = Read(x, reshaped_map(dims, shape, x.type.shape))

    def body(scalars: Scalars, index: Scalars) -> Scalars:
        return (bitcast(scalars[0], dtype=dtype),)

    return rearrangement(shape, dims, read, body=body)


reinterpret.samples(
    lambda: [
        sample(tile(4, 8), dtype=INT32, shape=(4, 8)),
        sample(tile(4, 8), dtype=FP16, shape=(4, 16)),
        sample(tensor(4, 8, dtype=FP16), dtype=UINT8, shape=(64,)),
        fails(ShapeMismatch, tile(4, 8), dtype=FP16, shape=(4, 8)),
    ]
)


@op("shape.set_valid")
def set_valid(x: Value, valid_shape: Offsets) -> Value:
    """x with the valid region [0, valid_shape); no element changes."""
    ...


@set_valid.type_rule
def set_valid_type(x: Value, valid_shape: Sequence[Value]) -> Type:
    type_ = require_shaped("set_validshape", "x", x)
    valid = as_dims(valid_shape)
    require_valid("set_validshape", valid, type_.shape)
    return with_valid(type_, valid)


@set_valid.reference
def set_valid_numpy(x: Any, valid_shape: Any) -> Array:
    require_room("set_validshape", valid_shape, x.shape)
    return x


@set_valid.structure
def set_valid_loops(x: Value, valid_shape: Sequence[Value]) -> Structure:
    dims = domain(shape_of(x))
    return rearrangement(shape_of(x), dims, Read(x, identity_map(dims)))


set_valid.samples(
    lambda: [
        sample(tile(4, 8), indices(3, 8)),
        sample(tile(4, 8, valid=(2, 2)), indices(4, 8)),
        fails(ShapeMismatch, tile(4, 8), indices(5, 8)),
        fails(RankMismatch, tile(4, 8), indices(4)),
    ]
)


@op("shape.fillpad")
def fillpad(x: Value, *, fill: int | float, valid: Shape, keep_valid: bool = False) -> Value:
    """x with `fill` outside `valid`, which is the valid region of x.

    The result is fully valid, or with `keep_valid` where x is.
    """
    ...


@fillpad.type_rule
def fillpad_type(x: Value, *, fill: int | float, valid: Shape, keep_valid: bool) -> Type:
    type_ = require_shaped("fillpad", "x", x)
    require_same_shape("fillpad", "valid", valid, valid_of(type_))
    if isinstance(fill, float) and not type_.dtype.is_float():
        raise DTypeMismatch(f"fillpad: {fill} is not a value of {type_.dtype}")
    return moved_type(type_, type_.shape, type_.dtype, valid if keep_valid else None)


@fillpad.reference
def fillpad_numpy(x: Any, *, fill: int | float, valid: Any, keep_valid: bool) -> Array:
    result = np.full_like(x, fill)
    window = front(valid)
    result[window] = x[window]
    return result


@fillpad.structure
def fillpad_loops(x: Value, *, fill: int | float, valid: Shape, keep_valid: bool) -> Structure:
    assert isinstance(x.type, ShapedType)
    dtype = x.type.dtype
    dims = domain(x.type.shape)
    there = inside(dims, valid, x.type.shape)

    def body(scalars: Scalars, index: Scalars) -> Scalars:
        return (arith.select(scalars[1], scalars[0], arith.const(value=fill, dtype=dtype)),)

    return rearrangement(x.type.shape, dims, Read(x, identity_map(dims)), body=body, tests=(there,))


fillpad.samples(
    lambda: [
        sample(tile(4, 8, valid=(3, 5)), fill=0, valid=(3, 5), dtypes=(*INTS, BOOL)),
        sample(tile(4, 8, valid=(3, 5)), fill=0.0, valid=(3, 5), dtypes=FLOATS),
        sample(tile(4, 8, valid=(3, 8)), fill=float("-inf"), valid=(3, 8)),
        sample(tile(4, 8), fill=1.0, valid=(4, 8)),
        sample(tile(4, 8, valid=(3, 8)), fill=2.0, valid=(3, 8), keep_valid=True),
        fails(ShapeMismatch, tile(4, 8, valid=(3, 5)), fill=0, valid=(3, 8)),
        fails(DTypeMismatch, tile(4, 8, dtype=INT32), fill=0.5, valid=(4, 8)),
    ]
)
