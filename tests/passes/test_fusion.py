"""Runs of tile operations become one nest over their rows."""

from __future__ import annotations

from passes.programs import (
    IN,
    INOUT,
    OUT,
    add,
    allocs,
    check,
    const,
    count,
    div,
    exp,
    kernel,
    lanes,
    load,
    loops,
    lowered,
    mul,
    row_max,
    row_sum,
    store,
    sub,
    tensor,
)
from tilewright.dtypes import BF16
from tilewright.ir.core import Value
from tilewright.ir.enums import ForKind
from tilewright.ops import elementwise, loop, scan, shape
from tilewright.ops import reduce as reducing


def test_a_chain_of_elementwise_words_is_one_loop_without_scratch() -> None:
    def body(x: Value, out: Value) -> list[Value]:
        t = load(x, [0, 0], (16, 40))
        return [store(add(mul(t, t), exp(t)), [0, 0], out)]

    given = kernel([("x", tensor(16, 40), IN), ("out", tensor(16, 40), OUT)], body)
    function = check(given)
    assert (lanes(function), allocs(function), count(function, loop.load)) == (1, 0, 1)


def test_softmax_is_three_passes_over_a_row_and_keeps_exponentials_where_results_go() -> None:
    def body(x: Value, out: Value) -> list[Value]:
        t = load(x, [0, 0], (16, 100))
        e = exp(sub(t, row_max(t)))
        return [store(div(e, row_sum(e)), [0, 0], out)]

    given = kernel([("x", tensor(16, 100), IN), ("out", tensor(16, 100), OUT)], body)
    function = check(given)
    assert (lanes(function), allocs(function)) == (3, 0)


def test_a_row_in_place_keeps_what_it_needs_in_scratch() -> None:
    def body(x: Value) -> list[Value]:
        t = load(x, [0, 0], (16, 100))
        e = exp(sub(t, row_max(t)))
        return [store(mul(t, div(e, row_sum(e))), [0, 0], x)]

    function = check(kernel([("x", tensor(16, 100), INOUT)], body))
    assert (lanes(function), allocs(function)) == (3, 1)


def test_rms_norm_reads_its_row_twice_and_keeps_nothing() -> None:
    def body(x: Value, gain: Value, out: Value) -> list[Value]:
        t = load(x, [0, 0], (16, 100))
        mean = mul(row_sum(mul(t, t)), const(0.01))
        scale = elementwise.rsqrt(add(mean, const(1e-6)))
        return [store(mul(mul(t, scale), load(gain, [0, 0], (1, 100))), [0, 0], out)]

    params = [("x", tensor(16, 100), IN), ("g", tensor(1, 100), IN), ("out", tensor(16, 100), OUT)]
    function = check(kernel(params, body))
    assert (lanes(function), allocs(function)) == (2, 0)


def test_independent_chains_over_the_same_rows_share_a_loop() -> None:
    def body(x: Value, y: Value, z: Value) -> list[Value]:
        t = load(x, [0, 0], (8, 40))
        return [store(exp(t), [0, 0], y), store(mul(t, t), [0, 0], z)]

    shape = tensor(8, 40)
    function = check(kernel([("x", shape, IN), ("y", shape, OUT), ("z", shape, OUT)], body))
    assert (lanes(function), count(function, loop.load)) == (1, 1)


def test_column_sums_accumulate_row_by_row() -> None:
    def body(x: Value, out: Value) -> list[Value]:
        total = reducing.sum_(load(x, [0, 0], (16, 40)), axes=(0,), keepdims=True)
        return [store(mul(total, const(0.5)), [0, 0], out)]

    function = check(kernel([("x", tensor(16, 40), IN), ("out", tensor(1, 40), OUT)], body))
    assert allocs(function) == 1


def test_a_row_statistic_alone_is_one_lanes_loop_over_the_rows() -> None:
    def body(x: Value, out: Value) -> list[Value]:
        return [store(exp(load(x, [0, 0], (300, 1))), [0, 0], out)]

    function = check(kernel([("x", tensor(300, 1), IN), ("out", tensor(300, 1), OUT)], body))
    assert (lanes(function), loops(function, ForKind.Parallel)) == (1, 0)


def test_rearrangements_cost_no_memory() -> None:
    def body(x: Value, out: Value) -> list[Value]:
        t = shape.transpose(load(x, [2, 4], (8, 6)), perm=(1, 0))
        part = shape.slice_(t, [1, 2], shape=(4, 5))
        return [store(exp(part), [0, 0], out)]

    function = check(kernel([("x", tensor(16, 16), IN), ("out", tensor(4, 5), OUT)], body))
    assert (lanes(function), allocs(function)) == (1, 0)


def test_a_value_read_across_its_rows_is_put_in_memory_first() -> None:
    def body(x: Value, out: Value) -> list[Value]:
        e = exp(load(x, [0, 0], (12, 12)))
        return [store(add(e, shape.transpose(e, perm=(1, 0))), [0, 0], out)]

    function = check(kernel([("x", tensor(12, 12), IN), ("out", tensor(12, 12), OUT)], body))
    assert (lanes(function), allocs(function)) == (2, 1)


def test_sixteen_bit_sums_accumulate_in_single_precision() -> None:
    def body(x: Value, out: Value) -> list[Value]:
        return [store(row_sum(load(x, [0, 0], (4, 200))), [0, 0], out)]

    params = [("x", tensor(4, 200, dtype=BF16), IN), ("out", tensor(4, 1, dtype=BF16), OUT)]
    check(kernel(params, body))


def test_scans_carry_a_scalar_along_the_last_axis() -> None:
    def body(x: Value, out: Value) -> list[Value]:
        t = scan.cumulative(exp(load(x, [0, 0], (4, 30))), const(0.0), axis=1)
        return [store(div(t, const(2.0)), [0, 0], out)]

    check(kernel([("x", tensor(4, 30), IN), ("out", tensor(4, 30), OUT)], body))


def test_long_chains_lower_without_deep_recursion() -> None:
    def body(x: Value, out: Value) -> list[Value]:
        t = load(x, [0, 0], (4, 20))
        for _ in range(400):
            t = mul(add(t, t), const(0.5))
        return [store(t, [0, 0], out)]

    function = lowered(kernel([("x", tensor(4, 20), IN), ("out", tensor(4, 20), OUT)], body))
    assert lanes(function) == 1
