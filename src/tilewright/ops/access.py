"""Loads and stores under general accesses: affine index maps over an iteration domain, masked.

The free symbols of an access are the symbols of the values in `symbols`; the references get
accesses in which they have been replaced by numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import FP16, DType
from tilewright.errors import DTypeMismatch, IndexOutOfBounds, RankMismatch, ShapeMismatch
from tilewright.ir.affine import Access, Constraint, Expr, Symbol, as_expr, evaluate_many, in_bounds
from tilewright.ir.core import Value
from tilewright.ir.enums import Effect, MemorySpace
from tilewright.ir.opdef import op
from tilewright.ir.structure import AxisKind, Read, Structure, identity_map
from tilewright.ir.types import ShapedType, Type
from tilewright.ops.rules import placed_type, require_length, require_same_shape, require_shaped
from tilewright.ops.sampling import EVERY, fails, sample, tensor, tile
from tilewright.ops.words import Array

Points = dict[Symbol, Any]


def require_access(name: str, type_: ShapedType, access: Access) -> None:
    """Raises RankMismatch or ShapeMismatch when `access` cannot be one of a value of `type_`."""
    require_length(name, "the index", access.map, type_.rank)
    if in_bounds(access, type_.shape) is False:
        raise ShapeMismatch(f"{name}: {access} leaves {type_}", hint="mask the access")


def points_of(access: Access) -> Points:
    """The coordinates of every point of the domain, as arrays of the domain's shape."""
    shape = tuple(map(int, access.domain))
    return dict(zip(access.dims, np.indices(shape), strict=True))


def at_points(expr: Expr, points: Points, shape: tuple[int, ...]) -> Array:
    """`expr` at every point."""
    return np.broadcast_to(evaluate_many(expr, points), shape)


def holds(constraints: Sequence[Constraint], points: Points, shape: tuple[int, ...]) -> Array:
    """True at the points where all `constraints` hold."""
    mask = np.ones(shape, np.bool_)
    for constraint in constraints:
        value = at_points(constraint.expr, points, shape)
        mask &= value == 0 if constraint.is_equality else value >= 0
    return mask


def resolve(access: Access, bounds: tuple[int, ...]) -> tuple[tuple[Array, ...], Array]:
    """(index arrays, mask) of an access without free symbols; raises IndexOutOfBounds."""
    shape = tuple(map(int, access.domain))
    points = points_of(access)
    mask = holds(access.constraints, points, shape)
    index = tuple(at_points(expr, points, shape) for expr in access.map)
    return tuple(
        checked(at, bound, mask, axis) for axis, (at, bound) in enumerate(zip(index, bounds))
    ), mask


def checked(index: Array, bound: int, mask: Array, axis: int) -> Array:
    """`index` with 0 where the mask is False; raises IndexOutOfBounds where it is not in bounds."""
    inside = np.where(mask, index, 0)
    if inside.size and bound and (inside.min() < 0 or inside.max() >= bound):
        worst = inside.min() if inside.min() < 0 else inside.max()
        raise IndexOutOfBounds(f"element {worst} of axis {axis}, which has {bound} elements")
    return inside


def access_kinds(access: Access) -> tuple[AxisKind, ...]:
    """Every axis of the domain is parallel."""
    return (AxisKind.PARALLEL,) * len(access.dims)


def keep(scalars: tuple[Value, ...], index: tuple[Value, ...]) -> tuple[Value, ...]:
    """The body of a movement: the one element read."""
    return scalars[:1]


@op("memory.access_load", effect=Effect.READ)
def access_load(
    src: Value,
    symbols: Sequence[Value],
    *,
    access: Access,
    space: MemorySpace = MemorySpace.Sbuf,
) -> Value:
    """The elements of `src` at `access`, over its domain; 0 where its mask does not hold."""
    ...


@access_load.type_rule
def access_load_type(
    src: Value, symbols: Sequence[Value], *, access: Access, space: MemorySpace
) -> Type:
    type_ = require_shaped("load", "src", src)
    require_access("load", type_, access)
    return placed_type(access.domain, type_.dtype, space)


@access_load.reference
def access_load_numpy(src: Any, symbols: Any, *, access: Access, space: MemorySpace) -> Array:
    index, mask = resolve(access, src.shape)
    if src.size == 0:
        return np.zeros(mask.shape, src.dtype)
    return np.where(mask, src[index], np.zeros((), src.dtype))


