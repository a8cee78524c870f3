"""An expression rebuilt as something else: as text, as instructions, as numbers."""

from __future__ import annotations

import math
from functools import reduce
from typing import Protocol, TypeVar

from tilewright.ir.affine.expr import (
    Atom,
    Expr,
    Extremum,
    FloorDiv,
    Min,
    Operand,
    Product,
    Symbol,
    as_expr,
)
from tilewright.ir.affine.queries import subexpressions

T = TypeVar("T")


def remainders(expr: Expr) -> tuple[Expr, list[tuple[int, Expr, int]]]:
    """`expr` as (rest, [(c, a, k), …]) meaning rest + Σ c * (a % k): the readable form."""
    found: list[tuple[int, Expr, int]] = []
    for atom, coefficient in expr.terms.items():
        if isinstance(atom, FloorDiv) and isinstance(atom.divisor, int):
            match = _find_remainder(expr, atom, coefficient)
            if match:
                scale, dividend, modulus = match
                expr -= scale * (dividend - modulus * (dividend // modulus))
                found.append(match)
    return expr, found


def _find_remainder(expr: Expr, atom: FloorDiv, c: int) -> tuple[int, Expr, int] | None:
    assert isinstance(atom.divisor, int)
    for modulus in _divisors(math.gcd(atom.divisor, c)):
        dividend, scale = atom.numerator // (atom.divisor // modulus), -c // modulus
        if all(expr.terms.get(t) == scale * k for t, k in dividend.terms.items()):
            return scale, dividend, modulus
    return None


def _divisors(n: int) -> list[int]:
    """The divisors of n from n down to 2."""
    small = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)} - {1}, reverse=True)


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


def text_of(expr: Expr) -> str:
    """Python that means `expr`; the order depends on names only."""
    rest, mods = remainders(expr)
    terms = [(c, _atom_text(atom), isinstance(atom, FloorDiv)) for atom, c in rest.terms.items()]
    terms += [(c, f"{_wrapped(a)} % {k}", True) for c, a, k in mods]
    terms.sort(key=lambda term: (term[0] < 0, term[1], term[0]))
    text = "".join(_signed(c < 0, _scaled_text(c, t, divides)) for c, t, divides in terms)
    if rest.const or not terms:
        text += _signed(rest.const < 0, str(abs(rest.const)))
    return f"-{text[3:]}" if text.startswith(" - ") else text[3:]


def _signed(is_negative: bool, text: str) -> str:
    return f" - {text}" if is_negative else f" + {text}"


def _scaled_text(coefficient: int, text: str, divides: bool) -> str:
    if coefficient == 1 or (coefficient == -1 and not divides):
        return text
    factor = "" if coefficient == -1 else f"{abs(coefficient)} * "
    return f"{factor}({text})" if divides else f"{factor}{text}"


def _atom_text(atom: Atom) -> str:
    if isinstance(atom, Extremum):
        name = "min" if isinstance(atom, Min) else "max"
        return f"{name}({', '.join(sorted(str(a) for a in atom.args))})"
    if isinstance(atom, Product):
        return " * ".join(sorted(_factor_text(f) for f in atom.factors))
    if isinstance(atom, FloorDiv):
        return f"{_wrapped(atom.numerator)} // {_wrapped(as_expr(atom.divisor))}"
    return str(atom)


def _factor_text(atom: Atom) -> str:
    text = _atom_text(atom)
    return f"({text})" if isinstance(atom, FloorDiv) else text


def _wrapped(expr: Expr) -> str:
    text = str(expr)
    return text if text.isidentifier() or text.isdigit() else f"({text})"
