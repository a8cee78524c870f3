"""Loops and branches that run on the device: traced once, then wrapped as regions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.dtypes import BOOL, INDEX
from tilewright.errors.nki_control import (
    DYNAMIC_CONTROL_FLOW,
    EXPECTED_CONSTANT,
    WHILE_NEEDS_UNCONDITIONAL_ENTRY,
)
from tilewright.frontend.trace.ambient import nki_ctx, refusal
from tilewright.frontend.trace.predicates import (
    Conjunction,
    DynamicScalar,
    LoopVar,
    ScalarPredicate,
    Terms,
    complement,
    scalar_expr,
)
from tilewright.frontend.trace.roots import Root
from tilewright.frontend.trace.scopes import (
    CarryingRegion,
    IfScope,
    LoopScope,
    WhileScope,
)
from tilewright.ir.affine import Expr, Symbol, as_expr, ceildiv, simplify
from tilewright.ir.core import Block, Value
from tilewright.ir.enums import ForKind
from tilewright.ir.rewrite import replace_values
from tilewright.ir.types import IndexType, ScalarType
from tilewright.ops import arith, control

if TYPE_CHECKING:
    from tilewright.frontend.trace.context import TraceContext

BoolType = ScalarType(BOOL)
BOUNDS = ("start", "stop", "step")


class DeviceRange:
    """The iterations of a loop that runs on the device; iterating it traces the body once."""

    is_affine = False

    def __init__(self, *args: Any, **keywords: Any) -> None:
        start, stop, step = range_bounds(*args, **keywords)
        self.start = _bound(start)
        self.stop = _bound(stop)
        self.step = step
        if not isinstance(step, int) or step == 0:
            raise refusal(EXPECTED_CONSTANT, what="the step of a loop", given=repr(step))

    @property
    def trip(self) -> int | Expr:
        """Number of iterations."""
        count = simplify(ceildiv(self.stop - self.start, self.step))
        return max(count, 0) if isinstance(count, int) else count

    def __iter__(self) -> Iterator[LoopVar]:
        return trace_loop(nki_ctx(), self, "")


class AffineRange(DeviceRange):
    """Iterations that are independent of each other."""

    is_affine = True


class SequentialRange(DeviceRange):
    """Iterations in order."""


class BuiltinRange(SequentialRange):
    """`range` of ints, where that is a device loop: a `for` statement makes one of it.

    Everything else that iterates it, a comprehension or `zip`, gets the numbers.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.numbers = range(*args)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.numbers)

    def __reversed__(self) -> Iterator[int]:
        return reversed(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, place: int) -> int:
        return self.numbers[place]


