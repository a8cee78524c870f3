"""How small and how large an expression can be, and comparisons that follow from it."""

from __future__ import annotations

import math
from functools import lru_cache

from tilewright.ir.affine.expr import (
    INFINITY,
    Atom,
    Bound,
    Expr,
    FloorDiv,
    Interval,
    Max,
    Min,
    Operand,
    Product,
    Symbol,
    as_expr,
    multiply_intervals,
)
from tilewright.ir.affine.unknown import counted

MAX_BRANCHES = 6


def bounds(e: Operand) -> tuple[int | None, int | None]:
    """(least, greatest) value that `e` may have over the ranges of its symbols; None is unbounded.

    Ranges may mention other symbols: with 0 <= i <= N - 1, `N - i` is at least 1.
    """
    expr = as_expr(e)
    low, high = lower_bound(expr), -lower_bound(-expr)
    return _as_int(low), _as_int(high)


@counted
def equal(a: Operand, b: Operand) -> bool | None:
    """True: always equal. False: never. None: neither is known."""
    difference = as_expr(a) - as_expr(b)
    if difference.is_constant:
        return difference.const == 0
    if difference.const % math.gcd(*difference.terms.values()):
        return False
    low, high = lower_bound(difference), -lower_bound(-difference)
    return True if low == high == 0 else False if low > 0 or high < 0 else None


@counted
def less_equal(a: Operand, b: Operand) -> bool | None:
    """a <= b. True: always. False: never. None: neither is known."""
    return _compare(as_expr(b) - as_expr(a))


@counted
def less(a: Operand, b: Operand) -> bool | None:
    """a < b. True: always. False: never. None: neither is known."""
    return _compare(as_expr(b) - as_expr(a) - 1)


@lru_cache(maxsize=1 << 14)
def lower_bound(expr: Expr) -> Bound:
    """A number that `expr` is never below, or -INFINITY."""
    low, high = expr.interval
    if low == high:
        return low
    return max(low, _eliminate(expr, 1, MAX_BRANCHES))


def atom_bound(atom: Atom, rising: bool) -> tuple[Expr, int] | None:
    """(e, d) with atom >= e/d if `rising`, else atom <= e/d; e is less deep. None: no bound."""
    if isinstance(atom, Symbol):
        value = atom.lo if rising else atom.hi
        return None if value is None else (as_expr(value), 1)
    if isinstance(atom, FloorDiv) and isinstance(atom.divisor, int):
        return atom.numerator - (atom.divisor - 1 if rising else 0), atom.divisor
    if isinstance(atom, Product):
        bound = _product_bound(atom, rising)
        if bound is not None:
            return bound
    end = atom.interval()[0 if rising else 1]
    return None if isinstance(end, float) else (as_expr(end), 1)


def _compare(difference: Expr) -> bool | None:
    """difference >= 0"""
    if not difference.terms:
        return difference.const >= 0
    return True if lower_bound(difference) >= 0 else False if lower_bound(-difference) > 0 else None


def _as_int(bound: Bound) -> int | None:
    return None if isinstance(bound, float) else bound


def _eliminate(expr: Expr, scale: int, branches: int) -> Bound:
    """A lower bound of expr / scale: atoms give way to their bounds, the deepest first."""
    while expr.terms:
        atom = max(expr.terms, key=_depth)
        c = expr.terms[atom]
        if isinstance(atom, Min | Max):
            return _eliminate_extremum(expr, atom, c, scale, branches)
        rest = Expr(expr.const, {t: k for t, k in expr.terms.items() if t is not atom})
        bound = atom_bound(atom, rising=c > 0)
        if bound is None:
            return -INFINITY
        value, divisor = bound
        expr, scale = divisor * rest + c * value, scale * divisor
    return -(-expr.const // scale)


def _depth(atom: Atom) -> int:
    return atom.depth


def _product_bound(atom: Product, rising: bool) -> tuple[Expr, int] | None:
    """The deepest factor gives way to its bound where the sign of the others is known."""
    first = max(atom.factors, key=_depth)
    rest, sign = as_expr(1), (1, 1)
    others = list(atom.factors)
    others.remove(first)
    for factor in others:
        rest, sign = rest * Expr(0, {factor: 1}), multiply_intervals(sign, factor.interval())
    if first in others or isinstance(first, Min | Max) or not (sign[0] >= 0 or sign[1] <= 0):
        return None
    bound = atom_bound(first, rising == (sign[0] >= 0))
    return None if bound is None else (bound[0] * rest, bound[1])


def _eliminate_extremum(expr: Expr, atom: Min | Max, c: int, scale: int, branches: int) -> Bound:
    """The atom equals one of its arguments: the best of them if we may choose, else the worst."""
    rest = Expr(expr.const, {t: k for t, k in expr.terms.items() if t is not atom})
    if not branches:
        end: Interval = atom.interval()
        bound = end[0] if c > 0 else end[1]
        return -INFINITY if isinstance(bound, float) else _eliminate(rest + c * bound, scale, 0)
    ends = [_eliminate(rest + c * arg, scale, branches - 1) for arg in atom.args]
    return min(ends) if isinstance(atom, Min) == (c > 0) else max(ends)
