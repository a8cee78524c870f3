"""Scalar words: what one lane does. Elementwise ops, reductions and loop IR are made of these.

Floats follow IEEE 754 round-to-nearest-even, denormals kept; FP16 and BF16 compute in FP32 and
round once per word. Integers wrap. Any NaN equals any NaN.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.dtypes import BOOL, DType
from tilewright.errors import DTypeMismatch
from tilewright.ir.builder import register_constant_op
from tilewright.ir.core import Value
from tilewright.ir.opdef import op
from tilewright.ir.types import ScalarType, Type
from tilewright.ops.words import (
    Array,
    dtype_of,
    is_any,
    is_bits,
    is_integer,
    is_real,
    require_same_dtype,
    through_double,
    through_single,
    word,
)


@op("arith.const")
def const(*, value: int | float | bool, dtype: DType) -> Value:
    """The constant `value` of `dtype`; a float value is the nearest of the dtype."""
    ...


@const.type_rule
def const_type(*, value: int | float | bool, dtype: DType) -> Type:
    if isinstance(value, float) and not dtype.is_float():
        raise DTypeMismatch(f"the float literal {value} is not a value of {dtype}")
    if type(value) is int and value.bit_length() >= dtype.bits and not _fits(value, dtype):
        raise DTypeMismatch(
            f"{value} has more bits than {dtype}", hint="give a wider operand, or a smaller number"
        )
    return ScalarType(dtype)


def _fits(value: int, dtype: DType) -> bool:
    """True where an integer is a value of the type, or the bits of one as unsigned."""
    return dtype.is_float() or -(1 << (dtype.bits - 1)) <= value < 1 << dtype.bits


@const.reference
def const_numpy(*, value: int | float | bool, dtype: DType) -> Any:
    with np.errstate(over="ignore"):
        return np.asarray(value).astype(dtype.numpy)[()]


register_constant_op(const)


@word("arith.add", through_single(np.add), infix="+", commutative=True)
def add(x: Value, y: Value) -> Value:
    """x + y."""
    ...


@word("arith.sub", through_single(np.subtract), infix="-")
def sub(x: Value, y: Value) -> Value:
    """x - y."""
    ...


@word("arith.mul", through_single(np.multiply), infix="*", commutative=True)
def mul(x: Value, y: Value) -> Value:
    """x * y."""
    ...


def _divide(x: Array, y: Array) -> Array:
    if np.asarray(x).dtype.kind not in "iu":
        return through_single(np.true_divide)(x, y)
    quotient = np.floor_divide(x, y)
    inexact = (np.remainder(x, y) != 0) & ((x < 0) != (y < 0))
    return np.where(y == 0, 0, quotient + inexact).astype(np.asarray(x).dtype)


@word("arith.div", _divide, infix="/")
def div(x: Value, y: Value) -> Value:
    """x / y; integers truncate toward zero, x / 0 is 0 and the least value / -1 wraps."""
    ...


def _floored_quotient(x: Array, y: Array) -> Array:
    return np.floor(np.true_divide(x, y))


def _floordiv(x: Array, y: Array) -> Array:
    if np.asarray(x).dtype.kind not in "iu":
        return through_single(_floored_quotient)(x, y)
    return np.where(y == 0, 0, np.floor_divide(x, y)).astype(np.asarray(x).dtype)


@word("arith.floordiv", _floordiv, infix="//")
def floordiv(x: Value, y: Value) -> Value:
    """floor(x / y), the quotient rounded first; for integers x // 0 is 0."""
    ...


def _remainder(x: Array, y: Array) -> Array:
    if np.asarray(x).dtype.kind not in "iu":
        return through_double(np.remainder)(x, y)
    return np.where(y == 0, 0, np.remainder(x, y)).astype(np.asarray(x).dtype)


@word("arith.mod", _remainder, infix="%")
def mod(x: Value, y: Value) -> Value:
    """The remainder with the sign of y: fmod(x, y), plus y where the signs differ; x % 0 is 0."""
    ...


def _fmod(x: Array, y: Array) -> Array:
    if np.asarray(x).dtype.kind not in "iu":
        return through_double(np.fmod)(x, y)
    return np.where(y == 0, 0, np.fmod(x, y)).astype(np.asarray(x).dtype)


@word("arith.fmod", _fmod)
def fmod(x: Value, y: Value) -> Value:
    """The exact remainder with the sign of x; for integers fmod(x, 0) is 0."""
    ...


