"""Sums and products in numpy, in the order that is part of their meaning (see ops/loop.py).

Along the last axis: 64 virtual lanes, then a fixed tree. Along any other axis: one element after
the other. Several axes: the last one first, then the others, the rightmost first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.dtypes import BF16, FP16, DType
from tilewright.ops.loop import VIRTUAL_LANES

ACCUMULATORS = 4


def folded(x: Any, ufunc: np.ufunc, identity: int, axes: tuple[int, ...]) -> Any:
    """`x` folded by `ufunc` (add or multiply) over `axes`, in the fixed order.

    FP16 and BF16 accumulate in FP32 and are rounded once.
    """
    x = np.asarray(x)
    dtype = x.dtype
    wide = x.astype(np.float32) if is_half(dtype) else x
    for axis in sorted((axis % x.ndim for axis in axes), reverse=True):
        fold = _fold_lanes if axis == x.ndim - 1 else _fold_in_sequence
        with np.errstate(all="ignore"):
            wide = fold(wide, ufunc, identity, axis)
    with np.errstate(over="ignore"):
        return wide.astype(dtype)


def is_half(dtype: Any) -> bool:
    """True for the 16-bit floats, which accumulate in FP32."""
    return DType.from_numpy(dtype) in (FP16, BF16)


def _fold_in_sequence(x: Any, ufunc: np.ufunc, identity: int, axis: int) -> Any:
    start = np.full_like(
        x[(slice(None),) * axis + (0,)] if x.shape[axis] else x.sum(axis), identity
    )
    if x.shape[axis] == 0:
        return start
    total = ufunc.accumulate(x, axis=axis, dtype=x.dtype)[(slice(None),) * axis + (-1,)]
    return ufunc(start, total)


def _fold_lanes(x: Any, ufunc: np.ufunc, identity: int, axis: int) -> Any:
    rows = -(-x.shape[-1] // VIRTUAL_LANES)
    if x.shape[-1] % VIRTUAL_LANES or not rows:
        padded = np.full((*x.shape[:-1], rows * VIRTUAL_LANES), identity, x.dtype)
        padded[..., : x.shape[-1]] = x
        x = padded
    steps = np.reshape(x, (*x.shape[:-1], rows, VIRTUAL_LANES))
    lanes = ufunc.reduce(steps, axis=-2, dtype=x.dtype, initial=identity)
    lanes = np.ascontiguousarray(np.moveaxis(lanes, -1, 0))
    a = np.reshape(lanes, (ACCUMULATORS, VIRTUAL_LANES // ACCUMULATORS, *x.shape[:-1]))
    total = ufunc(ufunc(a[0], a[1]), ufunc(a[2], a[3]))
    for half in (8, 4, 2, 1):
        total = ufunc(total[:half], total[half:])
    return ufunc(np.asarray(identity, x.dtype), total[0])


def first_extreme(x: Any, axis: int, better: Callable[[Any, int], Any]) -> Any:
    """Index along `axis` of the first NaN, else of the first extreme element."""
    x = np.asarray(x)
    wide = x.astype(np.float32) if is_half(x.dtype) else x
    return better(wide, axis).astype(np.int32)
