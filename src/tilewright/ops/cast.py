"""Conversions: cast between element types with a rounding mode, bitcast, and their scalar words."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import BOOL, FP4, FP8E8M0, DType, limits_of
from tilewright.errors import DTypeMismatch
from tilewright.ir.core import Value
from tilewright.ir.enums import Rounding
from tilewright.ir.opdef import op
from tilewright.ir.types import ScalarType, Type
from tilewright.ops.words import Array, scalar_type

NEAREST = (Rounding.RINT, Rounding.NONE)


def require_castable(source: DType, target: DType, mode: Rounding) -> None:
    """Raises DTypeMismatch unless values of `source` can become values of `target` so."""
    for dtype in (source, target):
        if dtype.kind in ("opaque", "task"):
            raise DTypeMismatch(f"cast: {dtype} has no arithmetic, so it cannot be converted")
    if target is FP8E8M0 and mode not in NEAREST and source.is_float():
        raise DTypeMismatch(
            f"cast: mode {mode.value!r} to {target}, a power of two: the nearest is taken",
            hint="leave mode= out",
        )


@op("arith.cast")
def cast(x: Value, *, dtype: DType, mode: Rounding = Rounding.RINT) -> Value:
    """x as `dtype`.

    To an integer: rounded as `mode` says (NONE truncates), saturating, NaN gives 0. Between
    integers: wraps. To BOOL: x != 0. To a narrower float: rounded as `mode` says (NONE is RINT),
    overflow by IEEE 754. From a wider integer to a float: rounded to nearest even. FP8E8M0 holds
    powers of two from 2^-127, the nearest to all that is smaller, to 2^127: halves go up, anything
    else (0, negative, infinite, too large) gives NaN.
    """
    ...


@cast.type_rule
def cast_type(x: Value, *, dtype: DType, mode: Rounding) -> Type:
    require_castable(scalar_type("arith.cast", x).dtype, dtype, mode)
    return ScalarType(dtype)


@cast.reference
def cast_numpy(x: Any, *, dtype: DType, mode: Rounding) -> Any:
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        if dtype is BOOL:
            return (x.astype(np.float32) if x.dtype.itemsize == 1 else x) != 0
        if not DType.from_numpy(x.dtype).is_float():
            exact = x.astype(np.int16) if x.dtype.itemsize == 1 else x  # as in float_to_float
            return exact.astype(dtype.numpy)
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
    least, most = integer_limits(dtype)
    storage = np.dtype(np.int64 if dtype.is_signed_int() else np.uint64)
    wide = round_integral(x.astype(np.float64), mode)
    low, high = float(least), float(most)
    inside = np.where((wide > low) & (wide < high), wide, 0).astype(storage)
    clipped = np.where(wide >= high, most, np.where(wide <= low, least, inside))
    return np.where(np.isnan(wide), 0, clipped).astype(storage).astype(dtype.numpy)


def integer_limits(dtype: DType) -> tuple[int, int]:
    """The least and the greatest integer of `dtype`."""
    if dtype.is_signed_int():
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1


def float_to_float(x: Array, dtype: DType, mode: Rounding) -> Array:
    """To nearest even, then moved to the neighbour that `mode` asks for."""
    if x.dtype.itemsize == 1:
        x = x.astype(np.float32)  # exact; numpy does not convert every pair of small types
    wide = x.astype(np.float64)
    narrow = x.dtype == np.float64 and dtype.bits <= 16
    nearest = (odd_single(wide) if narrow else x).astype(dtype.numpy)
    if dtype is FP4:  # which has no NaN
        nearest = np.where(np.isnan(wide), np.asarray(-0.0).astype(dtype.numpy), nearest)
    if mode in NEAREST:
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


def odd_single(wide: Array) -> Array:
    """float64 as float32, inexact values to the odd neighbour: what is narrower rounds once then.

    Conversions of numpy's extension types go through float32 themselves, to nearest even.
    """
    near = wide.astype(np.float32)
    back = near.astype(np.float64)
    inward = np.where(np.abs(back) > np.abs(wide), np.nextafter(near, np.float32(0)), near)
    outward = np.nextafter(inward, np.copysign(np.float32(np.inf), wide.astype(np.float32)))
    is_even = (inward.view(np.uint32) & 1) == 0
    return np.where((back != wide) & np.isfinite(wide) & is_even, outward, inward)


def step(x: Array, direction: int) -> Array:
    """The next representable value of the dtype of `x` in `direction` (+1 or -1)."""
    limit, beyond = greatest(x.dtype, direction), np.asarray(direction * np.inf).astype(x.dtype)
    return np.where(x == limit, beyond, np.nextafter(x, limit))


def greatest(storage: Any, sign: int) -> Array:
    """The finite value of greatest magnitude."""
    return np.asarray(sign * float(limits_of(storage).max)).astype(storage)


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
