"""A store under a mask touches no neighbour: narrow elements, computed wide, in every tail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.dtypes import BF16, BOOL, FP16, INT8, INT16, INT32, UINT8, DType
from tilewright.ir.core import Program, Value
from tilewright.ops import arith, loop
from tilewright.ops.cast import cast
from unit.codegen.kernels import IN, agree, buffer, index, kernel_program, lanes
from unit.interp.build import INOUT


def narrowing(n: int, dtype: DType) -> Program:
    """y[:n] = x + x, computed in INT32 and narrowed."""

    def body(x: Value, y: Value) -> None:
        def lane(i: Value) -> None:
            v = loop.load(x, (i,), None)
            loop.store(y, (i,), cast(arith.add(v, v), dtype=dtype), None)

        lanes(n, lane)

    room = buffer(n + 32, dtype=dtype)
    return kernel_program([("x", buffer(n, dtype=INT32), IN), ("y", room, INOUT)], body)


def accumulating(n: int, dtype: DType) -> Program:
    """y[r, :n] += x[r, :n] row by row, the rows of y adjacent."""

    def body(x: Value, y: Value) -> None:
        for row in range(3):

            def lane(i: Value, row: int = row) -> None:
                at = (index(row), i)
                loop.store(y, at, arith.add(loop.load(y, at, None), loop.load(x, at, None)), None)

            lanes(n, lane)

    kind = buffer(3, n, dtype=dtype)
    return kernel_program([("x", kind, IN), ("y", kind, INOUT)], body)


def numbers(*shape: int, dtype: DType) -> np.ndarray[Any, Any]:
    return np.asarray(np.random.default_rng(2).integers(1, 50, shape)).astype(dtype.numpy)


@pytest.mark.parametrize("n", [1, 2, 3, 15, 16, 17, 18, 33, 64, 65, 66])
@pytest.mark.parametrize("dtype", [INT8, UINT8, INT16, BOOL, FP16, BF16])
def test_a_narrowed_tail_leaves_what_follows_alone(n: int, dtype: DType) -> None:
    agree(narrowing(n, dtype), numbers(n, dtype=INT32), numbers(n + 32, dtype=dtype))


@pytest.mark.parametrize("n", [1, 2, 17, 65])
@pytest.mark.parametrize("dtype", [INT8, INT16, FP16, BF16])
def test_the_tail_of_a_row_leaves_the_next_row_alone(n: int, dtype: DType) -> None:
    agree(accumulating(n, dtype), numbers(3, n, dtype=dtype), numbers(3, n, dtype=dtype))


def chosen(n: int, lane: int, dtype: DType) -> Program:
    """y[lane] = x[lane] + x[lane], narrowed: a mask that is known when code is made."""

    def body(x: Value, y: Value) -> None:
        def at(i: Value) -> None:
            v = loop.load(x, (i,), None)
            only = arith.eq(i, index(lane))
            loop.store(y, (i,), cast(arith.add(v, v), dtype=dtype), only)

        lanes(n, at)

    room = buffer(n + 32, dtype=dtype)
    return kernel_program([("x", buffer(n, dtype=INT32), IN), ("y", room, INOUT)], body)


@pytest.mark.parametrize(("n", "lane"), [(16, 0), (16, 3), (16, 15), (5, 4), (65, 64), (18, 16)])
@pytest.mark.parametrize("dtype", [INT8, INT16, BOOL, BF16])
def test_a_mask_that_keeps_one_lane_leaves_the_others_alone(
    n: int, lane: int, dtype: DType
) -> None:
    agree(chosen(n, lane, dtype), numbers(n, dtype=INT32), numbers(n + 32, dtype=dtype))
