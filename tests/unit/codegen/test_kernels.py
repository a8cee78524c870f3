"""Loop-level functions compile to code that does what the interpreter does, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.dtypes import BF16, BOOL, FP16, FP32, INDEX, INT8, INT32, INT64, UINT8, DType
from tilewright.errors import IndexOutOfBounds
from tilewright.ir.affine import symbol
from tilewright.ir.core import Program, Value
from tilewright.ir.enums import ForKind, Rounding
from tilewright.ir.types import ScalarType
from tilewright.ops import arith, loop
from tilewright.ops.cast import cast
from unit.codegen.kernels import (
    IN,
    LANES,
    OUT,
    agree,
    buffer,
    constant,
    emit,
    index,
    kernel_program,
    lanes,
    native,
)
from unit.codegen.native_code import NUMPY, available_isas, target_for
from unit.codegen.test_words_math import undefined_symbols
from unit.interp.build import INOUT, for_loop, if_else, while_loop

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
SIZES = [1, 15, 16, 17, 63, 64, 65, 100, 128, 200]


def data(*shape: int, dtype: DType = FP32, seed: int = 0) -> np.ndarray[Any, Any]:
    """Random contents."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(NUMPY[dtype.name])
    if kind.kind in "iu":
        return rng.integers(0, 100, shape).astype(kind)
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    return rng.normal(size=shape).astype(kind)


def elementwise(n: Any, dtype: DType = FP32) -> Program:
    """y = x * x + x."""

    def body(x: Value, y: Value) -> None:
        count = loop.extent(y, axis=0)

        def lane(i: Value) -> None:
            v = loop.load(x, (i,), None)
            loop.store(y, (i,), arith.add(arith.mul(v, v), v), None)

        lanes(count, lane)

    return kernel_program(
        [("x", buffer(n, dtype=dtype), IN), ("y", buffer(n, dtype=dtype), OUT)], body
    )


@pytest.mark.parametrize("n", SIZES)
def test_static_lanes_write_every_element_and_no_other(n: int) -> None:
    agree(elementwise(n), data(n), np.zeros(n, np.float32))


@pytest.mark.parametrize("dtype", [FP16, BF16, INT8, UINT8, INT32, INT64])
def test_lanes_of_every_width(dtype: DType) -> None:
    agree(elementwise(77, dtype), data(77, dtype=dtype), np.zeros(77, NUMPY[dtype.name]))


def test_dynamic_lanes_serve_every_extent_with_one_kernel() -> None:
    p = elementwise(symbol("n", 0) + 0)
    for isa in available_isas():
        kernel = native(p, isa)
        for n in [*SIZES, 1000]:
            x, y = data(n), np.full(n + 1, 7, np.float32)
            kernel(x, y[:n])
            np.testing.assert_array_equal(y[:n], x * x + x)
            assert y[n] == 7


def reduction(n: Any, combine: str, dtype: DType, start: float) -> Program:
    """The fold of x * 1."""

    def body(x: Value, y: Value) -> None:
        count = loop.extent(x, axis=0)
        (total,) = for_loop(
            0,
            count,
            [constant(start, dtype)],
            lambda i, c: [loop.load(x, (i,), None)],
            kind=LANES,
            combine=(combine,),
        )
        loop.store(y, (index(0),), total, None)

    return kernel_program(
        [("x", buffer(n, dtype=dtype), IN), ("y", buffer(1, dtype=dtype), OUT)], body
    )


