"""Checks of a loop that hold in all iterations, or fail in the last, are made once, before it.

Tiles of a matrix whose extent only run time knows are checked one by one: each must end inside. The
first to fail is the last, and all fit if the extent is a multiple of the tile's. The loop then ends
at the multiple, so that the passes after this one know how often it runs.

Before::

    M = pl.dynamic("M")

    @pl.program
    class example:
        @pl.function
        def main(
            self,
            a: pl.Buffer[[M, 4], pl.FP32],
            b: pl.Buffer[[4, 16], pl.FP32],
            out: pl.Out[pl.Buffer[[M, 16], pl.FP32]],
        ):
            m = pl.loop.extent(a, axis=0)
            for i in pl.parallel(0, m, 8):
                pl.loop.check_index(7 + i, m)
                t = pl.loop.view(out, [i, 0], shape=[8, 16], strides=[16, 1])
                x = pl.loop.view(a, [i, 0], shape=[8, 4], strides=[4, 1])
                pl.loop.matmul(t, x, b)

After::

    m = pl.loop.extent(a, axis=0)
    pl.loop.check_index(-1 + (7 + m) // 8 * 8, m, 0 < m)
    for i in pl.parallel(0, m // 8 * 8, 8):
        t = pl.loop.view(out, [i, 0], shape=[8, 16], strides=[16, 1])
        x = pl.loop.view(a, [i, 0], shape=[8, 4], strides=[4, 1])
        pl.loop.matmul(t, x, b)
"""

from __future__ import annotations

from functools import partial, reduce

from tilewright.dataclass import dataclass
from tilewright.ir.affine import Expr, as_expr, less_equal, symbols
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Operation, Program, Value
from tilewright.ir.enums import ForKind
from tilewright.ir.rewrite import map_functions
from tilewright.ops import arith, control, loop
from tilewright.ops.extents import expr_of
from tilewright.ops.touches import is_pure, walk_regions
from tilewright.passes.loops import LoopCloner, blocks_in, has_products, rewritten

QUIET = (control.for_, loop.load, loop.store, loop.matmul, loop.check_index)
"""What a loop may hold: nothing that could fail in another way, and nothing that others see."""
Bounds = tuple[Expr, Expr]


@dataclass(frozen=True, slots=True)
class Check:
    """`index` has to be in [0, bound) wherever each lower bound in `where` is below its upper."""

    op: Operation
    index: Expr
    bound: Expr
    where: tuple[Bounds, ...]


@dataclass(frozen=True, slots=True)
class Hoisting:
    """A loop, the checks that come before it, and where it ends then."""

    loop: Operation
    checks: tuple[Check, ...]
    high: Expr


def hoist_checks(program: Program, entry: str) -> Program:
    """The loop-level `program` with checks before the loops around products."""
    return map_functions(program, hoist_in_function) if has_products(program, entry) else program


def hoist_in_function(function: Function) -> Function:
    """A copy of `function` with checks before loops, inner ones first; itself if there are none."""
    while True:
        found = [find_hoisting(op) for block in blocks_in(function.body) for op in block.ops]
        hoistings = [each for each in found if each is not None]
        if not hoistings:
            return function
        gone: set[Operation] = set()
        function = rewritten(function, partial(Hoister, hoistings=hoistings, gone=gone))
        if not gone:  # none of these numbers is known before its loop
            return function


# ---------------------------------------------------------------------- what can be hoisted


