"""Fresh arrays: uninitialised, constant, counting."""

from __future__ import annotations

import sys
from math import prod
from typing import Any

import numpy as np

from tilewright.dtypes import FP16, INT32, DType
from tilewright.errors import ArgumentTypeMismatch, DTypeMismatch, OutOfMemory
from tilewright.ir.core import Value
from tilewright.ir.enums import MemorySpace, TensorLayout
from tilewright.ir.opdef import op
from tilewright.ir.structure import Read, Structure, domain
from tilewright.ir.types import Shape, Type
from tilewright.ops import arith
from tilewright.ops.cast import cast
from tilewright.ops.rules import (
    normal_axis,
    placed_type,
    require_scalar,
)
from tilewright.ops.sampling import NUMBERS, fails, sample, scalar, tile
from tilewright.ops.shape import rearrangement

Scalars = tuple[Value, ...]


@op("memory.create")
def create(
    *,
    shape: Shape,
    dtype: DType,
    space: MemorySpace = MemorySpace.DDR,
    layout: TensorLayout = TensorLayout.ND,
    manual_dep: bool = False,
) -> Value:
    """Uninitialised memory: a tensor when `space` is global, a tile otherwise."""
    ...


@create.type_rule
def create_type(
    *, shape: Shape, dtype: DType, space: MemorySpace, layout: TensorLayout, manual_dep: bool
) -> Type:
    return placed_type(shape, dtype, space)


def room_of(shape: Any) -> tuple[int, ...]:
    """Extents as numpy takes them: where one is negative, there is nothing."""
    return tuple(max(0, int(extent)) for extent in shape)


@create.reference
def create_numpy(
    *, shape: Any, dtype: DType, space: MemorySpace, layout: TensorLayout, manual_dep: bool
) -> Any:
    shape = room_of(shape)
    size = prod(shape) * dtype.nbytes
    if size > sys.maxsize:
        raise OutOfMemory(f"{size:,} bytes of scratch memory are not to be had")
    return np.zeros(shape, dtype.numpy)


create.samples(
    lambda: [
        sample(shape=(4, 8), dtype=FP16),
        sample(shape=(4, 8), dtype=INT32, space=MemorySpace.Vec),
    ]
)


@op("memory.full")
def full(
    *,
    shape: Shape,
    dtype: DType,
    value: int | float | bool,
    space: MemorySpace = MemorySpace.DDR,
) -> Value:
    """`value` at every element: a tensor when `space` is global, a tile otherwise."""
    ...


@full.type_rule
def full_type(*, shape: Shape, dtype: DType, value: int | float | bool, space: MemorySpace) -> Type:
    if isinstance(value, float) and not dtype.is_float():
        raise DTypeMismatch(f"full: the float {value} is not a value of {dtype}")
    return placed_type(shape, dtype, space)


@full.reference
def full_numpy(*, shape: Any, dtype: DType, value: int | float | bool, space: MemorySpace) -> Any:
    return np.full(room_of(shape), value).astype(dtype.numpy)


@full.structure
def full_loops(
    *, shape: Shape, dtype: DType, value: int | float | bool, space: MemorySpace
) -> Structure:
    def body(scalars: Scalars, index: Scalars) -> Scalars:
        return (arith.const(value=value, dtype=dtype),)

    return rearrangement(shape, domain(shape), body=body)


full.samples(
    lambda: [
        sample(shape=(4, 8), dtype=FP16, value=1.5),
        sample(shape=(3, 0), dtype=INT32, value=-1, space=MemorySpace.Vec),
        fails(DTypeMismatch, shape=(4, 8), dtype=INT32, value=0.5),
    ]
)


@op("memory.iota")
def iota(
    start: Value,
    *,
    shape: Shape,
    dtype: DType,
    axis: int = -1,
    step: int = 1,
    space: MemorySpace = MemorySpace.DDR,
) -> Value:
    """start + step * (index along `axis`) at every element, wrapping in the integer `dtype`."""
    ...


@iota.type_rule
def iota_type(
    start: Value, *, shape: Shape, dtype: DType, axis: int, step: int, space: MemorySpace
) -> Type:
    normal_axis("iota", axis, len(shape))
    if not dtype.is_int():
        raise DTypeMismatch(f"iota: {dtype} is not an integer type")
    if require_scalar("iota", "start", start).dtype is not dtype:
        raise DTypeMismatch(f"iota: start is {start.type}, not {dtype}")
    return placed_type(shape, dtype, space)


@iota.reference
def iota_numpy(
    start: Any, *, shape: Any, dtype: DType, axis: int, step: int, space: MemorySpace
) -> Any:
    axis %= len(shape)
    along = (1,) * axis + (-1,) + (1,) * (len(shape) - axis - 1)
    line = (np.arange(int(shape[axis])) * step).astype(dtype.numpy)
    with np.errstate(over="ignore"):
        numbers: Any = np.add(line, np.asarray(start).astype(dtype.numpy), dtype=dtype.numpy)
    return np.array(np.broadcast_to(np.reshape(numbers, along), shape))


@iota.structure
def iota_loops(
    start: Value, *, shape: Shape, dtype: DType, axis: int, step: int, space: MemorySpace
) -> Structure:
    def body(scalars: Scalars, index: Scalars) -> Scalars:
        position = cast(index[axis], dtype=dtype)
        scaled = (
            position if step == 1 else arith.mul(position, arith.const(value=step, dtype=dtype))
        )
        return (arith.add(scalars[0], scaled),)

    return rearrangement(shape, domain(shape), Read(start, ()), body=body)


iota.samples(
    lambda: [
        sample(scalar(5, INT32), shape=(1, 37), dtype=INT32),
        sample(scalar(0, INT32), shape=(4, 3), dtype=INT32, axis=0, step=-2),
        fails(DTypeMismatch, scalar(0, FP16), shape=(1, 8), dtype=FP16),
    ]
)


@op("memory.splat")
def splat(value: Value, *, shape: Shape, space: MemorySpace = MemorySpace.DDR) -> Value:
    """The scalar `value` at every element: a tensor when `space` is global, a tile otherwise."""
    ...


@splat.type_rule
def splat_type(value: Value, *, shape: Shape, space: MemorySpace) -> Type:
    return placed_type(shape, require_scalar("splat", "value", value).dtype, space)


@splat.reference
def splat_numpy(value: Any, *, shape: Any, space: MemorySpace) -> Any:
    return np.full(shape, value)


@splat.structure
def splat_loops(value: Value, *, shape: Shape, space: MemorySpace) -> Structure:
    return rearrangement(shape, domain(shape), Read(value, ()))


splat.samples(
    lambda: [
        sample(scalar(3), shape=(4, 8), dtypes=NUMBERS),
        sample(scalar(3), shape=(4, 8), space=MemorySpace.Vec),
        fails(ArgumentTypeMismatch, tile(4, 8), shape=(4, 8)),
    ]
)
