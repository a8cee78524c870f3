"""One canonical integer expression: constant + Σ coefficient · atom.

An atom is a `Symbol`, a `FloorDiv`, a `Product` of atoms, a `Min` or a `Max`. Products of sums are
multiplied out, and `a % b` is kept as `a - b * (a // b)`, so that equal expressions of the common
kinds are equal objects; printing finds the remainders again. Expressions never change.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, Final, SupportsIndex, TypeAlias

from tilewright.ir import affine

INFINITY: Final = math.inf
Bound: TypeAlias = "int | float"  # an int, or ±INFINITY where nothing is known
Interval: TypeAlias = tuple[Bound, Bound]
Operand: TypeAlias = "SupportsIndex | Symbol | Expr"
Dim: TypeAlias = "int | Expr"

EVERYTHING: Final[Interval] = (-INFINITY, INFINITY)
_serials = count()


class Arithmetic:
    """The operators shared by symbols and expressions. The other side may be any integer."""

    __slots__ = ()
    __array_ufunc__ = None  # numpy integers leave the operator to us

    def __add__(self, other: Operand) -> Expr:
        return _binary(_plus, self, other)

    def __radd__(self, other: Operand) -> Expr:
        return _binary(_plus, other, self)

    def __sub__(self, other: Operand) -> Expr:
        return _binary(_minus, self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return _binary(_minus, other, self)

    def __mul__(self, other: Operand) -> Expr:
        return _binary(_times, self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return _binary(_times, other, self)

    def __floordiv__(self, other: Operand) -> Expr:
        return _binary(_floordiv, self, other)

    def __rfloordiv__(self, other: Operand) -> Expr:
        return _binary(_floordiv, other, self)

    def __mod__(self, other: Operand) -> Expr:
        return _binary(_mod, self, other)

    def __rmod__(self, other: Operand) -> Expr:
        return _binary(_mod, other, self)

    def __neg__(self) -> Expr:
        return _scaled(as_expr(self), -1)

    def __pos__(self) -> Expr:
        return as_expr(self)


class Atom:
    """What an expression is a sum of. `depth` grows with nesting: no atom mentions a deeper one."""

    __slots__ = ("depth",)
    depth: int

    def interval(self) -> Interval:
        """Bounds from the ranges of the symbols alone."""
        raise NotImplementedError


class Symbol(Atom, Arithmetic):
    """A named integer, compared by identity, with an optional inclusive range [`lo`, `hi`]."""

    __slots__ = ("_interval", "expr", "hi", "lo", "name", "serial")

    def __init__(self, name: str, lo: Operand | None = None, hi: Operand | None = None) -> None:
        self.name: Final = name
        self.lo: Final = lo if lo is None or type(lo) is int else simplify(lo)
        self.hi: Final = hi if hi is None or type(hi) is int else simplify(hi)
        self.serial: Final = next(_serials)
        self.depth = 1 + max(_depth_of(self.lo), _depth_of(self.hi))
        low = self.lo.interval[0] if isinstance(self.lo, Expr) else self.lo
        high = self.hi.interval[1] if isinstance(self.hi, Expr) else self.hi
        self._interval: Final = (
            -INFINITY if low is None else low,
            INFINITY if high is None else high,
        )
        self.expr: Final = Expr(0, {self: 1})  # this symbol as an expression

    def interval(self) -> Interval:
        return self._interval

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Symbol({self.name!r})"


class Compound(Atom):
    """An atom made of expressions; two with the same content are equal."""

    __slots__ = ("_hash", "key")

    def __init__(self, key: object, depth: int) -> None:
        self.key = key
        self.depth = depth
        self._hash = hash((type(self), key))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(other) is type(self) and self.key == other.key


class FloorDiv(Compound):
    """`numerator // divisor`, rounded down. An int divisor is at least 2."""

    __slots__ = ("divisor", "numerator")

    def __init__(self, numerator: Expr, divisor: Dim) -> None:
        super().__init__((numerator, divisor), 1 + max(numerator.depth, _depth_of(divisor)))
        self.numerator: Final = numerator
        self.divisor: Final = divisor

    def interval(self) -> Interval:
        low, high = self.numerator.interval
        if isinstance(self.divisor, int):
            return floor_bound(low, self.divisor), floor_bound(high, self.divisor)
        least = self.divisor.interval[0]
        if isinstance(least, float) or least < 1:
            return EVERYTHING
        return min(0, floor_bound(low, least)), max(-1, floor_bound(high, least))


class Product(Compound):
    """A product of at least two atoms, none of them a Product."""

    __slots__ = ("factors",)

    def __init__(self, factors: tuple[Atom, ...]) -> None:
        key = frozenset((f, factors.count(f)) for f in factors)
        super().__init__(key, max(f.depth for f in factors))
        self.factors: Final = factors

    def interval(self) -> Interval:
        result: Interval = (1, 1)
        for factor in self.factors:
            result = multiply_intervals(result, factor.interval())
        return result


class Extremum(Compound):
    """The least or greatest of at least two expressions."""

    __slots__ = ("args",)

    def __init__(self, args: tuple[Expr, ...]) -> None:
        super().__init__(frozenset(args), 1 + max(a.depth for a in args))
        self.args: Final = args


class Min(Extremum):
    """`min(args)`."""

    __slots__ = ()

    def interval(self) -> Interval:
        spans = [a.interval for a in self.args]
        return min(s[0] for s in spans), min(s[1] for s in spans)


class Max(Extremum):
    """`max(args)`."""

    __slots__ = ()

    def interval(self) -> Interval:
        spans = [a.interval for a in self.args]
        return max(s[0] for s in spans), max(s[1] for s in spans)


class Expr(Arithmetic):
    """`const` + Σ `coefficient * atom`, in canonical form; `==` compares content, also with an int.

    Truth is refused unless the value is known: ask `equal`, `less` or `less_equal` instead.
    """

    __slots__ = ("_depth", "_hash", "_interval", "const", "terms")

    def __init__(self, const: int, terms: Mapping[Atom, int]) -> None:
        self.const: Final = const
        self.terms: Final = terms
        self._hash: int | None = None
        self._depth: int | None = None
        self._interval: Interval | None = None

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def depth(self) -> int:
        if self._depth is None:
            self._depth = max((a.depth for a in self.terms), default=0)
        return self._depth

    @property
    def interval(self) -> Interval:
        """Bounds by interval arithmetic: cheap, and blind to symbols that occur twice."""
        if self._interval is None:
            self._interval = _interval_of(self)
        return self._interval

    def __hash__(self) -> int:
        if self._hash is None:
            terms = frozenset(self.terms.items())
            self._hash = hash((self.const, terms)) if terms else hash(self.const)
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, Expr):
            return self.const == other.const and self.terms == other.terms
        return not self.terms and isinstance(other, int) and self.const == other

    def __bool__(self) -> bool:
        return bool(int(self))

    def __int__(self) -> int:
        if self.terms:
            raise TypeError(f"the value of `{self}` is not known here")
        return self.const

    def __str__(self) -> str:
        return affine.folding.text_of(self)

    def __repr__(self) -> str:
        return f"Expr({self})"


def symbol(name: str, lo: Operand | None = None, hi: Operand | None = None) -> Symbol:
    """A fresh symbol in the inclusive range [`lo`, `hi`]; None leaves that side open."""
    return Symbol(name, lo, hi)


_CONSTANTS = {value: Expr(value, {}) for value in range(-1, 257)}  # the usual ones, made once


def const(value: int) -> Expr:
    """The expression that is always `value`."""
    return _CONSTANTS[value] if value in _CONSTANTS else Expr(value, {})


def as_expr(value: object) -> Expr:
    """`value` as an expression: an int, a numpy integer, a Symbol or an Expr; else TypeError."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, Symbol):
        return value.expr
    return const(operator.index(value))  # pyright: ignore[reportArgumentType]


