"""Samples of an op: the operands and attributes on which the derived tests run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from tilewright.dataclass import dataclass
from tilewright.dtypes import BF16, BOOL, FP16, FP32, INDEX, INT8, INT16, INT32, INT64, UINT8, DType
from tilewright.errors import TilewrightError
from tilewright.ir.enums import MemorySpace
from tilewright.ir.types import DistributedTensorType, ScalarType, Type
from tilewright.ops.rules import tensor_type, tile_type
from tilewright.ops.words import Array

FLOATS = (FP32, FP16, BF16)
INTS = (INT8, INT16, INT32, INT64, UINT8)
NUMBERS = (*FLOATS, *INTS)
EVERY = (*NUMBERS, BOOL)
Maker = Callable[[tuple[int, ...], DType, int], Array]


@dataclass(frozen=True)
class Arg:
    """One operand: its kind, extents, dtype (None: the dtype under test) and how it is filled."""

    kind: str
    shape: tuple[int, ...]
    dtype: DType | None
    make: Maker
    valid: tuple[int, ...] | None = None
    space: MemorySpace = MemorySpace.Vec

    def type(self, dtype: DType) -> Type:
        """The type of the operand when `dtype` is under test."""
        dtype = self.dtype or dtype
        if self.kind == "scalar":
            return ScalarType(dtype)
        if self.kind == "window":
            return DistributedTensorType(self.shape, dtype)
        if self.kind == "tile":
            return tile_type(self.shape, dtype, self.space, self.valid)
        return tensor_type(self.shape, dtype, self.valid)

    def array(self, dtype: DType, seed: int = 0) -> Any:
        """The contents: an array, or a numpy scalar."""
        array = self.make(self.shape, self.dtype or dtype, seed)
        return array[()] if self.kind == "scalar" else array


@dataclass(frozen=True)
class Sample:
    """One use of an op: operand entries (Arg, None or a tuple of Args), attributes, dtypes to try.

    With `error` the type rule must raise exactly that class.
    """

    entries: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict[str, Any])
    dtypes: tuple[DType, ...] = (FP32,)
    error: type[TilewrightError] | None = None


def sample(*entries: Any, dtypes: Sequence[DType] = (FP32,), **attrs: Any) -> Sample:
    """A use that is accepted, tried with each of `dtypes`."""
    return Sample(entries, attrs, tuple(dtypes))


def fails(
    error: type[TilewrightError], *entries: Any, dtypes: Sequence[DType] = (FP32,), **attrs: Any
) -> Sample:
    """A use that is refused with exactly `error`."""
    return Sample(entries, attrs, tuple(dtypes), error)


def tile(
    *shape: int,
    dtype: DType | None = None,
    make: Maker | None = None,
    valid: tuple[int, ...] | None = None,
    space: MemorySpace = MemorySpace.Vec,
) -> Arg:
    """A tile operand of small random values."""
    return Arg("tile", shape, dtype, make or small, valid, space)


def tensor(
    *shape: int,
    dtype: DType | None = None,
    make: Maker | None = None,
    valid: tuple[int, ...] | None = None,
) -> Arg:
    """A tensor operand of small random values."""
    return Arg("tensor", shape, dtype, make or small, valid)


def window(*shape: int, dtype: DType = INT32) -> Arg:
    """A distributed tensor of zeros."""
    return Arg("window", shape, dtype, lambda shape, dtype, _: np.zeros(shape, dtype.numpy))


def scalar(value: int | float = 2, dtype: DType | None = None) -> Arg:
    """A scalar operand."""
    return Arg("scalar", (), dtype, lambda _, dtype, __: np.asarray(value).astype(dtype.numpy))


def index(value: int) -> Arg:
    """An INDEX scalar operand."""
    return scalar(value, INDEX)


def indices(*values: int) -> tuple[Arg, ...]:
    """INDEX scalars of a variadic operand."""
    return tuple(map(index, values))


def small(shape: tuple[int, ...], dtype: DType, seed: int) -> Array:
    """Small values of both signs, exact in every dtype."""
    rng = np.random.default_rng(seed + 1)
    if dtype is BOOL:
        return rng.integers(0, 2, shape).astype(np.bool_)
    low = 0 if dtype.kind == "uint" else -7
    return rng.integers(low, 8, shape).astype(dtype.numpy)


def positive(shape: tuple[int, ...], dtype: DType, seed: int) -> Array:
    """Small values above zero."""
    return np.random.default_rng(seed + 2).integers(1, 8, shape).astype(dtype.numpy)


def below(bound: int) -> Maker:
    """Integers in [0, bound)."""
    return lambda shape, dtype, seed: (
        np.random.default_rng(seed + 3).integers(0, bound, shape).astype(dtype.numpy)
    )


def given(values: Any) -> Maker:
    """Exactly `values`."""
    return lambda shape, dtype, seed: np.asarray(values).astype(dtype.numpy).reshape(shape)


SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 0.5, -0.5, 1.5, 2.5, -2.5, 3e38, 1e-7)


def special(shape: tuple[int, ...], dtype: DType, seed: int) -> Array:
    """Zeros of both signs, infinities, NaN, denormals and halves; extremes for integers."""
    count = int(np.prod(shape))
    if dtype is BOOL:
        return small(shape, dtype, seed)
    values: Array = np.asarray(SPECIAL)
    if not dtype.is_float():
        info = np.iinfo(dtype.numpy)
        values = np.asarray([0, 1, 2, info.max, info.min, info.max - 1], dtype.numpy)
    with np.errstate(all="ignore"):
        narrow = values.astype(dtype.numpy)
    return np.roll(np.resize(narrow, max(count, 1)), seed)[:count].reshape(shape)


def strided(shape: tuple[int, ...], dtype: DType, seed: int) -> Array:
    """A transposed view of small random values: its last axis is not contiguous."""
    return np.transpose(small(shape[::-1], dtype, seed))


def wide(shape: tuple[int, ...], dtype: DType, seed: int) -> Array:
    """Values of many magnitudes, whose sum depends on its order."""
    rng = np.random.default_rng(seed + 5)
    if not dtype.is_float():
        return small(shape, dtype, seed)
    return (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(dtype.numpy)


def pointwise_samples(arity: int, dtypes: Sequence[DType]) -> list[Sample]:
    """The samples that every elementwise op of `arity` operands has."""
    shapes = ((0,), (1,), (7, 13), (1, 1), (3, 64))
    plain = [sample(*[tile(*shape)] * arity, dtypes=dtypes) for shape in shapes]
    odd = [
        sample(*[tile(4, 14, make=special)] * arity, dtypes=dtypes),
        sample(*[tensor(5, 7, make=strided)] * arity, dtypes=dtypes),
    ]
    return plain + odd + (_broadcasting(dtypes) if arity == 2 else [])


def _broadcasting(dtypes: Sequence[DType]) -> list[Sample]:
    return [
        sample(tile(4, 8), scalar(), dtypes=dtypes),
        sample(scalar(3), tensor(4, 8), dtypes=dtypes),
        sample(tile(4, 8), tile(4, 1), dtypes=dtypes),
        sample(tile(1, 8), tile(4, 8), dtypes=dtypes),
        sample(tile(3, 1), tensor(5), dtypes=dtypes),
        sample(tile(4, 8, valid=(3, 8)), tile(4, 8, valid=(3, 8)), dtypes=dtypes),
        sample(tile(4, 8, valid=(3, 8)), tile(1, 8), dtypes=dtypes),
    ]
