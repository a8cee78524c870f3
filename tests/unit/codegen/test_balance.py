"""Sums that are written as products keep their bits."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.codegen.balance import moved_sums
from tilewright.dtypes import FP32, FP64, INT32, DType
from tilewright.ir.core import Block, Program, Value
from tilewright.ir.enums import ForKind
from tilewright.ops import arith, loop
from unit.codegen.kernels import IN, OUT, agree, buffer, constant, index, kernel_program, lanes

STEPS = 6


def sums(dtype: DType, n: int = 100) -> Program:
    """Sums, differences and bounds of x and y; one product."""

    def body(x: Value, y: Value, out: Value) -> None:
        def lane(i: Value) -> None:
            b = loop.load(y, (i,), None)
            a = arith.mul(loop.load(x, (i,), None), b)
            for _ in range(STEPS):
                a = arith.max_(arith.add(a, b), constant(-1, dtype))
                a = arith.sub(arith.min_(b, arith.sub(b, a)), a)
            loop.store(out, (i,), a, None)

        lanes(n, lane)

    kinds = [(name, buffer(n, dtype=dtype), way) for name, way in zip("xyz", (IN, IN, OUT))]
    return kernel_program(kinds, body)


def lanes_of(program: Program) -> Block:
    (op,) = [o for o in program["k"].body.walk() if o.attrs.get("kind") is ForKind.Lanes]
    return op.regions[0]


@pytest.mark.parametrize("dtype", [FP32, FP64, INT32])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_balanced_sums_keep_their_bits(dtype: DType) -> None:
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, -3e38, 1.0])
    x, y = (each.ravel() for each in np.meshgrid(special, special))
    if dtype is INT32:
        x, y = np.arange(100) - 50, np.arange(100) * 7
    program = sums(dtype)
    assert bool(moved_sums(lanes_of(program))) is dtype.is_float()
    given = (x.astype(dtype.numpy), y.astype(dtype.numpy), np.zeros(100, dtype.numpy))
    agree(program, *given)


def test_as_many_sums_are_moved_as_make_both_kinds_equal() -> None:
    body = lanes_of(sums(FP32))
    moved = moved_sums(body)
    assert {op.opdef for op in moved} <= {arith.add, arith.sub}
    extremes, products = 2 * STEPS, 1
    left = 3 * STEPS - len(moved)
    assert abs((left + extremes) - (products + len(moved))) <= 1


def test_sums_of_what_was_just_loaded_stay() -> None:
    def body(x: Value, out: Value) -> None:
        def lane(i: Value) -> None:
            total = constant(0.0)
            for k in range(10):
                at = arith.add(i, index(k))
                total = arith.add(total, loop.load(x, (at,), None))
            loop.store(out, (i,), total, None)

        lanes(32, lane)

    program = kernel_program([("x", buffer(64), IN), ("out", buffer(32), OUT)], body)
    assert not moved_sums(lanes_of(program))
