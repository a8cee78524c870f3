"""Functions of the traced style in terms of element-wise ops: activations and their derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.dtypes import DType
from tilewright.ir.builder import Builder
from tilewright.ir.core import Value
from tilewright.ir.types import ScalarType, ShapedType
from tilewright.ops import elementwise as ew
from tilewright.ops.cast import cast as cast_scalar
from tilewright.ops.nki_dtypes import find_dtype

Function = Callable[[Value], Value]

ROOT_HALF = math.sqrt(0.5)
ROOT_TWO_OVER_PI = math.sqrt(2.0 / math.pi)
INVERSE_ROOT_TWO_PI = 1.0 / math.sqrt(2.0 * math.pi)
TWO_OVER_ROOT_PI = 2.0 / math.sqrt(math.pi)


def number(like: Value, value: float) -> Value:
    """`value` as a scalar of the element type of `like`."""
    type_ = like.type
    assert isinstance(type_, ShapedType)
    return scalar(value, type_.dtype)


def scalar(value: float, dtype: DType) -> Value:
    """A constant."""
    given = float(value) if dtype.is_float() else int(value)
    return Builder.current().constant(given, dtype)


def shift_right(x: Value, y: Value) -> Value:
    """x shifted right by y bits, filled with zeros, whether x has a sign or not."""
    dtype = x.type.dtype if isinstance(x.type, (ShapedType, ScalarType)) else None
    if dtype is None or not dtype.is_signed_int():
        return ew.shr(x, y)
    bits = find_dtype(f"uint{dtype.bits}")
    assert bits is not None
    return ew.cast(ew.shr(_converted(x, bits), _converted(y, bits)), dtype=dtype)


def _converted(x: Value, dtype: DType) -> Value:
    if isinstance(x.type, ScalarType):
        return cast_scalar(x, dtype=dtype)
    return ew.cast(x, dtype=dtype)


def times(x: Value, factor: float) -> Value:
    """factor * x"""
    return ew.mul(x, number(x, factor))


def plus(x: Value, term: float) -> Value:
    """x + term"""
    return ew.add(x, number(x, term))


def square(x: Value) -> Value:
    """x * x"""
    return ew.mul(x, x)


def erf_dx(x: Value) -> Value:
    """2/√π · exp(-x²)"""
    return times(ew.exp(ew.neg(square(x))), TWO_OVER_ROOT_PI)


def relu(x: Value) -> Value:
    """max(x, 0)"""
    return ew.max_(x, number(x, 0.0))


def gelu(x: Value) -> Value:
    """x/2 · (1 + erf(x/√2))"""
    return ew.mul(times(x, 0.5), plus(ew.erf(times(x, ROOT_HALF)), 1.0))


def gelu_dx(x: Value) -> Value:
    """Φ(x) + x·φ(x)"""
    cumulative = times(plus(ew.erf(times(x, ROOT_HALF)), 1.0), 0.5)
    density = times(ew.exp(times(square(x), -0.5)), INVERSE_ROOT_TWO_PI)
    return ew.add(cumulative, ew.mul(x, density))


def gelu_apprx_tanh(x: Value) -> Value:
    """x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³)))"""
    cubic = ew.mul(times(square(x), 0.044715), x)
    inner = times(ew.add(x, cubic), ROOT_TWO_OVER_PI)
    return ew.mul(times(x, 0.5), plus(ew.tanh(inner), 1.0))


def gelu_apprx_sigmoid(x: Value) -> Value:
    """x · σ(1.702·x)"""
    return ew.mul(x, ew.sigmoid(times(x, 1.702)))


def gelu_apprx_sigmoid_dx(x: Value) -> Value:
    """s + 1.702·x·s·(1 - s), with s = σ(1.702·x)"""
    s = ew.sigmoid(times(x, 1.702))
    slope = ew.mul(times(x, 1.702), ew.mul(s, ew.sub(number(s, 1.0), s)))
    return ew.add(s, slope)


def silu(x: Value) -> Value:
    """x · σ(x)"""
    return ew.mul(x, ew.sigmoid(x))


def silu_dx(x: Value) -> Value:
    """s · (1 + x·(1 - s)), with s = σ(x)"""
    s = ew.sigmoid(x)
    return ew.mul(s, plus(ew.mul(x, ew.sub(number(s, 1.0), s)), 1.0))


def softplus(x: Value) -> Value:
    """max(x, 0) + log1p(exp(-|x|)): log(1 + exp(x)) without overflow"""
    return ew.add(relu(x), ew.log1p(ew.exp(ew.neg(ew.abs_(x)))))


def mish(x: Value) -> Value:
    """x · tanh(softplus(x))"""
    return ew.mul(x, ew.tanh(softplus(x)))


FLOAT_FUNCTIONS: dict[str, Function] = {
    "exp": ew.exp,
    "log": ew.log,
    "sqrt": ew.sqrt,
    "rsqrt": ew.rsqrt,
    "reciprocal": ew.recip,
    "sin": ew.sin,
    "cos": ew.cos,
    "tan": ew.tan,
    "arctan": ew.atan,
    "tanh": ew.tanh,
    "erf": ew.erf,
    "erf_dx": erf_dx,
    "sigmoid": ew.sigmoid,
    "relu": relu,
    "gelu": gelu,
    "gelu_dx": gelu_dx,
    "gelu_apprx_tanh": gelu_apprx_tanh,
    "gelu_apprx_sigmoid": gelu_apprx_sigmoid,
    "gelu_apprx_sigmoid_dx": gelu_apprx_sigmoid_dx,
    "silu": silu,
    "silu_dx": silu_dx,
    "softplus": softplus,
    "mish": mish,
    "ceil": ew.ceil,
    "floor": ew.floor,
    "trunc": ew.trunc,
}
"""Functions that compute in a float type, by the name they have in the language."""
