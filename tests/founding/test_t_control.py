"""Rows T-060 to T-079, and R-005 to R-009: control flow is decided while tracing, or refused."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.language as nl
import tilewright.nki.typing as nt
from tilewright.errors import TilewrightError
from tilewright.nki.trace import (
    CompileOpts,
    DynamicScalar,
    LoopVar,
    ScalarPredicate,
    TraceContext,
    dont_trace,
)

X = np.arange(32, dtype=np.float32).reshape(4, 8)
DYNAMIC = "err_dynamic_control_flow_not_supported"
seen: list[Any] = []


@dont_trace
def note(*values: Any) -> None:
    seen.extend(values)


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    seen.clear()
    yield
    assert TraceContext.global_ctx is None


def applied(body: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """What a kernel gives that stores `body(load(x), *args)`."""

    @nki.jit(**options)
    def kernel(x, *rest):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, value=body(nl.load(x), *rest))
        return out

    return kernel(X, *args)


def refused(body: Callable[..., Any], *args: Any, **options: Any) -> TilewrightError:
    """The error with which a kernel around `body` is refused."""
    with pytest.raises(TilewrightError) as caught:
        applied(body, *args, **options)
    return caught.value


# ---------------------------------------------------------------------------- if


def by_mode(t, mode):
    if mode == "add":
        t = t + 1.0
    elif mode == "mul":
        t = t * 2.0
    else:
        t = t - 3.0
    return t


@pytest.mark.parametrize(("mode", "want"), [("add", X + 1), ("mul", X * 2), ("other", X - 3)])
def test_a_concrete_branch_is_taken_while_tracing(mode: str, want: Any) -> None:
    """T-060"""
    assert np.array_equal(applied(by_mode, mode), want)


def test_the_arm_not_taken_is_neither_traced_nor_checked() -> None:
    """T-061"""

    def body(t, flag):
        if flag:
            t = undefined_function(t)  # noqa: F821  # type: ignore[name-defined]
            nl.load(t)
        return t

    assert np.array_equal(applied(body, False), X)


def test_a_branch_on_device_data_is_refused() -> None:
    """T-009, T-062, T-064, T-065"""

    def on_value(t):
        if t:
            t = t + 1.0
        return t

    def on_compare(t):
        if t > 3.0:
            t = t + 1.0
        return t

    for body in (on_value, on_compare):
        error = refused(body)
        assert error.code == DYNAMIC and DYNAMIC in str(error)
        assert "dynamic control" in str(error) and "mask" in str(error)
        _, first = inspect.getsourcelines(body)
        assert error.span is not None and error.span.line == first + 1
        assert error.span.file == __file__


def test_a_branch_on_a_scalar_predicate_is_refused() -> None:
    """T-063"""

    def body(t):
        if nl.program_id(0) < 4:
            t = t + 1.0
        return t

    assert refused(body).code == DYNAMIC


def test_conditions_without_a_truth_value_are_never_taken() -> None:
    """T-066"""

    def on_id(t):
        if nl.program_id(0):
            t = t + 1.0
        return t

    def on_mask(t):
        if nl.arange(8)[None, :] < 4:
            t = t + 1.0
        return t

    assert "Condition should be bool" in str(refused(on_id))
    error = refused(on_mask)
    assert error.code == "err_control_flow_condition_depending_on_arange"
    assert "Condition should be bool" in str(error)


def test_other_conditions_follow_python_truth() -> None:
    """T-067"""

    def body(t, items, n, name, nothing):
        s = 0.0
        if items:
            s += 1.0
        if n:
            s += 10.0
        if not name:
            s += 100.0
        if nothing is None:
            s += 1000.0
        if np.bool_(n > 1):
            s += 10000.0
        return t * 0.0 + s

    assert applied(body, (1,), 2, "", None)[0, 0] == 11111.0
    assert applied(body, (), 0, "z", 0)[0, 0] == 0.0


def test_the_type_of_the_value_is_refused_not_the_variable() -> None:
    """T-072"""

    def body(t):
        v = nl.program_id(0)
        v = 3
        if v < 4 and t.shape[0] == 4:
            t = t + 1.0
        return t

    assert np.array_equal(applied(body), X + 1)


def test_comparisons_of_symbolic_scalars_are_predicates_never_bools() -> None:
    """T-073, T-074, T-017"""

    def body(t):
        p = nl.program_id(0)
        note(p, p < 4, p <= 4, p > 4, p >= 0, p == 0, p != 0)
        return t

    applied(body)
    assert isinstance(seen[0], DynamicScalar)
    assert all(isinstance(value, ScalarPredicate) for value in seen[1:])


def test_elif_chains_stop_at_the_first_true_condition() -> None:
    """T-079"""

    def body(t, n):
        if n == 0:
            return t
        elif n == 1:
            return t + 1.0
        elif t > 0:
            return t
        return t

    assert np.array_equal(applied(body, 1), X + 1)


CONDITIONS = {
    "ternary": lambda t: t if nl.program_id(0) < 2 else t + 1.0,
    "and": lambda t: (nl.program_id(0) < 2) and t,
    "or": lambda t: (nl.program_id(0) < 2) or t,
    "not": lambda t: not (nl.program_id(0) < 2),
    "filter": lambda t: len([t for _ in (1, 2) if nl.program_id(0) < 2]),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_every_place_that_asks_for_truth_refuses_predicates(name: str) -> None:
    """T-077"""
    assert refused(CONDITIONS[name]).code == DYNAMIC


def test_an_assertion_on_a_predicate_is_refused() -> None:
    """T-077"""

    def body(t):
        assert nl.program_id(0) < 4
        return t

    assert refused(body).code == DYNAMIC


def test_the_scaffolding_of_branches_balances_the_scopes() -> None:
    """T-078"""
    ctx = TraceContext(CompileOpts())
    with ctx.if_scope(ScalarPredicate(())) as scope:
        assert ctx.cur_scope is scope and scope.parent_scope is ctx.kernel_scope
    with ctx.while_scope(True) as scope:
        assert ctx.cur_scope is scope
    assert ctx.cur_scope is ctx.kernel_scope
    assert list(ctx.if_cnd_generator(1)) == [True] and list(ctx.if_cnd_generator(0)) == [False]


def test_masks_and_selects_express_what_branches_cannot() -> None:
    """T-076"""

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        r, c = nl.arange(4)[:, None], nl.arange(8)[None, :]
        t = nl.load(x[r, c])
        nl.store(out[r, c], value=nl.where(t > 20.0, t, 0.0))
        nl.store(out[r, c], value=t, mask=(c < 5) & (c >= 1))
        return out

    want = np.where(X > 20, X, 0)
    want[:, 1:5] = X[:, 1:5]
    assert np.array_equal(kernel(X), want)


# ---------------------------------------------------------------------------- predicated branches


def test_affine_predicates_trace_both_arms_when_asked_to() -> None:
    """T-075, T-063"""

    @nki.jit(predicated_if=True)
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(4):
            row = nl.load(x[nl.ds(i, 1), :])
            if i < 2:
                note("first")
                nl.store(out[nl.ds(i, 1), :], row + 1.0)
            else:
                note("second")
                nl.store(out[nl.ds(i, 1), :], row * 2.0)
        return out

    assert np.array_equal(kernel(X), np.concatenate([X[:2] + 1, X[2:] * 2]))
    assert seen == ["first", "second"]
    assert any(isinstance(n, ast.If) for n in ast.walk(ast.parse(kernel.lower(X).as_python())))


def test_without_the_option_a_loop_variable_decides_nothing() -> None:
    """T-075"""

    def body(t):
        for i in nl.affine_range(4):
            if i < 2:
                t = t + 1.0
        return t

    assert refused(body).code == DYNAMIC


def test_tensors_are_refused_in_predicated_mode_too() -> None:
    """T-062"""

    def body(t):
        if t > 3.0:
            t = t + 1.0
        return t

    assert refused(body, predicated_if=True).code == DYNAMIC


@pytest.mark.parametrize("mode", [False, True])
def test_conditions_that_are_not_affine_are_refused_in_both_modes(mode: bool) -> None:
    """T-066, T-075"""

    def remainder(t):
        for i in nl.affine_range(4):
            if i % 2 == 0:
                t = t + 1.0
        return t

    def element(t):
        if nt.scalar(nl.zeros((1, 1), dtype=nl.int32)) < 1:
            t = t + 1.0
        return t

    def rows(t):
        i = nl.arange(4)[:, None]
        if (i < 1) | (i > 2):
            t = t + 1.0
        return t

    for body in (remainder, element):
        assert refused(body, predicated_if=mode).code == DYNAMIC
    assert (
        refused(rows, predicated_if=mode).code == "err_control_flow_condition_depending_on_arange"
    )


def test_guards_hold_for_bounds_inside_their_arms() -> None:
    """T-075"""

    @nki.jit(predicated_if=True)
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for i in nl.sequential_range(4):
            if i > 0:
                nl.store(out[nl.ds(i, 1), :], nl.load(x[nl.ds(i - 1, 1), :]))
            else:
                nl.store(out[nl.ds(i, 1), :], nl.load(x[nl.ds(3, 1), :]))
        return out

    assert np.array_equal(kernel(X), np.roll(X, 1, axis=0))


# ---------------------------------------------------------------------------- while


def count_up(t, n):
    i = 0
    while i < n:
        note(i)
        t = t + 1.0
        i += 1
    return t


def test_a_concrete_while_is_unrolled() -> None:
    """T-068, T-069"""
    assert np.array_equal(applied(count_up, 3), X + 3)
    assert seen == [0, 1, 2]
    assert np.array_equal(applied(count_up, 0), X)


def test_break_continue_and_else_follow_python() -> None:
    """T-069"""

    def body(t):
        i = 0
        while True:
            i += 1
            if i == 2:
                continue
            if i > 4:
                break
            t = t + 1.0
        else:
            t = t * 100.0
        for _ in range(3):
            t = t * 2.0
        else:
            t = t + 0.5
        return t

    assert np.array_equal(applied(body), (X + 3) * 8 + 0.5)


@pytest.mark.parametrize("kind", ["predicate", "tensor"])
def test_a_symbolic_while_is_refused_and_ends(kind: str) -> None:
    """T-070"""

    def on_predicate(t):
        while nl.program_id(0) < 2:
            t = t + 1.0
        return t

    def on_tensor(t):
        while t:
            t = t + 1.0
        return t

    assert refused(on_predicate if kind == "predicate" else on_tensor).code == DYNAMIC


def test_a_device_loop_is_do_while() -> None:
    """R-004, T-070"""

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        acc = nl.load(x)
        n = nl.zeros((1, 1), dtype=nl.int32)
        cond = nt.scalar(True)
        while cond:
            note("body")
            acc[...] = acc + 1.0
            n[...] = n + 1
            cond = nt.scalar(n) < 5
        nl.store(out, acc)
        return out

    assert np.array_equal(kernel(X), X + 5)
    assert seen == ["body"]


def test_a_device_loop_is_entered_unconditionally() -> None:
    """R-004"""

    def body(t):
        flag = nl.greater(t[0:1, 0:1], 0.0)
        cond = nt.scalar(flag)
        while cond:
            cond = nt.scalar(flag)
        return t

    assert refused(body).code == "err_while_loop_requires_unconditional_entry"


# ---------------------------------------------------------------------------- ranges


def test_static_range_gives_python_ints() -> None:
    """R-005"""

    def body(t):
        for i in nl.static_range(1, 7, 2):
            note(i)
            t = t + float(i)
        return t

    assert np.array_equal(applied(body), X + 9)
    assert seen == [1, 3, 5] and all(type(i) is int for i in seen)


@pytest.mark.parametrize("make", [nl.affine_range, nl.sequential_range])
def test_device_loops_trace_their_body_once(make: Any) -> None:
    """R-006"""

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for i in make(4):
            note(i, i < 2)
            nl.store(out[nl.ds(i, 1), :], nl.load(x[nl.ds(i, 1), :]) * 2.0)
        return out

    assert np.array_equal(kernel(X), 2 * X)
    (index, comparison) = seen
    assert isinstance(index, LoopVar) and index.dtype == np.uint64
    assert isinstance(comparison, ScalarPredicate)


def test_bounds_and_steps_of_device_loops() -> None:
    """R-006"""

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(0, 4, 2):
            for j in nl.affine_range(i, i + 2):
                nl.store(out[nl.ds(j, 1), :], nl.load(x[nl.ds(j, 1), :]) + 1.0)
        return out

    assert np.array_equal(kernel(X), X + 1)


@pytest.mark.parametrize(
    "make", [nl.static_range, nl.affine_range, nl.sequential_range, nl.dynamic_range]
)
def test_bounds_may_be_given_by_name(make: Any) -> None:
    """R-005, R-006, R-008"""

    def counted(*args: Any, **keywords: Any) -> float:
        def body(t):
            total = nl.zeros((4, 8), dtype=nl.float32)
            for _ in make(*args, **keywords):
                total += 1.0
            return total

        return float(applied(body)[0, 0])

    assert counted(0, 9, step=3) == counted(stop=9, step=3) == counted(9, stop=None, step=3) == 3.0
    assert counted(start=2, stop=9, directives=None) == counted(2, stop=9) == 7.0
    with pytest.raises(TypeError, match="twice"):
        counted(0, 9, 3, step=3)
    with pytest.raises(TypeError, match="1 to 3 arguments"):
        counted(step=3)


def test_affine_iterations_must_not_write_the_same_place() -> None:
    """R-007"""

    def kernel_with(make: Any) -> Any:
        @nki.jit
        def kernel(x):
            out = nl.ndarray((1, 8), dtype=x.dtype, buffer=nl.shared_hbm)
            for i in make(4):
                nl.store(out, nl.load(x[nl.ds(i, 1), :]))
            return out

        return kernel

    with pytest.raises(TilewrightError) as caught:
        kernel_with(nl.affine_range)(X)
    assert caught.value.code == "err_unexpected_output_dependencies"
    assert np.array_equal(kernel_with(nl.sequential_range)(X), X[3:])


def test_accumulation_is_legal_in_affine_loops() -> None:
    """R-007, T-118"""

    @nki.jit
    def kernel(x):
        out = nl.ndarray((1, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        acc = nl.zeros((1, 8), dtype=nl.float32)
        for i in nl.affine_range(4):
            acc += nl.load(x[nl.ds(i, 1), :])
        nl.store(out, acc)
        return out

    assert np.array_equal(kernel(X), X.sum(0, keepdims=True))


def test_dynamic_ranges_have_bounds_of_the_run() -> None:
    """R-008"""

    @nki.jit
    def kernel(x, n):
        out = nl.ndarray((1, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        acc = nl.zeros((1, 8), dtype=nl.float32)
        for i in nl.dynamic_range(0, nt.scalar(nl.load(n)), 1):
            acc[...] = acc + nl.load(x[nl.ds(i, 1), :])
        nl.store(out, acc)
        return out

    for n in (0, 1, 3):
        got = kernel(X, np.array([[n]], np.int32))
        assert np.array_equal(got, X[:n].sum(0, keepdims=True))


@pytest.mark.parametrize("step", [0, -1, 1.5, "the program's"])
def test_dynamic_ranges_take_a_positive_step(step: Any) -> None:
    """R-008"""

    def body(t):
        by = nl.program_id(0) if isinstance(step, str) else step
        for _ in nl.dynamic_range(0, 4, step=by):
            t = t + 1.0
        return t

    with pytest.raises(AssertionError, match="positive int"):
        applied(body)


def test_builtin_range_is_concrete_unless_the_option_says_otherwise() -> None:
    """T-125, R-009"""

    def body(t):
        for i in range(3):
            note(type(i))
            t[...] = t + 1.0
        return t

    assert np.array_equal(applied(body), X + 3)
    assert seen == [int, int, int]
    seen.clear()
    assert np.array_equal(applied(body, builtin_range="sequential"), X + 3)
    assert seen == [LoopVar]
    assert callable(TraceContext.annotate_iter) and TraceContext(CompileOpts()).no_active_exception


def test_a_loop_that_never_runs_writes_nothing() -> None:
    """R-009"""

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for _ in range(0):
            nl.store(out, nl.load(x))
        return out

    with pytest.raises(TilewrightError) as caught:
        kernel(X)
    assert caught.value.code == "err_tensor_output_not_written_to"
    assert isinstance(caught.value, ValueError)


def test_leaving_a_device_loop_is_refused() -> None:
    """R-006"""

    def breaking(t):
        for _ in nl.affine_range(4):
            break
        return t

    def returning(t):
        for _ in nl.affine_range(4):
            return t
        return t

    def leaving_while(t):
        again = nt.scalar(True)
        while again:
            again = nt.scalar(nl.zeros((1, 1), dtype=nl.int32)) < 1
            break
        return t

    for body in (breaking, returning, leaving_while):
        assert refused(body).code == "err_device_loop_cannot_be_left"
