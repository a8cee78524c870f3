"""Elementwise ops of two operands with different valid regions, one of which holds the other.

Where both are valid the word is applied; where one is, that one is copied; elsewhere x is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec

import numpy as np

from tilewright.dtypes import BOOL, FP16
from tilewright.errors import DTypeMismatch, ShapeMismatch
from tilewright.ir.affine import less_equal
from tilewright.ir.core import Value
from tilewright.ir.opdef import OpDef, op
from tilewright.ir.structure import AxisKind, Read, Structure, domain, identity_map
from tilewright.ir.types import Shape, Type, render_dims
from tilewright.ops import arith
from tilewright.ops.adapt import described, paired, publish
from tilewright.ops.regions import front, inside
from tilewright.ops.rules import (
    computed_type,
    meaning_of,
    require_equal_dtypes,
    require_same_shape,
    require_shaped,
    valid_of,
)
from tilewright.ops.sampling import NUMBERS, Sample, fails, sample, tensor, tile
from tilewright.ops.shape import shape_of
from tilewright.ops.words import Array, is_numeric, require_dtype, where

P = ParamSpec("P")
Scalars = tuple[Value, ...]


def holds_region(outer: Shape, inner: Shape) -> bool:
    """True when the region `outer` is known to hold `inner`."""
    return all(less_equal(a, b) for a, b in zip(inner, outer, strict=True))


def union_region(name: str, x: Shape, y: Shape) -> Shape:
    """The larger of two regions; raises ShapeMismatch when neither holds the other."""
    for outer, inner in ((x, y), (y, x)):
        if holds_region(outer, inner):
            return outer
    raise ShapeMismatch(
        f"{name}: neither of the valid regions {render_dims(x)}, {render_dims(y)} holds the other"
    )


def partial(word: OpDef[..., Value]) -> Callable[[Callable[P, Value]], OpDef[P, Value]]:
    """Declares the partial form of a scalar word."""

    def declare(function: Callable[P, Value]) -> OpDef[P, Value]:
        name = function.__name__
        opdef = op(f"elementwise.{name}", commutative=word.commutative)(function)

        def infer(x: Value, y: Value, *, valid_x: Shape, valid_y: Shape) -> Type:
            left, right = require_shaped(name, "lhs", x), require_shaped(name, "rhs", y)
            require_dtype(name, require_equal_dtypes(name, left, right), is_numeric)
            require_same_shape(name, "rhs", right.shape, left.shape)
            require_same_shape(name, "valid_x", valid_x, valid_of(left))
            require_same_shape(name, "valid_y", valid_y, valid_of(right))
            valid = union_region(name, valid_x, valid_y)
            return computed_type((left, right), left.shape, left.dtype, valid)

        def evaluate(x: Any, y: Any, *, valid_x: Any, valid_y: Any) -> Any:
            in_x, in_y = region_mask(x.shape, valid_x), region_mask(x.shape, valid_y)
            both = meaning_of(word)(x, y)
            return where(in_x & in_y, both, where(in_y, y, x))

        def loops(x: Value, y: Value, *, valid_x: Shape, valid_y: Shape) -> Structure:
            return partial_structure(word, x, y, valid_x, valid_y)

        opdef.type_rule(infer)
        opdef.reference(evaluate)
        opdef.structure(loops)
        opdef.samples(partial_samples)
        return opdef

    return declare


def region_mask(shape: tuple[int, ...], valid: tuple[int, ...]) -> Array:
    """True inside the region."""
    mask = np.zeros(shape, np.bool_)
    mask[front(valid)] = True
    return mask


def partial_structure(
    word: Callable[..., Value], x: Value, y: Value, valid_x: Shape, valid_y: Shape
) -> Structure:
    """One point per element, which asks in which regions it lies."""
    shape = shape_of(x)
    dims = domain(shape)
    in_x, in_y = inside(dims, valid_x, shape), inside(dims, valid_y, shape)
    tests = tuple(test for test in (in_x, in_y) if test)

    def body(scalars: Scalars, index: Scalars) -> Scalars:
        left, right, *masks = scalars
        both = word(left, right)
        if len(masks) == 2:
            one = arith.select(masks[1], right, left)
            return (arith.select(arith.and_(*masks), both, one),)
        return (arith.select(masks[0], both, right if in_x else left) if masks else both,)

    reads = (Read(x, identity_map(dims)), Read(y, identity_map(dims)))
    kinds = (AxisKind.PARALLEL,) * len(dims)
    return Structure(dims, shape, kinds, reads, (identity_map(dims),), body, tests=tests)


def partial_samples() -> list[Sample]:
    """Samples of every partial op."""
    whole = (4, 8)
    return [
        sample(tile(4, 8), tile(4, 8, valid=(3, 5)), valid_x=whole, valid_y=(3, 5), dtypes=NUMBERS),
        sample(tile(4, 8, valid=(2, 8)), tile(4, 8), valid_x=(2, 8), valid_y=whole),
        sample(tensor(4, 8), tensor(4, 8), valid_x=whole, valid_y=whole),
        fails(
            ShapeMismatch,
            tile(4, 8, valid=(2, 8)),
            tile(4, 8, valid=(4, 2)),
            valid_x=(2, 8),
            valid_y=(4, 2),
        ),
        fails(DTypeMismatch, tile(4, 8), tile(4, 8, dtype=FP16), valid_x=whole, valid_y=whole),
        fails(DTypeMismatch, *[tile(4, 8, dtype=BOOL)] * 2, valid_x=whole, valid_y=whole),
    ]


@partial(arith.add)
def part_add(x: Value, y: Value, *, valid_x: Shape, valid_y: Shape) -> Value:
    """x + y where both are valid, the valid one where one is; the regions are those of x and y."""
    ...


@partial(arith.mul)
def part_mul(x: Value, y: Value, *, valid_x: Shape, valid_y: Shape) -> Value:
    """x * y where both are valid, the valid one where one is; the regions are those of x and y."""
    ...


@partial(arith.max_)
def part_max(x: Value, y: Value, *, valid_x: Shape, valid_y: Shape) -> Value:
    """max(x, y) where both are valid, the valid one where one is; regions of x and y."""
    ...


@partial(arith.min_)
def part_min(x: Value, y: Value, *, valid_x: Shape, valid_y: Shape) -> Value:
    """min(x, y) where both are valid, the valid one where one is; regions of x and y."""
    ...


def _published(target: OpDef[..., Any], name: str) -> Callable[..., Value]:
    def build(lhs: Any, rhs: Any) -> Value:
        x, y = paired(name, lhs, rhs)
        regions = [valid_of(require_shaped(name, "operand", value)) for value in (x, y)]
        return target(x, y, valid_x=regions[0], valid_y=regions[1])

    return described(build, name, target)


for op_, word_ in (
    (part_add, "part_add"),
    (part_mul, "part_mul"),
    (part_max, "part_max"),
    (part_min, "part_min"),
):
    publish(
        op_,
        word_,
        _published(op_, word_),
        tensor={},
        tile={"lhs": "src0", "rhs": "src1"},
        render=lambda operation: dict(zip(("lhs", "rhs"), operation.operands, strict=True)),
    )
