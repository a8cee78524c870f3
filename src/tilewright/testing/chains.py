"""The exact meaning of a contraction: one fused multiply-add after the other, in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def fma32(x: Array, y: Array, z: Array) -> Array:
    """x * y + z for float32 arrays, rounded once.

    The product is exact in float64. The sum is rounded to odd there, so that rounding it to
    float32 is the only rounding that shows.
    """
    product = x.astype(np.float64) * y.astype(np.float64)
    addend = z.astype(np.float64)
    total: Array = product + addend
    back = total - addend
    lost = (product - back) + (addend - (total - back))
    return _to_odd(total, lost).astype(np.float32)


def _to_odd(total: Array, lost: Array) -> Array:
    """`total` moved toward `lost` to an odd last bit wherever something was lost."""
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & np.isfinite(lost) & (lost != 0) & (bits & 1 == 0)
    away = np.where((lost > 0) == (total > 0), 1, -1)
    return np.where(inexact, (bits + away).view(np.float64), total)


def fma_chain(
    c: Array,
    a: Array,
    b: Array,
    *,
    a_trans: bool = False,
    b_trans: bool = False,
    accumulate: bool = False,
) -> None:
    """c[i, j] = the chain over k of fma(a[i, k], b[k, j], acc), from c[i, j] or 0.

    Floats are widened to float32; integers multiply and add in int32, wrapping.
    """
    left = (np.transpose(a) if a_trans else a).astype(c.dtype)
    right = (np.transpose(b) if b_trans else b).astype(c.dtype)
    total = np.array(c) if accumulate else np.zeros(c.shape, c.dtype)
    with np.errstate(all="ignore"):
        for k in range(left.shape[1]):
            column, row = left[:, k : k + 1], right[k : k + 1, :]
            if c.dtype.kind == "f":
                total = fma32(*np.broadcast_arrays(column, row, total))
            else:
                total = total + column * row
    c[...] = total