class DynamicRange(DeviceRange):
    """Iterations in order, with bounds that only the run knows."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        step = range_bounds(*args, **keywords)[2]
        assert isinstance(step, int) and step > 0, "dynamic_range takes a positive int step"
        super().__init__(*args, **keywords)


def range_bounds(*args: Any, **keywords: Any) -> tuple[Any, Any, Any]:
    """(start, stop, step) of the arguments of a range; other keywords are advice about the loop."""
    given = dict(zip(BOUNDS, args)) | {name: keywords[name] for name in BOUNDS if name in keywords}
    if len(args) > len(BOUNDS) or not {"start", "stop"} & given.keys():
        raise TypeError(f"a range takes 1 to 3 arguments, got {len(args)}")
    if len(given) < len(args) + len(keywords.keys() & BOUNDS):
        raise TypeError("a range is given one of its bounds twice")
    if given.get("stop") is None:
        return 0, given["start"], given.get("step", 1)
    return given.get("start", 0), given["stop"], given.get("step", 1)


def _bound(given: Any) -> Expr:
    expr = None if isinstance(given, bool) else scalar_expr(given)
    if expr is None:
        raise refusal(EXPECTED_CONSTANT, what="a bound of a loop", given=repr(given))
    return expr


# ---------------------------------------------------------------------------- for


def trace_loop(ctx: TraceContext, space: DeviceRange, name: str) -> Generator[LoopVar, None, None]:
    """Yields the loop variable once; the body between is traced into a region."""
    trip = space.trip
    if trip == 0:
        return
    symbol = Symbol(name or "i", 0, as_expr(trip) - 1)
    scope = open_loop(ctx, symbol, trip, is_affine=space.is_affine)
    try:
        yield LoopVar(space.start + space.step * symbol, symbol, scope)
    except GeneratorExit:
        ctx.note_left(scope)
        raise
    parallel = space.is_affine and not scope.has_dependence
    close_loop(ctx, scope, trip, ForKind.Parallel if parallel else ForKind.Sequential)


def open_loop(ctx: TraceContext, symbol: Symbol, trip: int | Expr, *, is_affine: bool) -> LoopScope:
    """Opens the region of a loop whose index is `symbol`."""
    index = Value(IndexType, symbol.name)
    block = Block((index,))
    ctx.sema.bind(index, symbol)
    known = trip if isinstance(trip, int) else None
    scope = LoopScope(symbol.name, ctx.cur_scope, block, symbol, trip=known, is_affine=is_affine)
    ctx.enter_region(scope)
    return scope


def close_loop(ctx: TraceContext, scope: LoopScope, trip: int | Expr, kind: ForKind) -> None:
    """Wraps the traced body as a loop; outer tensors written in it are its carries."""
    inits = end_carrying(ctx, scope, [])
    sema = ctx.sema
    bounds = tuple(sema.scalar(as_expr(bound)) for bound in (0, trip, 1))
    attrs = {"kind": kind, "combine": (), "stage": 0, "attrs": ()}
    op = sema.emit(control.for_, (*bounds, inits), attrs, (scope.block,))
    take_results(scope.carried, op.results)


def end_carrying(ctx: TraceContext, scope: CarryingRegion, first: list[Value]) -> tuple[Value, ...]:
    """Ends a carrying region: yields, parameters; gives the values carried in.

    `first` are further values that it yields, before the tensors.
    """
    written = scope.written()
    with ctx.sema.inside(scope.block):
        control.yield_((*first, *(root.version for root in written)))
    ctx.leave_region(scope)
    unwritten = {param: scope.outer[root] for root, param in scope.params.items()}
    for root in written:
        del unwritten[scope.params[root]]
    for root, version in scope.outer.items():
        if root.version is scope.params[root]:
            root.version = version
    replace_values(scope.block, unwritten)
    for stop in ctx.stops:
        stop.replace(unwritten)
    scope.block.params = (*scope.block.params, *(scope.params[root] for root in written))
    scope.carried = written
    return tuple(scope.outer[root] for root in written)


def take_results(roots: Sequence[Root], results: Sequence[Value]) -> None:
    """Makes the results of a region's operation the current versions."""
    for root, value in zip(roots, results, strict=True):
        value.name = root.version.name
        root.version = value
        root.is_written = True


# ---------------------------------------------------------------------------- conditions


def condition_value(ctx: TraceContext, terms: Terms) -> Value:
    """A condition on symbolic scalars as a BOOL scalar."""
    sema = ctx.sema
    parts = [_conjunction_value(ctx, conjunction) for conjunction in terms]
    if not parts:
        return sema.constant(False, BOOL)
    return functools.reduce(arith.or_, parts)


def _conjunction_value(ctx: TraceContext, conjunction: Conjunction) -> Value:
    sema = ctx.sema
    parts: list[Value] = []
    for each in conjunction:
        compare = arith.eq if each.is_equality else arith.ge
        parts.append(compare(sema.scalar(each.expr), sema.constant(0, INDEX)))
    if not parts:
        return sema.constant(True, BOOL)
    return functools.reduce(arith.and_, parts)


# ---------------------------------------------------------------------------- if


