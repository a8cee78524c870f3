"""Estimates of time are numbers, whatever run time brings."""

from __future__ import annotations

import math

import numpy as np

from tilewright.codegen.work import estimate
from tilewright.dtypes import INDEX
from tilewright.ir.core import Program, Value
from tilewright.ir.types import ScalarType
from tilewright.ops import arith, loop
from unit.codegen.kernels import IN, buffer, for_loop, index, kernel_program, native
from unit.codegen.native_code import available_isas
from unit.interp.build import INOUT, while_loop


def repeated_halving() -> Program:
    """Between two bounds that only run time knows: a while loop."""

    def body(low: Value, high: Value, y: Value) -> None:
        def iteration(i: Value) -> list[Value]:
            (n,) = while_loop(
                [i],
                lambda n: arith.gt(n, index(0)),
                lambda n: [arith.floordiv(n, index(2))],
            )
            loop.store(y, (index(0),), n, None)
            return []

        for_loop(low, high, [], iteration)

    scalar = ScalarType(INDEX)
    params = [("low", scalar, IN), ("high", scalar, IN), ("y", buffer(1, dtype=INDEX), INOUT)]
    return kernel_program(params, body)


def test_a_while_loop_between_unknown_bounds_has_an_estimate() -> None:
    (function,) = repeated_halving().functions.values()
    assert all(map(math.isfinite, estimate(function.body).values()))


def test_such_a_kernel_runs() -> None:
    y = np.full(1, 9, np.int64)
    kernel = native(repeated_halving(), available_isas()[0])
    kernel(3, 3, y)
    assert y[0] == 9
    kernel(0, 5, y)
    assert y[0] == 0
