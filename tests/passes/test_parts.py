"""Nodes of a group that have nothing to do with each other are nests of their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from passes.programs import (
    IN,
    INOUT,
    OUT,
    add,
    allocs,
    check,
    div,
    exp,
    kernel,
    lanes,
    load,
    loops,
    mul,
    row_max,
    row_sum,
    store,
    sub,
    tensor,
)
from tilewright.ir.core import Function, Value
from tilewright.ir.enums import ForKind


def softmax(x: Value) -> Value:
    """The softmax of each row."""
    e = exp(sub(x, row_max(x)))
    return div(e, row_sum(e))


def nests(function: Function) -> int:
    """How many loops over rows there are."""
    return loops(function, ForKind.Parallel)


@pytest.mark.parametrize("tiles", [2, 40])
def test_tiles_of_an_unrolled_loop_are_a_nest_each(tiles: int) -> None:
    def body(x: Value, out: Value) -> list[Value]:
        for tile in range(tiles):
            out = store(softmax(load(x, [tile * 4, 0], (4, 50))), [tile * 4, 0], out)
        return [out]

    shape = tensor(4 * tiles, 50)
    function = check(kernel([("x", shape, IN), ("out", shape, OUT)], body))
    assert (nests(function), lanes(function), allocs(function)) == (tiles, 3 * tiles, 0)


def test_tiles_that_meet_are_one_nest() -> None:
    def body(x: Value, y: Value, out: Value) -> list[Value]:
        left, right = exp(load(x, [0, 0], (8, 20))), exp(load(y, [0, 0], (8, 20)))
        return [store(add(left, right), [0, 0], out)]

    params = [(name, tensor(8, 20), IN) for name in "xy"]
    function = check(kernel([*params, ("out", tensor(8, 20), OUT)], body))
    assert (nests(function), allocs(function)) == (1, 0)


Pair = Callable[[Value, Value], tuple[Value, Value]]
SHARING: dict[str, tuple[Pair, int]] = {
    "the same elements": (lambda x, y: (load(x, [0, 0], (8, 20)), load(x, [0, 0], (8, 20))), 1),
    "other rows of one tensor": (
        lambda x, y: (load(x, [0, 0], (8, 20)), load(x, [8, 0], (8, 20))),
        2,
    ),
    "a row that both need": (
        lambda x, y: (
            mul(load(x, [0, 0], (8, 20)), load(y, [0, 0], (1, 20))),
            mul(load(x, [8, 0], (8, 20)), load(y, [0, 0], (1, 20))),
        ),
        2,
    ),
}


@pytest.mark.parametrize("what", SHARING)
def test_what_reads_the_same_elements_stays_together(what: str) -> None:
    pair, expected = SHARING[what]

    def body(x: Value, y: Value, out: Value, other: Value) -> list[Value]:
        left, right = pair(x, y)
        return [store(exp(left), [0, 0], out), store(mul(right, right), [0, 0], other)]

    params = [(name, tensor(16, 20), IN) for name in "xy"]
    params += [(name, tensor(8, 20), OUT) for name in ("out", "other")]
    function = check(kernel(params, body))
    assert (nests(function), allocs(function)) == (expected, 0)


def test_what_overwrites_a_tile_stays_with_those_who_read_it() -> None:
    def body(x: Value, y: Value, out: Value) -> list[Value]:
        old = load(x, [0, 0], (8, 20))
        out = store(exp(old), [0, 0], out)
        return [store(exp(load(y, [0, 0], (8, 20))), [0, 0], x), out]

    params = [("x", tensor(8, 20), INOUT), ("y", tensor(8, 20), IN), ("out", tensor(8, 20), OUT)]
    function = check(kernel(params, body))
    assert nests(function) == 1
