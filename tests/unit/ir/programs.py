"""A small program with a dynamic dim, a loop with a carry and a branch, for tests."""

from __future__ import annotations

import tilewright.ops.control_syntax  # noqa: F401  (statement syntax)
from tilewright.dtypes import FP32, INDEX
from tilewright.ir import (
    Block,
    BufferType,
    Builder,
    Function,
    ParamDirection,
    Program,
    ScalarType,
    Value,
)
from tilewright.ir.affine import Symbol, as_expr
from tilewright.ops import arith, control, loop


def scaled_sum(factor: int = 2) -> Function:
    """Sums x[i * factor, n] * ... over i, then takes exp of a small result."""
    builder = Builder()
    rows = as_expr(Symbol("N", 0))
    x = Value(BufferType((rows, 64), FP32, (64, 1)), "x")
    n = Value(ScalarType(INDEX), "n")
    body = Block((x, n))
    with builder, builder.inside(body):
        total = _loop(builder, x, n, factor)
        control.return_((_branch(builder, total),), ())
    directions = (ParamDirection.In, ParamDirection.In)
    return Function("f", directions, body, (ScalarType(FP32),))


def _loop(builder: Builder, x: Value, n: Value, factor: int) -> Value:
    i, acc = Value(ScalarType(INDEX), "i"), Value(ScalarType(FP32), "acc")
    body = Block((i, acc))
    with builder.inside(body):
        item = loop.load(x, (arith.mul(i, builder.index(factor)), n))
        item.name = "item"
        control.yield_((arith.add(acc, arith.mul(item, item)),))
    operands = (builder.index(0), n, builder.index(1), (builder.constant(0.0, FP32),))
    attrs = control.for_.attr_defaults
    return builder.emit(control.for_, operands, attrs, (body,), names=["total"]).result


def _branch(builder: Builder, total: Value) -> Value:
    small = arith.lt(total, builder.constant(2.0, FP32))
    then, otherwise = Block(), Block()
    with builder.inside(then):
        control.yield_((arith.exp(total),))
    with builder.inside(otherwise):
        control.yield_((total,))
    return builder.emit(control.if_, (small,), {}, (then, otherwise), names=["y"]).result


def program() -> Program:
    """A program of one function."""
    return Program("P", {"f": scaled_sum()})
