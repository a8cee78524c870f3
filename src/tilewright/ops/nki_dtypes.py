"""Element types of the traced style: which exist, how they promote, in which one computes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tilewright.dtypes import (
    BF16,
    BOOL,
    FP8E4M3,
    FP8E4M3FN,
    FP8E5M2,
    FP8E8M0,
    FP16,
    FP32,
    INT8,
    INT16,
    INT32,
    TF32,
    UINT8,
    UINT16,
    UINT32,
    DType,
)

BY_NAME: dict[str, DType] = {
    "int8": INT8,
    "int16": INT16,
    "int32": INT32,
    "uint8": UINT8,
    "uint16": UINT16,
    "uint32": UINT32,
    "float8_e4m3": FP8E4M3,
    "float8_e4m3fn": FP8E4M3FN,
    "float8_e5m2": FP8E5M2,
    "float8_e8m0fnu": FP8E8M0,
    "float16": FP16,
    "bfloat16": BF16,
    "tfloat32": TF32,
    "float32": FP32,
    "bool_": BOOL,
}
NAMES: dict[DType, str] = {dtype: name for name, dtype in BY_NAME.items()}
FP8 = (FP8E4M3, FP8E4M3FN, FP8E5M2, FP8E8M0)
WIDE_SIGNED = {8: INT16, 16: INT32}
DIRECT = (FP32, FP16, BF16)
"""Float types in which scalar words compute; the others compute in FP32."""

_PYTHON: dict[Any, DType] = {bool: BOOL, int: INT32, float: FP32}
_ALIASES = {"bool": "bool_", "tf32": "tfloat32", "bfp16": "bfloat16", "fp32": "float32"}


def find_dtype(given: Any) -> DType | None:
    """The element type that `given` (a DType, numpy dtype, type or name) stands for, or None."""
    if isinstance(given, DType):
        return given if given in NAMES else None
    if isinstance(given, str):
        return BY_NAME.get(_ALIASES.get(given, given))
    if given in _PYTHON:
        return _PYTHON[given]
    try:
        found = DType.from_numpy(np.dtype(given))
    except (TypeError, KeyError):
        return None
    return found if found in NAMES else None


def dtype_name(dtype: DType) -> str:
    """The language's name of an element type."""
    return NAMES.get(dtype, dtype.name.lower())


def weak_dtype(scalar: bool | int | float) -> DType:
    """The element type of a Python number: uint8, int32 or float32."""
    if isinstance(scalar, (bool, np.bool_)):
        return UINT8
    return INT32 if isinstance(scalar, int) else FP32


def promote(left: DType, right: DType) -> DType:
    """The element type of a result of operands of two types."""
    left, right = _numeric(left), _numeric(right)
    if left is right:
        return left
    if left.is_float() and right.is_float():
        return _promote_floats(left, right)
    if left.is_float() or right.is_float():
        return left if left.is_float() else right
    return _promote_integers(left, right)


def promote_all(dtypes: Iterable[DType]) -> DType:
    """`promote` over one or more types."""
    first, *rest = dtypes
    result = _numeric(first)
    for dtype in rest:
        result = promote(result, dtype)
    return result


def _numeric(dtype: DType) -> DType:
    return UINT8 if dtype is BOOL else dtype


def _promote_floats(left: DType, right: DType) -> DType:
    if left.bits != right.bits:
        return left if left.bits > right.bits else right
    return BF16 if left.bits == 8 else FP32


def _promote_integers(left: DType, right: DType) -> DType:
    if left.is_signed_int() == right.is_signed_int():
        return left if left.bits >= right.bits else right
    signed, unsigned = (left, right) if left.is_signed_int() else (right, left)
    if signed.bits > unsigned.bits:
        return signed
    return WIDE_SIGNED.get(unsigned.bits, FP32)


def compute_dtype(operands: Iterable[DType], result: DType) -> DType:
    """The type in which arithmetic runs: FP32, unless one type serves operands and result exactly.

    16-bit floats compute in FP32 inside each scalar word and round once, which is the same.
    """
    given = set(map(_numeric, operands))
    if given == {result} and (result in DIRECT or result.is_int()):
        return result
    if result.is_float() or any(dtype.is_float() for dtype in given):
        return FP32
    return promote_all(given)


LEAST = {FP32: -3.4028234663852886e38, BF16: -3.3895313892515355e38}
"""The most negative finite value of a type."""