@word("arith.neg", np.negative)
def neg(x: Value) -> Value:
    """-x; flips the sign of zero and NaN too."""
    ...


@word("arith.abs", np.abs)
def abs_(x: Value) -> Value:
    """|x|; the least integer wraps to itself."""
    ...


def _maximum(x: Array, y: Array) -> Array:
    if np.asarray(x).dtype.kind in "iub":
        return np.maximum(x, y)
    greater: Array = np.asarray(np.maximum(x, y))
    zero: Array = greater == 0
    return np.where(zero & (x == 0) & (y == 0), x + y, greater) if zero.any() else greater


def _minimum(x: Array, y: Array) -> Array:
    if np.asarray(x).dtype.kind in "iub":
        return np.minimum(x, y)
    lesser: Array = np.asarray(np.minimum(x, y))
    zero: Array = lesser == 0
    return np.where(zero & (x == 0) & (y == 0), -(-x - y), lesser) if zero.any() else lesser


@word("arith.max", _maximum, commutative=True)
def max_(x: Value, y: Value) -> Value:
    """The greater; NaN if either is NaN; max(-0.0, 0.0) is 0.0."""
    ...


@word("arith.min", _minimum, commutative=True)
def min_(x: Value, y: Value) -> Value:
    """The lesser; NaN if either is NaN; min(-0.0, 0.0) is -0.0."""
    ...


@word("arith.and", np.bitwise_and, on=is_bits, commutative=True, infix="and")
def and_(x: Value, y: Value) -> Value:
    """Bitwise and; logical on BOOL (both sides are evaluated)."""
    ...


@word("arith.or", np.bitwise_or, on=is_bits, commutative=True, infix="or")
def or_(x: Value, y: Value) -> Value:
    """Bitwise or; logical on BOOL (both sides are evaluated)."""
    ...


@word("arith.xor", np.bitwise_xor, on=is_bits, commutative=True)
def xor(x: Value, y: Value) -> Value:
    """Bitwise exclusive or."""
    ...


@word("arith.not", np.invert, on=is_bits)
def not_(x: Value) -> Value:
    """Bitwise complement; logical on BOOL."""
    ...


def _shl(x: Array, y: Array) -> Array:
    return np.left_shift(x, y)


def _shr(x: Array, y: Array) -> Array:
    return np.right_shift(x, y)


@word("arith.shl", _shl, on=is_integer, infix="<<")
def shl(x: Value, y: Value) -> Value:
    """x shifted left by y bits; 0 when y is negative or not less than the width."""
    ...


@word("arith.shr", _shr, on=is_integer, infix=">>")
def shr(x: Value, y: Value) -> Value:
    """x shifted right by y bits, keeping the sign of signed x; only sign bits if y is too large."""
    ...


@word("arith.eq", np.equal, on=is_any, gives=BOOL, infix="==", commutative=True)
def eq(x: Value, y: Value) -> Value:
    """x == y; False when either is NaN."""
    ...


@word("arith.ne", np.not_equal, on=is_any, gives=BOOL, infix="!=", commutative=True)
def ne(x: Value, y: Value) -> Value:
    """x != y; True when either is NaN."""
    ...


@word("arith.lt", np.less, on=is_any, gives=BOOL, infix="<")
def lt(x: Value, y: Value) -> Value:
    """x < y; False when either is NaN."""
    ...


@word("arith.le", np.less_equal, on=is_any, gives=BOOL, infix="<=")
def le(x: Value, y: Value) -> Value:
    """x <= y; False when either is NaN."""
    ...


@word("arith.gt", np.greater, on=is_any, gives=BOOL, infix=">")
def gt(x: Value, y: Value) -> Value:
    """x > y; False when either is NaN."""
    ...


@word("arith.ge", np.greater_equal, on=is_any, gives=BOOL, infix=">=")
def ge(x: Value, y: Value) -> Value:
    """x >= y; False when either is NaN."""
    ...


@op("arith.select")
def select(cond: Value, x: Value, y: Value) -> Value:
    """x where cond (BOOL) is True, else y; any dtype."""
    ...


@select.type_rule
def select_type(cond: Value, x: Value, y: Value) -> Type:
    if dtype_of(cond) is not BOOL:
        raise DTypeMismatch(f"arith.select: the condition is {dtype_of(cond)}, not pl.BOOL")
    return ScalarType(require_same_dtype("arith.select", x, y))


@select.reference
def select_numpy(cond: Array, x: Array, y: Array) -> Array:
    return np.where(cond, x, y)