def simplify(value: Operand) -> Dim:
    """`value` as a plain int where it is constant."""
    expr = as_expr(value)
    return expr if expr.terms else expr.const


def ceildiv(a: Operand, b: Operand) -> Expr:
    """`a / b` rounded up. A positive `b` is assumed where it is not an int."""
    divisor = as_expr(b)
    if divisor.is_constant and divisor.const < 0:
        return -_floordiv(as_expr(a), -divisor)
    return _floordiv(as_expr(a) + divisor - 1, divisor)


def minimum(*args: Operand) -> Expr:
    """The least of one or more expressions."""
    return _extremum(Min, args, lambda kept, new: (new - kept).interval[0] >= 0)


def maximum(*args: Operand) -> Expr:
    """The greatest of one or more expressions."""
    return _extremum(Max, args, lambda kept, new: (kept - new).interval[0] >= 0)


# ---------------------------------------------------------------------------- sums and products


def _operand(value: object) -> Expr | None:
    if isinstance(value, Expr):
        return value
    return as_expr(value) if isinstance(value, Symbol) or hasattr(value, "__index__") else None


def _binary(op: Callable[[Expr, Expr], Expr], a: object, b: object) -> Any:
    left, right = _operand(a), _operand(b)
    if left is None or right is None:
        return NotImplemented
    return op(left, right)


