"""Loops to unroll become their iterations."""

from __future__ import annotations

import numpy as np
import pytest

from passes.programs import IN, OUT, add, check, const, kernel, load, loops, mul, store, tensor
from tilewright.ir.core import Value
from tilewright.ir.enums import ForKind
from unit.interp.build import for_loop


@pytest.mark.parametrize(("trip", "nests"), [(0, 1), (1, 1), (6, 1), (400, 3)])
def test_iterations_of_an_unrolled_loop_share_a_nest(trip: int, nests: int) -> None:
    def body(x: Value, out: Value) -> list[Value]:
        def step(i: Value, a: Value) -> list[Value]:
            return [add(mul(a, const(0.5)), load(x, [0, 0], (4, 20)))]

        (a,) = for_loop(0, trip, [load(x, [0, 0], (4, 20))], step, kind=ForKind.Unroll)
        return [store(a, [0, 0], out)]

    shape = tensor(4, 20)
    function = check(kernel([("x", shape, IN), ("out", shape, OUT)], body))
    assert loops(function, ForKind.Lanes) == nests


def test_the_counter_of_an_unrolled_loop_is_a_number() -> None:
    def body(x: Value, out: Value) -> list[Value]:
        def step(i: Value, o: Value) -> list[Value]:
            return [store(mul(load(x, [i, 0], (1, 20)), const(2.0)), [i, 0], o)]

        return list(for_loop(0, 4, [out], step, kind=ForKind.Unroll))

    shape = tensor(4, 20)
    rows = np.arange(80, dtype=np.float32).reshape(4, 20)
    function = check(kernel([("x", shape, IN), ("out", shape, OUT)], body), [rows, 0 * rows])
    assert loops(function, ForKind.Sequential) == 0
