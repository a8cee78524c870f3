"""Integer scalars as affine expressions: how shapes, offsets and valid extents enter types."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from tilewright.errors import ArgumentTypeMismatch
from tilewright.ir.affine import Expr, Symbol, as_expr, equal, maximum, minimum, simplify
from tilewright.ir.core import Operation, Value
from tilewright.ir.opdef import OpDef
from tilewright.ir.types import Dim, ScalarType, Shape, ShapedType
from tilewright.ops import arith, cast

Rule = Callable[..., Any]

EXACT_WORDS: dict[OpDef[..., Any], Rule] = {
    arith.add: operator.add,
    arith.sub: operator.sub,
    arith.mul: operator.mul,
    arith.neg: operator.neg,
    arith.min_: minimum,
    arith.max_: maximum,
}
DIVIDING_WORDS: dict[OpDef[..., Any], Rule] = {
    arith.floordiv: operator.floordiv,
    arith.mod: operator.mod,
}
DIM_OPS: dict[OpDef[..., Any], Callable[[Operation], Dim]] = {}
"""Ops whose result is an extent of an operand's type (filled by their pages)."""


def constant_of(value: Any) -> int | float | bool | None:
    """The number behind a constant scalar, or None."""
    op = value.op if isinstance(value, Value) else None
    return op.attrs["value"] if op is not None and op.opdef is arith.const else None


def as_dim(given: Any) -> Dim:
    """An integer scalar, int or expression as an extent: an int wherever that is known.

    64-bit sums, differences, products, floor divisions, remainders, minima and maxima are
    followed to their leaves; any other value is its own symbol. Raises ArgumentTypeMismatch.
    """
    return simplify(expr_of(given))


def as_dims(given: Iterable[Any]) -> Shape:
    """`as_dim` of each."""
    return tuple(map(as_dim, given))


def expr_of(given: Any) -> Expr:
    """`as_dim` as an expression."""
    if not isinstance(given, Value):
        return _plain(given)
    type_ = given.type
    if not (isinstance(type_, ScalarType) and type_.dtype.is_int()):
        raise ArgumentTypeMismatch(f"an extent or offset is {type_}, not an integer scalar")
    known = None if given.op is None else _expr_of_op(given.op, type_)
    return as_expr(given.symbol) if known is None else known


def _plain(given: Any) -> Expr:
    if isinstance(given, bool) or not isinstance(given, (int, Expr, Symbol)):
        raise ArgumentTypeMismatch(f"an extent or offset is {given!r}, not an integer")
    return as_expr(given)


def _expr_of_op(op: Operation, type_: ScalarType) -> Expr | None:
    if op.opdef is arith.const:
        return as_expr(int(op.attrs["value"]))
    if op.opdef in DIM_OPS:
        return as_expr(DIM_OPS[op.opdef](op))
    if op.opdef is cast.cast:
        return _expr_of_cast(op, type_)
    if type_.dtype.bits < 64 or not type_.dtype.is_signed_int():
        return None
    rule = EXACT_WORDS.get(op.opdef)
    if rule is not None:
        return rule(*map(expr_of, op.inputs))
    rule = DIVIDING_WORDS.get(op.opdef)
    return (
        None if rule is None or not constant_of(op.operands[1]) else rule(*map(expr_of, op.inputs))
    )


def _expr_of_cast(op: Operation, type_: ScalarType) -> Expr | None:
    source = op.operands[0].type.dtype
    exact = source.is_int() and (source.is_signed_int() or source.bits < type_.dtype.bits)
    wide = type_.dtype.is_signed_int() and source.bits <= type_.dtype.bits
    return expr_of(op.operands[0]) if exact and wide else None


def same_dim(a: Dim, b: Dim) -> bool | None:
    """True: always equal. False: never. None: not known."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return equal(a, b)


def same_dims(a: Shape, b: Shape) -> bool:
    """True when the shapes are known to be equal."""
    return len(a) == len(b) and all(same_dim(x, y) for x, y in zip(a, b, strict=True))


def extent_of(type_: ShapedType, axis: int) -> Dim:
    """Extent `axis` (negative counts from the end) of a type."""
    return type_.shape[axis]


def last_index(low: Expr, high: Expr, step: int) -> Expr:
    """The last value of range(low, high, step), where there is one; `step` is positive."""
    return low + (high - 1 - low) // step * step
