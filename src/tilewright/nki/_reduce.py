"""`nl`: reductions along free dimensions, and functions made of them."""

from __future__ import annotations

import math
from typing import Any

from tilewright.dtypes import BOOL, FP32, INT32, DType
from tilewright.errors.nki_tensors import UNEXPECTED_OPERAND
from tilewright.frontend.trace.access import require_dtype, reshaped_to
from tilewright.frontend.trace.ambient import nki_ctx, refusal
from tilewright.frontend.trace.arith import broadcast_shape
from tilewright.frontend.trace.masks import without_axes
from tilewright.frontend.trace.ops import NKIFunc, nki_op
from tilewright.frontend.trace.tensors import nki_tensor
from tilewright.frontend.trace.tiles import mask_tile
from tilewright.ir.core import Value
from tilewright.nki._operands import (
    free_axes,
    masked_value,
    reduced_shape,
    require_number,
    require_tile,
    result_dtype,
    result_tile,
    tile_value,
)
from tilewright.ops import elementwise as ew
from tilewright.ops.nki_alu import reduce_axes
from tilewright.ops.nki_math import number, square, times

DIRECT = ("maximum", "minimum")


def inner_dtype(name: str, dtype: DType) -> DType:
    """The type that a reduction runs in."""
    if name in DIRECT and (dtype.is_int() or dtype is FP32):
        return dtype
    return INT32 if dtype.is_int() and dtype is not BOOL else FP32


def reduced(
    name: str, x: nki_tensor, axis: Any, dtype: Any, mask: Any, keepdims: bool
) -> nki_tensor:
    """`x` combined by `name` over free axes, as a new tile."""
    require_tile(x, "x")
    axes = free_axes(x, axis)
    value = tile_value(x, inner_dtype(name, x.root.dtype), mask)
    total = reduce_axes(name, masked_value(value, x.shape, mask, name), axes)
    return _result(total, x, axes, result_dtype(dtype, x), mask, keepdims)


def _result(
    total: Value, x: nki_tensor, axes: tuple[int, ...], dtype: DType, mask: Any, keepdims: bool
) -> nki_tensor:
    """What a reduction of `x` gives, where its mask leaves a row to be reduced."""
    value = reshaped_to(total, reduced_shape(x, axes, keepdims))
    return result_tile(value, dtype, without_axes(mask, x.ndim, axes, keepdims=keepdims))


def _reduction(name: str, combine: str, doc: str) -> NKIFunc[..., nki_tensor]:
    def function(
        x: nki_tensor,
        axis: Any,
        *,
        dtype: Any = None,
        mask: Any = None,
        keepdims: bool = False,
        **kwargs: Any,
    ) -> nki_tensor:
        return reduced(combine, x, axis, dtype, mask, keepdims)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return nki_op(f"nl.{name}")(function)


sum = _reduction("sum", "add", "The sum along free axes, in FP32 (INT32 for integers).")
prod = _reduction("prod", "multiply", "The product along free axes, in FP32 (INT32 for integers).")
max = _reduction("max", "maximum", "The largest element along free axes.")
min = _reduction("min", "minimum", "The smallest element along free axes.")


@nki_op("nl.mean")
def mean(
    x: nki_tensor,
    axis: Any,
    *,
    dtype: Any = None,
    mask: Any = None,
    keepdims: bool = False,
    **kwargs: Any,
) -> nki_tensor:
    """The mean along free axes, in FP32; with a mask, that of the elements where it holds."""
    require_tile(x, "x")
    axes = free_axes(x, axis)
    total = _mean(x, axes, mask)
    wanted = FP32 if dtype is None and x.root.dtype.is_int() else result_dtype(dtype, x)
    return _result(total, x, axes, wanted, mask, keepdims)


def _mean(x: nki_tensor, axes: tuple[int, ...], mask: Any) -> Value:
    value = masked_value(tile_value(x, FP32, mask), x.shape, mask, "add")
    return _per_element(reduce_axes("add", value, axes), x, axes, mask)


