"""Reductions over axes: sum, prod, max, min, all, any and the index of the greatest or least.

Floating-point sums and products are folded in a fixed order. Over the last axis: the order of
lanes loops (ops/loop.py). Over any other axis: identity, then one element after the other. Over
several axes: the last axis first, then the others, the rightmost first. FP16 and BF16 accumulate
in FP32 and round once. Padding outside the valid region takes part; fill it first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from tilewright.dtypes import BOOL, FP8E5M2, INT32, DType
from tilewright.errors import DTypeMismatch, RankMismatch, ShapeMismatch
from tilewright.ir.affine import Expr, as_expr
from tilewright.ir.core import Value
from tilewright.ir.opdef import OpDef, op
from tilewright.ir.structure import AxisKind, Read, Structure, domain, identity_map
from tilewright.ir.types import Shape, ShapedType, Type
from tilewright.ops.cast import cast
from tilewright.ops.ordering import first_extreme, folded
from tilewright.ops.rules import (
    computed_type,
    normal_axis,
    require_shaped,
    valid_of,
)
from tilewright.ops.sampling import (
    NUMBERS,
    Sample,
    fails,
    sample,
    special,
    strided,
    tensor,
    tile,
    wide,
)
from tilewright.ops.words import Array, is_numeric

P = ParamSpec("P")
R = TypeVar("R")
Meaning = Callable[[Any, tuple[int, ...]], Any]


def reduced_axes(name: str, axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """`axes` counted from the front, in order; raises RankMismatch."""
    found = tuple(sorted(normal_axis(name, axis, rank) for axis in axes))
    if not found or len(set(found)) != len(found):
        raise RankMismatch(f"{name}: the axes {list(axes)} are not distinct axes of the operand")
    return found


def drop_axes(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """`shape` after a reduction over `axes`."""
    if keepdims:
        return tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    return tuple(extent for axis, extent in enumerate(shape) if axis not in axes)


def reduced_type(name: str, x: Value, dtype: DType, axes: tuple[int, ...], keepdims: bool) -> Type:
    """The type of a reduction of `x`."""
    type_ = require_shaped(name, "x", x)
    axes = reduced_axes(name, axes, type_.rank)
    valid = drop_axes(valid_of(type_), axes, keepdims)
    return computed_type([type_], drop_axes(type_.shape, axes, keepdims), dtype, valid)


def reduction_structure(
    x: Value,
    axes: tuple[int, ...],
    keepdims: bool,
    combine: str,
    body: Callable[[tuple[Value, ...], tuple[Value, ...]], tuple[Value, ...]],
) -> Structure:
    """One point per element of `x`, combined over `axes`."""
    type_ = x.type
    assert isinstance(type_, ShapedType)
    dims = domain(type_.shape)
    axes = reduced_axes(combine, axes, type_.rank)
    kinds = tuple(AxisKind.REDUCE if k in axes else AxisKind.PARALLEL for k in range(len(dims)))
    kept: list[Expr] = []
    for axis, dim in enumerate(dims):
        if axis not in axes:
            kept.append(as_expr(dim))
        elif keepdims:
            kept.append(as_expr(0))
    read = Read(x, identity_map(dims))
    return Structure(dims, type_.shape, kinds, (read,), (tuple(kept),), body, combine)


def reduction(
    combine: str, meaning: Meaning, accepts: Callable[[DType], bool], dtypes: Sequence[DType]
) -> Callable[[Callable[P, R]], OpDef[P, R]]:
    """Declares a reduction that combines by the scalar word `combine`."""

    def declare(function: Callable[P, R]) -> OpDef[P, R]:
        name = function.__name__.rstrip("_")
        opdef = op(f"reduce.{name}")(function)

        def infer(x: Value, *, axes: tuple[int, ...], keepdims: bool) -> Type:
            dtype = require_shaped(name, "x", x).dtype
            if not accepts(dtype):
                raise DTypeMismatch(f"{name} is not defined on {dtype}", hint="use pl.cast first")
            return reduced_type(name, x, dtype, axes, keepdims)

        def evaluate(x: Any, *, axes: tuple[int, ...], keepdims: bool) -> Array:
            return _shaped(meaning(x, _normal(x, axes)), _normal(x, axes), keepdims)

        def loops(x: Value, *, axes: tuple[int, ...], keepdims: bool) -> Structure:
            return reduction_structure(x, axes, keepdims, combine, lambda scalars, index: scalars)

        opdef.type_rule(infer)
        opdef.reference(evaluate)
        opdef.structure(loops)
        opdef.samples(lambda: reduction_samples(dtypes))
        return opdef

    return declare


def _normal(x: Any, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(axis % x.ndim for axis in axes))


def _shaped(result: Any, axes: tuple[int, ...], keepdims: bool) -> Array:
    return np.expand_dims(np.asarray(result), axes) if keepdims else np.asarray(result)


def reduction_samples(dtypes: Sequence[DType]) -> list[Sample]:
    """Samples that every reduction has; `dtypes[0]` stands for the refused ones."""
    return [
        *(sample(tile(7, 13), axes=axes, dtypes=dtypes) for axes in ((0,), (1,), (-1,), (0, 1))),
        sample(tile(3, 200, make=wide), axes=(1,), dtypes=dtypes),
        sample(tile(3, 64, make=special), axes=(1,), dtypes=dtypes),
        sample(tensor(65, 3, make=strided), axes=(1,), keepdims=False, dtypes=dtypes),
        sample(tensor(2, 3, 5), axes=(0, 2), dtypes=dtypes),
        sample(tile(4, 1), axes=(1,), keepdims=False, dtypes=dtypes),
        *(sample(tensor(*shape), axes=(1,), dtypes=dtypes) for shape in ((0, 5), (3, 0), (0, 0))),
        sample(tile(4, 8, valid=(3, 8)), axes=(1,), dtypes=dtypes),
        fails(RankMismatch, tile(4, 8), axes=(2,), dtypes=dtypes[:1]),
        fails(RankMismatch, tile(4, 8), axes=(), dtypes=dtypes[:1]),
        fails(DTypeMismatch, tile(4, 8, dtype=FP8E5M2), axes=(1,)),
    ]


def _extreme(word: np.ufunc, of_float: float, of_int: str, wanted: bool) -> Meaning:
    """max or min; a zero result is -0.0 only if `wanted` says so of the zeros that are there."""

    def meaning(x: Any, axes: tuple[int, ...]) -> Any:
        if x.dtype.kind in "iu":
            start = getattr(np.iinfo(x.dtype), of_int)
            return word.reduce(x, axis=axes, initial=start, dtype=x.dtype)
        wide = x if x.dtype == np.float64 else x.astype(np.float32, copy=False)
        with np.errstate(invalid="ignore"):
            result = word.reduce(wide, axis=axes, initial=of_float)
        if np.all(result):
            return result.astype(x.dtype)
        seen = ((wide == 0) & (np.signbit(wide) == wanted)).any(axis=axes)
        zero = np.where(seen == wanted, -0.0, 0.0).astype(wide.dtype)
        return np.where(result == 0, zero, result).astype(x.dtype)

    return meaning


@reduction("add", lambda x, axes: folded(x, np.add, 0, axes), is_numeric, NUMBERS)
def sum_(x: Value, *, axes: tuple[int, ...], keepdims: bool = True) -> Value:
    """Sum over `axes`, in the order stated above; integers wrap; the empty sum is 0."""
    ...


@reduction("mul", lambda x, axes: folded(x, np.multiply, 1, axes), is_numeric, NUMBERS)
def prod(x: Value, *, axes: tuple[int, ...], keepdims: bool = True) -> Value:
    """Product over `axes`, in the order stated above; integers wrap; the empty product is 1."""
    ...


@reduction("max", _extreme(np.maximum, -np.inf, "min", False), is_numeric, NUMBERS)
def max_(x: Value, *, axes: tuple[int, ...], keepdims: bool = True) -> Value:
    """The greatest element; NaN if any is NaN; 0.0 is above -0.0; of none the least value."""
    ...


@reduction("min", _extreme(np.minimum, np.inf, "max", True), is_numeric, NUMBERS)
def min_(x: Value, *, axes: tuple[int, ...], keepdims: bool = True) -> Value:
    """The least element; NaN if any is NaN; -0.0 is below 0.0; of none the greatest value."""
    ...


@reduction("and", lambda x, axes: np.all(x, axis=axes), lambda dtype: dtype is BOOL, (BOOL,))
def all_(x: Value, *, axes: tuple[int, ...], keepdims: bool = True) -> Value:
    """True where every element (BOOL) is True; of none True."""
    ...


@reduction("or", lambda x, axes: np.any(x, axis=axes), lambda dtype: dtype is BOOL, (BOOL,))
def any_(x: Value, *, axes: tuple[int, ...], keepdims: bool = True) -> Value:
    """True where some element (BOOL) is True; of none False."""
    ...


def arg_reduction(
    combine: str, better: Callable[[Any, int], Any]
) -> Callable[[Callable[P, R]], OpDef[P, R]]:
    """Declares the op that gives where `combine` ("argmax", "argmin") finds its element."""

    def declare(function: Callable[P, R]) -> OpDef[P, R]:
        opdef = op(f"reduce.{combine}")(function)

        def infer(x: Value, *, axes: tuple[int, ...], keepdims: bool) -> Type:
            type_ = require_shaped(combine, "x", x)
            if not is_numeric(type_.dtype):
                raise DTypeMismatch(f"{combine} is not defined on {type_.dtype}")
            if len(axes) != 1:
                raise RankMismatch(f"{combine}: {len(axes)} axes given, it takes one")
            if type_.shape[normal_axis(combine, axes[0], type_.rank)] == 0:
                raise ShapeMismatch(f"{combine}: axis {axes[0]} has no elements")
            return reduced_type(combine, x, INT32, axes, keepdims)

        def evaluate(x: Any, *, axes: tuple[int, ...], keepdims: bool) -> Array:
            found = first_extreme(x, axes[0], better)
            return _shaped(found, _normal(x, axes), keepdims)

        def loops(x: Value, *, axes: tuple[int, ...], keepdims: bool) -> Structure:
            (axis,) = reduced_axes(combine, axes, require_shaped(combine, "x", x).rank)
            return reduction_structure(
                x, axes, keepdims, combine, lambda s, index: (s[0], cast(index[axis], dtype=INT32))
            )

        opdef.type_rule(infer)
        opdef.reference(evaluate)
        opdef.structure(loops)
        opdef.samples(_arg_samples)
        return opdef

    return declare


def _arg_samples() -> list[Sample]:
    return [
        sample(tile(7, 13), axes=(1,), dtypes=NUMBERS),
        sample(tile(7, 13), axes=(0,), keepdims=False, dtypes=NUMBERS),
        sample(tile(3, 200, make=special), axes=(-1,), dtypes=NUMBERS),
        sample(tensor(65, 3, make=strided), axes=(0,), dtypes=NUMBERS),
        fails(RankMismatch, tile(4, 8), axes=(0, 1)),
        fails(ShapeMismatch, tile(4, 0), axes=(1,)),
        fails(DTypeMismatch, tile(4, 8, dtype=BOOL), axes=(1,)),
    ]


@arg_reduction("argmax", lambda x, axis: np.argmax(x, axis))
def argmax(x: Value, *, axes: tuple[int, ...], keepdims: bool = True) -> Value:
    """INT32 index along the one axis of `axes` of the first NaN, else of the first greatest."""
    ...


@arg_reduction("argmin", lambda x, axis: np.argmin(x, axis))
def argmin(x: Value, *, axes: tuple[int, ...], keepdims: bool = True) -> Value:
    """INT32 index along the one axis of `axes` of the first NaN, else of the first least."""
    ...
