"""Accesses: which elements are touched, and the questions asked about them."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.ir.affine import (
    Access,
    Constraint,
    Symbol,
    as_expr,
    ceildiv,
    counting_unknown,
    disjoint,
    disjoint_across,
    equal,
    evaluate,
    implies,
    in_bounds,
    infeasible,
    is_identity,
    minimum,
    same,
    subset,
)

M, N = Symbol("M", 1), Symbol("N", 1)


def touched(access: Access) -> set[tuple[int, ...]]:
    """Brute force, one point at a time."""
    found: set[tuple[int, ...]] = set()
    for point in product(*(range(int(extent)) for extent in access.domain)):
        env = dict(zip(access.dims, point))
        values = [(evaluate(c.expr, env), c.is_equality) for c in access.constraints]
        if all(v == 0 if is_equality else v >= 0 for v, is_equality in values):
            found.add(tuple(evaluate(e, env) for e in access.map))
    return found


@st.composite
def accesses(draw: st.DrawFn, rank: int = 2) -> Access:
    """Windows with strides, digits and masks."""
    small = st.integers(-3, 5)
    access = Access.window(
        [draw(small) for _ in range(rank)],
        [draw(st.integers(1, 5)) for _ in range(rank)],
        [draw(st.integers(-2, 3)) for _ in range(rank)],
    )
    if draw(st.booleans()):
        k = draw(st.integers(1, 4))
        index = tuple((e + access.dims[0]) // k + access.dims[1] % k for e in access.map)
        access = Access(index, access.domain, access.dims)
    if draw(st.booleans()):
        mask = Constraint.less(access.dims[0] + draw(small) * access.dims[1], draw(small))
        access = access.masked(mask)
    return access


def agrees(answer: bool | None, fact: bool) -> bool:
    return answer is None or answer is fact


@given(accesses(), accesses())
def test_no_answer_about_two_accesses_is_wrong(a: Access, b: Access) -> None:
    x, y = touched(a), touched(b)
    assert agrees(disjoint(a, b), x.isdisjoint(y))
    assert agrees(subset(a, b), x <= y)
    assert agrees(same(a, b), x == y)


@given(accesses(), st.integers(0, 9), st.integers(0, 9))
def test_no_answer_about_bounds_is_wrong(access: Access, rows: int, columns: int) -> None:
    inside = all(0 <= r < rows and 0 <= c < columns for r, c in touched(access))
    assert agrees(in_bounds(access, (rows, columns)), inside)


@given(accesses())
def test_small_static_questions_always_have_an_answer(access: Access) -> None:
    assert disjoint(access, access.shift([1, 0])) is not None
    assert same(access, access) is True


@given(accesses(), st.integers(0, 4), st.integers(-2, 5))
def test_no_answer_across_a_loop_is_wrong(access: Access, stride: int, trips: int) -> None:
    i = Symbol("i", 0, trips - 1)
    moving = access.shift([stride * i, 0])
    steps = [touched(access.shift([stride * k, 0])) for k in range(trips)]
    apart = all(x.isdisjoint(y) for k, x in enumerate(steps) for y in steps[:k])
    answer = disjoint_across(moving, i)
    assert agrees(answer, apart) or (trips < 2 and touched(access))


@given(accesses(), accesses(), st.integers(0, 4))
def test_views_of_views_touch_what_both_say(outer: Access, inner: Access, at: int) -> None:
    assume_dims = dict(zip(outer.dims, inner.map))
    composed = outer.compose(inner)
    for point in product(*(range(int(extent)) for extent in inner.domain)):
        env = dict(zip(inner.dims, point))
        middle = {d: evaluate(e, env) for d, e in assume_dims.items()}
        new = dict(zip(composed.dims, point))
        direct = [evaluate(e, middle) for e in outer.map]
        assert [evaluate(e, new) for e in composed.map] == direct
    shifted = {(r + at, c - 1) for r, c in touched(outer)}
    assert touched(outer.shift([at, -1])) == shifted


def test_the_whole_tensor_is_the_identity() -> None:
    assert is_identity(Access.full((M, 4)), (M, 4)) is True
    assert is_identity(Access.full((M, 4)), (N, 4)) is None
    assert is_identity(Access.full((4, 4)), (4, 5)) is False
    rows, columns = (full := Access.full((4, 4))).dims
    assert is_identity(Access(full.map, full.domain, (columns, rows)), (4, 4)) is False
    assert is_identity(Access.window([1, 0], [4, 4]), (4, 4)) is False


def test_a_mask_that_always_holds_keeps_the_identity() -> None:
    whole = Access.full((M,))
    assert is_identity(whole.masked(Constraint.less(whole.dims[0], M)), (M,)) is True
    assert is_identity(whole.masked(Constraint.less(whole.dims[0], N)), (M,)) is None


def test_a_masked_tail_is_in_bounds() -> None:
    tile = Symbol("tile", 0, ceildiv(N, 64) - 1)
    window = Access.window([64 * tile], [64])
    assert in_bounds(window, (N,)) is None
    assert in_bounds(window.masked(Constraint.less(window.map[0], N)), (N,)) is True
    assert in_bounds(Access.window([64 * tile], [minimum(64, N - 64 * tile)]), (N,)) is True


def test_an_access_surely_outside_is_told() -> None:
    assert in_bounds(Access.window([N - 1], [2]), (N,)) is False
    assert in_bounds(Access.window([-1], [M]), (N,)) is False
    assert in_bounds(Access.window([0], [M]), (N,)) is None


def test_tiles_of_a_loop_are_disjoint() -> None:
    i = Symbol("i", 0, 99)
    assert disjoint_across(Access.window([64 * i, 0], [64, N]), i) is True
    assert disjoint_across(Access.window([64 * i, 0], [65, N]), i) is not True
    assert disjoint_across(Access.window([0, 0], [64, N]), i) is False


def test_tiles_of_unknown_size_are_disjoint() -> None:
    i = Symbol("i", 0, M - 1)
    assert disjoint_across(Access.window([N * i], [N]), i) is True
    assert disjoint_across(Access.full((N,)).shift([N * i]), i) is True


def test_inner_loops_vary_between_two_iterations() -> None:
    i, j = Symbol("i", 0, 9), Symbol("j", 0, 7)
    block = Access.window([64 * i + 8 * j], [8])
    assert disjoint_across(block, i, varying=[j]) is True
    assert disjoint_across(block, j) is True
    row, column = Symbol("row", 0, 1), Symbol("column", 0, 3)
    narrow = Access.window([16 * row + 8 * column], [8])
    assert disjoint_across(narrow, row, varying=[column]) is False
    triangle = Symbol("t", 0, i)
    assert disjoint_across(Access.window([10 * i + triangle], [1]), i) is True
    assert disjoint_across(Access.window([5 * i + triangle], [1]), i) is not True


def test_interleaved_strides_are_disjoint() -> None:
    even, odd = Access.window([0], [M], [2]), Access.window([1], [N], [2])
    assert disjoint(even, odd) is True
    assert disjoint(even, even.shift([4])) is None


def test_parity_of_a_parameter_decides() -> None:
    row = Symbol("row", 0, 7)
    by_parity = Access((row % 2 + 2 * (row // 2),), (), ())
    assert disjoint_across(by_parity, row) is True


def test_parts_are_subsets_of_the_whole() -> None:
    i = Symbol("i", 0, ceildiv(M, 16) - 1)
    whole = Access.full((M, N))
    part = Access.window([16 * i, 0], [minimum(16, M - 16 * i), N])
    assert subset(part, whole) is True
    assert subset(whole, part) is not True
    assert subset(Access.window([0, 0], [M + 1, N]), whole) is False
    assert same(whole.linear([N, 1]), whole.linear([N, 1])) is True


def test_flat_memory_is_covered_by_rows_of_columns() -> None:
    flat, grid = Access.full((64,)), Access.full((4, 16)).linear([16, 1])
    assert same(flat, grid) is True
    big = Access.full((1 << 20,))
    assert same(big, Access.full((1 << 10, 1 << 10)).linear([1 << 10, 1])) is True
    assert same(big, Access.full((1 << 10, 1 << 9)).linear([1 << 10, 1])) is False


def test_dropping_a_dim_fixes_its_index() -> None:
    row = Access.full((M, 8)).drop_dims([0], at=3)
    assert [str(e) for e in row.map] == ["3", "d1"]
    assert row.domain == (8,)


def test_an_access_prints_what_it_touches() -> None:
    access = Access.window([16 * M, 0], [16, N])
    masked = access.masked(Constraint.less(access.dims[1], 5))
    assert str(masked) == "[16 * M + d0, d1] for d0 < 16, d1 < N if -d1 + 4 >= 0"


def test_unknown_answers_are_counted() -> None:
    with counting_unknown() as outer, counting_unknown() as inner:
        assert equal(M, N) is None
        assert disjoint(Access.full((M,)), Access.window([N], [M])) is None
    assert equal(M, N) is None
    assert outer == inner == {"equal": 1, "disjoint": 1}


def test_facts_combine() -> None:
    i, j, k = Symbol("i"), Symbol("j"), Symbol("k")
    ordered = [Constraint.less(i, j), Constraint.less(j, k)]
    assert implies(ordered, Constraint.less(i + 1, k))
    assert not implies(ordered, Constraint.less(i + 2, k))
    assert infeasible([*ordered, Constraint.less(k, i)])
    assert infeasible([Constraint.equal(2 * i, 2 * j + 1)])
    assert infeasible([Constraint.equal(as_expr(3) * i, 4), Constraint.less(0, j)])
    assert implies([Constraint.equal(i, 4 * j)], Constraint.equal(i % 4, 0))


@pytest.mark.parametrize("count", [1, 4])
def test_chains_of_facts_stay_cheap(count: int) -> None:
    chain = [Symbol(f"s{k}") for k in range(count * 10)]
    facts = [Constraint.less(a, b) for a, b in pairwise(chain)]
    assert implies(facts, Constraint.less_equal(chain[0] + len(facts), chain[-1]))
