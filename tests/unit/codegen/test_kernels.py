"""Lanes, memory and conversions compile to code that does what the interpreter does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.dtypes import BF16, BOOL, FP16, FP32, INDEX, INT8, INT32, INT64, UINT8, DType
from tilewright.ir.affine import symbol
from tilewright.ir.core import Value
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
    emit,
    index,
    kernel_program,
    lanes,
    native,
)
from unit.codegen.native_code import NUMPY, available_isas, target_for
from unit.codegen.sample_kernels import SIZES, data, elementwise, extreme, reduction, softmax
from unit.codegen.test_words_math import undefined_symbols
from unit.interp.build import INOUT, for_loop

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


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


def test_kernels_need_no_library() -> None:
    programs = [softmax(20, 100), elementwise(symbol("n", 0) + 0, FP16)]
    programs += [extreme(40, "argmax", FP32, INDEX), reduction(99, "mul", INT64, 1)]
    for isa in available_isas():
        for p in programs:
            kernel, _ = emit(p, isa)
            assert undefined_symbols(kernel.compile(target_for(isa))) == []


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


@pytest.mark.parametrize(("dtype", "is_streamed"), [(FP32, True), (INT64, True), (BF16, False)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_large_exchanges_go_past_the_caches_by_lines(
    dtype: DType, is_streamed: bool, dynamic: bool
) -> None:
    m, n = (symbol(name, 0) + 0 for name in "mn") if dynamic else (1537, 2080)

    def body(x: Value, y: Value) -> None:
        def row(r: Value) -> list[Value]:
            def lane(c: Value) -> None:
                loop.store(y, (r, c), loop.load(x, (c, r), None), None)

            lanes(loop.extent(y, axis=1), lane)
            return []

        for_loop(0, loop.extent(y, axis=0), [], row, kind=ForKind.Parallel)

    params = [("x", buffer(n, m, dtype=dtype), IN), ("y", buffer(m, n, dtype=dtype), OUT)]
    p = kernel_program(params, body)
    isa = available_isas()[0]
    assert ("nontemporal !0" in emit(p, isa)[0].text) == is_streamed
    compiled, x = native(p, isa), data(2080, 1537, dtype=dtype)
    room = np.zeros(1537 * 2080 * dtype.nbytes + 128, np.uint8)
    line = -room.ctypes.data % 64
    for start in (line, line + 16):
        y = room[start : start + x.nbytes].view(x.dtype).reshape(1537, 2080)
        y.fill(0)
        compiled(x, y)
        assert (y == x.T).all()
    if dynamic:
        for rows, columns in ((1537, 2077), (37, 50)):
            y = np.zeros((rows, columns), x.dtype)
            compiled(np.ascontiguousarray(x[:columns, :rows]), y)
            assert (y == x[:columns, :rows].T).all()


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
