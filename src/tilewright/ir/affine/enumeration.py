"""The last resort for small questions: look at every point."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from tilewright.dataclass import dataclass
from tilewright.ir.affine.access import Access
from tilewright.ir.affine.constraints import Constraint
from tilewright.ir.affine.expr import Expr, Symbol
from tilewright.ir.affine.queries import Integers, evaluate_many, with_ranges

MAX_POINTS = 1 << 12
MAX_SETTINGS = 64

Element = tuple[int, ...]
Claim = Callable[[Sequence[set[Element]]], bool]


@dataclass(frozen=True)
class Points:
    """`count` points: for each symbol, its value at each of them."""

    columns: Mapping[Symbol, Integers]
    count: int

    def value_of(self, e: Expr) -> Integers:
        return np.broadcast_to(evaluate_many(e, self.columns), (self.count,))

    def where(self, constraints: Iterable[Constraint]) -> Points:
        """The points that meet every constraint."""
        inside = np.ones(self.count, np.bool_)
        for constraint in constraints:
            value = self.value_of(constraint.expr)
            inside &= value == 0 if constraint.is_equality else value >= 0
        columns = {s: column[inside] for s, column in self.columns.items()}
        return Points(columns, int(np.count_nonzero(inside)))

    def rows(self) -> Iterator[dict[Symbol, int]]:
        for k in range(self.count):
            yield {s: int(column[k]) for s, column in self.columns.items()}


def decide(accesses: Sequence[Access], claim: Claim, bound: Collection[Symbol] = ()) -> bool | None:
    """Whether `claim` is true of the touched elements, whatever the free symbols are.

    Symbols in `bound` are part of the claim: it must hold for each of their values.
    True: for all settings of the others. False: for none. None: it depends, or it is too much work.
    """
    free = with_ranges(s for access in accesses for s in access.free_symbols)
    settings = points_of(free, MAX_SETTINGS)
    if settings is None:
        return None
    answers: dict[Element, bool] = {}
    for setting in settings.rows():
        touched = [elements(access.substitute(setting)) for access in accesses]
        known = [found for found in touched if found is not None]
        if len(known) < len(touched):
            return None
        case = tuple(value for s, value in setting.items() if s not in bound)
        answers[case] = answers.get(case, True) and claim(known)
    return _unanimous(answers.values())


def elements(access: Access) -> set[Element] | None:
    """The elements an access without free symbols touches; None where they are too many."""
    if access.free_symbols:
        return None
    access = access.with_fresh_dims()
    points = points_of(access.dims, MAX_POINTS)
    if points is None:
        return None
    points = points.where(access.constraints)
    columns = [points.value_of(e).tolist() for e in access.map]
    return set(zip(*columns)) if columns else {()} if points.count else set()


def points_of(found: Sequence[Symbol], limit: int) -> Points | None:
    """Every setting of `found` within their ranges; None where a range is open or they are many."""
    spans = [s.interval() for s in found]
    if any(isinstance(end, float) for span in spans for end in span):
        return None
    counts = [max(0, int(high) - int(low) + 1) for low, high in spans]
    total = int(np.prod(counts, dtype=object))
    if total > limit:
        return None
    grids = np.indices(counts).reshape(len(counts), total)
    columns = {s: grid + int(low) for s, grid, (low, _) in zip(found, grids, spans)}
    return Points(columns, total).where(c for s in found for c in _range_of(s))


def _range_of(s: Symbol) -> Iterator[Constraint]:
    if s.lo is not None:
        yield Constraint.less_equal(s.lo, s)
    if s.hi is not None:
        yield Constraint.less_equal(s, s.hi)


def _unanimous(answers: Collection[bool]) -> bool | None:
    return None if len(set(answers)) > 1 else all(answers)
