"""Reading expressions: value, parts, substitution, solving."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

import numpy as np

from tilewright.ir.affine.expr import (
    Atom,
    Dim,
    Expr,
    Extremum,
    FloorDiv,
    Min,
    Operand,
    Product,
    Symbol,
    as_expr,
    const,
    factors_of,
    maximum,
    minimum,
    simplify,
)

Integers = np.ndarray[Any, np.dtype[np.int64]]


def evaluate(e: Operand, env: Mapping[Symbol, int]) -> int:
    """The value of `e` where each symbol has the value in `env`; KeyError names a missing one."""
    return int(_evaluate(as_expr(e), env, min, max))


def evaluate_many(e: Operand, env: Mapping[Symbol, Integers]) -> Integers:
    """`evaluate` at many points at once: int64 arrays in, one int64 array out."""
    return np.asarray(_evaluate(as_expr(e), env, _least, _greatest), np.int64)


def substitute(e: Operand, mapping: Mapping[Symbol, Operand]) -> Expr:
    """`e` with symbols replaced, in canonical form. Ranges of symbols stay as they are."""
    expr = as_expr(e)
    if not mapping or not any(s in mapping for s in symbols(expr)):
        return expr
    terms = (c * _substituted(atom, mapping) for atom, c in expr.terms.items())
    return sum(terms, const(expr.const))


def symbols(e: Operand) -> tuple[Symbol, ...]:
    """The symbols that occur in `e`, oldest first; those in ranges of symbols do not count."""
    found: set[Symbol] = set()
    _collect_symbols(as_expr(e), found)
    return tuple(sorted(found, key=lambda s: s.serial))


def with_ranges(found: Iterable[Symbol]) -> tuple[Symbol, ...]:
    """`found` and the symbols that their ranges mention, and so on; oldest first."""
    known: set[Symbol] = set()
    queue = list(found)
    while queue:
        sym = queue.pop()
        if sym not in known:
            known.add(sym)
            queue += [s for end in (sym.lo, sym.hi) if end is not None for s in symbols(end)]
    return tuple(sorted(known, key=lambda s: s.serial))


def coefficient(e: Operand, sym: Symbol) -> Dim | None:
    """c where `e` is c * sym + rest; 0 where `sym` is absent, None where `e` has no such form."""
    total = const(0)
    for atom, c in as_expr(e).terms.items():
        factor = _factor_beside(atom, sym)
        if factor is None:
            return None
        total += c * factor
    return simplify(total)


def scaled_symbol(e: Operand) -> tuple[Symbol, int, int] | None:
    """(symbol, scale, offset) where `e` is `scale * symbol + offset` with a positive scale; else
    None."""
    expr = as_expr(e)
    terms = [*expr.terms.items()]
    if len(terms) != 1 or not isinstance(terms[0][0], Symbol) or terms[0][1] < 1:
        return None
    return terms[0][0], terms[0][1], expr.const


def solve_for(e: Operand, sym: Symbol, value: Operand = 0) -> Dim | None:
    """What `sym` must be for `e == value`; None where that is not affine or perhaps no integer."""
    c = coefficient(e, sym)
    if not isinstance(c, int) or c == 0:
        return None
    return exact_quotient(as_expr(value) - (as_expr(e) - c * sym), c)


def exact_quotient(e: Operand, divisor: int) -> Dim | None:
    """`e / divisor` where the division plainly leaves no remainder, else None."""
    expr = as_expr(e)
    if expr.const % divisor or any(c % divisor for c in expr.terms.values()):
        return None
    terms = {atom: c // divisor for atom, c in expr.terms.items()}
    return simplify(Expr(expr.const // divisor, terms))


def subexpressions(atom: Atom) -> tuple[Expr, ...]:
    """The expressions directly inside an atom; factors of a product count, a symbol has none."""
    if isinstance(atom, FloorDiv):
        return (atom.numerator, as_expr(atom.divisor))
    if isinstance(atom, Extremum):
        return atom.args
    if isinstance(atom, Product):
        return tuple(Expr(0, {factor: 1}) for factor in atom.factors)
    return ()


def _collect_symbols(expr: Expr, found: set[Symbol]) -> None:
    for atom in expr.terms:
        if isinstance(atom, Symbol):
            found.add(atom)
        for part in subexpressions(atom):
            _collect_symbols(part, found)


def _factor_beside(atom: Atom, sym: Symbol) -> Expr | None:
    """x where atom == x * sym; 0 where `sym` does not occur; None otherwise."""
    if atom is sym:
        return const(1)
    if sym not in symbols(Expr(0, {atom: 1})):
        return const(0)
    others = [f for f in factors_of(atom) if f is not sym]
    rest = reduce(lambda x, f: x * Expr(0, {f: 1}), others, const(1))
    return rest if len(others) == len(factors_of(atom)) - 1 and sym not in symbols(rest) else None


def _substituted(atom: Atom, mapping: Mapping[Symbol, Operand]) -> Expr:
    if isinstance(atom, Symbol):
        return as_expr(mapping.get(atom, atom))
    parts = [substitute(part, mapping) for part in subexpressions(atom)]
    if isinstance(atom, FloorDiv):
        return parts[0] // parts[1]
    if isinstance(atom, Product):
        return reduce(lambda x, y: x * y, parts)
    return minimum(*parts) if isinstance(atom, Min) else maximum(*parts)


def _evaluate(
    expr: Expr, env: Mapping[Symbol, Any], low: Callable[..., Any], high: Callable[..., Any]
) -> Any:
    total: Any = expr.const
    for atom, c in expr.terms.items():
        if isinstance(atom, Symbol):
            total = total + c * env[atom]
            continue
        parts = [_evaluate(part, env, low, high) for part in subexpressions(atom)]
        total = total + c * _apply(atom, parts, low, high)
    return total


def _apply(atom: Atom, parts: list[Any], low: Callable[..., Any], high: Callable[..., Any]) -> Any:
    if isinstance(atom, FloorDiv):
        return parts[0] // parts[1]
    if isinstance(atom, Product):
        return reduce(lambda x, y: x * y, parts)
    return low(*parts) if isinstance(atom, Min) else high(*parts)


def _least(*arrays: Any) -> Any:
    return reduce(np.minimum, arrays)


def _greatest(*arrays: Any) -> Any:
    return reduce(np.maximum, arrays)
