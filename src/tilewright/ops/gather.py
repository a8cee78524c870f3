"""Elements chosen by index tensors: take and take_along, and their inverses put and put_along.

Indices are integers and must lie in [0, extent): anything else is an IndexOutOfBounds fault.
Where an index occurs twice in a put, the last element in row-major order stays.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tilewright.dtypes import FP16, INT32, INT64
from tilewright.errors import DTypeMismatch, IndexOutOfBounds, RankMismatch, ShapeMismatch
from tilewright.ir.affine import Expr, as_expr
from tilewright.ir.core import Value
from tilewright.ir.enums import Effect, MemorySpace
from tilewright.ir.opdef import op
from tilewright.ir.structure import AxisKind, Indirect, Read, Structure, domain, identity_map
from tilewright.ir.types import Shape, ShapedType, TileType, Type
from tilewright.ops.rules import (
    moved_type,
    normal_axis,
    placed_type,
    require_equal_dtypes,
    require_fully_valid,
    require_same_shape,
    require_shaped,
)
from tilewright.ops.sampling import EVERY, below, fails, sample, tensor, tile
from tilewright.ops.shape import shape_of
from tilewright.ops.words import Array


def require_indices(name: str, indices: Value) -> ShapedType:
    """The type of an index operand; raises DTypeMismatch unless its elements are integers."""
    type_ = require_shaped(name, "indices", indices)
    if not type_.dtype.is_int() or type_.dtype.bits < 8:
        raise DTypeMismatch(f"{name}: indices are {type_.dtype}, not integers")
    require_fully_valid(name, "indices", type_)
    return type_


def bounded(name: str, indices: Any, extent: int, axis: int) -> Array:
    """`indices`, all of which must be in [0, extent); raises IndexOutOfBounds."""
    found: Any = np.asarray(indices)
    if found.size and (found.min() < 0 or found.max() >= extent):
        worst = found.min() if found.min() < 0 else found.max()
        raise IndexOutOfBounds(f"{name}: index {worst} of axis {axis}, which has {extent} elements")
    return found.astype(np.int64)


def chosen_type(
    x: ShapedType, indices: ShapedType, shape: Shape, space: MemorySpace | None
) -> Type:
    """The type of gathered elements: where `space` says, or like x; on chip if either is."""
    if space is not None:
        return placed_type(shape, x.dtype, space)
    home = x if isinstance(x, TileType) or not isinstance(indices, TileType) else indices
    return moved_type(home, shape, x.dtype)


@op("gather.take", effect=Effect.READ)
def take(x: Value, indices: Value, *, axis: int, space: MemorySpace | None = None) -> Value:
    """Slices of x along `axis`: the axis is replaced by the axes of `indices`.

    `space` says where the result is; by default it is of the kind of x, or on chip with indices.
    """
    ...


@take.type_rule
def take_type(x: Value, indices: Value, *, axis: int, space: MemorySpace | None) -> Type:
    type_ = require_shaped("gather", "x", x)
    chosen = require_indices("gather", indices)
    require_fully_valid("gather", "x", type_)
    axis = normal_axis("gather", axis, type_.rank)
    shape = (*type_.shape[:axis], *chosen.shape, *type_.shape[axis + 1 :])
    return chosen_type(type_, chosen, shape, space)


@take.reference
def take_numpy(x: Any, indices: Any, *, axis: int, space: MemorySpace | None) -> Array:
    return np.take(x, bounded("gather", indices, x.shape[axis], axis), axis)


@take.structure
def take_loops(x: Value, indices: Value, *, axis: int, space: MemorySpace | None) -> Structure:
    source, chosen = shape_of(x), shape_of(indices)
    axis %= len(source)
    shape = (*source[:axis], *chosen, *source[axis + 1 :])
    dims = domain(shape)
    here = tuple(map(as_expr, dims[axis : axis + len(chosen)]))
    outer = tuple(map(as_expr, dims[:axis]))
    inner = tuple(map(as_expr, dims[axis + len(chosen) :]))
    element = (*outer, Indirect(0, source[axis]), *inner)
    kinds = (AxisKind.PARALLEL,) * len(dims)
    reads = (Read(indices, here), Read(x, element))
    return Structure(dims, shape, kinds, reads, (identity_map(dims),), keep_last)


def keep_last(scalars: tuple[Value, ...], index: tuple[Value, ...]) -> tuple[Value, ...]:
    """The body of a gather: the element, which is read after its index."""
    return scalars[-1:]


take.samples(
    lambda: [
        sample(tensor(9, 13), tile(5, dtype=INT32, make=below(9)), axis=0, dtypes=EVERY),
        sample(tile(9, 13), tile(2, 3, dtype=INT32, make=below(13)), axis=1),
        sample(tensor(9, 13), tensor(4, dtype=INT64, make=below(13)), axis=-1),
        sample(tensor(9, 13), tensor(0, dtype=INT64, make=below(13)), axis=0),
        sample(tensor(9), tile(4, 4, dtype=INT32, make=below(9)), axis=0, space=MemorySpace.Mat),
        fails(DTypeMismatch, tensor(9, 13), tile(5), axis=0),
        fails(RankMismatch, tensor(9, 13), tile(5, dtype=INT32), axis=2),
        fails(ShapeMismatch, tile(9, 13, valid=(8, 13)), tile(5, dtype=INT32), axis=0),
    ]
)


@op("gather.take_along", effect=Effect.READ)
def take_along(x: Value, indices: Value, *, axis: int) -> Value:
    """x[..., indices[..., j, ...], ...]: one element along `axis` for each of `indices`.

    `indices` has the rank of x, and at most its extents on the other axes.
    """
    ...


def require_along(name: str, x: ShapedType, indices: ShapedType, axis: int) -> int:
    """The axis counted from the front; raises RankMismatch or ShapeMismatch."""
    if x.rank != indices.rank:
        raise RankMismatch(f"{name}: {x} and indices {indices} have different ranks")
    axis = normal_axis(name, axis, x.rank)
    for k in range(x.rank):
        small, large = indices.shape[k], x.shape[k]
        fits = small == large or (
            isinstance(small, int) and isinstance(large, int) and small <= large
        )
        if k != axis and not fits:
            raise ShapeMismatch(f"{name}: indices have {small} elements on axis {k}, x {large}")
    return axis


@take_along.type_rule
def take_along_type(x: Value, indices: Value, *, axis: int) -> Type:
    type_ = require_shaped("gather", "x", x)
    chosen = require_indices("gather", indices)
    require_fully_valid("gather", "x", type_)
    require_along("gather", type_, chosen, axis)
    return chosen_type(type_, chosen, chosen.shape, None)


@take_along.reference
def take_along_numpy(x: Any, indices: Any, *, axis: int) -> Array:
    return x[_along(x, indices, axis)]


def _along(x: Any, indices: Any, axis: int) -> tuple[Any, ...]:
    grid: list[Any] = [*np.indices(tuple(indices.shape), sparse=True)]
    grid[axis] = bounded("gather", indices, x.shape[axis], axis)
    return tuple(grid)


def indirect_along(dims: tuple[Any, ...], axis: int, shape: Shape) -> tuple[Expr | Indirect, ...]:
    """The index of an element whose place on `axis` is the value of read 0."""
    axis %= len(dims)
    return tuple(Indirect(0, shape[k]) if k == axis else as_expr(dim) for k, dim in enumerate(dims))


@take_along.structure
def take_along_loops(x: Value, indices: Value, *, axis: int) -> Structure:
    dims = domain(shape_of(indices))
    reads = (
        Read(indices, identity_map(dims)),
        Read(x, indirect_along(dims, axis, shape_of(x))),
    )
    kinds = (AxisKind.PARALLEL,) * len(dims)
    return Structure(dims, shape_of(indices), kinds, reads, (identity_map(dims),), keep_last)


take_along.samples(
    lambda: [
        sample(tile(5, 13), tile(5, 7, dtype=INT32, make=below(13)), axis=1, dtypes=EVERY),
        sample(tensor(5, 13), tensor(3, 13, dtype=INT32, make=below(5)), axis=0),
        sample(tensor(5, 13), tile(4, 2, dtype=INT32, make=below(13)), axis=-1),
        fails(DTypeMismatch, tile(5, 13), tile(5, 7), axis=1),
        fails(RankMismatch, tile(5, 13), tile(5, dtype=INT32), axis=1),
        fails(ShapeMismatch, tile(5, 13), tile(6, 7, dtype=INT32), axis=1),
    ]
)


@op("gather.put", effect=Effect.WRITE, tied={0: 0})
def put(x: Value, indices: Value, values: Value, *, axis: int) -> Value:
    """x with the slices along `axis` that `indices` names replaced by those of `values`."""
    ...


@put.type_rule
def put_type(x: Value, indices: Value, values: Value, *, axis: int) -> Type:
    type_ = require_shaped("scatter", "x", x)
    chosen = require_indices("scatter", indices)
    given = require_shaped("scatter", "values", values)
    require_equal_dtypes("scatter", type_, given)
    require_fully_valid("scatter", "values", given)
    axis = normal_axis("scatter", axis, type_.rank)
    shape = (*type_.shape[:axis], *chosen.shape, *type_.shape[axis + 1 :])
    require_same_shape("scatter", "values", given.shape, shape)
    return type_


@put.reference
def put_numpy(x: Any, indices: Any, values: Any, *, axis: int) -> Array:
    found = np.reshape(bounded("scatter", indices, x.shape[axis], axis), -1)
    axis %= x.ndim
    slices = (
        np.reshape(values, (*x.shape[:axis], -1, *x.shape[axis + 1 :])) if values.size else values
    )
    for k, at in enumerate(found if values.size else ()):
        x[(slice(None),) * axis + (at,)] = slices[(slice(None),) * axis + (k,)]
    return x


@put.structure
def put_loops(x: Value, indices: Value, values: Value, *, axis: int) -> Structure:
    target, chosen, shape = shape_of(x), shape_of(indices), shape_of(values)
    axis %= len(target)
    dims = domain(shape)
    here = tuple(map(as_expr, dims[axis : axis + len(chosen)]))
    outer = tuple(map(as_expr, dims[:axis]))
    inner = tuple(map(as_expr, dims[axis + len(chosen) :]))
    reads = (Read(indices, here), Read(values, identity_map(dims)))
    write = (*outer, Indirect(0, target[axis]), *inner)
    return Structure(dims, shape, (AxisKind.PARALLEL,) * len(dims), reads, (write,), keep_last)


put.samples(
    lambda: [
        sample(
            tensor(9, 13), tile(5, dtype=INT32, make=below(9)), tile(5, 13), axis=0, dtypes=EVERY
        ),
        sample(tile(4, 9), tile(5, dtype=INT32, make=below(9)), tile(4, 5), axis=1),
        sample(tensor(20), tile(3, 4, dtype=INT32, make=below(20)), tile(3, 4), axis=0),
        fails(ShapeMismatch, tensor(9, 13), tile(5, dtype=INT32), tile(4, 13), axis=0),
        fails(DTypeMismatch, tensor(9, 13), tile(5, dtype=INT32), tile(5, 13, dtype=FP16), axis=0),
    ]
)


@op("gather.put_along", effect=Effect.WRITE, tied={0: 0})
def put_along(x: Value, indices: Value, values: Value, *, axis: int) -> Value:
    """x with x[..., indices[..., j, ...], ...] = values[..., j, ...] along `axis`."""
    ...


@put_along.type_rule
def put_along_type(x: Value, indices: Value, values: Value, *, axis: int) -> Type:
    type_ = require_shaped("scatter", "x", x)
    chosen = require_indices("scatter", indices)
    given = require_shaped("scatter", "values", values)
    require_equal_dtypes("scatter", type_, given)
    require_fully_valid("scatter", "values", given)
    require_along("scatter", type_, chosen, axis)
    require_same_shape("scatter", "values", given.shape, chosen.shape)
    return type_


@put_along.reference
def put_along_numpy(x: Any, indices: Any, values: Any, *, axis: int) -> Array:
    found = np.broadcast_arrays(*_along(x, indices, axis))
    for place in product(*map(range, map(int, values.shape))):
        x[tuple(at[place] for at in found)] = values[place]
    return x


@put_along.structure
def put_along_loops(x: Value, indices: Value, values: Value, *, axis: int) -> Structure:
    shape = shape_of(indices)
    dims = domain(shape)
    reads = (Read(indices, identity_map(dims)), Read(values, identity_map(dims)))
    write = indirect_along(dims, axis, shape_of(x))
    return Structure(dims, shape, (AxisKind.PARALLEL,) * len(dims), reads, (write,), keep_last)


put_along.samples(
    lambda: [
        sample(
            tile(5, 13), tile(5, 7, dtype=INT32, make=below(13)), tile(5, 7), axis=1, dtypes=EVERY
        ),
        sample(tensor(5, 13), tile(3, 13, dtype=INT32, make=below(5)), tile(3, 13), axis=0),
        fails(ShapeMismatch, tile(5, 13), tile(5, 7, dtype=INT32), tile(5, 8), axis=1),
        fails(DTypeMismatch, tile(5, 13), tile(5, 7), tile(5, 7), axis=1),
    ]
)
