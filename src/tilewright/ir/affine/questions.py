"""Questions about accesses, answered True (always), False (never) or None (not known).

Free symbols that two accesses share have the same value in both. None means a guard at run time
or a refusal, never an assumption.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tilewright.ir.affine.access import Access
from tilewright.ir.affine.bounding import lower_bound
from tilewright.ir.affine.constraints import Constraint, implies, infeasible
from tilewright.ir.affine.enumeration import decide
from tilewright.ir.affine.expr import Expr, Operand, Symbol, as_expr, simplify
from tilewright.ir.affine.queries import coefficient, substitute, symbols, with_ranges
from tilewright.ir.affine.unknown import counted


@counted
def is_identity(access: Access, shape: Sequence[Operand]) -> bool | None:
    """Whether each element of a tensor of `shape` is touched, under its own index."""
    if len(access.map) != len(shape) or len(access.dims) != len(shape):
        return False
    access = access.with_fresh_dims()
    unmasked = Access(access.map, access.domain, access.dims)
    pairs = [*zip(access.domain, shape), *zip(access.map, access.dims)]
    answers = {_is_zero_throughout(as_expr(a) - as_expr(b), access) for a, b in pairs}
    if not all(implies(unmasked.facts, c) for c in access.constraints):
        answers.add(None)
    return False if False in answers else None if None in answers else True


@counted
def in_bounds(access: Access, shape: Sequence[Operand]) -> bool | None:
    """Whether every touched element lies within a tensor of `shape`. False: some one never does."""
    assert len(access.map) == len(shape), "one coordinate per axis"
    access = access.with_fresh_dims()
    ends = [(e, as_expr(extent) - 1 - e) for e, extent in zip(access.map, shape)]
    margins = [margin for pair in ends for margin in pair]
    if all(_is_never_negative(margin, access) for margin in margins):
        return True
    if _is_plain(access) and any(_is_somewhere_negative(margin, access) for margin in margins):
        return False
    return None


@counted
def disjoint(a: Access, b: Access) -> bool | None:
    """Whether no element is touched by both. False: some element always is."""
    return _disjoint(a, b)


@counted
def subset(a: Access, b: Access) -> bool | None:
    """Whether every element that `a` touches is touched by `b`."""
    return _subset(a, b)


@counted
def same(a: Access, b: Access) -> bool | None:
    """Whether both touch the same set of elements."""
    answers = (_subset(a, b), _subset(b, a))
    return False if False in answers else None if None in answers else True


@counted
def disjoint_across(
    access: Access, loop_symbol: Symbol, varying: Collection[Symbol] = ()
) -> bool | None:
    """Whether two different values of `loop_symbol` always touch disjoint elements.

    `varying`: free symbols that may differ between the two, such as the variables of inner loops; a
    symbol whose range mentions one of them differs as well.
    False: overlapping wherever there are two values.
    """
    later = Symbol(f"{loop_symbol.name}_later", loop_symbol + 1, loop_symbol.hi)
    moved = _renamed(with_ranges(access.free_symbols), loop_symbol, later, varying)
    return _disjoint(access, access.substitute(moved), bound={*moved, *moved.values()})


def _renamed(
    found: Iterable[Symbol], sym: Symbol, new: Symbol, varying: Collection[Symbol]
) -> dict[Symbol, Symbol]:
    """`sym` -> `new`, and a new symbol for each one that varies or whose range changes with it."""
    mapping = {sym: new}
    for s in found:
        ends = [None if end is None else simplify(substitute(end, mapping)) for end in (s.lo, s.hi)]
        if s is not sym and (s in varying or ends != [s.lo, s.hi]):
            mapping[s] = Symbol(f"{s.name}_later", *ends)
    return mapping


# ---------------------------------------------------------------------------- disjoint


def _disjoint(a: Access, b: Access, bound: Collection[Symbol] = ()) -> bool | None:
    assert len(a.map) == len(b.map), "accesses of one tensor"
    a, b = a.with_fresh_dims(), b.with_fresh_dims()
    differences = [x - y for x, y in zip(a.map, b.map)]
    if any(_is_never_zero(d) for d in differences):
        return True
    meeting = [Constraint(d, is_equality=True) for d in differences]
    if infeasible([*a.facts, *b.facts, *meeting]):
        return True
    if _always_meet(a, b):
        return False
    return decide([a, b], lambda found: found[0].isdisjoint(found[1]), bound)


def _is_never_zero(e: Expr) -> bool:
    return lower_bound(e) > 0 or lower_bound(-e) > 0


def _always_meet(a: Access, b: Access) -> bool:
    """True where the first elements of both are the same one, or `b` plainly covers `a`."""
    if not (_is_plain(a) and _is_plain(b)):
        return False
    return _start(a) == _start(b) or _covers(b, a)


def _start(access: Access) -> tuple[Expr, ...]:
    return tuple(substitute(e, dict.fromkeys(access.dims, 0)) for e in access.map)


# ---------------------------------------------------------------------------- subset


def _subset(a: Access, b: Access) -> bool | None:
    assert len(a.map) == len(b.map), "accesses of one tensor"
    a, b = a.with_fresh_dims(), b.with_fresh_dims()
    if _covers(b, a):
        return True
    if _is_plain(a) and (_reaches_beyond(a, b) or _disjoint(a, b) is True):
        return False
    return decide([a, b], lambda found: found[0] <= found[1])


def _covers(b: Access, a: Access) -> bool:
    """True where dims of `b` can be named, from those of `a`, that reach each element of `a`."""
    return any(_reaches(b, a, witness) for witness in (_dims_in_order(b, a), _digits(b, a)))


def _reaches(b: Access, a: Access, witness: dict[Symbol, Expr]) -> bool:
    """True where `b` at `witness` is `a`, at every element of `a`."""
    if len(witness) < len(b.dims):
        return False
    facts = a.facts
    hits = [Constraint.equal(x, substitute(y, witness)) for x, y in zip(a.map, b.map)]
    inside = [fact.substitute(witness) for fact in b.facts]
    return all(implies(facts, claim) for claim in (*hits, *inside))


def _dims_in_order(b: Access, a: Access) -> dict[Symbol, Expr]:
    return dict(zip(b.dims, map(as_expr, a.dims))) if len(a.dims) == len(b.dims) else {}


def _digits(b: Access, a: Access) -> dict[Symbol, Expr]:
    """Dims of `b` read off the coordinates of `a` as off a number with digits."""
    witness: dict[Symbol, Expr] = {}
    for target, index in zip(a.map, b.map):
        _solve_coordinate(target, index, b, witness)
    return {dim: witness.get(dim, as_expr(0)) for dim in b.dims}


def _solve_coordinate(target: Expr, index: Expr, b: Access, witness: dict[Symbol, Expr]) -> None:
    """Names the dims in `index` so that it may equal `target`: digits, the largest stride first."""
    index = substitute(index, witness)
    found = [(coefficient(index, d), d) for d in symbols(index) if d in b.dims]
    strides = [(c, d) for c, d in found if isinstance(c, int) and c > 0]
    if len(strides) != len(found):
        return
    start = substitute(index, {d: 0 for _, d in strides})
    rest = target - start
    for stride, dim in sorted(strides, key=lambda pair: -pair[0]):
        witness[dim] = rest // stride
        rest = rest % stride


def _reaches_beyond(a: Access, b: Access) -> bool:
    """True where some coordinate of `a` goes past every coordinate of `b`."""
    for x, y in zip(a.map, b.map):
        least, most = _extreme(y, b, rising=False), _extreme(y, b, rising=True)
        if least is not None and _is_somewhere_negative(x - least, a):
            return True
        if most is not None and _is_somewhere_negative(most - x, a):
            return True
    return False


# ---------------------------------------------------------------------------- corners


def _extreme(e: Expr, access: Access, rising: bool) -> Expr | None:
    """The greatest (or least) value of `e` over the dims; None where it is not affine in them."""
    corner: dict[Symbol, Operand] = {}
    for dim, extent in zip(access.dims, access.domain):
        c = coefficient(e, dim)
        if not isinstance(c, int):
            return None
        corner[dim] = as_expr(extent) - 1 if (c > 0) == rising else 0
    return substitute(e, corner)


def _is_somewhere_negative(e: Expr, access: Access) -> bool:
    """True where `e` is below zero at some point, for all values of the free symbols."""
    least = _extreme(e, access, rising=False)
    return least is not None and lower_bound(-least) > 0


def _is_never_negative(e: Expr, access: Access) -> bool:
    return lower_bound(e) >= 0 or implies(access.facts, Constraint(e))


def _is_plain(access: Access) -> bool:
    """True where some element is surely touched: no mask, no empty extent."""
    return not access.constraints and all(lower_bound(as_expr(e)) > 0 for e in access.domain)


def _is_zero_throughout(e: Expr, access: Access) -> bool | None:
    """True: `e` is zero at every point. False: not at some point. None: not known."""
    if lower_bound(e) == lower_bound(-e) == 0:
        return True
    return False if any(_is_somewhere_negative(x, access) for x in (e, -e)) else None
