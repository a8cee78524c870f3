"""Extents and offsets that only run time knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from passes.programs import (
    IN,
    OUT,
    add,
    check,
    const,
    count,
    exp,
    kernel,
    load,
    lowered,
    row_max,
    row_sum,
    scalar,
    store,
    sub,
    tensor,
)
from tilewright import interp, ir
from tilewright.dtypes import INDEX, INT32
from tilewright.errors import IndexOutOfBounds, RuntimeShapeMismatch
from tilewright.ir.affine import Symbol, as_expr
from tilewright.ir.core import Program, Value
from tilewright.ops import arith, elementwise, gather, loop, memory, shape
from tilewright.passes.pipeline import lower
from unit.interp.build import for_loop


def softmax_of_any_size() -> Program:
    m, n = (as_expr(Symbol(name, 0)) for name in "MN")

    def body(x: Value) -> tuple[list[Value], list[Value]]:
        e = exp(sub(x, row_max(x)))
        return [elementwise.div(e, row_sum(e))], []

    return kernel([("x", tensor(m, n), IN)], body)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 70), (5, 64)])
def test_one_lowering_serves_every_size(rows: int, columns: int) -> None:
    check(softmax_of_any_size(), dims={"M": rows, "N": columns})


def test_rows_of_unknown_number_are_visited_without_checks() -> None:
    m = as_expr(Symbol("M", 0))

    def body(x: Value, out: Value) -> list[Value]:
        def step(i: Value, o: Value) -> list[Value]:
            return [store(add(load(x, [i, 0], (1, 16)), const(1.0)), [i, 0], o)]

        return list(for_loop(0, memory.dim(x, axis=0), [out], step))

    function = check(
        kernel([("x", tensor(m, 16), IN), ("out", tensor(m, 16), OUT)], body), dims={"M": 5}
    )
    assert count(function, loop.check_index) == 0


def window_at(extent: int = 4) -> Program:
    def body(x: Value, at: Value, out: Value) -> list[Value]:
        return [store(load(x, [at, 0], (extent, 8)), [0, 0], out)]

    params = [("x", tensor(16, 8), IN), ("at", scalar(), IN), ("out", tensor(extent, 8), OUT)]
    return kernel(params, body)


def test_a_window_at_an_unknown_place_is_checked_at_its_corners() -> None:
    x = np.arange(128, dtype=np.float32).reshape(16, 8)
    function = check(window_at(), [x, np.int64(9), np.zeros((4, 8), np.float32)])
    assert count(function, loop.check_index) == 2


@pytest.mark.parametrize("at", [-1, 13])
def test_a_window_outside_of_its_tensor_is_a_fault(at: int) -> None:
    args = [np.zeros((16, 8), np.float32), np.int64(at), np.zeros((4, 8), np.float32)]
    with pytest.raises(IndexOutOfBounds):
        interp.run(lower(window_at(), "k"), "k", args)


def test_a_place_known_to_be_inside_is_not_checked() -> None:
    def body(x: Value, at: Value, out: Value) -> list[Value]:
        inside = arith.mod(at, const(12, INDEX))
        return [store(load(x, [inside, 0], (4, 8)), [0, 0], out)]

    params = [("x", tensor(16, 8), IN), ("at", scalar(), IN), ("out", tensor(4, 8), OUT)]
    assert count(lowered(kernel(params, body)), loop.check_index) == 0


def test_rows_picked_by_data_are_checked_once_each() -> None:
    def body(x: Value, rows: Value) -> tuple[list[Value], list[Value]]:
        return [exp(gather.take(x, rows, axis=0))], []

    given = kernel([("x", tensor(9, 20), IN), ("rows", tensor(5, dtype=INT32), IN)], body)
    function = check(given)
    assert count(function, loop.check_index) == 1


def reshaped(rows: int) -> list[np.ndarray[Any, Any]]:
    return [np.ones((2, 8), np.float32), np.zeros((rows, 4), np.float32)]


def test_a_reshape_whose_extents_are_not_proven_is_checked_once() -> None:
    n, m = as_expr(Symbol("N", 0)), as_expr(Symbol("M", 0))

    def body(x: Value, out: Value) -> list[Value]:
        return [memory.assemble(out, shape.reshape(x, shape=(m, 4)), [const(0, INDEX)] * 2)]

    given = kernel([("x", tensor(n, 8), IN), ("out", tensor(m, 4), OUT)], body)
    function = check(given, reshaped(4))
    assert count(function, loop.check_extent) == 1
    for rows in (3, 5):
        with pytest.raises(RuntimeShapeMismatch, match=f"an extent is {4 * rows}; it must be 16"):
            interp.run(lower(given, "k"), "k", reshaped(rows))
        with pytest.raises(RuntimeShapeMismatch, match=f"an extent is {4 * rows}; it must be 16"):
            ir.compile(given)(*reshaped(rows))
