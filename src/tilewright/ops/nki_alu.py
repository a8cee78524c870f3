"""The arithmetic unit of the traced style: named operations on values, and reductions by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import BOOL, DType
from tilewright.ir.core import Value
from tilewright.ir.opdef import OpDef
from tilewright.ir.types import ScalarType, ShapedType
from tilewright.ops import elementwise as ew
from tilewright.ops import reduce, shape
from tilewright.ops.cast import cast
from tilewright.ops.nki_math import FLOAT_FUNCTIONS, number, shift_right

Pair = Callable[[Value, Value], Value]

ARITHMETIC: dict[str, OpDef[..., Any]] = {
    "add": ew.add,
    "subtract": ew.sub,
    "multiply": ew.mul,
    "divide": ew.div,
    "maximum": ew.max_,
    "minimum": ew.min_,
    "power": ew.pow_,
    "mod": ew.mod,
    "fmod": ew.fmod,
}
COMPARING: dict[str, OpDef[..., Any]] = {
    "equal": ew.eq,
    "not_equal": ew.ne,
    "greater": ew.gt,
    "greater_equal": ew.ge,
    "less": ew.lt,
    "less_equal": ew.le,
}
LOGICAL: dict[str, OpDef[..., Any]] = {
    "logical_and": ew.and_,
    "logical_or": ew.or_,
    "logical_xor": ew.xor,
}
BITS: dict[str, Pair] = {
    "bitwise_and": ew.and_,
    "bitwise_or": ew.or_,
    "bitwise_xor": ew.xor,
    "left_shift": ew.shl,
    "right_shift": shift_right,
}
UNARY = ("abs", "negative", "square", "sign", "copy", "logical_not", "invert", *FLOAT_FUNCTIONS)
BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor")
REDUCIBLE = ("add", "multiply", "maximum", "minimum", "subtract", *BITWISE, *LOGICAL)
SYNONYMS = {
    "max": "maximum",
    "amax": "maximum",
    "min": "minimum",
    "amin": "minimum",
    "true_divide": "divide",
    "pow": "power",
    "float_power": "power",
    "absolute": "abs",
    "remainder": "mod",
    "sum": "add",
    "prod": "multiply",
    "all": "logical_and",
    "any": "logical_or",
    "bitwise_not": "invert",
    "bitwise_invert": "invert",
    "relu6": "relu",
    "identity": "copy",
    "positive": "copy",
    "bypass": "copy",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
}


def is_bitvec(name: str) -> bool:
    """True for operations on bits, which take integers and convert nothing."""
    return name in BITS or name == "invert"


def apply(name: str, x: Value, y: Value) -> Value:
    """`x <name> y` for operands of one dtype, in that dtype; truth values are 0 and 1."""
    dtype = dtype_of(x)
    if name in COMPARING:
        return ew.cast(COMPARING[name](x, y), dtype=dtype)
    if name in LOGICAL:
        return ew.cast(LOGICAL[name](as_bool(x), as_bool(y)), dtype=dtype)
    return (BITS if name in BITS else ARITHMETIC)[name](x, y)


def apply_unary(name: str, x: Value) -> Value:
    """`<name> x`, in the dtype of x."""
    if name in FLOAT_FUNCTIONS:
        return FLOAT_FUNCTIONS[name](x)
    if name == "square":
        return ew.mul(x, x)
    if name == "logical_not":
        return ew.cast(ew.not_(as_bool(x)), dtype=dtype_of(x))
    simple = {"abs": ew.abs_, "negative": ew.neg, "sign": ew.sign, "invert": ew.not_}
    return x if name == "copy" else simple[name](x)


def dtype_of(x: Value) -> DType:
    """Element type of a value."""
    assert isinstance(x.type, (ShapedType, ScalarType))
    return x.type.dtype


def as_bool(x: Value) -> Value:
    """Whether elements, or a scalar, are nonzero."""
    if dtype_of(x) is BOOL:
        return x
    return cast(x, dtype=BOOL) if isinstance(x.type, ScalarType) else ew.cast(x, dtype=BOOL)


# ---------------------------------------------------------------------------- reductions


def reduce_axes(name: str, x: Value, axes: tuple[int, ...]) -> Value:
    """`x` combined by `name` over `axes`, which stay with extent 1; in the dtype of x."""
    simple = {
        "add": reduce.sum_,
        "multiply": reduce.prod,
        "maximum": reduce.max_,
        "minimum": reduce.min_,
    }
    if name in simple:
        return simple[name](x, axes=axes, keepdims=True)
    if name in ("logical_and", "logical_or"):
        truth = reduce.all_ if name == "logical_and" else reduce.any_
        return ew.cast(truth(as_bool(x), axes=axes, keepdims=True), dtype=dtype_of(x))
    if name == "subtract":
        return subtracted(x, axes)
    for axis in axes:
        x = halved(lambda a, b: apply(name, a, b), x, axis)
    return x


def subtracted(x: Value, axes: tuple[int, ...]) -> Value:
    """The first element along `axes` minus the sum of all others."""
    if not axes:
        return x
    axis, *others = axes
    size = extent_of(x, axis)
    first = subtracted(part(x, axis, 0, 1), tuple(others))
    if size == 1:
        return first
    return ew.sub(first, reduce.sum_(part(x, axis, 1, size - 1), axes=axes, keepdims=True))


def halved(combine: Pair, x: Value, axis: int) -> Value:
    """`x` combined over one axis by halves; the middle element of an odd extent waits its turn."""
    while extent_of(x, axis) > 1:
        size = extent_of(x, axis)
        half = size // 2
        total = combine(part(x, axis, 0, half), part(x, axis, half, half))
        if size % 2:
            total = shape.concat((total, part(x, axis, size - 1, 1)), axis=axis)
        x = total
    return x


def part(x: Value, axis: int, start: int, size: int) -> Value:
    """`size` elements of `x` along `axis`, from `start`."""
    assert isinstance(x.type, ShapedType)
    rank = x.type.rank
    offsets = tuple(start if k == axis % rank else 0 for k in range(rank))
    extents = tuple(size if k == axis % rank else extent for k, extent in enumerate(x.type.shape))
    return shape.slice_(x, offsets, shape=extents)  # type: ignore[arg-type]


def extent_of(x: Value, axis: int) -> int:
    """One extent of a tile."""
    assert isinstance(x.type, ShapedType)
    return int(x.type.shape[axis])


def identity_of(name: str, dtype: DType) -> float:
    """What changes nothing when combined by `name`."""
    if name in ("maximum", "minimum"):
        return _extreme(dtype, least=name == "maximum")
    if name in ("multiply", "logical_and"):
        return 1
    return -1 if name == "bitwise_and" else 0


def _extreme(dtype: DType, *, least: bool) -> float:
    if dtype.is_float():
        return -np.inf if least else np.inf
    info = np.iinfo(dtype.numpy)
    return int(info.min if least else info.max)


def only_where(mask: Value, x: Value, name: str) -> Value:
    """`x` with what changes nothing under `name` where the mask does not hold."""
    return ew.select(mask, x, number(x, identity_of(name, dtype_of(x))))


def trailing(rank: int, axes: Sequence[int]) -> tuple[int, ...]:
    """Axes counted from the front, in order."""
    return tuple(sorted(axis % rank for axis in axes))
