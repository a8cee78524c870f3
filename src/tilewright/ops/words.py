"""How scalar words are declared: one decorator gives a word its type rule and its numpy meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from tilewright.dtypes import BF16, BOOL, FP16, FP32, FP64, DType
from tilewright.errors import ArgumentTypeMismatch, DTypeMismatch
from tilewright.ir.core import Value
from tilewright.ir.opdef import OpDef, op
from tilewright.ir.types import ScalarType, Type

P = ParamSpec("P")
R = TypeVar("R")
Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]
Meaning = Callable[..., Any]

ARITHMETIC_FLOATS = (FP16, BF16, FP32, FP64)

DTYPE_RULES: dict[str, Callable[..., DType]] = {}
"""By word: (name for messages, operands) to the result dtype; elementwise ops share it."""


def dtype_of(value: Value) -> DType:
    """Element type of a scalar or shaped value; raises ArgumentTypeMismatch for any other."""
    dtype = getattr(value.type, "dtype", None)
    if dtype is None:
        raise ArgumentTypeMismatch(f"{value.type} has no elements to compute with")
    return dtype


def scalar_type(name: str, value: Value) -> ScalarType:
    """The type of a scalar; raises ArgumentTypeMismatch, naming the op, for anything else."""
    type_ = value.type
    if not isinstance(type_, ScalarType):
        raise ArgumentTypeMismatch(f"{name}: {type_} is not a scalar")
    return type_


def is_numeric(dtype: DType) -> bool:
    """True where add, mul and the like are defined."""
    return dtype in ARITHMETIC_FLOATS or (dtype.is_int() and dtype.bits >= 8)


def is_real(dtype: DType) -> bool:
    """True where exp, sqrt and the like are defined."""
    return dtype in ARITHMETIC_FLOATS


def is_bits(dtype: DType) -> bool:
    """True where bitwise words are defined: integers and BOOL."""
    return dtype is BOOL or (dtype.is_int() and dtype.bits >= 8)


def is_integer(dtype: DType) -> bool:
    """True where shifts are defined."""
    return dtype.is_int() and dtype.bits >= 8


def is_any(dtype: DType) -> bool:
    """True for every dtype that numeric or bit words know."""
    return is_numeric(dtype) or dtype is BOOL


def require_same_dtype(name: str, *values: Value) -> DType:
    """The dtype shared by all `values`; raises DTypeMismatch naming the op and both dtypes."""
    first = dtype_of(values[0])
    for value in values[1:]:
        if dtype_of(value) is not first:
            raise DTypeMismatch(
                f"{name}: operands have different dtypes, {first} and {dtype_of(value)}",
                hint="convert one of them with pl.cast",
            )
    return first


def require_dtype(name: str, dtype: DType, accepts: Callable[[DType], bool]) -> DType:
    """`dtype` if the word is defined on it; raises DTypeMismatch otherwise."""
    if not accepts(dtype):
        raise DTypeMismatch(f"{name} is not defined on {dtype}", hint="convert with pl.cast")
    return dtype


def word(
    name: str,
    meaning: Meaning,
    *,
    on: Callable[[DType], bool] = is_numeric,
    gives: DType | None = None,
    ulp: float = 0.0,
    **facts: Any,
) -> Callable[[Callable[P, R]], OpDef[P, R]]:
    """Declares the scalar word `name` whose numpy meaning is `meaning`.

    `on` says on which dtypes it is defined, `gives` the result dtype (the operands' when None),
    `ulp` how far, in units in the last place of FP32, compiled code may be from the meaning.
    """

    def declare(function: Callable[P, R]) -> OpDef[P, R]:
        opdef = op(name, **facts)(function)

        def result_dtype(label: str, *values: Value) -> DType:
            dtype = require_dtype(label, require_same_dtype(label, *values), on)
            return gives or dtype

        known: dict[tuple[DType, ...], Type] = {}

        def infer(*values: Value) -> Type:
            dtypes = tuple([scalar_type(name, value).dtype for value in values])
            found = known.get(dtypes)
            if found is None:
                found = known[dtypes] = ScalarType(result_dtype(name, *values))
            return found

        DTYPE_RULES[name] = result_dtype
        opdef.infer = infer
        opdef.evaluate = quiet(meaning)
        opdef.ulp = ulp
        return opdef

    return declare


def where(cond: Any, x: Any, y: Any) -> Any:
    """`np.where`, whose stubs do not know arrays of unknown dtype."""
    return np.where(cond, x, y)  # pyright: ignore[reportUnknownVariableType]


def quiet(meaning: Meaning) -> Meaning:
    """`meaning` without numpy's warnings: overflow, NaN and division are part of the meaning."""

    def evaluate(*arrays: Any) -> Any:
        with np.errstate(all="ignore"):
            return meaning(*arrays)

    evaluate.__wrapped__ = meaning  # type: ignore[attr-defined]
    return evaluate


def through_double(function: Callable[..., Any]) -> Meaning:
    """`function` in float64, rounded once to the operands' dtype."""

    def meaning(*arrays: Array) -> Array:
        wide = function(*(np.asarray(a).astype(np.float64) for a in arrays))
        return np.asarray(wide).astype(np.asarray(arrays[0]).dtype)

    def in_place(array: Array) -> Array:
        wide = np.asarray(array).astype(np.float64)
        function(wide, out=wide)
        return wide.astype(np.asarray(array).dtype)

    is_simple = isinstance(function, np.ufunc) and function.nin == 1
    return in_place if is_simple else meaning


def through_single(function: Callable[..., Any]) -> Meaning:
    """`function` in float32 for 16-bit floats, rounded once; directly for other dtypes.

    Exact for + - * / and sqrt: float32 has more than 2p + 2 bits of either 16-bit format.
    """

    def meaning(*arrays: Array) -> Array:
        dtype = np.asarray(arrays[0]).dtype
        if dtype.itemsize != 2 or dtype.kind in "iu":
            return function(*arrays)
        return np.asarray(function(*(np.asarray(a).astype(np.float32) for a in arrays))).astype(
            dtype
        )

    return meaning
