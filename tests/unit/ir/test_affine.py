"""Expressions: canonical form, printing, bounds and comparisons."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.ir.affine import (
    Expr,
    Symbol,
    as_expr,
    bounds,
    ceildiv,
    coefficient,
    const,
    equal,
    evaluate,
    evaluate_many,
    fold,
    less,
    less_equal,
    maximum,
    minimum,
    simplify,
    solve_for,
    substitute,
    symbol,
    symbols,
)

I, J = Symbol("i", 0, 6), Symbol("j", 0, 3)
K = Symbol("k", -3, 4)
M, N = Symbol("M", 1), Symbol("N", 1)
FINITE = (I, J, K)


def points() -> list[dict[Symbol, int]]:
    return [{I: i, J: j, K: k} for i in range(7) for j in range(4) for k in range(-3, 5)]


@st.composite
def programs(draw: st.DrawFn, depth: int = 3) -> str:
    """A Python expression over i, j and k."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(["i", "j", "k", str(draw(st.integers(-9, 9)))]))
    a, b = draw(programs(depth=depth - 1)), draw(programs(depth=depth - 1))
    n = draw(st.integers(1, 9)) * draw(st.sampled_from([1, 1, 1, -1]))
    return draw(
        st.sampled_from(
            [f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({n} * {a})"]
            + [f"({a} // {n})", f"({a} % {n})", f"min({a}, {b})", f"max({a}, {b})"]
            + [f"({a} // (j + 1))", f"({a} % (2 * j + 2))"]
        )
    )


def build(text: str) -> Expr:
    names = {"i": I, "j": J, "k": K, "min": minimum, "max": maximum}
    return as_expr(eval(text, {}, names))


def run(text: str, env: dict[Symbol, int]) -> int:
    return eval(text, {"min": min, "max": max}, {s.name: v for s, v in env.items()})


@given(programs())
def test_an_expression_means_what_python_means(text: str) -> None:
    expr = build(text)
    for env in points()[::5]:
        assert evaluate(expr, env) == run(text, env)


@given(programs())
def test_printed_text_is_python_and_reads_back_as_the_same_expression(text: str) -> None:
    expr = build(text)
    for env in points()[::23]:
        assert run(str(expr), env) == evaluate(expr, env)
    again = build(str(expr))
    assert equal(again, expr) is not False
    assert str(build(str(again))) == str(again)


@given(programs())
def test_bounds_hold_everywhere(text: str) -> None:
    expr = build(text)
    low, high = bounds(expr)
    values = [evaluate(expr, env) for env in points()]
    assert low is not None and low <= min(values)
    assert high is not None and high >= max(values)


@given(programs(), programs())
def test_comparisons_never_claim_what_is_not_so(left: str, right: str) -> None:
    a, b = build(left), build(right)
    pairs = [(evaluate(a, env), evaluate(b, env)) for env in points()]
    claims = [
        (equal(a, b), [x == y for x, y in pairs]),
        (less(a, b), [x < y for x, y in pairs]),
        (less_equal(a, b), [x <= y for x, y in pairs]),
    ]
    for claim, facts in claims:
        assert claim is None or all(fact is claim for fact in facts)


@given(programs(), programs())
def test_claims_hold_where_ranges_depend_on_each_other(left: str, right: str) -> None:
    i = Symbol("i", 1, 4)
    j = Symbol("j", i // 2, 2 * i - 1)
    k = Symbol("k", -i, minimum(j * i, 5) - 1)
    names = {"i": i, "j": j, "k": k, "min": minimum, "max": maximum}
    a, b = (as_expr(eval(text, {}, names)) for text in (left, right))
    where = [
        {i: x, j: y, k: z}
        for x in range(1, 5)
        for y in range(x // 2, 2 * x)
        for z in range(-x, min(x * y, 5))
    ]
    pairs = [(evaluate(a, env), evaluate(b, env)) for env in where]
    claim = less(a, b)
    assert claim is None or all((x < y) is claim for x, y in pairs)
    low, high = bounds(a)
    assert low is not None and low <= min(x for x, _ in pairs)
    assert high is not None and high >= max(x for x, _ in pairs)


@given(programs(), st.integers(-3, 4))
def test_substitution_is_evaluation_in_part(text: str, value: int) -> None:
    expr = build(text)
    replaced = substitute(expr, {K: value})
    assert K not in symbols(replaced)
    for env in points()[::7]:
        assert evaluate(replaced, env) == evaluate(expr, {**env, K: value})


@given(programs())
def test_many_points_at_once_agree_with_one_at_a_time(text: str) -> None:
    expr, where = build(text), points()
    arrays = {s: np.array([env[s] for env in where]) for s in FINITE}
    assert np.broadcast_to(evaluate_many(expr, arrays), len(where)).tolist() == [
        evaluate(expr, env) for env in where
    ]


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (2 * M + 1, "2 * M + 1"),
        ((M // 4) % 2, "(M // 4) % 2"),
        ((4 * I + J) // 4, "i"),
        ((4 * I + J) % 4, "j"),
        (4 * (K // 4) + K % 4, "k"),
        ((K * 4 + J) % 16, "j + 4 * (k % 4)"),
        ((K // 3) // 5, "k // 15"),
        ((6 * M + 2) // 4, "(M + 1) // 2 + M"),
        (ceildiv(N, 64), "(N + 63) // 64"),
        (N - M, "N - M"),
        (-(K // 4) - 1, "-(k // 4) - 1"),
        (M * (N + 1) - M, "M * N"),
        (minimum(64, N - 64 * K), "min(64, N - 64 * k)"),
        (minimum(N, N + 3), "N"),
        (maximum(I, 7), "7"),
        (const(-3), "-3"),
    ],
)
def test_equal_expressions_have_one_form(expr: Expr, text: str) -> None:
    assert str(expr) == text


class Text:
    """Python text, written without any care for precedence."""

    def const(self, value: int) -> str:
        return f"({value})"

    def symbol(self, symbol: Symbol) -> str:
        return symbol.name

    def add(self, a: str, b: str) -> str:
        return f"({a} + {b})"

    def sub(self, a: str, b: str) -> str:
        return f"({a} - {b})"

    def mul(self, a: str, b: str) -> str:
        return f"({a} * {b})"

    def floordiv(self, a: str, b: str) -> str:
        return f"({a} // {b})"

    def mod(self, a: str, b: str) -> str:
        return f"({a} % {b})"

    def minimum(self, a: str, b: str) -> str:
        return f"min({a}, {b})"

    def maximum(self, a: str, b: str) -> str:
        return f"max({a}, {b})"


@given(programs())
def test_an_expression_can_be_rebuilt_in_another_algebra(text: str) -> None:
    expr = build(text)
    for env in points()[::23]:
        assert run(fold(expr, Text()), env) == evaluate(expr, env)


def test_a_fold_spends_few_operations() -> None:
    assert fold(N - 1, Text()) == "(N - (1))"
    assert fold(M % 4, Text()) == "(M % (4))"
    assert fold(const(0), Text()) == "(0)"
    assert fold(3 - M, Text()) == "((3) - M)"
    assert fold(-M - 3, Text()) == "((-3) - M)"


def test_symbols_are_compared_by_identity_not_by_name() -> None:
    first, second = symbol("n"), symbol("n")
    assert first + 1 == first + 1
    assert first + 1 != second + 1
    assert equal(first, second) is None


def test_a_constant_expression_is_its_int() -> None:
    assert simplify(I - I + 4) == 4
    assert isinstance(simplify(I - I + 4), int)
    assert as_expr(4) == 4 and hash(as_expr(4)) == hash(4)
    assert as_expr(np.int32(4)) == 4
    assert np.int64(3) + I == I + 3


def test_the_truth_of_an_unknown_value_is_refused() -> None:
    with pytest.raises(TypeError, match="`M` is not known"):
        bool(as_expr(M))


def test_division_by_zero_is_refused() -> None:
    with pytest.raises(ZeroDivisionError):
        I // 0


def test_ranges_may_mention_other_symbols() -> None:
    row, col = Symbol("row", 0, M - 1), Symbol("col", 0, N - 1)
    assert less(row * N + col, M * N) is True
    assert less_equal(0, row * N + col) is True
    assert bounds(N - col) == (1, None)


def test_the_last_tile_stays_inside() -> None:
    tile = Symbol("tile", 0, ceildiv(N, 64) - 1)
    lane = Symbol("lane", 0, minimum(64, N - 64 * tile) - 1)
    assert less(64 * tile + lane, N) is True
    assert bounds(minimum(64, N - 64 * tile)) == (1, 64)


def test_symbolic_division_keeps_its_meaning() -> None:
    assert str(M // N) == "M // N"
    assert evaluate(M % N, {M: 17, N: 5}) == 2
    assert bounds(M // N) == (0, None)


def test_flat_indices_of_unknown_extents_come_apart() -> None:
    row, col = Symbol("row", 0, M - 1), Symbol("col", 0, N - 1)
    flat = row * N + col
    assert flat // N == as_expr(row)
    assert flat % N == as_expr(col)
    assert (2 * M * N) // (M * N) == 2
    assert (M * N + N) // N == M + 1
    unknown = Symbol("unknown")
    assert str(unknown * N // unknown) == "(N * unknown) // unknown"


def test_parity_tells_unequal_expressions_apart() -> None:
    assert equal(2 * M, 2 * N + 1) is False
    assert equal(2 * M, 2 * N) is None


def test_coefficients_and_solutions() -> None:
    assert coefficient(3 * I - J + 2, I) == 3
    assert coefficient(M * I, I) == as_expr(M)
    assert coefficient(I // 2, I) is None
    assert coefficient(I * I, I) is None
    assert coefficient(J, I) == 0
    assert solve_for(4 * I + 8 * M, I, 12) == 3 - 2 * M
    assert solve_for(4 * I, I, M) is None