@pytest.mark.parametrize("combine", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("n", [0, *SIZES])
def test_float_reductions_follow_the_fixed_order(n: int, combine: str) -> None:
    x = data(n) * np.float32(3)
    agree(reduction(n, combine, FP32, 0.5), x, np.zeros(1, np.float32))


@pytest.mark.parametrize("combine", ["add", "mul", "max", "min"])
def test_dynamic_reductions_follow_the_fixed_order(combine: str) -> None:
    p = reduction(symbol("n", 0) + 0, combine, FP32, 0.5)
    for n in (1, 15, 16, 64, 65, 127, 1000):
        agree(p, data(n) * np.float32(3), np.zeros(1, np.float32))


@pytest.mark.parametrize("combine", ["add", "mul", "max", "min", "and", "or", "xor"])
def test_integer_reductions_wrap(combine: str) -> None:
    agree(reduction(77, combine, INT32, 5), data(77, dtype=INT32) * 1000003, np.zeros(1, np.int32))


def test_extremes_propagate_nan_and_order_zeros() -> None:
    for combine in ("max", "min"):
        for values in ([1, np.nan, 2], [-0.0, 0.0, -0.0], [0.0, -0.0], [-np.inf], [np.inf]):
            x = np.array(values, np.float32)
            agree(reduction(len(x), combine, FP32, -0.0), x, np.zeros(1, np.float32))


def extreme(n: Any, name: str, value: DType, place: DType) -> Program:
    """The first extreme of x and where it is."""

    def body(x: Value, y: Value, where: Value) -> None:
        start = {"argmax": -1e30, "argmin": 1e30}[name] if value.is_float() else 50
        best, found = for_loop(
            0,
            loop.extent(x, axis=0),
            [constant(start, value), constant(-1, place)],
            lambda i, v, k: [loop.load(x, (i,), None), cast(i, dtype=place)],
            kind=LANES,
            combine=(name, name),
        )
        loop.store(y, (index(0),), best, None)
        loop.store(where, (index(0),), found, None)

    return kernel_program(
        [
            ("x", buffer(n, dtype=value), IN),
            ("y", buffer(1, dtype=value), OUT),
            ("where", buffer(1, dtype=place), OUT),
        ],
        body,
    )


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("place", [INT32, INDEX])
def test_the_first_extreme_wins(name: str, place: DType) -> None:
    for n in (1, 20, 100, 300):
        x = np.round(data(n) * 2).astype(np.float32)
        args = (np.zeros(1, np.float32), np.zeros(1, place.numpy))
        agree(extreme(n, name, FP32, place), x, *args)
        agree(extreme(symbol("n", 0) + 0, name, FP32, place), x, *args)
        x[n // 2 :: 7] = np.nan
        agree(extreme(n, name, FP32, place), x, *args)
        agree(extreme(n, name, FP32, place), np.full(n, -np.inf, np.float32), *args)
    ints = data(99, dtype=INT32)
    agree(extreme(99, name, INT32, place), ints, np.zeros(1, np.int32), np.zeros(1, place.numpy))


def softmax(rows: Any, columns: Any) -> Program:
    """The usual three passes over each row."""

    def body(x: Value, y: Value) -> None:
        m, n = loop.extent(x, axis=0), loop.extent(x, axis=1)

        def row(r: Value) -> list[Value]:
            (top,) = for_loop(
                0,
                n,
                [constant(-np.inf)],
                lambda i, c: [loop.load(x, (r, i), None)],
                kind=LANES,
                combine=("max",),
            )

            def exponent(i: Value, c: Value) -> list[Value]:
                v = arith.exp(arith.sub(loop.load(x, (r, i), None), top))
                loop.store(y, (r, i), v, None)
                return [v]

            (total,) = for_loop(0, n, [constant(0.0)], exponent, kind=LANES, combine=("add",))
            scale = arith.div(constant(1.0), total)
            lanes(
                n,
                lambda i: loop.store(y, (r, i), arith.mul(loop.load(y, (r, i), None), scale), None),
            )
            return []

        for_loop(0, m, [], row, kind=ForKind.Parallel)

    return kernel_program(
        [("x", buffer(rows, columns), IN), ("y", buffer(rows, columns), OUT)], body
    )


def test_softmax_of_rows() -> None:
    x = data(5, 100)
    wanted = np.exp(x - x.max(1, keepdims=True))
    wanted /= wanted.sum(1, keepdims=True)
    shape = (symbol("m", 0) + 0, symbol("n", 0) + 0)
    results = []
    for p in (softmax(5, 100), softmax(*shape)):
        for isa in available_isas():
            y = np.zeros_like(x)
            native(p, isa)(x, y)
            np.testing.assert_allclose(y, wanted, rtol=3e-6)
            results.append(y)
    assert all((r == results[0]).all() for r in results)


def test_masks_decide_what_is_read_and_written() -> None:
    def body(x: Value, y: Value) -> None:
        def lane(i: Value) -> None:
            holds = arith.lt(i, index(33))
            value = loop.load(x, (i,), holds)
            loop.store(y, (i,), value, arith.ge(i, index(5)))

        lanes(50, lane)

    p = kernel_program([("x", buffer(50), IN), ("y", buffer(50), INOUT)], body)
    agree(p, data(50), np.full(50, 9, np.float32))


def test_indices_compare_at_any_distance() -> None:
    words = (arith.eq, arith.ne, arith.lt, arith.le, arith.gt, arith.ge)

    def body(far: Value, x: Value, y: Value) -> None:
        def lane(i: Value) -> None:
            pairs = [(i, far), (arith.mul(i, index(3)), arith.add(i, far)), (far, i)]
            pairs += [(index(20), arith.sub(index(60), i)), (i, loop.load(x, (i,), None))]
            for row, (left, right) in enumerate(pairs):
                for k, word in enumerate(words):
                    loop.store(y, (index(6 * row + k), i), word(left, right), None)

        lanes(70, lane)

    params = [("far", ScalarType(INDEX), IN), ("x", buffer(70, dtype=INDEX), IN)]
    p = kernel_program([*params, ("y", buffer(30, 70, dtype=BOOL), OUT)], body)
    for far in (0, 33, -5, 140, 2**31, -(2**33), 2**62):
        agree(p, far, data(70, dtype=INT64), np.zeros((30, 70), bool))


def test_strided_reversed_and_indirect_accesses() -> None:
    def body(x: Value, k: Value, y: Value) -> None:
        def lane(i: Value) -> None:
            far = loop.load(x, (index(2), arith.mul(i, index(3))), None)
            back = loop.load(x, (index(1), arith.sub(index(40), i)), None)
            down = loop.load(x, (arith.floordiv(i, index(8)), index(4)), None)
            loose = loop.load(x, (index(0), cast(loop.load(k, (i,), None), dtype=INDEX)), None)
            total = arith.add(arith.add(far, back), arith.add(down, loose))
            loop.store(y, (arith.mul(i, index(2)),), total, None)

        lanes(37, lane)

    params = [
        ("x", buffer(5, 120), IN),
        ("k", buffer(37, dtype=INT32), IN),
        ("y", buffer(80), INOUT),
    ]
    agree(
        kernel_program(params, body), data(5, 120), data(37, dtype=INT32), np.zeros(80, np.float32)
    )


def test_scatter_keeps_the_last_writer() -> None:
    def body(k: Value, y: Value) -> None:
        def lane(i: Value) -> None:
            place = cast(loop.load(k, (i,), None), dtype=INDEX)
            loop.store(y, (place,), cast(i, dtype=FP32), None)

        lanes(64, lane)

    p = kernel_program([("k", buffer(64, dtype=INT32), IN), ("y", buffer(10), INOUT)], body)
    agree(p, data(64, dtype=INT32) % 10, np.full(10, -1, np.float32))


def test_scratch_lives_where_no_other_does() -> None:
    def body(x: Value, y: Value) -> None:
        first = loop.alloc(shape=(100,), dtype=FP32)
        lanes(100, lambda i: loop.store(first, (i,), arith.exp(loop.load(x, (i,), None)), None))
        second = loop.alloc(shape=(100,), dtype=FP32)
        lanes(
            100, lambda i: loop.store(second, (i,), arith.neg(loop.load(first, (i,), None)), None)
        )
        third = loop.alloc(shape=(100,), dtype=FP32)
        lanes(
            100,
            lambda i: loop.store(
                third,
                (i,),
                arith.mul(loop.load(second, (i,), None), loop.load(second, (i,), None)),
                None,
            ),
        )
        lanes(100, lambda i: loop.store(y, (i,), loop.load(third, (i,), None), None))

    p = kernel_program([("x", buffer(100), IN), ("y", buffer(100), OUT)], body)
    x, y = data(100), np.zeros(100, np.float32)
    for isa in available_isas():
        kernel = native(p, isa)
        assert kernel.manifest.arena_bytes == 2 * 448
        kernel(x, y)
        np.testing.assert_allclose(y, np.exp(2 * x), rtol=1e-6)


def test_scratch_of_run_time_size_makes_the_arena_grow() -> None:
    n = symbol("n", 0) + 0

    def body(x: Value, y: Value) -> None:
        spare = loop.alloc(shape=(n, 3), dtype=FP32)
        count = loop.extent(x, axis=0)
        lanes(count, lambda i: loop.store(spare, (i, index(1)), loop.load(x, (i,), None), None))
        lanes(count, lambda i: loop.store(y, (i,), loop.load(spare, (i, index(1)), None), None))

    p = kernel_program([("x", buffer(n), IN), ("y", buffer(n), OUT)], body)
    for isa in available_isas():
        kernel = native(p, isa)
        for size in (3, 100_000):
            x, y = data(size), np.zeros(size, np.float32)
            kernel(x, y)
            assert (x == y).all()


def test_views_see_part_of_a_buffer() -> None:
    def body(x: Value, y: Value) -> None:
        corner = loop.view(x, (index(2), index(3)), shape=(4, 20), strides=(50, 2))
        bits = loop.view(corner, (index(1), index(0)), shape=(20,), strides=(2,), dtype=INT32)
        lanes(20, lambda i: loop.store(y, (index(0), i), loop.load(bits, (i,), None), None))
        copied = loop.view(y, (index(1), index(0)), shape=(4, 20), strides=(20, 1))
        loop.copy(
            copied,
            loop.view(corner, (index(0), index(0)), shape=(4, 20), strides=(50, 2), dtype=INT32),
        )

    p = kernel_program([("x", buffer(10, 50), IN), ("y", buffer(5, 20, dtype=INT32), OUT)], body)
    agree(p, data(10, 50), np.zeros((5, 20), np.int32))


@pytest.mark.parametrize("shape", [(7,), (3, 64), (2, 3, 50)])
def test_copies_of_any_rank(shape: tuple[int, ...]) -> None:
    for dtype in (FP32, INT8, BOOL):
        p = kernel_program(
            [("x", buffer(*shape, dtype=dtype), IN), ("y", buffer(*shape, dtype=dtype), OUT)],
            lambda x, y: loop.copy(y, x),
        )
        agree(p, data(*shape, dtype=dtype), np.zeros(shape, NUMPY[dtype.name]))


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


def test_scalar_parameters_of_every_kind() -> None:
    kinds = [FP32, FP16, BF16, INT8, UINT8, INT32, INT64, BOOL]
    params: list[Any] = [(f"s{k}", ScalarType(d), IN) for k, d in enumerate(kinds)]
    params += [(f"y{k}", buffer(1, dtype=d), OUT) for k, d in enumerate(kinds)]

    def body(*values: Value) -> None:
        for value, target in zip(values[:8], values[8:], strict=True):
            loop.store(target, (index(0),), value, None)

    values: list[Any] = [1.5, -2.5, 0.125, -7, 200, -(2**31), 2**62, True]
    given = values
    outs = [np.zeros(1, NUMPY[d.name]) for d in kinds]
    native(kernel_program(params, body), available_isas()[0])(*given, *outs)
    assert [o[0] for o in outs] == values


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


def test_conversions_of_lanes_and_of_the_lane_index() -> None:
    def body(x: Value, y: Value, z: Value) -> None:
        def lane(i: Value) -> None:
            v = cast(loop.load(x, (i,), None), dtype=INT8, mode=Rounding.ROUND)
            small = cast(arith.mul(i, index(100000)), dtype=INT32)
            loop.store(y, (i,), arith.add(cast(v, dtype=INT32), small), None)
            loop.store(z, (i,), cast(cast(i, dtype=FP32), dtype=BF16), None)

        lanes(70, lane)

    params = [
        ("x", buffer(70), IN),
        ("y", buffer(70, dtype=INT32), OUT),
        ("z", buffer(70, dtype=BF16), OUT),
    ]
    args = (data(70) * 90, np.zeros(70, np.int32), np.zeros(70, NUMPY["BF16"]))
    agree(kernel_program(params, body), *args)


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


@pytest.mark.parametrize("a_trans", [False, True])
@pytest.mark.parametrize("b_trans", [False, True])
def test_matmul_of_views(a_trans: bool, b_trans: bool) -> None:
    m, n, k = 13, 40, 21

    def body(a: Value, b: Value, c: Value) -> None:
        scratch = loop.alloc(shape=(m, n), dtype=FP32)
        loop.matmul(scratch, a, b, a_trans=a_trans, b_trans=b_trans)
        loop.matmul(scratch, a, b, a_trans=a_trans, b_trans=b_trans, accumulate=True)
        loop.copy(c, scratch)

    shapes = [(k, m) if a_trans else (m, k), (n, k) if b_trans else (k, n), (m, n)]
    params = [
        (name, buffer(*s), d) for name, s, d in zip("abc", shapes, (IN, IN, OUT), strict=True)
    ]
    a, b = (np.round(data(*s, seed=i) * 8).astype(np.float32) for i, s in enumerate(shapes[:2]))
    p = kernel_program(params, body)
    agree(p, a, b, np.zeros((m, n), np.float32))


def test_dynamic_matmul_into_a_transposed_view() -> None:
    m, n, k = (symbol(name, 0) + 0 for name in "mnk")

    def body(a: Value, b: Value, c: Value) -> None:
        turned = loop.view(c, (index(0), index(0)), shape=(m, n), strides=(1, m))
        loop.matmul(turned, a, b)

    params = [("a", buffer(m, k), IN), ("b", buffer(k, n), IN), ("c", buffer(n, m), OUT)]
    p = kernel_program(params, body)
    a, b = (np.round(data(*s) * 8).astype(np.float32) for s in ((9, 30), (30, 50)))
    for isa in available_isas():
        c = np.zeros((50, 9), np.float32)
        native(p, isa)(a, b, c)
        np.testing.assert_array_equal(c, (a @ b).T)


def test_strided_parameters_bring_their_strides() -> None:
    p = elementwise(40)
    x = data(40, 3)[:, 1]
    for layout in ("strided",):
        kernel = native(p, available_isas()[0], {"x": layout})
        y = np.zeros(40, np.float32)
        kernel(x, y)
        np.testing.assert_array_equal(y, x * x + x)


def test_a_stride_of_zero_repeats_an_element() -> None:
    def body(x: Value, y: Value) -> None:
        same = loop.view(x, (index(4),), shape=(30,), strides=(0,))
        lanes(30, lambda i: loop.store(y, (i,), loop.load(same, (i,), None), None))

    p = kernel_program([("x", buffer(30), IN), ("y", buffer(30), OUT)], body)
    agree(p, data(30), np.zeros(30, np.float32))


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


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", [(300, 500, 260), (512, 512, 300), (64, 2000, 70)])
def test_a_long_matmul_is_shared_and_changes_no_bit(shape: tuple[int, ...], dynamic: bool) -> None:
    m, n, k = (symbol(name, 0) + 0 for name in "mnk") if dynamic else shape

    def body(a: Value, b: Value, c: Value) -> None:
        loop.matmul(c, a, b)

    params = [("a", buffer(m, k), IN), ("b", buffer(k, n), IN), ("c", buffer(m, n), OUT)]
    p = kernel_program(params, body)
    a, b = (np.round(data(*s) * 8).astype(np.float32) for s in (shape[::2], (shape[2], shape[1])))
    for isa in available_isas()[:2]:
        kernel = native(p, isa)
        assert kernel.manifest.parallel
        c = np.full(shape[:2], -1, np.float32)
        kernel(a, b, c)
        np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shift", [0, 1])
def test_large_outputs_are_written_past_the_caches_and_completely(
    dynamic: bool, shift: int
) -> None:
    size = (9 << 20) // 4
    p = elementwise(symbol("n", 0) + 0 if dynamic else size)
    x = data(size)
    whole = np.zeros(size + 32, np.float32)
    start = (-whole.ctypes.data % 64) // 4 + shift
    y = whole[start : start + size]
    for isa in available_isas():
        assert "!nontemporal" in emit(p, isa)[0].text
        y[:] = 0
        native(p, isa)(x, y)
        np.testing.assert_array_equal(y, x * x + x)


def test_outputs_that_are_read_stay_in_the_caches() -> None:
    isa = available_isas()[0]
    assert "nontemporal !0" not in emit(elementwise(1000), isa)[0].text
    assert "nontemporal !0" not in emit(softmax(4096, 4096), isa)[0].text


@pytest.mark.parametrize("dtype", [FP32, BF16, INT8])
def test_matmul_of_operands_that_are_nowhere_dense(dtype: DType) -> None:
    result = INT32 if dtype is INT8 else FP32

    def body(a: Value, b: Value, c: Value) -> None:
        left = loop.view(a, (index(0), index(0)), shape=(7, 9), strides=(40, 2))
        right = loop.view(b, (index(1), index(0)), shape=(9, 6), strides=(30, 3))
        target = loop.view(c, (index(0), index(0)), shape=(7, 6), strides=(24, 2))
        loop.matmul(target, left, right)
        loop.matmul(target, left, right, accumulate=True)

    params = [("a", buffer(7, 40, dtype=dtype), IN), ("b", buffer(10, 30, dtype=dtype), IN)]
    p = kernel_program([*params, ("c", buffer(7, 24, dtype=result), INOUT)], body)
    a, b = (np.round(data(*s, dtype=dtype).astype(np.float32) * 3) for s in ((7, 40), (10, 30)))
    a, b = a.astype(NUMPY[dtype.name]), b.astype(NUMPY[dtype.name])
    agree(p, a, b, np.full((7, 24), 5, result.numpy))


def test_kernels_need_no_library() -> None:
    programs = [softmax(20, 100), elementwise(symbol("n", 0) + 0, FP16)]
    programs += [extreme(40, "argmax", FP32, INDEX), reduction(99, "mul", INT64, 1)]
    for isa in available_isas():
        for p in programs:
            kernel, _ = emit(p, isa)
            assert undefined_symbols(kernel.compile(target_for(isa))) == []


@pytest.mark.parametrize("n", [0, *SIZES, 130, 161, 1000])
def test_long_reductions_follow_the_same_order(n: int) -> None:
    def program(count: Any) -> Program:
        def body(x: Value, y: Value) -> None:
            def lane(i: Value, *_: Value) -> list[Value]:
                v = loop.load(x, (i,), None)
                for _ in range(6):
                    v = arith.add(arith.mul(v, v), constant(0.25))
                return [v, arith.floor(v), v, cast(i, dtype=INT32)]

            inits = [constant(0.5), constant(-1.0), constant(-9.0), constant(-1, INT32)]
            words = ("add", "max", "argmax", "argmax")
            found = for_loop(0, loop.extent(x, axis=0), inits, lane, kind=LANES, combine=words)
            for place, value in enumerate((*found[:3], cast(found[3], dtype=FP32))):
                loop.store(y, (index(place),), value, None)

        return kernel_program([("x", buffer(count), IN), ("y", buffer(4), OUT)], body)

    x = (data(n) / 4).astype(np.float32)
    agree(program(n), x, np.zeros(4, np.float32))
    if n:
        agree(program(symbol("n", 0) + 0), x, np.zeros(4, np.float32))


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


@pytest.mark.parametrize("dtype", [FP32, BF16, INT8, BOOL, INT64])
@pytest.mark.parametrize("dynamic", [False, True])
def test_axes_are_exchanged_by_squares(dtype: DType, dynamic: bool) -> None:
    m, n = (symbol(name, 0) + 0 for name in "mn") if dynamic else (37, 50)

    def body(x: Value, y: Value) -> None:
        def row(r: Value) -> list[Value]:
            lanes(
                loop.extent(y, axis=1),
                lambda c: loop.store(y, (r, c), loop.load(x, (c, r), None), None),
            )
            return []

        for_loop(0, loop.extent(y, axis=0), [], row, kind=ForKind.Parallel)

    params = [("x", buffer(n, m, dtype=dtype), IN), ("y", buffer(m, n, dtype=dtype), OUT)]
    p = kernel_program(params, body)
    assert "@tilewright.transpose" in emit(p, available_isas()[0])[0].text
    agree(p, data(50, 37, dtype=dtype), np.zeros((37, 50), NUMPY[dtype.name]))
    if dynamic:
        x, y = data(700, 600, dtype=dtype), np.zeros((600, 700), NUMPY[dtype.name])
        native(p, available_isas()[0])(x, y)
        assert (y == x.T).all()


def test_a_part_is_exchanged_where_it_belongs() -> None:
    def body(x: Value, y: Value) -> None:
        def row(r: Value) -> list[Value]:
            def lane(c: Value) -> list[Value]:
                value = loop.load(
                    x, (index(1), arith.add(c, index(3)), arith.add(r, index(2))), None
                )
                loop.store(y, (arith.sub(r, index(4)), arith.add(index(5), c)), value, None)
                return []

            for_loop(2, 33, [], lane, kind=LANES)
            return []

        for_loop(4, 21, [], row)

    p = kernel_program([("x", buffer(2, 40, 30), IN), ("y", buffer(20, 40), INOUT)], body)
    assert "@tilewright.transpose" in emit(p, available_isas()[0])[0].text
    agree(p, data(2, 40, 30), np.full((20, 40), 7, np.float32))