def _per_element(total: Value, x: nki_tensor, axes: tuple[int, ...], mask: Any) -> Value:
    """A sum divided by the number of its terms."""
    if mask is None:
        return times(total, 1.0 / math.prod(x.shape[axis] for axis in axes))
    ones = ew.cast(mask_tile(nki_ctx().sema, mask, x.shape), dtype=FP32)
    return ew.div(total, reduce_axes("add", ones, axes))


@nki_op("nl.var")
def var(
    x: nki_tensor, axis: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any
) -> nki_tensor:
    """The mean of the squared distances from the mean along free axes, in FP32."""
    require_tile(x, "x")
    axes = free_axes(x, axis)
    distance = ew.sub(tile_value(x, FP32, mask), _mean(x, axes, mask))
    squares = masked_value(square(distance), x.shape, mask, "add")
    total = _per_element(reduce_axes("add", squares, axes), x, axes, mask)
    return _result(total, x, axes, result_dtype(dtype, x), mask, kwargs.get("keepdims", False))


@nki_op("nl.all")
def all(
    x: nki_tensor, axis: Any, *, dtype: Any = bool, mask: Any = None, **kwargs: Any
) -> nki_tensor:
    """Whether every element along free axes is nonzero, as booleans."""
    require_tile(x, "x")
    axes = free_axes(x, axis)
    value = masked_value(tile_value(x, BOOL, mask), x.shape, mask, "logical_and")
    total = reduce_axes("logical_and", value, axes)
    return _result(total, x, axes, result_dtype(dtype), mask, keepdims=False)


def require_compute_dtype(given: Any) -> None:
    """Refuses what is no element type."""
    if given is not None:
        require_dtype(given)


@nki_op("nl.softmax")
def softmax(
    x: nki_tensor,
    axis: Any = -1,
    *,
    dtype: Any = None,
    compute_dtype: Any = None,
    mask: Any = None,
    **kwargs: Any,
) -> nki_tensor:
    """exp(x - max) / sum(exp(x - max)) along the last free axes, in FP32.

    `compute_dtype` is an element type; FP32 is as exact as any.
    """
    require_tile(x, "x")
    require_compute_dtype(compute_dtype)
    axes = free_axes(x, axis)
    value = tile_value(x, FP32, mask)
    largest = reduce_axes("maximum", masked_value(value, x.shape, mask, "maximum"), axes)
    powers = ew.exp(ew.sub(value, largest))
    total = reduce_axes("add", masked_value(powers, x.shape, mask, "add"), axes)
    return result_tile(ew.mul(powers, ew.recip(total)), result_dtype(dtype, x), mask)


@nki_op("nl.rms_norm")
def rms_norm(
    x: nki_tensor,
    w: nki_tensor,
    axis: Any,
    n: int | float,
    epsilon: float = 1e-06,
    *,
    dtype: Any = None,
    compute_dtype: Any = None,
    mask: Any = None,
    **kwargs: Any,
) -> nki_tensor:
    """x / sqrt(sum(x * x) / n + epsilon) * w along the last free axes, in FP32.

    `w` broadcasts to x, or is None; `n` is a number other than 0. `compute_dtype` is an element
    type; FP32 is as exact as any.
    """
    require_tile(x, "x")
    require_compute_dtype(compute_dtype)
    if require_number(n, "n", FP32) == 0:
        found = {"name": "n", "given": "0", "wanted": "the number of elements"}
        raise refusal(UNEXPECTED_OPERAND, op="rms_norm", **found)
    axes = free_axes(x, axis)
    value = tile_value(x, FP32, mask)
    squares = masked_value(square(value), x.shape, mask, "add")
    mean_square = times(reduce_axes("add", squares, axes), 1.0 / n)
    scale = ew.rsqrt(ew.add(mean_square, number(mean_square, epsilon)))
    normal = ew.mul(value, scale)
    if w is not None:  # pyright: ignore[reportUnnecessaryComparison]
        broadcast_shape(x.shape, require_tile(w, "w").shape)
        normal = ew.mul(normal, tile_value(w, FP32))
    return result_tile(normal, result_dtype(dtype, x), mask)