@access_load.structure
def access_load_loops(
    src: Value, symbols: Sequence[Value], *, access: Access, space: MemorySpace
) -> Structure:
    access = access.with_fresh_dims()
    read = Read(src, access.map, access.constraints)
    writes = (identity_map(access.dims),)
    return Structure(access.dims, access.domain, access_kinds(access), (read,), writes, keep)


def sample_access(
    maps: Sequence[tuple[int, int, int]], domain: tuple[int, ...], bound: int | None = None
) -> Access:
    """offset + stride * dim for each (offset, stride, dim), masked by a bound on the last dim."""
    dims = tuple(Symbol(f"i{k}", 0, extent - 1) for k, extent in enumerate(domain))
    index = tuple(as_expr(dims[dim]) * stride + offset for offset, stride, dim in maps)
    masks = () if bound is None else (Constraint.less(dims[-1], bound),)
    return Access(index, domain, dims, masks)


access_load.samples(
    lambda: [
        sample(
            tensor(8, 16), (), access=sample_access([(1, 1, 0), (1, 2, 1)], (4, 7)), dtypes=EVERY
        ),
        sample(tensor(8, 16), (), access=sample_access([(0, 1, 1), (0, 1, 0)], (16, 8))),
        sample(tensor(8, 16), (), access=sample_access([(0, 1, 0), (3, 2, 1)], (8, 9), 6)),
        sample(tile(8, 16), (), access=sample_access([(0, 1, 0), (3, 0, 1)], (8, 1))),
        fails(
            ShapeMismatch, tensor(8, 16), (), access=sample_access([(5, 1, 0), (0, 1, 1)], (4, 4))
        ),
        fails(RankMismatch, tensor(8, 16), (), access=sample_access([(0, 1, 0)], (4,))),
    ]
)


@op("memory.access_store", effect=Effect.WRITE, tied={0: 0})
def access_store(dest: Value, value: Value, symbols: Sequence[Value], *, access: Access) -> Value:
    """`dest` with `value`, of the shape of the domain, written at `access` where its mask holds."""
    ...


@access_store.type_rule
def access_store_type(
    dest: Value, value: Value, symbols: Sequence[Value], *, access: Access
) -> Type:
    type_ = require_shaped("store", "dst", dest)
    given = require_shaped("store", "value", value)
    require_access("store", type_, access)
    require_same_shape("store", "value", given.shape, access.domain)
    require_store_dtype("store", given.dtype, type_.dtype)
    return type_


def require_store_dtype(name: str, given: DType, wanted: DType) -> None:
    """Raises DTypeMismatch unless the value's dtype is the destination's."""
    if given is not wanted:
        raise DTypeMismatch(f"{name}: a {given} value into a {wanted} destination")


@access_store.reference
def access_store_numpy(dest: Any, value: Any, symbols: Any, *, access: Access) -> Array:
    index, mask = resolve(access, dest.shape)
    dest[tuple(at[mask] for at in index)] = value[mask]
    return dest


@access_store.structure
def access_store_loops(
    dest: Value, value: Value, symbols: Sequence[Value], *, access: Access
) -> Structure:
    access = access.with_fresh_dims()
    read = Read(value, identity_map(access.dims))
    return Structure(
        access.dims,
        access.domain,
        access_kinds(access),
        (read,),
        (access.map,),
        keep,
        write_mask=access.constraints,
    )


access_store.samples(
    lambda: [
        sample(
            tensor(8, 16),
            tile(4, 7),
            (),
            access=sample_access([(1, 1, 0), (1, 2, 1)], (4, 7)),
            dtypes=EVERY,
        ),
        sample(
            tensor(8, 16), tile(8, 9), (), access=sample_access([(0, 1, 0), (3, 2, 1)], (8, 9), 6)
        ),
        fails(
            ShapeMismatch,
            tensor(8, 16),
            tile(4, 8),
            (),
            access=sample_access([(1, 1, 0), (1, 2, 1)], (4, 7)),
        ),
        fails(
            DTypeMismatch,
            tensor(8, 16),
            tile(4, 7, dtype=FP16),
            (),
            access=sample_access([(1, 1, 0), (1, 2, 1)], (4, 7)),
        ),
    ]
)
