"""Conversions: cast between element types with a rounding mode, bitcast, and their scalar words."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tilewright.dtypes import BOOL, FP4, DType
from tilewright.errors import DTypeMismatch
from tilewright.ir.core import Value
from tilewright.ir.enums import Rounding
from tilewright.ir.opdef import op
from tilewright.ir.types import ScalarType, Type
from tilewright.ops.words import Array, scalar_type


def require_castable(source: DType, target: DType) -> None:
    """Raises DTypeMismatch unless values of `source` can become values of `target`."""
    for dtype in (source, target):
        if dtype.kind in ("opaque", "task"):
            raise DTypeMismatch(f"cast: {dtype} has no arithmetic, so it cannot be converted")


@op("arith.cast")
def cast(x: Value, *, dtype: DType, mode: Rounding = Rounding.RINT) -> Value:
    """x as `dtype`.

    To an integer: rounded as `mode` says (NONE truncates), saturating, NaN gives 0. Between
    integers: wraps. To BOOL: x != 0. To a narrower float: rounded as `mode` says (NONE is RINT),
    overflow by IEEE 754. From a wider integer to a float: rounded to nearest even.
    """
    ...


@cast.type_rule
def cast_type(x: Value, *, dtype: DType, mode: Rounding) -> Type:
    require_castable(scalar_type("arith.cast", x).dtype, dtype)
    return ScalarType(dtype)


@cast.reference
def cast_numpy(x: Any, *, dtype: DType, mode: Rounding) -> Any:
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        if dtype is BOOL:
            return x != 0
        if not DType.from_numpy(x.dtype).is_float():
            return x.astype(dtype.numpy)
        if not dtype.is_float():
            return float_to_int(x, dtype, mode)
        return float_to_float(x, dtype, mode)


def round_integral(x: Array, mode: Rounding) -> Array:
    """float64 `x` rounded to integral values."""
    whole = np.trunc(x)
    match mode:
        case Rounding.RINT:
            return np.rint(x)
        case Rounding.ROUND:
            return whole + np.copysign(np.abs(x - whole) >= 0.5, x)
        case Rounding.FLOOR:
            return np.floor(x)
        case Rounding.CEIL:
            return np.ceil(x)
        case Rounding.ODD:
            inexact = (x != whole) & (np.fmod(whole, 2) == 0)
            return whole + np.copysign(inexact, x)
        case _:
            return whole


def float_to_int(x: Array, dtype: DType, mode: Rounding) -> Array:
    """Rounded, saturated; NaN gives 0."""
    info = np.iinfo(dtype.numpy)
    wide = round_integral(x.astype(np.float64), mode)
    low, high = float(info.min), float(info.max)
    inside = np.where((wide > low) & (wide < high), wide, 0).astype(dtype.numpy)
    clipped = np.where(wide >= high, info.max, np.where(wide <= low, info.min, inside))
    return np.where(np.isnan(wide), 0, clipped).astype(dtype.numpy)


def float_to_float(x: Array, dtype: DType, mode: Rounding) -> Array:
    """To nearest even, then moved to the neighbour that `mode` asks for."""
    if x.dtype.itemsize == 1:
        x = x.astype(np.float32)  # exact; numpy does not convert every pair of small types
    wide = x.astype(np.float64)
    nearest = x.astype(dtype.numpy)
    if dtype is FP4:  # which has no NaN
        nearest = np.where(np.isnan(wide), np.asarray(-0.0).astype(dtype.numpy), nearest)
    if mode in (Rounding.RINT, Rounding.NONE):
        return nearest
    back = nearest.astype(np.float64)
    below = np.where(back > wide, step(nearest, -1), nearest)
    above = np.where(back < wide, step(nearest, +1), nearest)
    over = np.isnan(back) & np.isfinite(wide)  # in a type whose infinities are NaN
    largest = np.where(wide > 0, greatest(dtype.numpy, +1), greatest(dtype.numpy, -1))
    below = np.where(over & (wide > 0), largest, below)
    above = np.where(over & (wide < 0), largest, above)
    chosen = choose_neighbour(wide, below, above, mode)
    at_edge = (np.isnan(below) | np.isnan(above)) & np.isfinite(wide)
    if mode is Rounding.ODD:
        chosen = np.where(at_edge, largest, chosen)
    if mode is Rounding.ROUND:
        is_tie = np.abs(wide) == beyond_greatest(dtype.numpy)
        at_limit = np.where(is_tie, np.where(wide < 0, below, above), nearest)
        chosen = np.where(at_edge | np.isinf(back), at_limit, chosen)
    return chosen.astype(dtype.numpy)


def step(x: Array, direction: int) -> Array:
    """The next representable value of the dtype of `x` in `direction` (+1 or -1)."""
    limit, beyond = greatest(x.dtype, direction), np.asarray(direction * np.inf).astype(x.dtype)
    return np.where(x == limit, beyond, np.nextafter(x, limit))


def greatest(storage: Any, sign: int) -> Array:
    """The finite value of greatest magnitude."""
    limits: Any = getattr(ml_dtypes, "finfo")(storage)  # noqa: B009 - its stubs know no storage
    return np.asarray(sign * float(limits.max)).astype(storage)


def beyond_greatest(storage: Any) -> Any:
    """Half a step above the greatest finite value, as float64."""
    largest = greatest(storage, +1)
    wide = largest.astype(np.float64)
    return wide + (wide - np.nextafter(largest, -largest).astype(np.float64)) / 2


def choose_neighbour(wide: Array, below: Array, above: Array, mode: Rounding) -> Array:
    """Which of the two representable neighbours of `wide` the mode picks (equal when exact)."""
    low, high = below.astype(np.float64), above.astype(np.float64)
    toward_zero = np.where(wide < 0, above, below)
    away = np.where(wide < 0, below, above)
    match mode:
        case Rounding.FLOOR:
            return below
        case Rounding.CEIL:
            return above
        case Rounding.TRUNC:
            return toward_zero
        case Rounding.ODD:
            odd = toward_zero.view(np.dtype(f"u{below.dtype.itemsize}")) & 1
            return np.where((below == above) | (odd == 1), toward_zero, away)
        case _:
            middle = (low + high) / 2
            nearer = np.where(np.abs(wide - low) <= np.abs(high - wide), below, above)
            return np.where((wide == middle) & (low != high), away, nearer)


@op("arith.bitcast")
def bitcast(x: Value, *, dtype: DType) -> Value:
    """The bits of x as `dtype`, which has the same width."""
    ...


@bitcast.type_rule
def bitcast_type(x: Value, *, dtype: DType) -> Type:
    given = scalar_type("arith.bitcast", x).dtype
    if given.bits != dtype.bits:
        raise DTypeMismatch(f"bitcast: {given} and {dtype} have different widths")
    return ScalarType(dtype)


@bitcast.reference
def bitcast_numpy(x: Any, *, dtype: DType) -> Any:
    return np.asarray(x).view(dtype.numpy)
