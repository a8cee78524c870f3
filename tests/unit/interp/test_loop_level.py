"""Loop-level programs: buffers, lanes, reductions, checks, contractions."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import interp
from tilewright.dtypes import BOOL, FP32, INDEX, INT32, DType
from tilewright.errors import IndexOutOfBounds, InternalError
from tilewright.ir.builder import Builder
from tilewright.ir.core import Program, Value
from tilewright.ir.enums import ForKind
from tilewright.ir.types import BufferType, ScalarType, buffer_of
from tilewright.ops import arith, loop
from tilewright.source import Span
from unit.interp.build import IN, INOUT, OUT, for_loop, function, if_else, program

LANES = ForKind.Lanes


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def index(value: int) -> Value:
    return Builder.current().index(value)


def kernel(params, body) -> Program:  # type: ignore[no-untyped-def]
    def wrapped(*values: Value):  # type: ignore[no-untyped-def]
        body(*values)
        return [], [v for v, (_, _, d) in zip(values, params, strict=True) if d is not IN]

    return program(function("k", params, wrapped))


def buffer(shape: tuple[int, ...], dtype: DType = FP32) -> BufferType:
    return buffer_of(shape, dtype)


def sums(n: int, combine: str, dtype: DType, init: object) -> Program:
    def body(x: Value, y: Value) -> None:
        start = Builder.current().constant(init, dtype)
        (total,) = for_loop(
            0, n, [start], lambda i, c: [loop.load(x, (i,), None)], kind=LANES, combine=(combine,)
        )
        loop.store(y, (index(0),), total, None)

    return kernel([("x", buffer((n,), dtype), IN), ("y", buffer((1,), dtype), OUT)], body)


def test_lanes_write_every_element() -> None:
    def body(x: Value, y: Value) -> None:
        def lane(i: Value) -> list[Value]:
            loop.store(y, (i,), arith.exp(loop.load(x, (i,), None)), None)
            return []

        for_loop(0, 100, [], lane, kind=LANES)

    x, y = rng().standard_normal(100).astype(np.float32), np.empty(100, np.float32)
    p = kernel([("x", buffer((100,)), IN), ("y", buffer((100,)), OUT)], body)
    interp.run(p, "k", [x, y])
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-6)


@pytest.mark.parametrize("n", [1, 15, 64, 65, 200, 1000])
def test_a_float_sum_follows_the_order_of_virtual_lanes(n: int) -> None:
    x = (rng().standard_normal(n) * 10.0 ** rng().integers(-3, 4, n)).astype(np.float32)
    y = np.empty(1, np.float32)
    interp.run(sums(n, "add", FP32, 0.5), "k", [x, y])
    lanes = [np.float32(0)] * 64
    for j, element in enumerate(x):
        lanes[j % 64] = lanes[j % 64] + element
    tree = [(lanes[i] + lanes[16 + i]) + (lanes[32 + i] + lanes[48 + i]) for i in range(16)]
    while len(tree) > 1:
        half = len(tree) // 2
        tree = [tree[i] + tree[half + i] for i in range(half)]
    assert y[0] == np.float32(0.5) + tree[0]


def test_a_sum_over_no_lanes_is_the_start() -> None:
    y = np.empty(1, np.float32)
    interp.run(sums(0, "add", FP32, 0.5), "k", [np.empty(0, np.float32), y])
    assert y[0] == 0.5


@pytest.mark.parametrize(
    ("combine", "given", "wanted"),
    [
        ("max", [-0.0, 0.0, -1.0], 0.0),
        ("min", [0.0, -0.0, 1.0], -0.0),
        ("max", [1.0, np.nan, 2.0], np.nan),
        ("mul", [2.0, 3.0, -1.0], -6.0),
    ],
)
def test_extremes_and_products_are_those_of_the_words(
    combine: str, given: list[float], wanted: float
) -> None:
    x, y = np.array(given, np.float32), np.empty(1, np.float32)
    start = {"max": -1.0, "min": 1.0, "mul": 1.0}[combine]
    interp.run(sums(3, combine, FP32, start), "k", [x, y])
    np.testing.assert_array_equal(y[0], np.float32(wanted))
    assert np.signbit(y[0]) == np.signbit(np.float32(wanted)) or np.isnan(wanted)


def test_an_integer_sum_wraps() -> None:
    y = np.empty(1, np.int32)
    interp.run(sums(2, "add", INT32, 0), "k", [np.full(2, 2**31 - 1, np.int32), y])
    assert y[0] == -2


def test_the_first_extreme_wins() -> None:
    def body(x: Value, y: Value) -> None:
        builder = Builder.current()
        inits = [builder.constant(-100.0, FP32), builder.constant(-1, INDEX)]
        _, place = for_loop(
            0,
            5,
            inits,
            lambda i, v, p: [loop.load(x, (i,), None), i],
            kind=LANES,
            combine=("argmax", "argmax"),
        )
        loop.store(y, (index(0),), place, None)

    p = kernel([("x", buffer((5,)), IN), ("y", buffer((1,), INDEX), OUT)], body)
    y = np.empty(1, np.int64)
    interp.run(p, "k", [np.array([1, 3, 2, 3, 0], np.float32), y])
    assert y[0] == 1
    interp.run(p, "k", [np.array([1, 3, np.nan, np.nan, 9], np.float32), y])
    assert y[0] == 2


def test_a_masked_load_reads_nothing_and_gives_zero() -> None:
    def body(x: Value, y: Value) -> None:
        def lane(i: Value) -> list[Value]:
            mask = arith.lt(i, index(3))
            loop.store(y, (i,), loop.load(x, (i,), mask), None)
            return []

        for_loop(0, 8, [], lane, kind=LANES)

    x, y = np.ones(3, np.float32), np.full(8, 9, np.float32)
    interp.run(kernel([("x", buffer((3,)), IN), ("y", buffer((8,)), OUT)], body), "k", [x, y])
    assert y.tolist() == [1, 1, 1, 0, 0, 0, 0, 0]


def test_a_masked_store_leaves_the_rest_alone() -> None:
    def body(y: Value) -> None:
        def lane(i: Value) -> list[Value]:
            one = Builder.current().constant(1.0, FP32)
            loop.store(y, (i,), one, arith.ge(i, index(6)))
            return []

        for_loop(0, 8, [], lane, kind=LANES)

    y = np.full(8, 9, np.float32)
    interp.run(kernel([("y", buffer((8,)), INOUT)], body), "k", [y])
    assert y.tolist() == [9] * 6 + [1, 1]


def test_an_unproven_access_out_of_bounds_is_a_defect() -> None:
    def body(x: Value, y: Value) -> None:
        loop.store(y, (index(0),), loop.load(x, (index(8),), None), None)

    p = kernel([("x", buffer((8,)), IN), ("y", buffer((1,)), OUT)], body)
    with pytest.raises(InternalError, match="leaves axis 0"):
        interp.run(p, "k", [np.ones(8, np.float32), np.ones(1, np.float32)])


def test_a_failed_check_points_at_the_authors_line() -> None:
    span = Span("kernel.py", 7, 5, 7, 9)

    def body(x: Value, rows: Value, y: Value) -> None:
        def lane(i: Value) -> list[Value]:
            with Builder.current().located(span):
                row = loop.check_index(loop.load(rows, (i,), None), _bound(8), None, axis=0)
            loop.store(y, (i,), loop.load(x, (row,), None), None)
            return []

        for_loop(0, 4, [], lane, kind=LANES)

    def _bound(extent: int) -> Value:
        return index(extent)

    params = [("x", buffer((8,)), IN), ("r", buffer((4,), INT32), IN), ("y", buffer((4,)), OUT)]
    p = kernel(params, body)
    x, y = np.arange(8, dtype=np.float32), np.empty(4, np.float32)
    interp.run(p, "k", [x, np.array([7, 0, 3, 3], np.int32), y])
    assert y.tolist() == [7, 0, 3, 3]
    with pytest.raises(IndexOutOfBounds, match="index 8 is out of bounds") as caught:
        interp.run(p, "k", [x, np.array([7, 8, 3, 3], np.int32), y])
    assert caught.value.span == span


def test_a_view_is_a_window_on_the_same_memory() -> None:
    def body(x: Value) -> None:
        corner = loop.view(x, (index(1), index(2)), shape=(2, 2), strides=(8, 2))
        loop.store(corner, (index(1), index(1)), Builder.current().constant(5.0, FP32), None)

    x = np.zeros((4, 8), np.float32)
    interp.run(kernel([("x", buffer((4, 8)), INOUT)], body), "k", [x])
    assert x[2, 4] == 5
    assert x.sum() == 5


@pytest.mark.parametrize(
    "turn", [lambda a: a, lambda a: a[::-1], lambda a: a.T, lambda a: a[:, ::2]]
)
def test_arguments_may_have_any_strides(turn) -> None:  # type: ignore[no-untyped-def]
    x = turn(np.arange(64, dtype=np.float32).reshape(8, 8))
    y = np.empty(x.shape, np.float32)
    shape = x.shape
    params = [("x", buffer(shape), IN), ("y", buffer(shape), OUT)]
    interp.run(kernel(params, lambda x, y: loop.copy(y, x)), "k", [x, y])
    assert (x == y).all()


@pytest.mark.parametrize("a_trans", [False, True])
@pytest.mark.parametrize("b_trans", [False, True])
def test_a_contraction_accumulates(a_trans: bool, b_trans: bool) -> None:
    a, b = (rng().standard_normal(s).astype(np.float32) for s in ((3, 5), (5, 4)))
    wanted = (a.astype(float) @ b + 1).astype(np.float32)
    a, b = (np.ascontiguousarray(m.T) if t else m for m, t in ((a, a_trans), (b, b_trans)))
    params = [("c", buffer((3, 4)), INOUT), ("a", buffer(a.shape), IN), ("b", buffer(b.shape), IN)]
    p = kernel(
        params,
        lambda c, a, b: loop.matmul(c, a, b, a_trans=a_trans, b_trans=b_trans, accumulate=True),
    )
    c = np.ones((3, 4), np.float32)
    interp.run(p, "k", [c, a, b])
    np.testing.assert_array_equal(c, wanted)


def test_a_branch_that_differs_between_lanes_masks_its_stores() -> None:
    def body(x: Value, y: Value) -> None:
        def lane(i: Value) -> list[Value]:
            value = loop.load(x, (i,), None)
            positive = arith.gt(value, Builder.current().constant(0.0, FP32))

            def then() -> list[Value]:
                loop.store(y, (i,), value, None)
                return [arith.sqrt(value)]

            (given,) = if_else(positive, then, lambda: [value])
            loop.store(y, (arith.add(i, index(4)),), given, None)
            return []

        for_loop(0, 4, [], lane, kind=LANES)

    y = np.zeros(8, np.float32)
    p = kernel([("x", buffer((4,)), IN), ("y", buffer((8,)), INOUT)], body)
    interp.run(p, "k", [np.array([4, -1, 9, -2], np.float32), y])
    assert y.tolist() == [4, 0, 9, 0, 2, -1, 3, -2]


def test_a_sequential_loop_inside_lanes_carries_one_value_per_lane() -> None:
    def body(x: Value, y: Value) -> None:
        def lane(j: Value) -> list[Value]:
            zero = Builder.current().constant(0.0, FP32)
            (total,) = for_loop(
                0, 3, [zero], lambda i, t: [arith.add(t, loop.load(x, (i, j), None))]
            )
            loop.store(y, (j,), total, None)
            return []

        for_loop(0, 5, [], lane, kind=LANES)

    x, y = np.arange(15, dtype=np.float32).reshape(3, 5), np.empty(5, np.float32)
    interp.run(kernel([("x", buffer((3, 5)), IN), ("y", buffer((5,)), OUT)], body), "k", [x, y])
    np.testing.assert_array_equal(y, x.sum(0))


def test_scratch_memory_is_poisoned_in_checked_mode() -> None:
    def body(y: Value) -> None:
        scratch = loop.alloc(shape=(4,), dtype=FP32)
        loop.copy(y, scratch)

    y = np.zeros(4, np.float32)
    interp.run(kernel([("y", buffer((4,)), OUT)], body), "k", [y], checked=True)
    assert np.isnan(y).all()


def test_integer_loop_variables_have_their_dtype() -> None:
    def body(y: Value) -> None:
        high = Builder.current().constant(3, INT32)
        low, one = (Builder.current().constant(v, INT32) for v in (0, 1))

        def step(i: Value) -> list[Value]:
            assert i.type == ScalarType(INT32)
            loop.store(y, (index(0),), i, None)
            return []

        for_loop(low, high, [], step, step=one)

    y = np.zeros(1, np.int32)
    interp.run(kernel([("y", buffer((1,), INT32), OUT)], body), "k", [y])
    assert y[0] == 2
    assert BOOL.kind == "bool"