def find_hoisting(op: Operation) -> Hoisting | None:
    """The checks of a loop that can be made before it, if all can."""
    if op.opdef is not control.for_ or op.attrs["kind"] is ForKind.Lanes or op.operands[3]:
        return None
    own = [each for each in op.regions[0].ops if each.opdef is loop.check_index]
    if not own or not all(is_quiet(each, own) for each in walk_regions(op)):
        return None
    checks = [check_before(op, each) for each in own]
    found = tuple(check for check in checks if check is not None)
    if len(found) < len(checks):
        return None
    low, high, step = map(expr_of, op.operands[:3])
    exact = any(is_of_tile(op, each) and covers(each, op) for each in own)
    return Hoisting(op, found, low + (high - low) // step * step if exact else high)


def is_quiet(op: Operation, own: list[Operation]) -> bool:
    """True when an operation in a loop fails nowhere but in the loop's own checks."""
    if op.opdef is loop.check_index:
        return op in own
    return is_pure(op) or op.opdef.terminator or op.opdef in QUIET


def check_before(op: Operation, check: Operation) -> Check | None:
    """What a check in the loop `op` says of all iterations."""
    low, high, step = map(expr_of, op.operands[:3])
    index, bound = map(expr_of, check.operands[:2])
    where = conditions(check.operands[2])
    counter = op.regions[0].params[0].symbol
    if where is None or any(counter in symbols(each) for pair in where for each in pair):
        return None
    if is_of_tile(op, check):
        if less_equal(1 - step, low) is not True:
            return None
        index = low + (high - low + step - 1) // step * step - 1
    elif counter in (*symbols(index), *symbols(bound)):
        return None
    runs = () if less_equal(low + 1, high) is True else ((low, high),)
    return Check(check, index, bound, (*where, *(each for each in runs if each not in where)))


def is_of_tile(op: Operation, check: Operation) -> bool:
    """True for the check that a tile, one step of the loop long, ends where the loop ends."""
    _, high, step = map(expr_of, op.operands[:3])
    if not step.is_constant or step.const <= 0:
        return False
    index, bound = map(expr_of, check.operands[:2])
    last = as_expr(op.regions[0].params[0].symbol) + step - 1
    return index == last and bound == high


def covers(check: Operation, op: Operation) -> bool:
    """True when the loop `op` does nothing where the mask of its check does not hold."""
    where = conditions(check.operands[2])
    effects = [each for each in op.regions[0].ops[:-1] if not is_pure(each)]
    others = [each for each in effects if each.opdef is not loop.check_index]
    return where == () or all(
        each.opdef is control.for_ and runs_in(each, where) for each in others
    )


def runs_in(op: Operation, where: tuple[Bounds, ...] | None) -> bool:
    """True when some of these bounds are in order wherever a loop has an iteration."""
    low, high = map(expr_of, op.operands[:2])
    return any(
        less_equal(first, low) is True and less_equal(high, last) is True
        for first, last in where or ()
    )


def conditions(mask: Value | None) -> tuple[Bounds, ...] | None:
    """The bounds that a mask, made by this pass, says are in order; None for other masks."""
    if mask is None:
        return ()
    op = mask.op
    if op is None or op.opdef not in (arith.lt, arith.and_):
        return None
    if op.opdef is arith.lt:
        low, high = map(expr_of, op.operands)
        return ((low, high),)
    left, right = map(conditions, op.operands)
    return None if left is None or right is None else (*left, *right)


# ---------------------------------------------------------------------- rewriting


class Hoister(LoopCloner):
    """Copies a function with checks before loops; `gone` are those that were in loops."""

    def __init__(
        self, builder: Builder, *, hoistings: list[Hoisting], gone: set[Operation]
    ) -> None:
        super().__init__(builder)
        self.hoistings = {each.loop: each for each in hoistings}
        self.gone = gone

    def clone(self, op: Operation) -> Operation:
        if op in self.gone:
            self.bind(op.result, self.value(op.operands[0]))
            return op
        hoisting = self.hoistings.get(op)
        if hoisting is None or not self.can_place(hoisting):
            return super().clone(op)
        for check in hoisting.checks:
            with self.builder.located(check.op.span):
                axis = check.op.attrs["axis"]
                index, bound = self.index(check.index), self.index(check.bound)
                loop.check_index(index, bound, self.mask(check.where), axis=axis)
            self.gone.add(check.op)
        low, _, step, inits = self.operands(op)
        operands = (low, self.index(hoisting.high), step, inits)
        regions = tuple(map(self.block, op.regions))
        return self.builder.emit(op.opdef, operands, op.attrs, regions, span=op.span)

    def can_place(self, hoisting: Hoisting) -> bool:
        """True when all numbers can be computed here."""
        pairs = [(check.index, check.bound) for check in hoisting.checks]
        pairs += [pair for check in hoisting.checks for pair in check.where]
        return self.knows([hoisting.high, *(each for pair in pairs for each in pair)])

    def mask(self, where: tuple[Bounds, ...]) -> Value | None:
        """A scalar that says whether all bounds are in order."""
        holds = [arith.lt(self.index(low), self.index(high)) for low, high in where]
        return reduce(arith.and_, holds) if holds else None
