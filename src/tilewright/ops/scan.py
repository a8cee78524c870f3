"""Recurrences along an axis, in increasing order: running combinations and first-order scans.

Each step is rounded in the dtype of the operands: FP32, FP64 or an integer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.dtypes import FP16, FP32, FP64, INT32, INT64, DType
from tilewright.errors import ArgumentTypeMismatch, DTypeMismatch, RankMismatch, ShapeMismatch
from tilewright.ir.affine import as_expr
from tilewright.ir.core import Value
from tilewright.ir.opdef import OpDef, op
from tilewright.ir.structure import AxisKind, Read, Structure, domain, identity_map
from tilewright.ir.types import ScalarType, Shape, ShapedType, Type
from tilewright.ops import arith
from tilewright.ops.rules import (
    computed_type,
    meaning_of,
    normal_axis,
    require_same_shape,
    require_shaped,
    valid_of,
)
from tilewright.ops.sampling import fails, sample, scalar, tensor, tile, wide
from tilewright.ops.shape import shape_of
from tilewright.ops.words import Array, dtype_of

WORDS: dict[str, OpDef[..., Any]] = {
    "add": arith.add,
    "sub": arith.sub,
    "mul": arith.mul,
    "div": arith.div,
    "max": arith.max_,
    "min": arith.min_,
    "and": arith.and_,
    "or": arith.or_,
    "xor": arith.xor,
}
SCAN_DTYPES = (FP32, INT32)
Scalars = tuple[Value, ...]


def word_of(name: str, word: str) -> OpDef[..., Any]:
    """The scalar word called `word`; raises ArgumentTypeMismatch."""
    if word not in WORDS:
        raise ArgumentTypeMismatch(f"{name}: {word!r} is not one of {', '.join(WORDS)}")
    return WORDS[word]


def require_scannable(name: str, dtype: DType) -> None:
    """Raises DTypeMismatch for floats that are too narrow to carry."""
    if dtype not in (FP32, FP64) and not (dtype.is_int() and dtype.bits >= 8):
        raise DTypeMismatch(f"{name} is not defined on {dtype}", hint="convert to pl.FP32")


def without_axis(shape: Shape, axis: int) -> Shape:
    """`shape` with extent 1 on `axis`."""
    return (*shape[:axis], 1, *shape[axis + 1 :])


def scanned_type(name: str, x: Value, initial: Value, axis: int) -> Type:
    """The type of a scan of x; `initial` is a scalar, or x's shape with extent 1 on the axis."""
    type_ = require_shaped(name, "x", x)
    require_scannable(name, type_.dtype)
    axis = normal_axis(name, axis, type_.rank)
    if dtype_of(initial) is not type_.dtype:
        raise DTypeMismatch(f"{name}: initial is {dtype_of(initial)}, x is {type_.dtype}")
    if isinstance(initial.type, ShapedType):
        wanted = without_axis(type_.shape, axis)
        require_same_shape(name, "initial", initial.type.shape, wanted)
    return computed_type([type_], type_.shape, type_.dtype, valid_of(type_))


def scan_structure(
    inputs: tuple[Value, ...], initial: Value, axis: int, step: Callable[..., Value]
) -> Structure:
    """`step(*inputs, previous)` at each point, along `axis`."""
    shape = shape_of(inputs[0])
    axis %= len(shape)
    dims = domain(shape)
    kinds = tuple(AxisKind.SCAN if k == axis else AxisKind.PARALLEL for k in range(len(shape)))
    start = tuple(as_expr(0) if k == axis else as_expr(dim) for k, dim in enumerate(dims))
    first = Read(initial, () if isinstance(initial.type, ScalarType) else start)
    reads = tuple(Read(value, identity_map(dims)) for value in inputs)

    def body(scalars: Scalars, index: Scalars) -> Scalars:
        return (step(*scalars),)

    return Structure(dims, shape, kinds, reads, (identity_map(dims),), body, initial=(first,))


def run_scan(inputs: tuple[Any, ...], initial: Any, axis: int, step: Callable[..., Any]) -> Array:
    """The scan in numpy: `step(*inputs, previous)` at each index of the axis."""
    lines = [np.moveaxis(x, axis, 0) for x in inputs]
    result = np.empty_like(lines[0])
    before: Any = np.moveaxis(initial, axis, 0)[0] if np.ndim(initial) else initial
    with np.errstate(all="ignore"):
        for k in range(len(result)):
            before = result[k] = step(*(line[k] for line in lines), before)
    return np.moveaxis(result, 0, axis)


