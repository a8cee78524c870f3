"""Compute scalars that are known, take branches that are decided, skip loops that do not run.

Before::

    @pl.program
    class example:
        @pl.function
        def main(self, x: pl.Tensor[[8, 64], pl.FP32], out: pl.Out[pl.Tensor[[8, 64], pl.FP32]]):
            n = pl.const(3, pl.INDEX) * 2
            if n > 5:
                t = pl.yield_(pl.load(x, [n, 0], [1, 64]))
            else:
                t = pl.yield_(pl.load(x, [0, 0], [1, 64]))
            pl.store(t, [0, 0], out)

After::

    @pl.program
    class example:
        @pl.function
        def main(self, x: pl.Tensor[[8, 64], pl.FP32], out: pl.Out[pl.Tensor[[8, 64], pl.FP32]]):
            n = 6
            t = pl.load(x, [n, 0], [1, 64])
            out_1 = pl.store(t, [0, 0], out)
"""

from __future__ import annotations

from typing import Any

from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Operation, Program, Value
from tilewright.ir.opdef import OpDef
from tilewright.ir.rewrite import RewriteRule, RuleCloner, Rules, copy_function, map_functions
from tilewright.ir.types import ScalarType
from tilewright.ops import arith, control
from tilewright.ops.extents import constant_of


def folded(word: OpDef[..., Any]) -> RewriteRule:
    """word(constants) -> constant"""

    def rule(*values: Value) -> Value | None:
        if any(constant_of(value) is None for value in values):
            return None
        assert word.infer is not None and word.evaluate is not None
        result = word.infer(*values)
        arrays = [as_number(value) for value in values]
        return Builder.current().constant(word.evaluate(*arrays).item(), result.dtype)

    return rule


def as_number(value: Value) -> Any:
    """The constant behind `value` as a numpy scalar of its dtype."""
    assert value.op is not None and arith.const.evaluate is not None
    return arith.const.evaluate(**value.op.attrs)


def identity_add(x: Value, y: Value) -> Value | None:
    """x + 0 -> x, for integers"""
    return x if constant_of(y) == 0 and is_integer(y) else None


def identity_sub(x: Value, y: Value) -> Value | None:
    """x - 0 -> x"""
    return x if constant_of(y) == 0 and is_integer(y) else None


def identity_mul(x: Value, y: Value) -> Value | None:
    """x * 1 -> x"""
    return x if constant_of(y) == 1 else None


def identity_div(x: Value, y: Value) -> Value | None:
    """x / 1 -> x, x // 1 -> x for integers"""
    return x if constant_of(y) == 1 and is_integer(y) else None


def decided_select(cond: Value, x: Value, y: Value) -> Value | None:
    """x if True else y -> x"""
    known = constant_of(cond)
    return None if known is None else x if known else y


def is_integer(value: Value) -> bool:
    """True for integer scalars."""
    return isinstance(value.type, ScalarType) and value.type.dtype.is_int()


FOLDED = (
    arith.add,
    arith.sub,
    arith.mul,
    arith.div,
    arith.floordiv,
    arith.mod,
    arith.neg,
    arith.max_,
    arith.min_,
    arith.and_,
    arith.or_,
    arith.not_,
    arith.eq,
    arith.ne,
    arith.lt,
    arith.le,
    arith.gt,
    arith.ge,
)
RULES: Rules = {
    **{word: (folded(word),) for word in FOLDED},
    arith.add: (folded(arith.add), identity_add),
    arith.sub: (folded(arith.sub), identity_sub),
    arith.mul: (folded(arith.mul), identity_mul),
    arith.div: (folded(arith.div), identity_div),
    arith.floordiv: (folded(arith.floordiv), identity_div),
    arith.select: (decided_select,),
}


class Simplifier(RuleCloner):
    """Applies the rules, and puts the arm that is taken in the place of a decided branch."""

    def clone(self, op: Operation) -> Operation:
        if op.opdef is control.if_:
            known = constant_of(self.value(op.operands[0]))
            if known is not None:
                return self.take(op, op.regions[0 if known else 1])
        if op.opdef is control.for_ and is_empty(self.operands(op)):
            for old, init in zip(op.results, op.operands[3], strict=True):
                self.bind(old, self.value(init))
            return op
        return super().clone(op)

    def take(self, op: Operation, arm: Block) -> Operation:
        """The operations of `arm`, in the place of the branch `op`."""
        for inner in arm.ops[:-1]:
            self.clone(inner)
        for old, new in zip(op.results, arm.terminator.operands[0], strict=True):
            self.bind(old, self.value(new))
        return op


def is_empty(operands: tuple[Any, ...]) -> bool:
    """True when a loop with these operands certainly runs zero times."""
    low, high, step = map(constant_of, operands[:3])
    if low is None or high is None or not step:
        return False
    return low >= high if step > 0 else low <= high


def may_be_simpler(op: Operation) -> bool:
    """True when something is known of the operands of `op` that a rule asks for."""
    if op.opdef not in RULES and op.opdef not in (control.if_, control.for_):
        return False
    if op.opdef is control.for_:
        return is_empty(op.operands)
    known = [constant_of(value) for value in op.inputs]
    return known[0] is not None or known[-1] in (0, 1)


def simplify(program: Program, entry: str) -> Program:
    """`program` with fewer scalars, branches and loops; the same meaning."""
    if not any(map(may_be_simpler, program[entry].body.walk())):
        return program

    def change(function: Any) -> Any:
        builder = Builder()
        with builder:
            return copy_function(function, Simplifier(builder, RULES).block(function.body))

    return map_functions(program, change)
