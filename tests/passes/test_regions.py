"""Loops and branches: carried tensors live in one buffer and are written in place."""

from __future__ import annotations

import numpy as np
import pytest

from passes.programs import (
    IN,
    INOUT,
    OUT,
    add,
    allocs,
    check,
    const,
    div,
    exp,
    filled,
    kernel,
    lanes,
    load,
    loops,
    lowered,
    mul,
    row_max,
    row_sum,
    scalar,
    store,
    sub,
    tensor,
    times,
)
from tilewright.dtypes import BOOL, FP32, INDEX
from tilewright.errors import StaleRead
from tilewright.ir.affine import Access, Symbol, as_expr
from tilewright.ir.core import Program, Value
from tilewright.ir.enums import ForKind, MemorySpace
from tilewright.ops import arith, elementwise, matmul, memory
from unit.interp.build import for_loop, if_else, while_loop


def attention(rows: int = 16, depth: int = 32, block: int = 16, length: int = 64) -> Program:
    def body(q: Value, k: Value, v: Value, out: Value) -> list[Value]:
        queries = load(q, [0, 0], (rows, depth))

        def step(i: Value, acc: Value, m: Value, total: Value) -> list[Value]:
            keys = load(k, [times(i, block), 0], (block, depth))
            values = load(v, [times(i, block), 0], (block, depth))
            s = mul(matmul.matmul(queries, keys, b_trans=True), const(0.176))
            new = elementwise.max_(m, row_max(s))
            p = exp(sub(s, new))
            alpha = exp(sub(m, new))
            scaled = matmul.acc(mul(acc, alpha), p, values)
            return [scaled, new, add(mul(total, alpha), row_sum(p))]

        start = [filled(0.0, rows, depth), filled(-1e30, rows, 1), filled(0.0, rows, 1)]
        acc, _, total = for_loop(0, length // block, start, step)
        return [store(div(acc, total), [0, 0], out)]

    params = [("q", tensor(rows, depth), IN)]
    params += [(name, tensor(length, depth), IN) for name in "kv"]
    return kernel([*params, ("out", tensor(rows, depth), OUT)], body)


def test_attention_keeps_its_accumulators_in_place_and_copies_nothing() -> None:
    function = check(attention())
    assert allocs(function) == 3  # two carries, and the scores, which become the probabilities
    assert lanes(function) == 6


def test_windows_of_an_output_are_written_where_they_are() -> None:
    def body(x: Value, out: Value) -> list[Value]:
        def step(i: Value, o: Value) -> list[Value]:
            rows = times(i, 8)
            return [store(exp(load(x, [rows, 0], (8, 20))), [rows, 0], o)]

        return list(for_loop(0, 4, [out], step, kind=ForKind.Parallel))

    shape = tensor(32, 20)
    function = check(kernel([("x", shape, IN), ("out", shape, OUT)], body))
    assert allocs(function) == 0
    assert loops(function, ForKind.Parallel) == 2


def test_a_replaced_carry_makes_a_parallel_loop_sequential() -> None:
    def body(x: Value, out: Value) -> list[Value]:
        def step(i: Value, acc: Value) -> list[Value]:
            return [add(acc, load(x, [i, 0], (1, 20)))]

        (acc,) = for_loop(0, 4, [filled(0.0, 1, 20)], step, kind=ForKind.Parallel)
        return [store(acc, [0, 0], out)]

    function = check(kernel([("x", tensor(4, 20), IN), ("out", tensor(1, 20), OUT)], body))
    assert loops(function, ForKind.Parallel) == 0


def parallel_updates(rows: int) -> Program:
    def body(x: Value, out: Value) -> list[Value]:
        local = memory.create(shape=(8, 20), dtype=FP32, space=MemorySpace.Vec)

        def step(i: Value, t: Value) -> list[Value]:
            return [memory.assemble(t, exp(load(x, [i, 0], (2, 20))), [times(i, rows), 0])]

        (t,) = for_loop(0, 4, [local], step, kind=ForKind.Parallel)
        return [store(t, [0, 0], out)]

    return kernel([("x", tensor(8, 20), IN), ("out", tensor(8, 20), OUT)], body)


def test_scratch_that_iterations_write_apart_may_be_written_at_the_same_time() -> None:
    assert loops(lowered(parallel_updates(2)), ForKind.Parallel) == 3


def test_scratch_that_iterations_may_share_is_written_in_order() -> None:
    assert loops(lowered(parallel_updates(1)), ForKind.Parallel) == 2


def test_products_accumulated_by_a_parallel_loop_are_added_in_order() -> None:
    def body(x: Value, out: Value) -> list[Value]:
        def step(i: Value, acc: Value) -> list[Value]:
            t = load(x, [times(i, 4), 0], (4, 4))
            return [matmul.acc(acc, t, t)]

        (acc,) = for_loop(0, 4, [filled(0.0, 4, 4)], step, kind=ForKind.Parallel)
        return [store(acc, [0, 0], out)]

    function = check(kernel([("x", tensor(16, 4), IN), ("out", tensor(4, 4), OUT)], body))
    assert loops(function, ForKind.Sequential) == 1


def test_carries_that_change_places_do_not_meet() -> None:
    def body(x: Value, y: Value, out: Value) -> list[Value]:
        a, b = for_loop(0, 3, [exp(x), y], lambda i, a, b: [b, a])
        return [memory.assemble(out, sub(a, b), [0, 0])]

    shape = tensor(3, 5)
    check(kernel([("x", shape, IN), ("y", shape, IN), ("out", shape, OUT)], body))


def test_a_carry_read_after_it_was_replaced_keeps_its_old_elements() -> None:
    def body(x: Value, out: Value) -> list[Value]:
        def step(i: Value, a: Value, b: Value) -> list[Value]:
            new = add(a, const(1.0))
            return [new, add(b, mul(a, new))]

        _, total = for_loop(0, 3, [load(x, [0, 0], (4, 6)), filled(0.0, 4, 6)], step)
        return [store(total, [0, 0], out)]

    check(kernel([("x", tensor(4, 6), IN), ("out", tensor(4, 6), OUT)], body))


def test_a_local_tensor_read_after_an_update_is_copied_first() -> None:
    def body(x: Value, out: Value) -> list[Value]:
        old = exp(x)
        new = memory.assemble(old, load(x, [1, 0], (2, 6)), [0, 0])
        return [memory.assemble(out, add(old, new), [0, 0])]

    check(kernel([("x", tensor(4, 6), IN), ("out", tensor(4, 6), OUT)], body))


def test_an_output_read_after_it_was_overwritten_is_refused() -> None:
    def body(x: Value, out: Value) -> list[Value]:
        new = store(load(x, [0, 0], (4, 6)), [0, 0], out)
        return [store(load(out, [0, 0], (4, 6)), [0, 0], new)]

    with pytest.raises(StaleRead):
        lowered(kernel([("x", tensor(4, 6), IN), ("out", tensor(4, 6), INOUT)], body))


def test_a_window_read_before_its_tensor_is_overwritten_keeps_its_elements() -> None:
    def body(x: Value) -> list[Value]:
        top = load(x, [0, 0], (2, 6))
        new = store(load(x, [2, 0], (2, 6)), [0, 0], x)
        return [store(top, [2, 0], new)]

    check(kernel([("x", tensor(4, 6), INOUT)], body))


def test_shifting_a_tensor_onto_itself_goes_through_other_memory() -> None:
    def body(x: Value) -> list[Value]:
        return [store(load(x, [0, 0], (3, 6)), [1, 0], x)]

    check(kernel([("x", tensor(4, 6), INOUT)], body))


@pytest.mark.parametrize("flag", [True, False])
def test_arms_of_a_branch_end_in_the_same_memory(flag: bool) -> None:
    def body(x: Value, flag: Value, out: Value) -> list[Value]:
        t = load(x, [0, 0], (4, 6))
        (chosen,) = if_else(flag, lambda: [exp(t)], lambda: [add(t, const(1.0))])
        return [store(chosen, [0, 0], out)]

    params = [("x", tensor(4, 6), IN), ("f", scalar(BOOL), IN), ("out", tensor(4, 6), OUT)]
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    check(kernel(params, body), [x, np.bool_(flag), np.zeros_like(x)])


@pytest.mark.parametrize("flag", [True, False])
def test_an_arm_that_updates_an_output_needs_no_copy(flag: bool) -> None:
    def body(x: Value, flag: Value, out: Value) -> list[Value]:
        t = load(x, [0, 0], (2, 6))
        return list(if_else(flag, lambda: [store(t, [2, 0], out)], lambda: [out]))

    params = [("x", tensor(4, 6), IN), ("f", scalar(BOOL), IN), ("out", tensor(4, 6), INOUT)]
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    assert allocs(check(kernel(params, body), [x, np.bool_(flag), x + 7])) == 0


@pytest.mark.parametrize("flag", [True, False])
def test_both_arms_may_update_the_same_output(flag: bool) -> None:
    def body(x: Value, cond: Value, out: Value) -> list[Value]:
        rows = load(x, [0, 0], (4, 6))
        arms = (lambda: [store(rows, [0, 0], out)], lambda: [store(exp(rows), [0, 0], out)])
        return list(if_else(cond, *arms))

    params = [("x", tensor(4, 6), IN), ("flag", scalar(BOOL), IN), ("out", tensor(4, 6), OUT)]
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    function = check(kernel(params, body), [x, np.bool_(flag), np.zeros_like(x)])
    assert allocs(function) == 0


def test_a_while_loop_carries_scalars_and_tensors() -> None:
    def body(x: Value, n: Value, out: Value) -> list[Value]:
        zero = const(0, INDEX)
        _, t = while_loop(
            [n, load(x, [0, 0], (4, 6))],
            lambda k, t: arith.gt(k, zero),
            lambda k, t: [arith.sub(k, const(1, INDEX)), mul(t, const(0.5))],
        )
        return [store(t, [0, 0], out)]

    params = [("x", tensor(4, 6), IN), ("n", scalar(), IN), ("out", tensor(4, 6), OUT)]
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    check(kernel(params, body), [x, np.int64(3), np.zeros_like(x)])


def test_a_window_of_a_window_of_a_local_tensor_is_updated_in_place() -> None:
    def body(x: Value, out: Value) -> list[Value]:
        local = memory.create(shape=(8, 6), dtype=FP32, space=MemorySpace.Vec)

        def step(i: Value, t: Value) -> list[Value]:
            rows = load(x, [times(i, 2), 0], (2, 6))
            upper = memory.assemble(t, rows, [times(i, 2), 0])
            return [memory.assemble(upper, exp(rows), [arith.add(times(i, 2), const(4, INDEX)), 0])]

        (t,) = for_loop(0, 2, [local], step)
        return [store(t, [0, 0], out)]

    function = check(kernel([("x", tensor(4, 6), IN), ("out", tensor(8, 6), OUT)], body))
    assert allocs(function) == 1


def test_returned_tensors_become_outputs_and_scalars_one_element_buffers() -> None:
    def body(x: Value) -> tuple[list[Value], list[Value]]:
        return [exp(x), memory.read(x, [1, 2])], []

    function = check(kernel([("x", tensor(4, 6), IN)], body))
    assert function.attrs["results"] == (("tensor", 1), ("scalar", 2))
    assert allocs(function) == 0


def test_rows_that_write_the_same_elements_are_visited_in_order() -> None:
    r, c = Symbol("r", 0, 3), Symbol("c", 0, 5)
    diagonal = Access((as_expr(r) + c,), (4, 6), (r, c))

    def body(x: Value, out: Value) -> list[Value]:
        return [memory.access_store(out, load(x, [0, 0], (4, 6)), (), access=diagonal)]

    given = kernel([("x", tensor(4, 6), IN), ("out", tensor(9), OUT)], body)
    assert loops(check(given), ForKind.Parallel) == 0


def test_elements_written_to_one_place_are_written_in_order() -> None:
    r, c = Symbol("r", 0, 3), Symbol("c", 0, 5)
    first = Access((as_expr(r),), (4, 6), (r, c))

    def body(x: Value, out: Value) -> list[Value]:
        return [memory.access_store(out, load(x, [0, 0], (4, 6)), (), access=first)]

    given = kernel([("x", tensor(4, 6), IN), ("out", tensor(4), OUT)], body)
    assert lanes(check(given)) == 0
