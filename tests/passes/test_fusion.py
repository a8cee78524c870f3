"""Runs of tile operations become one nest over their rows."""

from __future__ import annotations

from passes.programs import (
    IN,
    OUT,
    add,
    allocs,
    check,
    count,
    div,
    exp,
    kernel,
    load,
    mul,
    row_max,
    row_sum,
    store,
    sub,
    tensor,
)
from tilewright.ir.core import Value
from tilewright.ir.enums import ForKind
from tilewright.ops import control, loop


def lanes(function: object) -> int:
    ops = function.body.walk()  # type: ignore[attr-defined]
    return sum(op.opdef is control.for_ and op.attrs["kind"] is ForKind.Lanes for op in ops)


def test_a_chain_of_elementwise_words_is_one_loop_without_scratch() -> None:
    def body(x: Value, out: Value) -> list[Value]:
        t = load(x, [0, 0], (16, 40))
        return [store(add(mul(t, t), exp(t)), [0, 0], out)]

    given = kernel([("x", tensor(16, 40), IN), ("out", tensor(16, 40), OUT)], body)
    function = check(given)
    assert (lanes(function), allocs(function), count(function, loop.load)) == (1, 0, 1)


def test_softmax_is_three_passes_over_a_row_and_keeps_the_exponentials() -> None:
    def body(x: Value, out: Value) -> list[Value]:
        t = load(x, [0, 0], (16, 100))
        e = exp(sub(t, row_max(t)))
        return [store(div(e, row_sum(e)), [0, 0], out)]

    given = kernel([("x", tensor(16, 100), IN), ("out", tensor(16, 100), OUT)], body)
    function = check(given)
    assert (lanes(function), allocs(function)) == (3, 1)