def _plus(a: Expr, b: Expr) -> Expr:
    return _sum(a, b, 1)


def _minus(a: Expr, b: Expr) -> Expr:
    return _sum(a, b, -1)


def _sum(a: Expr, b: Expr, factor: int) -> Expr:
    """a + factor * b"""
    constant = a.const + factor * b.const
    if not b.terms:
        return Expr(constant, a.terms)
    terms = dict(a.terms)
    for atom, coefficient in b.terms.items():
        total = terms.get(atom, 0) + factor * coefficient
        if total:
            terms[atom] = total
        else:
            del terms[atom]
    return Expr(constant, terms)


def _scaled(a: Expr, factor: int) -> Expr:
    if factor == 0 or factor == 1:
        return a if factor else const(0)
    return Expr(a.const * factor, {atom: c * factor for atom, c in a.terms.items()})


def _times(a: Expr, b: Expr) -> Expr:
    if not a.terms:
        return _scaled(b, a.const)
    if not b.terms:
        return _scaled(a, b.const)
    result = _scaled(a, b.const) + _scaled(Expr(0, b.terms), a.const)
    for x, cx in a.terms.items():
        for y, cy in b.terms.items():
            result = _sum(result, Expr(0, {_product(x, y): 1}), cx * cy)
    return result


def _product(x: Atom, y: Atom) -> Product:
    return Product(factors_of(x) + factors_of(y))


def factors_of(atom: Atom) -> tuple[Atom, ...]:
    """The factors of a product; any other atom is its own only factor."""
    return atom.factors if isinstance(atom, Product) else (atom,)


# ---------------------------------------------------------------------------- division


def _mod(a: Expr, b: Expr) -> Expr:
    return a - b * _floordiv(a, b)


def _floordiv(a: Expr, b: Expr) -> Expr:
    if b.terms:
        return _floor_symbolic(a, b)
    if b.const == 0:
        raise ZeroDivisionError(f"`{a} // 0`")
    return _floor(a, b.const) if b.const > 0 else _floor(-a, -b.const)


def _floor_symbolic(a: Expr, b: Expr) -> Expr:
    """a // b: where b is surely positive, its multiples come out and what is below it goes."""
    if b.interval[0] < 1:
        return Expr(0, {FloorDiv(a, b): 1})
    whole, rest = _multiples(a, b)
    return whole if _is_below(rest, b) else whole + Expr(0, {FloorDiv(rest, b): 1})


