"""An expression rebuilt in another algebra: as instructions, as another language, as numbers."""

from __future__ import annotations

from functools import reduce
from typing import Protocol, TypeVar

from tilewright.ir.affine.expr import (
    Atom,
    Expr,
    FloorDiv,
    Min,
    Operand,
    Product,
    Symbol,
    as_expr,
    remainders,
)
from tilewright.ir.affine.queries import subexpressions

T = TypeVar("T")


class Algebra(Protocol[T]):
    """What an expression is rebuilt from. Division and remainder round down."""

    def const(self, value: int) -> T: ...
    def symbol(self, symbol: Symbol) -> T: ...
    def add(self, a: T, b: T) -> T: ...
    def sub(self, a: T, b: T) -> T: ...
    def mul(self, a: T, b: T) -> T: ...
    def floordiv(self, a: T, b: T) -> T: ...
    def mod(self, a: T, b: T) -> T: ...
    def minimum(self, a: T, b: T) -> T: ...
    def maximum(self, a: T, b: T) -> T: ...


def fold(e: Operand, algebra: Algebra[T]) -> T:
    """`e` in `algebra`: sums of scaled terms, with `a - k * (a // k)` given as a remainder."""
    rest, mods = remainders(as_expr(e))
    terms = [(c, _fold_atom(atom, algebra)) for atom, c in rest.terms.items()]
    terms += [(c, algebra.mod(fold(a, algebra), algebra.const(k))) for c, a, k in mods]
    terms.sort(key=lambda term: term[0] < 0)
    return _sum(terms, rest.const, algebra)


def _sum(terms: list[tuple[int, T]], constant: int, algebra: Algebra[T]) -> T:
    """Σ c * term + constant, with as few operations as that takes."""
    total: T | None = None
    if constant > 0 or not terms or terms[0][0] < 0:
        total = algebra.const(constant)
        constant = 0
    for c, term in terms:
        scaled = term if abs(c) == 1 else algebra.mul(algebra.const(abs(c)), term)
        if total is None:
            total = scaled
        else:
            total = algebra.add(total, scaled) if c > 0 else algebra.sub(total, scaled)
    assert total is not None
    return algebra.sub(total, algebra.const(-constant)) if constant else total


def _fold_atom(atom: Atom, algebra: Algebra[T]) -> T:
    if isinstance(atom, Symbol):
        return algebra.symbol(atom)
    parts = [fold(part, algebra) for part in subexpressions(atom)]
    if isinstance(atom, FloorDiv):
        return algebra.floordiv(*parts)
    if isinstance(atom, Product):
        return reduce(algebra.mul, parts)
    return reduce(algebra.minimum if isinstance(atom, Min) else algebra.maximum, parts)


def product_of(extents: tuple[int | Expr, ...]) -> Expr:
    """The product of extents: the number of elements."""
    return reduce(lambda x, y: x * y, extents, as_expr(1))
