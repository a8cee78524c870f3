"""Scalars whose value the trace does not know, and the predicates their comparisons give."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, NoReturn

import numpy as np

from tilewright.errors.nki_control import CONDITION_NOT_BOOL, DYNAMIC_CONTROL_FLOW
from tilewright.errors.nki_tensors import INDEX_DIVISOR, INDEX_OPERATOR
from tilewright.frontend.trace.ambient import refusal
from tilewright.ir.affine import Expr, Operand, Symbol, as_expr
from tilewright.ir.affine.constraints import Constraint

Conjunction = tuple[Constraint, ...]
Terms = tuple[Conjunction, ...]
"""A condition in disjunctive normal form: some conjunction holds."""

ALWAYS: Terms = ((),)
NEVER: Terms = ()


def both(left: Terms, right: Terms) -> Terms:
    """left and right"""
    return tuple((*a, *b) for a, b in product(left, right))


def either(left: Terms, right: Terms) -> Terms:
    """left or right"""
    return ALWAYS if () in (*left, *right) else (*left, *right)


def complement(terms: Terms) -> Terms:
    """not terms, by De Morgan"""
    result = ALWAYS
    for conjunction in terms:
        result = both(result, tuple((c,) for each in conjunction for c in _negated(each)))
    return result


def _negated(constraint: Constraint) -> Iterable[Constraint]:
    expr = constraint.expr
    if constraint.is_equality:
        return (Constraint(expr - 1), Constraint(-expr - 1))
    return (Constraint(-expr - 1),)


COMPARISONS: dict[str, Callable[[Operand, Operand], Constraint]] = {
    "<": Constraint.less,
    "<=": Constraint.less_equal,
    ">": lambda a, b: Constraint.less(b, a),
    ">=": lambda a, b: Constraint.less_equal(b, a),
    "==": Constraint.equal,
}


class ScalarPredicate:
    """What a comparison of symbolic scalars gives: a condition on them, never a `bool`."""

    __slots__ = ("terms",)

    def __init__(self, terms: Terms) -> None:
        self.terms = terms

    @property
    def predicates(self) -> Terms:
        """The condition as alternatives of conjunctions."""
        return self.terms

    def __and__(self, other: object) -> ScalarPredicate:
        terms = scalar_terms(other)
        return NotImplemented if terms is None else predicate(both(self.terms, terms))

    __rand__ = __and__

    def __or__(self, other: object) -> ScalarPredicate:
        terms = scalar_terms(other)
        return NotImplemented if terms is None else predicate(either(self.terms, terms))

    __ror__ = __or__

    def __invert__(self) -> ScalarPredicate:
        return predicate(complement(self.terms))

    def __bool__(self) -> NoReturn:
        raise refusal(DYNAMIC_CONTROL_FLOW, what=f"the predicate `{self}`")

    def __str__(self) -> str:
        return " or ".join(" and ".join(map(str, c)) or "True" for c in self.terms) or "False"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"


class ScalarPredicateIntersection(ScalarPredicate):
    """A conjunction; ordered comparisons give it."""

    __slots__ = ()


class EQScalarPredicate(ScalarPredicate):
    """One equality."""

    __slots__ = ()


class ScalarPredicateUnion(ScalarPredicate):
    """Alternatives."""

    __slots__ = ()


class AlwaysTruePredicate(ScalarPredicate):
    """The condition that always holds."""

    __slots__ = ()

    def __init__(self, terms: Terms = ALWAYS) -> None:
        super().__init__(terms)


class AlwaysFalsePredicate(ScalarPredicate):
    """The condition that never holds."""

    __slots__ = ()

    def __init__(self, terms: Terms = NEVER) -> None:
        super().__init__(terms)


def predicate(terms: Terms) -> ScalarPredicate:
    """The predicate of the class that fits `terms`."""
    return predicate_class(terms)(terms)


def predicate_class(terms: Terms) -> type[ScalarPredicate]:
    """Which kind of predicate `terms` are."""
    if len(terms) != 1:
        return ScalarPredicateUnion if terms else AlwaysFalsePredicate
    (conjunction,) = terms
    if not conjunction:
        return AlwaysTruePredicate
    single = len(conjunction) == 1 and conjunction[0].is_equality
    return EQScalarPredicate if single else ScalarPredicateIntersection


def scalar_terms(given: object) -> Terms | None:
    """The condition that a predicate, bool or number stands for; None for anything else."""
    if isinstance(given, ScalarPredicate):
        return None if hasattr(given, "axes") else given.terms  # of a tile: it combines itself
    if isinstance(given, (bool, int, float)):
        return ALWAYS if given else NEVER
    return None


def scalar_expr(given: object) -> Expr | None:
    """The expression of an integer or symbolic scalar; None for anything else."""
    if isinstance(given, DynamicScalar):
        return given.expr
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        return None
    try:
        return as_expr(operator.index(given))  # type: ignore[call-overload]
    except TypeError:  # an array of several elements
        return None


DIVISIONS = ("floordiv", "mod")


def _arithmetic(name: str, *, reflected: bool = False) -> Callable[..., Any]:
    apply = getattr(operator, name)

    def method(self: DynamicScalar, other: object) -> DynamicScalar:
        expr = scalar_expr(other)
        if expr is None:
            if isinstance(other, float):
                page = INDEX_DIVISOR if name in DIVISIONS else INDEX_OPERATOR
                raise refusal(page, op=name, left=kind(self), right=kind(other))
            return NotImplemented
        left, right = (expr, self.expr) if reflected else (self.expr, expr)
        return DynamicScalar(apply(left, right), self.dtype)

    return method


def _comparison(sign: str) -> Callable[..., Any]:
    def method(self: DynamicScalar, other: object) -> ScalarPredicate:
        expr = scalar_expr(other)
        if expr is None:
            return NotImplemented
        terms = ((COMPARISONS[sign](self.expr, expr),),)
        return EQScalarPredicate(terms) if sign == "==" else ScalarPredicateIntersection(terms)

    return method


def _refused(name: str) -> Callable[..., Any]:
    """An operator that has no affine result; a tensor on the other side may have one."""

    def method(self: DynamicScalar, other: object) -> Any:
        if scalar_expr(other) is None and not isinstance(other, (bool, float)):
            return NotImplemented
        raise refusal(INDEX_OPERATOR, op=name, left=kind(self), right=kind(other))

    return method


NOT_AFFINE = ("truediv", "pow", "and", "or", "xor", "lshift", "rshift")
"""Operators of Python that no index expression has."""


def refusing_operators(refused: Callable[[str], Any]) -> dict[str, Any]:
    """The methods of NOT_AFFINE, and of their reflections."""
    return {f"__{r}{name}__": refused(name) for name in NOT_AFFINE for r in ("", "r")}


class DynamicScalar:
    """An integer that is known when the kernel runs: an affine expression of symbols.

    Comparisons give a ScalarPredicate. It is not nki data, and it has no truth value.
    """

    __slots__ = ("dtype", "expr")
    __array_ufunc__ = None

    def __init__(self, value: Operand, dtype: Any = np.int64) -> None:
        self.expr: Expr = as_expr(value)
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    __add__ = _arithmetic("add")
    __radd__ = _arithmetic("add", reflected=True)
    __sub__ = _arithmetic("sub")
    __rsub__ = _arithmetic("sub", reflected=True)
    __mul__ = _arithmetic("mul")
    __rmul__ = _arithmetic("mul", reflected=True)
    __floordiv__ = _arithmetic("floordiv")
    __rfloordiv__ = _arithmetic("floordiv", reflected=True)
    __mod__ = _arithmetic("mod")
    __rmod__ = _arithmetic("mod", reflected=True)
    __lt__ = _comparison("<")
    __le__ = _comparison("<=")
    __gt__ = _comparison(">")
    __ge__ = _comparison(">=")
    __eq__ = _comparison("==")

    def __ne__(self, other: object) -> Any:
        equal: Any = self.__eq__(other)
        return ~equal if isinstance(equal, ScalarPredicate) else NotImplemented

    def __neg__(self) -> DynamicScalar:
        return DynamicScalar(-self.expr, self.dtype)

    def __pos__(self) -> DynamicScalar:
        return self

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> NoReturn:
        raise refusal(CONDITION_NOT_BOOL, what=f"the {kind(self)} `{self.expr}`")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.expr}>"


for _name, _method in refusing_operators(_refused).items():
    setattr(DynamicScalar, _name, _method)


class ProgramId(DynamicScalar):
    """The index of the running program along one axis of the launch grid."""

    __slots__ = ("axis", "num_programs")

    def __init__(self, value: Operand, axis: int = 0, num_programs: int = 1) -> None:
        super().__init__(value, np.uint64)
        self.axis = axis
        self.num_programs = num_programs


class LoopVar(DynamicScalar):
    """The index of a loop that runs on the device."""

    __slots__ = ("loop_scope", "symbol")

    def __init__(self, value: Operand, symbol: Symbol, loop_scope: object = None) -> None:
        super().__init__(value, np.uint64)
        self.symbol = symbol
        self.loop_scope = loop_scope


def kind(value: object) -> str:
    """How a message names what `value` is."""
    names = {"ProgramId": "program id", "LoopVar": "loop variable", "DynamicScalar": "scalar"}
    name = type(value).__name__
    return names.get(name, name)