def _multiples(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """(q, r) with a == b * q + r: the terms of `a` that `b`, if it is one term, divides."""
    whole: Expr = const(0)
    if len(b.terms) == 1 and not b.const:
        [(divisor, k)] = b.terms.items()
        for atom, c in a.terms.items():
            others = _factors_without(atom, divisor)
            if others is not None and c % k == 0:
                whole += (c // k) * others
    return whole, a - b * whole


def _factors_without(atom: Atom, divisor: Atom) -> Expr | None:
    """atom / divisor, where every factor of the divisor is one of the atom."""
    left = list(factors_of(atom))
    for factor in factors_of(divisor):
        if factor not in left:
            return None
        left.remove(factor)
    result = const(1)
    for factor in left:
        result *= Expr(0, {factor: 1})
    return result


def _is_below(rest: Expr, b: Expr) -> bool:
    """True where plainly 0 <= rest < b: a number, or a symbol with a range that says so."""
    if rest.interval[0] < 0:
        return False
    if len(rest.terms) == 1 and not rest.const:
        [(atom, c)] = rest.terms.items()
        if isinstance(atom, Symbol) and c == 1 and atom.hi is not None:
            return (b - 1 - atom.hi).interval[0] >= 0
    return (b - 1 - rest).interval[0] >= 0


def _floor(a: Expr, b: int) -> Expr:
    """a // b for b > 0: multiples of b come out, what stays below a common factor goes."""
    if b == 1:
        return a
    low, high = (floor_bound(x, b) for x in a.interval)
    if low == high:
        return const(int(low))
    whole, rest = _split(a, b)
    if whole.terms or whole.const:
        return whole + _floor(rest, b)
    for rule in (_floor_by_factor, _floor_nested):
        simpler = rule(rest, b)
        if simpler is not None:
            return simpler
    return Expr(0, {FloorDiv(rest, b): 1})


def _split(a: Expr, b: int) -> tuple[Expr, Expr]:
    """(q, r) with a == b * q + r; coefficients of r are below b in size and keep their sign."""
    whole: dict[Atom, int] = {}
    rest: dict[Atom, int] = {}
    for atom, c in a.terms.items():
        quotient = c // b if c >= 0 else -(-c // b)
        if quotient:
            whole[atom] = quotient
        if c - b * quotient:
            rest[atom] = c - b * quotient
    quotient, remainder = divmod(a.const, b)
    return Expr(quotient, whole), Expr(remainder, rest)


def _floor_by_factor(a: Expr, b: int) -> Expr | None:
    """(g*x + r) // b == (x + r//g) // (b/g) where g divides b and r//g is known."""
    for g in sorted({math.gcd(c, b) for c in a.terms.values()} - {1}, reverse=True):
        multiples = Expr(0, {t: c // g for t, c in a.terms.items() if c % g == 0})
        rest = Expr(a.const, {t: c for t, c in a.terms.items() if c % g})
        low, high = (floor_bound(x, g) for x in rest.interval)
        if low == high:
            return _floor(multiples + int(low), b // g)
    return None


def _floor_nested(a: Expr, b: int) -> Expr | None:
    """(n//k + x) // b == (n + k*x) // (k*b)"""
    nested = [t for t, c in a.terms.items() if isinstance(t, FloorDiv) and c == 1]
    if len(nested) != 1 or not isinstance(nested[0].divisor, int):
        return None
    inner, k = nested[0], nested[0].divisor
    others = Expr(a.const, {t: c for t, c in a.terms.items() if t is not inner})
    return _floor(inner.numerator + k * others, k * b)


# ---------------------------------------------------------------------------- min and max


def _extremum(
    kind: type[Min] | type[Max], args: Iterable[object], keeps: Callable[[Expr, Expr], bool]
) -> Expr:
    kept: list[Expr] = []
    for arg in args:
        for new in _flattened(kind, as_expr(arg)):
            if not any(keeps(old, new) for old in kept):
                kept = [old for old in kept if not keeps(new, old)] + [new]
    return kept[0] if len(kept) == 1 else Expr(0, {kind(tuple(kept)): 1})


def _flattened(kind: type[Min] | type[Max], arg: Expr) -> tuple[Expr, ...]:
    if len(arg.terms) == 1 and not arg.const:
        [(atom, coefficient)] = arg.terms.items()
        if isinstance(atom, kind) and coefficient == 1:
            return atom.args
    return (arg,)


# ---------------------------------------------------------------------------- intervals


def _depth_of(dim: Dim | None) -> int:
    return dim.depth if isinstance(dim, Expr) else 0


def floor_bound(bound: Bound, divisor: int) -> Bound:
    """bound // divisor, where infinity stays infinite."""
    return bound if isinstance(bound, float) else bound // divisor


def multiply_intervals(a: Interval, b: Interval) -> Interval:
    """Every product of a number in `a` and one in `b` lies in the result."""
    corners = [0 if x == 0 or y == 0 else x * y for x in a for y in b]
    return min(corners), max(corners)


def _interval_of(expr: Expr) -> Interval:
    low: Bound = expr.const
    high: Bound = expr.const
    for atom, c in expr.terms.items():
        start, stop = atom.interval()
        low += c * (start if c > 0 else stop)
        high += c * (stop if c > 0 else start)
    return low, high
