"""The exact meaning of a contraction: one fused multiply-add after the other, in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.ops import loop

Array = npt.NDArray[Any]
TINY = float(np.finfo(np.float32).tiny)
FAR = 2.0**64
"""What a total is multiplied with to be rounded as if there were no least exponent."""


def fma32(x: Array, y: Array, z: Array, *, flush: bool = False) -> Array:
    """x * y + z for float32 arrays, rounded once.

    With `flush`, numbers below the normal ones are zeros of their sign, in z and in the result. The
    product is exact in float64. The sum is rounded to odd there, so that rounding it to
    float32 is the only rounding that shows.
    """
    product = x.astype(np.float64) * y.astype(np.float64)
    addend = z.astype(np.float64)
    if flush:
        addend = np.where(np.abs(addend) < TINY, np.copysign(0.0, addend), addend)
    total: Array = product + addend
    back = total - addend
    lost = (product - back) + (addend - (total - back))
    total = _to_odd(total, lost)
    result = total.astype(np.float32)
    if not flush:
        return result
    rounded = (total * FAR).astype(np.float32)
    return np.where(np.abs(rounded) < TINY * FAR, np.copysign(np.float32(0), result), result)


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
    flush: bool = False,
) -> None:
    """c[i, j] = the chain over k of fma(a[i, k], b[k, j], acc), from c[i, j] or 0.

    Floats are widened to float32, denormal BF16 as zeros; integers multiply and add in int32,
    wrapping. With `flush`, the steps of BF16 products have no denormal results.
    """
    flush = flush and loop.are_bf16(a, b)
    a, b = loop.without_denormals(a, b)
    left = (np.transpose(a) if a_trans else a).astype(c.dtype)
    right = (np.transpose(b) if b_trans else b).astype(c.dtype)
    total = np.array(c) if accumulate else np.zeros(c.shape, c.dtype)
    with np.errstate(all="ignore"):
        for k in range(left.shape[1]):
            column, row = left[:, k : k + 1], right[k : k + 1, :]
            if c.dtype.kind == "f":
                total = fma32(*np.broadcast_arrays(column, row, total), flush=flush)
            else:
                total = total + column * row
    c[...] = total
