"""Matrix products. They have no structure: lowering gives each its micro-kernel grid.

For each (i, j): the fused multiply-adds of a[i, k] * b[k, j] in FP32, for integers in INT32
(wrapping), in k order from 0 or from the accumulator. The numpy meaning is float64, rounded once;
compiled code is within K * 2^-23 * (|A| · |B|) of it, componentwise, where that product of
magnitudes is finite in FP32; infinite and NaN elements of operands give the same in both.

In products of BF16 a denormal element of an operand is a zero of its sign: times infinity it is
NaN. A step, or the accumulator before it, may be zero where its magnitude is below 2^-126, which
adds (K + 1) * 2^-126 to the bound. So do the instructions for pairs of BF16; the meaning is the
same on machines without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import (
    BF16,
    BOOL,
    FP16,
    FP32,
    INT8,
    INT16,
    INT32,
    UINT8,
    DType,
)
from tilewright.errors import DTypeMismatch, RankMismatch, ShapeMismatch
from tilewright.ir.affine import less_equal
from tilewright.ir.core import Value
from tilewright.ir.enums import Effect, MemorySpace, Rounding
from tilewright.ir.opdef import op
from tilewright.ir.types import ScalarType, Shape, ShapedType, TileType, Type
from tilewright.ops.cast import cast_numpy
from tilewright.ops.extents import same_dim
from tilewright.ops.loop import accumulator_dtype, without_denormals
from tilewright.ops.rules import (
    TRACED_SPACES,
    require_equal_dtypes,
    require_same_shape,
    require_shaped,
    shapes_of,
    tensor_type,
    tile_type,
    valid_of,
)
from tilewright.ops.sampling import fails, sample, scalar, tensor, tile, wide
from tilewright.ops.words import Array

MATMUL_DTYPES = (FP32, FP16, BF16, INT8, UINT8, INT16, INT32)


def swapped(shape: Shape, swap: bool) -> Shape:
    """`shape` with its last two axes exchanged when `swap`."""
    return (*shape[:-2], shape[-1], shape[-2]) if swap else shape


def product_shapes(
    name: str, a: ShapedType, b: ShapedType, a_trans: bool, b_trans: bool
) -> tuple[Shape, Shape]:
    """(shape, valid region) of the product; raises RankMismatch, DTypeMismatch, ShapeMismatch."""
    if a.rank != b.rank or a.rank < 2:
        raise RankMismatch(f"{name}: operands are {shapes_of((a, b))}, not two matrices")
    if require_equal_dtypes(name, a, b) not in MATMUL_DTYPES:
        raise DTypeMismatch(f"{name} is not defined on {a.dtype}", hint="convert with pl.cast")
    left, right = swapped(a.shape, a_trans), swapped(b.shape, b_trans)
    if not same_dim(left[-1], right[-2]):
        raise ShapeMismatch(
            f"{name}: operands are {shapes_of((a, b))}: the inner extents {left[-1]} and "
            f"{right[-2]} are not known to be equal"
        )
    require_same_shape(name, "the batch of rhs", right[:-2], left[:-2])
    valid_left, valid_right = swapped(valid_of(a), a_trans), swapped(valid_of(b), b_trans)
    if not less_equal(valid_left[-1], valid_right[-2]):
        raise ShapeMismatch(
            f"{name}: lhs is valid for {valid_left[-1]} inner elements, rhs for {valid_right[-2]}"
        )
    return (*left[:-1], right[-1]), (*valid_left[:-1], valid_right[-1])


def product_type(types: Sequence[ShapedType], dtype: DType, shape: Shape, valid: Shape) -> Type:
    """A tile in the accumulator memory if an operand is a tile, else a tensor."""
    for type_ in types:
        if isinstance(type_, TileType):
            traced = type_.space in TRACED_SPACES
            return tile_type(shape, dtype, MemorySpace.Psum if traced else MemorySpace.Acc, valid)
    return tensor_type(shape, dtype, valid)


@op("matmul.matmul")
def matmul(
    lhs: Value,
    rhs: Value,
    *,
    a_trans: bool = False,
    b_trans: bool = False,
    dtype: DType | None = None,
) -> Value:
    """lhs [..., M, K] times rhs [..., K, N]; with `a_trans` lhs is [..., K, M], likewise `b_trans`.

    The accumulator is FP32 or INT32; `dtype` is what it is rounded to at the end, once. Denormal
    elements of BF16 operands count as zero, and so may sums below 2^-126 then.
    """
    ...


@matmul.type_rule
def matmul_type(
    lhs: Value, rhs: Value, *, a_trans: bool, b_trans: bool, dtype: DType | None
) -> Type:
    a, b = require_shaped("matmul", "lhs", lhs), require_shaped("matmul", "rhs", rhs)
    shape, valid = product_shapes("matmul", a, b, a_trans, b_trans)
    return product_type((a, b), dtype or accumulator_dtype(a.dtype), shape, valid)


@matmul.reference
def matmul_numpy(lhs: Any, rhs: Any, *, a_trans: bool, b_trans: bool, dtype: DType | None) -> Array:
    product = accumulated(None, lhs, rhs, a_trans, b_trans)
    return product if dtype is None else cast_numpy(product, dtype=dtype, mode=Rounding.RINT)


def accumulated(acc: Any, a: Any, b: Any, a_trans: bool, b_trans: bool) -> Array:
    """acc (None: 0) plus the product, in float64 rounded once to FP32, or wrapped to INT32."""
    a = np.swapaxes(a, -1, -2) if a_trans else a
    b = np.swapaxes(b, -1, -2) if b_trans else b
    a, b = without_denormals(a, b)
    floats = DType.from_numpy(a.dtype).is_float()
    exact = np.float64 if floats else np.int64
    with np.errstate(all="ignore"):
        product: Any = np.matmul(a.astype(exact), b.astype(exact))
        if acc is not None:
            product += acc
        return product.astype(np.float32 if floats else np.int32)


matmul.samples(
    lambda: [
        sample(tile(7, 13), tile(13, 5), dtypes=MATMUL_DTYPES),
        sample(tensor(64, 32, make=wide), tensor(32, 48, make=wide), dtypes=MATMUL_DTYPES),
        sample(tile(13, 7), tile(5, 13), a_trans=True, b_trans=True),
        sample(tensor(2, 4, 8), tensor(2, 8, 3)),
        sample(tile(4, 0), tile(0, 3)),
        sample(tensor(16, 16), tensor(16, 16), dtype=BF16, dtypes=(FP32, BF16)),
        sample(tile(8, 8, valid=(3, 5)), tile(8, 8, valid=(6, 7))),
        fails(ShapeMismatch, tile(4, 8), tile(7, 4)),
        fails(ShapeMismatch, tile(8, 8), tile(8, 8, valid=(5, 8))),
        fails(RankMismatch, tile(8), tile(8)),
        fails(DTypeMismatch, tile(4, 8), tile(8, 4, dtype=FP16)),
        fails(DTypeMismatch, tile(4, 8, dtype=BOOL), tile(8, 4, dtype=BOOL)),
    ]
)


@op("matmul.acc", effect=Effect.WRITE, tied={0: 0})
def acc(
    acc: Value,
    lhs: Value,
    rhs: Value,
    init_cond: Value | None = None,
    *,
    a_trans: bool = False,
    b_trans: bool = False,
) -> Value:
    """acc + lhs · rhs, in acc's place; lhs · rhs alone when `init_cond`, a BOOL scalar, is True."""
    ...


