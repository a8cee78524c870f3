"""Conjunctions of affine facts: do any integers satisfy them, and what follows from them?

Equalities are solved where a coefficient is ±1 and checked by their common divisor; inequalities
are combined pair by pair (Fourier-Motzkin), each tightened to whole numbers. Atoms that are not
symbols count as unknowns which obey what is known about them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from tilewright.dataclass import dataclass
from tilewright.ir.affine.bounding import atom_bound, lower_bound
from tilewright.ir.affine.expr import Atom, Expr, Max, Min, Operand, Symbol, as_expr
from tilewright.ir.affine.queries import substitute

MAX_ROWS = 256

Terms: TypeAlias = Mapping[Atom, int]
Row: TypeAlias = tuple[Terms, int]  # Σ coefficient * atom + constant


@dataclass(frozen=True)
class Constraint:
    """`expr >= 0`, or `expr == 0`."""

    expr: Expr
    is_equality: bool = False

    @staticmethod
    def less_equal(a: Operand, b: Operand) -> Constraint:
        """a <= b"""
        return Constraint(as_expr(b) - as_expr(a))

    @staticmethod
    def less(a: Operand, b: Operand) -> Constraint:
        """a < b"""
        return Constraint(as_expr(b) - as_expr(a) - 1)

    @staticmethod
    def equal(a: Operand, b: Operand) -> Constraint:
        """a == b"""
        return Constraint(as_expr(a) - as_expr(b), is_equality=True)

    def substitute(self, mapping: Mapping[Symbol, Operand]) -> Constraint:
        return Constraint(substitute(self.expr, mapping), self.is_equality)

    def __str__(self) -> str:
        return f"{self.expr} {'==' if self.is_equality else '>='} 0"


def implies(facts: Sequence[Constraint], claim: Constraint) -> bool:
    """True: `claim` holds wherever `facts` do. False: that is not known."""
    if claim.is_equality:
        return all(implies(facts, Constraint(e)) for e in (claim.expr, -claim.expr))
    if lower_bound(claim.expr) >= 0:
        return True
    return infeasible([*facts, Constraint(-claim.expr - 1)])


def infeasible(system: Iterable[Constraint]) -> bool:
    """True: no integers satisfy every constraint. False: that is not known."""
    closed = _with_known_facts(list(system))
    equalities = [(c.expr.terms, c.expr.const) for c in closed if c.is_equality]
    inequalities = [(c.expr.terms, c.expr.const) for c in closed if not c.is_equality]
    solved = _solve_equalities(equalities, inequalities)
    return solved is None or _is_contradiction(solved)


# ---------------------------------------------------------------------------- facts about atoms


def _with_known_facts(system: list[Constraint]) -> list[Constraint]:
    """`system` and what its atoms obey, and the atoms of that, and so on."""
    seen: set[Atom] = set()
    for constraint in system:  # grows while it is read
        for atom in constraint.expr.terms:
            if atom not in seen:
                seen.add(atom)
                system.extend(_facts_about(atom))
    return system


def _facts_about(atom: Atom) -> Iterator[Constraint]:
    itself = Expr(0, {atom: 1})
    if isinstance(atom, Min):
        yield from (Constraint(arg - itself) for arg in atom.args)
    if isinstance(atom, Max):
        yield from (Constraint(itself - arg) for arg in atom.args)
    for rising, sign in ((True, 1), (False, -1)):
        bound = atom_bound(atom, rising)
        if bound is not None:
            value, divisor = bound
            yield Constraint(sign * (divisor * itself - value))


# ---------------------------------------------------------------------------- equalities


def _solve_equalities(equalities: list[Row], inequalities: list[Row]) -> list[Row] | None:
    """Inequalities over the unknowns that are left; None where the equalities have no solution."""
    while equalities:
        reduced = _divided_by_gcd(equalities.pop())
        if reduced is None:
            return None
        terms, constant = reduced
        unit = next((atom for atom, c in terms.items() if abs(c) == 1), None)
        if unit is not None:
            equalities = [_without(row, unit, reduced) for row in equalities]
            inequalities = [_without(row, unit, reduced) for row in inequalities]
        elif terms:
            opposite = ({atom: -c for atom, c in terms.items()}, -constant)
            inequalities = [*inequalities, reduced, opposite]
    return inequalities


def _divided_by_gcd(row: Row) -> Row | None:
    terms, constant = row
    divisor = math.gcd(*terms.values())
    if divisor == 0:
        return None if constant else row
    if constant % divisor:
        return None
    return {atom: c // divisor for atom, c in terms.items()}, constant // divisor


def _without(row: Row, atom: Atom, equality: Row) -> Row:
    """`row` with `atom` replaced by what `equality`, where its coefficient is ±1, says it is."""
    c = row[0].get(atom, 0)
    return _combined(row, 1, equality, -c * equality[0][atom]) if c else row


def _combined(a: Row, x: int, b: Row, y: int) -> Row:
    """x * a + y * b"""
    terms = {atom: x * c for atom, c in a[0].items()}
    for atom, c in b[0].items():
        terms[atom] = terms.get(atom, 0) + y * c
    return {atom: c for atom, c in terms.items() if c}, x * a[1] + y * b[1]


# ---------------------------------------------------------------------------- inequalities


def _is_contradiction(rows: Iterable[Row]) -> bool:
    """True: no integers make every row >= 0. False: not known, or too much work."""
    system = _tightened(rows)
    while system is not None and any(terms for terms, _ in system):
        atom, cost = _cheapest(system)
        if cost > MAX_ROWS:
            return False
        system = _tightened(_eliminated(system, atom))
    return system is None


def _tightened(rows: Iterable[Row]) -> list[Row] | None:
    """Rows over whole numbers, the strongest of each direction; None where one cannot hold."""
    strongest: dict[frozenset[tuple[Atom, int]], Row] = {}
    for terms, constant in rows:
        divisor = math.gcd(*terms.values())
        if divisor == 0:
            if constant < 0:
                return None
            continue
        row = {atom: c // divisor for atom, c in terms.items()}, constant // divisor
        key = frozenset(row[0].items())
        if key not in strongest or strongest[key][1] > row[1]:
            strongest[key] = row
    return list(strongest.values())


def _cheapest(rows: list[Row]) -> tuple[Atom, int]:
    """The unknown whose removal gives the fewest rows, and that number."""
    rising: dict[Atom, int] = {}
    falling: dict[Atom, int] = {}
    for terms, _ in rows:
        for atom, c in terms.items():
            side = rising if c > 0 else falling
            side[atom] = side.get(atom, 0) + 1
    costs = {atom: rising.get(atom, 0) * falling.get(atom, 0) for atom in {**rising, **falling}}
    best = min(costs, key=lambda atom: costs[atom])
    return best, costs[best] + len(rows) - rising.get(best, 0) - falling.get(best, 0)


def _eliminated(rows: list[Row], atom: Atom) -> Iterator[Row]:
    rising = [row for row in rows if row[0].get(atom, 0) > 0]
    falling = [row for row in rows if row[0].get(atom, 0) < 0]
    yield from (row for row in rows if atom not in row[0])
    for up in rising:
        for down in falling:
            yield _combined(up, -down[0][atom], down, up[0][atom])
