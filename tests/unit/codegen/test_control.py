"""Loops, branches, faults and threads do what the interpreter does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.dtypes import BOOL, FP32, INDEX, INT64
from tilewright.errors import CancelledError, IndexOutOfBounds
from tilewright.ir.affine import symbol
from tilewright.ir.core import Value
from tilewright.ir.enums import ForKind
from tilewright.ir.types import ScalarType
from tilewright.ops import arith, loop
from tilewright.ops.cast import cast
from tilewright.runtime.context import current_context
from unit.codegen.kernels import (
    IN,
    LANES,
    OUT,
    agree,
    buffer,
    constant,
    index,
    kernel_program,
    lanes,
    native,
)
from unit.codegen.native_code import available_isas
from unit.codegen.sample_kernels import data, softmax
from unit.interp.build import INOUT, for_loop, if_else, while_loop

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def test_scalar_loops_branches_and_carries() -> None:
    def body(n: Value, x: Value, y: Value) -> None:
        def step(i: Value, total: Value, best: Value) -> list[Value]:
            v = loop.load(x, (i,), None)
            (chosen,) = if_else(
                arith.gt(v, best), lambda: [v], lambda: [arith.mul(best, constant(0.5))]
            )
            return [arith.add(total, chosen), chosen]

        total, best = for_loop(0, 40, [constant(0.0), constant(0.25)], step, step=3)
        (down,) = for_loop(
            39, -1, [total], lambda i, t: [arith.sub(t, loop.load(x, (i,), None))], step=-2
        )

        def test(k: Value, v: Value) -> Value:
            return arith.lt(k, n)

        def again(k: Value, v: Value) -> list[Value]:
            return [arith.add(k, index(1)), arith.mul(v, constant(1.5))]

        _, grown = while_loop([index(0), best], test, again)
        for place, value in enumerate((total, best, down, grown)):
            loop.store(y, (index(place),), value, None)

    params = [("n", ScalarType(INDEX), IN), ("x", buffer(40), IN), ("y", buffer(4), OUT)]
    agree(kernel_program(params, body), 7, data(40), np.zeros(4, np.float32))


def test_branches_that_differ_between_lanes() -> None:
    def body(x: Value, k: Value, y: Value) -> None:
        def lane(i: Value) -> None:
            v = loop.load(x, (i,), None)
            inside = arith.lt(i, index(20))

            def near() -> list[Value]:
                loop.store(y, (i,), constant(5.0), arith.gt(v, constant(0.0)))
                shared = loop.load(k, (index(0),), None)
                return [arith.add(shared, loop.load(k, (i,), None))]

            (r,) = if_else(inside, near, lambda: [v])
            loop.store(y, (arith.add(i, index(50)),), r, None)

        lanes(50, lane)

    params = [("x", buffer(50), IN), ("k", buffer(20), IN), ("y", buffer(100), INOUT)]
    agree(kernel_program(params, body), data(50), data(20, seed=1), np.zeros(100, np.float32))


def test_loops_inside_lanes() -> None:
    def body(x: Value, y: Value) -> None:
        def lane(i: Value) -> None:
            (total,) = for_loop(
                0, 6, [constant(0.0)], lambda k, t: [arith.add(t, loop.load(x, (k, i), None))]
            )

            def test(v: Value) -> Value:
                return arith.lt(v, constant(4.0))

            (grown,) = while_loop(
                [arith.abs_(total)], test, lambda v: [arith.add(v, constant(0.75))]
            )
            loop.store(y, (i,), grown, None)

        lanes(45, lane)

    p = kernel_program([("x", buffer(6, 45), IN), ("y", buffer(45), OUT)], body)
    agree(p, data(6, 45), np.zeros(45, np.float32))


def test_an_index_out_of_bounds_is_a_fault() -> None:
    def body(x: Value, k: Value, y: Value) -> None:
        def lane(i: Value) -> None:
            place = loop.check_index(loop.load(k, (i,), None), index(10), None, axis=0)
            loop.store(y, (i,), loop.load(x, (place,), None), None)

        lanes(40, lane)
        first = loop.check_index(loop.load(k, (index(0),), None), index(3), None, axis=1)
        loop.store(y, (index(0),), loop.load(x, (first,), None), None)

    params = [("x", buffer(10), IN), ("k", buffer(40, dtype=INT64), IN), ("y", buffer(40), OUT)]
    p = kernel_program(params, body)
    places = data(40, dtype=INT64) % 3
    agree(p, data(10), places, np.zeros(40, np.float32))
    for isa in available_isas():
        kernel = native(p, isa)
        for bad, at, named in ((10, 20, "10"), (-1, 39, "-1"), (5, 0, "5")):
            wrong = places.copy()
            wrong[at] = bad
            with pytest.raises(IndexOutOfBounds, match=named):
                kernel(data(10), wrong, np.zeros(40, np.float32))


@pytest.mark.parametrize("dynamic", [False, True])
def test_long_parallel_loops_are_shared_and_change_no_bit(dynamic: bool) -> None:
    shape = (symbol("m", 0) + 0, symbol("n", 0) + 0) if dynamic else (300, 700)
    p = softmax(*shape)
    x = data(300, 700)
    results = []
    for isa in available_isas():
        kernel = native(p, isa)
        assert kernel.manifest.parallel
        y = np.zeros_like(x)
        for _ in range(3):
            kernel(x, y)
        results.append(y)
    assert all((r == results[0]).all() for r in results)
    np.testing.assert_allclose(results[0].sum(1), 1, rtol=1e-5)


def test_parallel_cells_see_scalars_scratch_and_faults_of_their_kernel() -> None:
    def body(scale: Value, flag: Value, x: Value, k: Value, y: Value) -> None:
        doubled = loop.alloc(shape=(40,), dtype=FP32)
        lanes(
            40,
            lambda i: loop.store(doubled, (i,), arith.mul(loop.load(x, (i,), None), scale), None),
        )

        def cell(r: Value) -> list[Value]:
            own = loop.alloc(shape=(4000,), dtype=FP32)
            place = loop.check_index(loop.load(k, (r,), None), index(40), None)
            offset = arith.select(flag, loop.load(doubled, (place,), None), constant(0.0))

            def fill(i: Value) -> None:
                loop.store(own, (i,), arith.add(cast(i, dtype=FP32), offset), None)

            lanes(4000, fill)
            lanes(4000, lambda i: loop.store(y, (r, i), loop.load(own, (i,), None), None))
            return []

        for_loop(0, 200, [], cell, kind=ForKind.Parallel)

    params = [
        ("scale", ScalarType(FP32), IN),
        ("flag", ScalarType(BOOL), IN),
        ("x", buffer(40), IN),
        ("k", buffer(200, dtype=INT64), IN),
        ("y", buffer(200, 4000), OUT),
    ]
    p = kernel_program(params, body)
    places = data(200, dtype=INT64) % 40
    assert native(p, available_isas()[0]).manifest.parallel
    agree(p, np.float32(2), True, data(40), places, np.zeros((200, 4000), np.float32))
    places[77] = 41
    with pytest.raises(IndexOutOfBounds, match="41"):
        native(p, available_isas()[0])(
            2.0, True, data(40), places, np.zeros((200, 4000), np.float32)
        )


def test_loops_that_end_before_they_begin_do_nothing() -> None:
    def body(low: Value, high: Value, y: Value) -> None:
        def lane(i: Value) -> list[Value]:
            loop.store(y, (i,), constant(1.0), None)
            return []

        for_loop(low, high, [], lane, kind=LANES)
        for_loop(40, 7, [], lane, kind=LANES)
        for_loop(low, high, [], lane)

    params = [("low", ScalarType(INDEX), IN), ("high", ScalarType(INDEX), IN)]
    p = kernel_program([*params, ("y", buffer(50), INOUT)], body)
    agree(p, 30, 11, np.zeros(50, np.float32))
    agree(p, 5, 45, np.zeros(50, np.float32))


def test_a_kernel_leaves_when_it_is_asked_to() -> None:
    def body(x: Value, y: Value) -> None:
        def row(r: Value) -> list[Value]:
            lanes(16, lambda c: loop.store(y, (r, c), loop.load(x, (r, c), None), None))
            return []

        for_loop(0, 50, [], row)

    p = kernel_program([("x", buffer(50, 16), IN), ("y", buffer(50, 16), OUT)], body)
    kernel = native(p, available_isas()[0])
    x, y = data(50, 16), np.zeros((50, 16), np.float32)
    current_context().cancel()
    try:
        with pytest.raises(CancelledError):
            kernel(x, y)
        assert not y.any()
    finally:
        current_context().clear_cancel()
    kernel(x, y)
    assert (x == y).all()


@pytest.mark.parametrize("n", [2_000_000, 1 << 21])
@pytest.mark.parametrize("dynamic", [False, True])
def test_long_loops_over_lanes_are_shared(n: int, dynamic: bool) -> None:
    def body(k: Value, x: Value, y: Value) -> None:
        def lane(i: Value) -> None:
            far = loop.load(x, (arith.sub(index(n - 1), i),), None)
            loop.store(y, (i,), arith.add(arith.exp(far), k), arith.ne(i, index(7)))

        lanes(loop.extent(y, axis=0), lane)

    size: Any = symbol("n", 0) + 0 if dynamic else n
    params = [("k", ScalarType(FP32), IN), ("x", buffer(size), IN), ("y", buffer(size), INOUT)]
    kernel = native(kernel_program(params, body), available_isas()[0])
    assert kernel.manifest.parallel
    x, y = data(n), np.full(n, -1, np.float32)
    kernel(2.5, x, y)
    np.testing.assert_allclose(np.delete(y, 7), np.delete(np.exp(x[::-1]) + 2.5, 7), rtol=1e-6)
    assert y[7] == -1


def test_lanes_that_store_to_the_same_element_keep_their_order() -> None:
    def body(x: Value, y: Value) -> None:
        def lane(i: Value) -> None:
            loop.store(y, (arith.mod(i, index(100)),), loop.load(x, (i,), None), None)
            loop.store(y, (index(100),), loop.load(x, (i,), None), None)

        lanes(2_000_000, lane)

    p = kernel_program([("x", buffer(2_000_000), IN), ("y", buffer(101), INOUT)], body)
    kernel = native(p, available_isas()[0])
    assert not kernel.manifest.parallel
    x, y = data(2_000_000), np.zeros(101, np.float32)
    kernel(x, y)
    np.testing.assert_array_equal(y, np.append(x[-100:], x[-1]))