@acc.type_rule
def acc_type(
    acc: Value,
    lhs: Value,
    rhs: Value,
    init_cond: Value | None,
    *,
    a_trans: bool,
    b_trans: bool,
) -> Type:
    total = require_shaped("matmul_acc", "acc", acc)
    a, b = require_shaped("matmul_acc", "lhs", lhs), require_shaped("matmul_acc", "rhs", rhs)
    shape, _ = product_shapes("matmul_acc", a, b, a_trans, b_trans)
    require_same_shape("matmul_acc", "acc", total.shape, shape)
    if total.dtype is not accumulator_dtype(a.dtype):
        raise DTypeMismatch(
            f"matmul_acc: acc is {total.dtype}, products of {a.dtype} accumulate in "
            f"{accumulator_dtype(a.dtype)}"
        )
    if init_cond is not None and init_cond.type != ScalarType(BOOL):
        raise DTypeMismatch(f"matmul_acc: init_cond is {init_cond.type}, not a pl.BOOL scalar")
    return total


@acc.reference
def acc_numpy(
    acc: Any, lhs: Any, rhs: Any, init_cond: Any, *, a_trans: bool, b_trans: bool
) -> Array:
    acc[...] = accumulated(None if init_cond else acc, lhs, rhs, a_trans, b_trans)
    return acc


acc.samples(
    lambda: [
        sample(tile(7, 5), tile(7, 13), tile(13, 5)),
        sample(tile(7, 5, dtype=FP32), tile(13, 7), tile(13, 5), a_trans=True, dtypes=(FP16, BF16)),
        sample(tile(7, 5, dtype=INT32), tile(7, 13), tile(13, 5), dtypes=(INT8,)),
        sample(tile(7, 5), tile(7, 13), tile(13, 5), scalar(1, BOOL)),
        fails(ShapeMismatch, tile(7, 6), tile(7, 13), tile(13, 5)),
        fails(DTypeMismatch, tile(7, 5), tile(7, 13), tile(13, 5), dtypes=(FP16,)),
        fails(DTypeMismatch, tile(7, 5), tile(7, 13), tile(13, 5), scalar(1, INT32)),
    ]
)