@word("arith.exp", through_double(np.exp), on=is_real, ulp=1.0)
def exp(x: Value) -> Value:
    """e to the power x."""
    ...


@word("arith.exp2", through_double(np.exp2), on=is_real, ulp=1.0)
def exp2(x: Value) -> Value:
    """2 to the power x."""
    ...


@word("arith.log", through_double(np.log), on=is_real, ulp=1.0)
def log(x: Value) -> Value:
    """Natural logarithm; NaN below zero, -inf at zero."""
    ...


@word("arith.log1p", through_double(np.log1p), on=is_real, ulp=1.0)
def log1p(x: Value) -> Value:
    """log(1 + x) without cancellation near zero."""
    ...


@word("arith.tanh", through_double(np.tanh), on=is_real, ulp=1.0)
def tanh(x: Value) -> Value:
    """Hyperbolic tangent; keeps -0.0."""
    ...


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


@word("arith.erf", through_double(_erf), on=is_real, ulp=1.1)
def erf(x: Value) -> Value:
    """Error function."""
    ...


def _sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


@word("arith.sigmoid", through_double(_sigmoid), on=is_real, ulp=1.0)
def sigmoid(x: Value) -> Value:
    """1 / (1 + exp(-x))."""
    ...


@word("arith.sin", through_double(np.sin), on=is_real, ulp=1.0)
def sin(x: Value) -> Value:
    """Sine of x radians; NaN at infinities."""
    ...


@word("arith.cos", through_double(np.cos), on=is_real, ulp=1.0)
def cos(x: Value) -> Value:
    """Cosine of x radians; NaN at infinities."""
    ...


@word("arith.tan", through_double(np.tan), on=is_real, ulp=3.0)
def tan(x: Value) -> Value:
    """Tangent of x radians; NaN at infinities."""
    ...


@word("arith.atan", through_double(np.arctan), on=is_real, ulp=1.0)
def atan(x: Value) -> Value:
    """Arc tangent in radians."""
    ...


@word("arith.sqrt", through_single(np.sqrt), on=is_real)
def sqrt(x: Value) -> Value:
    """Square root, correctly rounded; NaN below zero, keeps -0.0."""
    ...


def _rsqrt(x: Array) -> Array:
    return 1.0 / np.sqrt(x)


@word("arith.rsqrt", through_double(_rsqrt), on=is_real, ulp=1.0)
def rsqrt(x: Value) -> Value:
    """1 / sqrt(x), both steps rounded; inf at zero."""
    ...


def _recip(x: Array) -> Array:
    return np.true_divide(np.asarray(x).dtype.type(1), x)


@word("arith.recip", through_single(_recip), on=is_real)
def recip(x: Value) -> Value:
    """1 / x, correctly rounded."""
    ...


def _power(x: Array, y: Array) -> Array:
    if np.asarray(x).dtype.kind not in "iu":
        return through_double(np.power)(x, y)
    return np.where(y < 0, 0, np.power(x, np.maximum(y, 0))).astype(np.asarray(x).dtype)


@word("arith.pow", _power, ulp=1.0)
def pow_(x: Value, y: Value) -> Value:
    """x to the power y as C's pow; for integers a wrapping product, 0 when y is negative."""
    ...


@word("arith.floor", np.floor, on=is_real)
def floor(x: Value) -> Value:
    """The greatest integral value not above x."""
    ...


@word("arith.ceil", np.ceil, on=is_real)
def ceil(x: Value) -> Value:
    """The least integral value not below x."""
    ...


@word("arith.trunc", np.trunc, on=is_real)
def trunc(x: Value) -> Value:
    """x without its fraction."""
    ...


def _round_away(x: Array) -> Array:
    whole = np.trunc(x)
    away = whole + np.copysign(np.abs(x - whole) >= 0.5, x)
    return np.copysign(np.where(np.isfinite(x), away, x), x).astype(np.asarray(x).dtype)


@word("arith.round", through_single(_round_away), on=is_real)
def round_(x: Value) -> Value:
    """The nearest integral value, halves away from zero."""
    ...


@word("arith.rint", np.rint, on=is_real)
def rint(x: Value) -> Value:
    """The nearest integral value, halves to even."""
    ...


@word("arith.sign", through_single(np.sign))
def sign(x: Value) -> Value:
    """-1, 0 or 1 with the sign of x; NaN at NaN; 0.0 for both zeros."""
    ...
