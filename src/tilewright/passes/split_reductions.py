"""Split a floating-point sum or product over several leading axes into one reduction per axis.

The order is part of the meaning: the last axis first, then the others, the rightmost first. One
nest can follow it for the last axis and one more; FP16 and BF16 stay FP32 in between.

Before::

    @pl.program
    class example:
        @pl.function
        def main(self, x: pl.Tensor[[4, 6, 8], pl.FP32]) -> pl.Tensor[[1, 1, 8], pl.FP32]:
            return pl.op.reduce.sum(x, axes=[0, 1])

After::

    @pl.program
    class example:
        @pl.function
        def main(self, x: pl.Tensor[[4, 6, 8], pl.FP32]) -> pl.Tensor[[1, 1, 8], pl.FP32]:
            return pl.op.reduce.sum(pl.col_sum(x), axes=[0])
"""

from __future__ import annotations

from typing import Any

from tilewright.dtypes import FP32
from tilewright.ir.core import Program, Value
from tilewright.ir.opdef import OpDef
from tilewright.ir.rewrite import RewriteRule, apply_rules
from tilewright.ir.types import ShapedType
from tilewright.ops import elementwise, reduce, shape
from tilewright.ops.reduce import drop_axes, reduced_axes
from tilewright.passes.combine import accumulated


def split(reduction: OpDef[..., Any]) -> RewriteRule:
    """The rule for one reduction."""

    def rule(x: Value, *, axes: tuple[int, ...], keepdims: bool) -> Value | None:
        type_ = x.type
        assert isinstance(type_, ShapedType)
        axes = reduced_axes(reduction.name, axes, type_.rank)
        leading = [axis for axis in axes if axis != type_.rank - 1 and type_.shape[axis] != 1]
        if len(leading) < 2 or not type_.dtype.is_float():
            return None
        wide = accumulated(type_.dtype)
        value = x if wide is type_.dtype else elementwise.cast(x, dtype=FP32)
        for axis in sorted(axes, reverse=True):
            value = reduction(value, axes=(axis,), keepdims=True)
        if not keepdims:
            value = shape.reshape(value, shape=drop_axes(type_.shape, axes, False))
        return value if wide is type_.dtype else elementwise.cast(value, dtype=type_.dtype)

    return rule


RULES = {opdef: (split(opdef),) for opdef in (reduce.sum_, reduce.prod)}


def split_reductions(program: Program, entry: str) -> Program:
    """`program` with each such reduction replaced."""
    ops = program[entry].body.walk()
    if not any(op.opdef in RULES and len(op.attrs["axes"]) > 1 for op in ops):
        return program
    return apply_rules(program, RULES)