def exchanged(word: Callable[..., Any]) -> Callable[..., Any]:
    """The step of a running combination: what came before on the left."""

    def step(new: Any, before: Any) -> Any:
        return word(before, new)

    return step


@op("scan.cumulative")
def cumulative(x: Value, initial: Value, *, axis: int = -1, combine: str = "add") -> Value:
    """r[i] = combine(r[i - 1], x[i]) along `axis`, with r[-1] = `initial`.

    `combine` is add, sub, mul, div, max, min, and, or or xor; `initial` a scalar, or one element
    per line: the shape of x with extent 1 on the axis.
    """
    ...


@cumulative.type_rule
def cumulative_type(x: Value, initial: Value, *, axis: int, combine: str) -> Type:
    word_of("cumulative", combine)
    return scanned_type("cumulative", x, initial, axis)


@cumulative.reference
def cumulative_numpy(x: Any, initial: Any, *, axis: int, combine: str) -> Array:
    return run_scan((x,), initial, axis, exchanged(meaning_of(WORDS[combine])))


@cumulative.structure
def cumulative_loops(x: Value, initial: Value, *, axis: int, combine: str) -> Structure:
    return scan_structure((x,), initial, axis, exchanged(WORDS[combine]))


cumulative.samples(
    lambda: [
        sample(tile(4, 13), scalar(0), axis=1, dtypes=SCAN_DTYPES),
        sample(tensor(13, 4, make=wide), scalar(1), axis=0, combine="mul", dtypes=SCAN_DTYPES),
        sample(tile(4, 13), tile(4, 1), combine="max", dtypes=SCAN_DTYPES),
        sample(tile(4, 0), scalar(0)),
        fails(DTypeMismatch, tile(4, 8), scalar(0), dtypes=(FP16,)),
        fails(DTypeMismatch, tile(4, 8), scalar(0, INT64)),
        fails(ShapeMismatch, tile(4, 8), tile(4, 8)),
        fails(RankMismatch, tile(4, 8), scalar(0), axis=2),
        fails(ArgumentTypeMismatch, tile(4, 8), scalar(0), combine="pow"),
    ]
)


@op("scan.linear")
def linear(
    decay: Value, x: Value, initial: Value, *, axis: int = -1, op0: str = "mul", op1: str = "add"
) -> Value:
    """r[i] = op1(op0(decay[i], r[i - 1]), x[i]) along `axis`, with r[-1] = `initial`.

    `decay` has the shape of x; `initial` is a scalar, or one element per line.
    """
    ...


@linear.type_rule
def linear_type(decay: Value, x: Value, initial: Value, *, axis: int, op0: str, op1: str) -> Type:
    for word in (op0, op1):
        word_of("linear", word)
    given, wanted = require_shaped("scan", "decay", decay), require_shaped("scan", "x", x)
    require_same_shape("scan", "decay", given.shape, wanted.shape)
    if given.dtype is not wanted.dtype:
        raise DTypeMismatch(f"scan: decay is {given.dtype}, x is {wanted.dtype}")
    return scanned_type("scan", x, initial, axis)


def linear_step(op0: Callable[..., Any], op1: Callable[..., Any]) -> Callable[..., Any]:
    """One step of the recurrence."""

    def step(decay: Any, new: Any, before: Any) -> Any:
        return op1(op0(decay, before), new)

    return step


@linear.reference
def linear_numpy(decay: Any, x: Any, initial: Any, *, axis: int, op0: str, op1: str) -> Array:
    step = linear_step(meaning_of(WORDS[op0]), meaning_of(WORDS[op1]))
    return run_scan((decay, x), initial, axis, step)


@linear.structure
def linear_loops(
    decay: Value, x: Value, initial: Value, *, axis: int, op0: str, op1: str
) -> Structure:
    return scan_structure((decay, x), initial, axis, linear_step(WORDS[op0], WORDS[op1]))


linear.samples(
    lambda: [
        sample(tile(4, 13), tile(4, 13), scalar(1), dtypes=SCAN_DTYPES),
        sample(tensor(13, 4), tensor(13, 4), tensor(1, 4), axis=0, op0="max", op1="sub"),
        fails(ShapeMismatch, tile(4, 8), tile(4, 7), scalar(0)),
        fails(DTypeMismatch, tile(4, 8, dtype=INT32), tile(4, 8), scalar(0)),
        fails(ArgumentTypeMismatch, tile(4, 8), tile(4, 8), scalar(0), op0="exp"),
    ]
)