def trace_arms(ctx: TraceContext, condition: ScalarPredicate) -> Iterator[bool]:
    """Yields True, then False: each arm is traced into a region of its own guard.

    The arms exclude each other, so the second may start from what the first leaves.
    """

    @functools.cache
    def guard() -> Value:
        return condition_value(ctx, condition.terms)

    yield from _trace_arm(ctx, "if", condition.terms, guard, True)
    otherwise = complement(condition.terms)
    yield from _trace_arm(ctx, "else", otherwise, lambda: arith.not_(guard()), False)


def _trace_arm(
    ctx: TraceContext, name: str, terms: Terms, guard: Callable[[], Value], choice: bool
) -> Iterator[bool]:
    scope = IfScope(name, ctx.cur_scope, Block(), terms)
    ctx.enter_region(scope)
    try:
        yield choice
    except GeneratorExit:
        ctx.note_left(scope)
        raise
    ctx.leave_region(scope)
    close_arm(ctx, scope, guard)


def close_arm(ctx: TraceContext, scope: IfScope, guard: Callable[[], Value]) -> None:
    """An `if` operation around the traced arm; a tensor that it writes is as before elsewhere."""
    written = scope.written()
    if not written:
        return
    condition, otherwise = guard(), Block()
    before = tuple(scope.outer[root] for root in written)
    after = tuple(root.version for root in written)
    for block, values in ((scope.block, after), (otherwise, before)):
        with ctx.sema.inside(block):
            control.yield_(values)
    op = ctx.sema.emit(control.if_, (condition,), {}, (scope.block, otherwise))
    take_results(written, op.results)


# ---------------------------------------------------------------------------- while


class WhileLoop:
    """One execution of a `while` statement: unrolled, or a do-while on the device."""

    def __init__(self, ctx: TraceContext) -> None:
        self.ctx = ctx
        self.scope: WhileScope | None = None

    def test(self, condition: Any) -> bool:
        """Whether to trace the body (again)."""
        if self.scope is not None:
            self.close(condition)
            return False
        if isinstance(condition, RuntimeTruth):
            if condition.value is not None:
                raise refusal(WHILE_NEEDS_UNCONDITIONAL_ENTRY, what="computed on the device")
            self.open()
            return True
        return self.ctx.eval_if_cnd(condition)

    def open(self, first: Any = True) -> None:
        """Begins a loop of the device, entered where `first` is true."""
        self.first = truth_value(self.ctx, first)
        flag = Value(BoolType, "again")
        self.scope = WhileScope("while", self.ctx.cur_scope, Block((flag,)))
        self.ctx.enter_region(self.scope)

    def close(self, condition: Any) -> None:
        """Ends the body: it runs again while `condition` is true."""
        ctx, scope = self.ctx, self.scope
        assert scope is not None
        again = truth_value(ctx, condition)
        carried = end_carrying(ctx, scope, [again])
        inits = (self.first, *carried)
        test = Block(tuple(Value(value.type, value.name) for value in scope.block.params))
        with ctx.sema.inside(test):
            control.condition(test.params[0])
        op = ctx.sema.emit(control.while_, (inits,), {}, (test, scope.block))
        take_results(scope.carried, op.results[1:])


def constant_true(ctx: TraceContext) -> Value:
    """True, as a scalar of the current block."""
    return ctx.sema.constant(True, BOOL)


class RuntimeTruth(DynamicScalar):
    """A truth value of the device (`scalar(...)`): the constant True when `value` is None."""

    __slots__ = ("value",)

    def __init__(self, value: Value | None) -> None:
        super().__init__(1)
        self.value = value


def truth_value(ctx: TraceContext, condition: Any) -> Value:
    """The condition of a device loop as a BOOL scalar."""
    if isinstance(condition, RuntimeTruth):
        return constant_true(ctx) if condition.value is None else condition.value
    if isinstance(condition, ScalarPredicate):
        return condition_value(ctx, condition.terms)
    if isinstance(condition, DynamicScalar):
        value = ctx.sema.scalar(condition.expr)
        return arith.ne(value, ctx.sema.constant(0, INDEX))
    if isinstance(condition, bool):
        return ctx.sema.constant(condition, BOOL)
    raise refusal(DYNAMIC_CONTROL_FLOW, what=f"{condition!r}")
