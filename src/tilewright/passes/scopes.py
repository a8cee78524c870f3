"""Where scalar code goes: each expression into the outermost block that knows its parts."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from tilewright.dtypes import BOOL, INDEX, DType
from tilewright.errors import InternalError, UnsupportedFeatureError
from tilewright.ir.affine import (
    Atom,
    Expr,
    FloorDiv,
    Min,
    Operand,
    Product,
    Symbol,
    as_expr,
    bounds,
    remainders,
    symbols,
)
from tilewright.ir.affine.constraints import Constraint
from tilewright.ir.affine.queries import subexpressions
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import ForKind
from tilewright.ir.types import ScalarType
from tilewright.ops import arith, control, loop
from tilewright.ops.cast import cast
from tilewright.source import Span

INDEX_SCALAR = ScalarType(INDEX)


class Scope:
    """A block under construction; `memo` holds what has been computed in it."""

    __slots__ = ("block", "depth", "memo")

    def __init__(self, block: Block, depth: int) -> None:
        self.block = block
        self.depth = depth
        self.memo: dict[Any, Value] = {}


class Place:
    """An element of an array, to be read where `mask` holds: equal places are one object.

    `scope` is the outermost one in which its symbols have values, as of the `moment` at which it
    was found.
    """

    __slots__ = ("indices", "mask", "moment", "scope")

    def __init__(
        self, indices: tuple[Expr, ...], mask: tuple[Constraint, ...], scope: Scope
    ) -> None:
        self.indices = indices
        self.mask = mask
        self.scope = scope
        self.moment = -1


class Emission:
    """A place to emit to, for the duration of a `with`; entered often, hence a class."""

    __slots__ = ("block", "builder", "saved", "span")

    def __init__(self, builder: Builder, block: Block, span: Span | None) -> None:
        self.builder = builder
        self.block = block
        self.span = span
        self.saved: tuple[Block, Span | None] = builder.block, builder.span

    def __enter__(self) -> None:
        self.saved = self.builder.block, self.builder.span
        self.builder.block = self.block
        self.builder.span = self.span or self.builder.span

    def __exit__(self, *_: object) -> None:
        self.builder.block, self.builder.span = self.saved


class Scopes:
    """The blocks around the place where code is emitted, and the values of affine symbols.

    Scalar arithmetic goes to the outermost scope in which all its symbols have values, so loop
    invariants stand outside of loops. `extents` has the symbols that make extents of parameters:
    the buffer and its axis, and how often the symbol is in the extent, beside what constant.
    """

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.extents: dict[Symbol, tuple[Value, int, int, int]] = {}
        self.stack: list[Scope] = [Scope(builder.block, 0)]
        self.values: dict[Symbol, Value] = {}
        self.homes: dict[Symbol, Scope] = {}
        self.moment = 0
        self._places: dict[tuple[object, object], Place] = {}
        self._symbols: dict[Expr, tuple[Symbol, ...]] = {}

    @property
    def current(self) -> Scope:
        """The innermost scope."""
        return self.stack[-1]

    @contextmanager
    def inside(self, block: Block) -> Generator[Scope]:
        """A scope for `block`, innermost for the duration; emission goes there."""
        scope = Scope(block, len(self.stack))
        self.stack.append(scope)
        with self.builder.inside(block):
            yield scope
        self.stack.pop()

    @contextmanager
    def outside(self, depth: int) -> Generator[None]:
        """The end of scope number `depth` is where emission goes for the duration."""
        inner = self.stack[depth + 1 :]
        del self.stack[depth + 1 :]
        with self.builder.inside(self.current.block):
            yield
        self.stack += inner

    def at(self, scope: Scope, span: Span | None = None) -> Emission:
        """Emission goes to the end of `scope` for the duration, located at `span` if given."""
        return Emission(self.builder, scope.block, span)

    def define(self, symbol: Symbol, value: Value) -> None:
        """`value`, of the innermost scope, is what `symbol` stands for."""
        self.define_in(self.current, symbol, value)

    def define_in(self, scope: Scope, symbol: Symbol, value: Value) -> None:
        """`value`, of `scope`, is what `symbol` stands for."""
        self.values[symbol] = value
        self.homes[symbol] = scope
        self.moment += 1

    def home(self, exprs: Iterable[Expr]) -> Scope:
        """The outermost scope in which every symbol of `exprs` has a value."""
        found = self.stack[0]
        for expr in exprs:
            for symbol in self.symbols_of(expr):
                scope = self.homes.get(symbol)
                if scope is not None and scope.depth > found.depth:
                    found = scope
        return found

    def knows(self, expr: Expr) -> bool:
        """True when every symbol of `expr` has a value here."""
        known = (symbol in self.homes or symbol in self.extents for symbol in symbols(expr))
        return all(known)

    def place(self, indices: tuple[Expr, ...], mask: tuple[Constraint, ...]) -> Place:
        """The place of an element."""
        found = self._places.get((indices, mask))
        if found is None:
            found = self._places[indices, mask] = Place(indices, mask, self.stack[0])
        return found

    def scope_of(self, place: Place) -> Scope:
        """The outermost scope in which the indices and the mask of `place` are known."""
        if place.moment != self.moment:
            place.moment = self.moment
            place.scope = self.home((*place.indices, *[c.expr for c in place.mask]))
        return place.scope

    def symbols_of(self, expr: Expr) -> tuple[Symbol, ...]:
        """The symbols of `expr`; each expression is searched once."""
        if not expr.terms:
            return ()
        found = self._symbols.get(expr)
        if found is None:
            found = self._symbols[expr] = symbols(expr)
        return found

    # ------------------------------------------------------------------ scalars

    def constant(self, value: int | float | bool, dtype: DType) -> Value:
        """A constant, one per function."""
        root = self.stack[0]
        key = (repr(value), dtype)
        found = root.memo.get(key)
        if found is None:
            with self.at(root):
                found = root.memo[key] = self.builder.constant(value, dtype)
        return found

    def index(self, given: Operand) -> Value:
        """`given` as an INDEX value."""
        expr = as_expr(given)
        if expr.is_constant:
            return self.constant(expr.const, INDEX)
        home = self.home((expr,))
        found = home.memo.get(expr)
        if found is None:
            found = home.memo[expr] = self._sum(expr, home)
        return found

    def remember(self, expr: Expr, value: Value) -> None:
        """`value`, of the innermost scope, is `expr`."""
        if not expr.is_constant and self.home((expr,)) is self.current:
            self.current.memo.setdefault(expr, value)

    def indices(self, exprs: Sequence[Operand]) -> tuple[Value, ...]:
        """`index` of each."""
        return tuple(map(self.index, exprs))

    def _sum(self, expr: Expr, home: Scope) -> Value:
        expr, mods = remainders(expr)
        inner = [(c, a) for a, c in expr.terms.items() if self.home((Expr(0, {a: 1}),)) is home]
        outer = Expr(expr.const, {a: c for a, c in expr.terms.items() if (c, a) not in inner})
        positive = sorted(inner, key=lambda term: term[0] < 0)
        terms = [(c, self._atom(a, home)) for c, a in positive]
        terms += [(c, self._mod(a, k, home)) for c, a, k in mods]
        total = None if outer == 0 and terms[0][0] > 0 else self.index(outer)
        for c, term in terms:
            with self.at(home):
                total = self._plus(total, c, term)
        assert total is not None
        return total

    def _plus(self, total: Value | None, factor: int, term: Value) -> Value:
        if abs(factor) != 1:
            term = arith.mul(term, self.constant(abs(factor), INDEX))
        if total is None:
            return term
        return arith.add(total, term) if factor > 0 else arith.sub(total, term)

    def _mod(self, expr: Expr, modulus: int, home: Scope) -> Value:
        dividend = self.index(expr)
        with self.at(home):
            return arith.mod(dividend, self.constant(modulus, INDEX))

    def _atom(self, atom: Atom, home: Scope) -> Value:
        if isinstance(atom, Symbol):
            return self.symbol(atom)
        parts = self.indices(subexpressions(atom))
        with self.at(home):
            if isinstance(atom, FloorDiv):
                return arith.floordiv(*parts)
            word = arith.mul if isinstance(atom, Product) else _extremum(isinstance(atom, Min))
            total = parts[0]
            for part in parts[1:]:
                total = word(total, part)
            return total

    def symbol(self, symbol: Symbol) -> Value:
        """The INDEX value of one symbol."""
        value = self.values.get(symbol)
        if value is None:
            value = self.extent(symbol)
        if value.type == INDEX_SCALAR:
            return value
        home = self.homes[symbol]
        found = home.memo.get(value)
        if found is None:
            with self.at(home):
                found = home.memo[value] = cast(value, dtype=INDEX)
        return found

    def extent(self, symbol: Symbol) -> Value:
        """The value of a symbol that is an extent of a parameter."""
        if symbol not in self.extents:
            raise UnsupportedFeatureError(
                f"the extent {symbol} is not the extent of any parameter",
                hint="declare a parameter with an axis whose extent has no other unknown",
            )
        buffer, axis, scale, offset = self.extents[symbol]
        with self.at(self.stack[0]):
            value = loop.extent(buffer, axis=axis)
            if offset:
                value = arith.sub(value, self.constant(offset, INDEX))
            if scale != 1:
                value = arith.floordiv(value, self.constant(scale, INDEX))
        value.bind_symbol(symbol)
        self.define_in(self.stack[0], symbol, value)
        return value

    def condition(self, constraints: Sequence[Constraint]) -> Value | None:
        """A BOOL that says whether all `constraints` hold; None when they always do."""
        unproven = tuple(c for c in constraints if not _is_proven(c))
        if not unproven:
            return None
        home = self.home(c.expr for c in unproven)
        found = home.memo.get(unproven)
        if found is None:
            found = home.memo[unproven] = self._conjunction(unproven, home)
        return found

    def _conjunction(self, constraints: tuple[Constraint, ...], home: Scope) -> Value:
        first, *rest = constraints
        if rest:
            parts = [self.condition((c,)) for c in constraints]
            known = [part for part in parts if part is not None]
            with self.at(home):
                total = known[0]
                for part in known[1:]:
                    total = arith.and_(total, part)
            return total
        constraint = first
        if _is_refuted(constraint):
            return self.constant(False, BOOL)
        left, right = self.indices(sides(constraint.expr))
        with self.at(home):
            word = arith.eq if constraint.is_equality else arith.ge
            return word(left, right)

    # ------------------------------------------------------------------ loops

    def loop(
        self,
        extent: Operand,
        symbol: Symbol,
        body: Callable[[], Sequence[Value]],
        *,
        kind: ForKind = ForKind.Sequential,
        inits: Sequence[Value] = (),
        combine: tuple[str, ...] = (),
    ) -> Operation:
        """A loop of `symbol` over [0, extent); `body` emits an iteration and gives its yields."""
        carried = tuple(Value(init.type) for init in inits)
        index = Value(INDEX_SCALAR, symbol.name)
        index.bind_symbol(symbol)
        block = Block((index, *carried))
        with self.inside(block):
            self.define(symbol, index)
            self.builder.emit(control.yield_, (tuple(body()),))
        bounds_ = self.index(0), self.index(extent), self.index(1)
        attrs = {"kind": kind, "combine": combine, "stage": 0, "attrs": ()}
        return self.builder.emit(control.for_, (*bounds_, tuple(inits)), attrs, (block,))


def _extremum(is_min: bool) -> Callable[[Value, Value], Value]:
    return arith.min_ if is_min else arith.max_


def sides(expr: Expr) -> tuple[Expr, Expr]:
    """(a, b) where `expr` is a - b and neither has a term to subtract."""
    positive = Expr(max(expr.const, 0), {a: c for a, c in expr.terms.items() if c > 0})
    negative = Expr(max(-expr.const, 0), {a: -c for a, c in expr.terms.items() if c < 0})
    return positive, negative


def _is_proven(constraint: Constraint) -> bool:
    low, high = bounds(constraint.expr)
    if constraint.is_equality:
        return low == high == 0
    return low is not None and low >= 0


def _is_refuted(constraint: Constraint) -> bool:
    low, high = bounds(constraint.expr)
    if high is not None and high < 0:
        return True
    return constraint.is_equality and low is not None and low > 0


def require(value: Value | None, what: str) -> Value:
    """`value`; raises InternalError when there is none."""
    if value is None:
        raise InternalError(f"lowering has no value for {what}")
    return value
