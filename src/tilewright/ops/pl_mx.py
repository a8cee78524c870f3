"""`pl` names of block-scaled products: 32 elements along K share one power-of-two scale.

The operands are widened to FP32 and scaled, which is exact for the narrow formats, then multiplied.
"""

from __future__ import annotations

from typing import Any

from tilewright.dtypes import FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP32
from tilewright.errors import DTypeMismatch, RankMismatch, ShapeMismatch
from tilewright.ir.core import Value
from tilewright.ir.opdef import macro
from tilewright.ops import elementwise as E
from tilewright.ops import matmul as M
from tilewright.ops import shape
from tilewright.ops.adapt import paired, require_shaped_value
from tilewright.ops.pl_shape import shaped_type
from tilewright.ops.rules import require_static
from tilewright.ops.words import dtype_of

BLOCK = 32
NARROW = (FP8E4M3FN, FP8E5M2, FP4)


def scaled(name: str, argument: str, x: Any, scale: Any, axis: int) -> Value:
    """x in FP32, each block of 32 along `axis` times its scale."""
    value = require_shaped_value(name, argument, x)
    factors = require_shaped_value(name, f"{argument}_scale", scale)
    if dtype_of(value) not in NARROW or dtype_of(factors) is not FP8E8M0:
        raise DTypeMismatch(
            f"{name}: {argument} is {dtype_of(value)} with scales of {dtype_of(factors)}",
            hint="pl.FP8E4M3FN, pl.FP8E5M2 or pl.FP4 elements, pl.FP8E8M0 scales",
        )
    extents = require_static(name, argument, shaped_type(name, argument, value).shape)
    given = require_static(name, f"{argument}_scale", shaped_type(name, argument, factors).shape)
    if len(extents) != 2:
        raise RankMismatch(f"{name}: {argument} has {len(extents)} axes, not 2")
    wanted = tuple(n // BLOCK if k == axis else n for k, n in enumerate(extents))
    if extents[axis] % BLOCK or given != wanted:
        raise ShapeMismatch(f"{name}: {argument}_scale is {list(given)}, not {list(wanted)}")
    return E.mul(E.cast(value, dtype=FP32), repeated(E.cast(factors, dtype=FP32), axis, extents))


def repeated(scale: Value, axis: int, extents: tuple[int, ...]) -> Value:
    """Each scale 32 times along `axis`."""
    blocks = require_static("matmul_mx", "scale", shaped_type("matmul_mx", "scale", scale).shape)
    split = (*blocks[: axis + 1], 1, *blocks[axis + 1 :])
    wide = (*blocks[: axis + 1], BLOCK, *blocks[axis + 1 :])
    copies = shape.broadcast_to(shape.reshape(scale, shape=split), shape=wide)
    return shape.reshape(copies, shape=extents)


@macro("pl.matmul_mx", "pl.tile.matmul_mx")
def matmul_mx(lhs: Value, lhs_scale: Value, rhs: Value, rhs_scale: Value) -> Value:
    """lhs [M, K] times rhs [K, N] with scales [M, K / 32] and [K / 32, N]; FP32."""
    left = scaled("matmul_mx", "lhs", lhs, lhs_scale, 1)
    return M.matmul(left, scaled("matmul_mx", "rhs", rhs, rhs_scale, 0))


@macro("pl.matmul_mx_acc", "pl.tile.matmul_mx_acc")
def matmul_mx_acc(acc: Value, lhs: Value, lhs_scale: Value, rhs: Value, rhs_scale: Value) -> Value:
    """acc plus the block-scaled product, in place of acc."""
    left = scaled("matmul_mx_acc", "lhs", lhs, lhs_scale, 1)
    return M.acc(acc, left, scaled("matmul_mx_acc", "rhs", rhs, rhs_scale, 0))


@macro("pl.matmul_mx_bias", "pl.tile.matmul_mx_bias")
def matmul_mx_bias(
    lhs: Value, lhs_scale: Value, rhs: Value, rhs_scale: Value, bias: Value
) -> Value:
    """The block-scaled product plus a bias of shape [1, N]."""
    return E.add(*paired("matmul_mx_bias", matmul_mx(lhs, lhs_scale, rhs, rhs_scale), bias))
