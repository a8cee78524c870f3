"""How reductions combine: identities, accumulation dtypes, and one step outside of a lanes loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import BOOL, FP32, DType
from tilewright.ir.core import Value
from tilewright.ir.types import ScalarType
from tilewright.ops import arith
from tilewright.ops.cast import cast
from tilewright.passes.scopes import Scopes

Word = Callable[[Value, Value], Value]

WORDS: dict[str, Word] = {
    "add": arith.add,
    "mul": arith.mul,
    "max": arith.max_,
    "min": arith.min_,
    "and": arith.and_,
    "or": arith.or_,
    "xor": arith.xor,
}
PAIRED: dict[str, str] = {"argmax": "max", "argmin": "min"}


def dtype_of(scalar: Value) -> DType:
    """The dtype of a scalar."""
    assert isinstance(scalar.type, ScalarType)
    return scalar.type.dtype


def accumulated(dtype: DType) -> DType:
    """The dtype in which `dtype` accumulates: FP32 for narrower floats."""
    return FP32 if dtype.is_float() and dtype.bits < 32 else dtype


def identity(combine: str, dtype: DType) -> int | float | bool:
    """What `combine` leaves unchanged."""
    combine = PAIRED.get(combine, combine)
    if combine in ("add", "or", "xor"):
        return False if dtype is BOOL else 0.0 if dtype.is_float() else 0
    if combine == "mul":
        return 1.0 if dtype.is_float() else 1
    if combine == "and":
        return True if dtype is BOOL else -1
    return _extreme(dtype, least=combine == "max")


def _extreme(dtype: DType, *, least: bool) -> int | float | bool:
    if dtype is BOOL:
        return not least
    if dtype.is_float():
        return -math.inf if least else math.inf
    limits: Any = np.iinfo(dtype.numpy)
    return int(limits.min if least else limits.max)


def widened(scalars: Sequence[Value]) -> tuple[Value, ...]:
    """A contribution whose value has the dtype in which it accumulates."""
    value, *index = scalars
    wide = accumulated(dtype_of(value))
    return (value if wide is dtype_of(value) else cast(value, dtype=wide), *index)


def initial(scopes: Scopes, combine: str, contribution: Sequence[Value]) -> tuple[Value, ...]:
    """The accumulators before the first contribution."""
    value, *index = map(dtype_of, contribution)
    start = scopes.constant(identity(combine, value), value)
    return (start, *(scopes.constant(0, dtype) for dtype in index))


def finished(scalars: Sequence[Value], dtype: DType) -> Value:
    """The result of a reduction: the accumulator, or the index of a pair, as `dtype`."""
    last = scalars[-1]
    return last if dtype_of(last) is dtype else cast(last, dtype=dtype)


def step(combine: str, total: Sequence[Value], given: Sequence[Value]) -> tuple[Value, ...]:
    """`total` combined with one more contribution, which comes later in index order."""
    if combine not in PAIRED:
        return (WORDS[combine](total[0], given[0]),)
    better = (arith.gt if combine == "argmax" else arith.lt)(given[0], total[0])
    if dtype_of(given[0]).is_float():
        fresh_nan = arith.and_(arith.ne(given[0], given[0]), arith.eq(total[0], total[0]))
        better = arith.or_(better, fresh_nan)
    return tuple(arith.select(better, new, old) for new, old in zip(given, total, strict=True))
