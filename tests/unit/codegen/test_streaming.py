"""Large outputs go past the caches wherever they begin; rows that are read again bring the next."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.codegen.ahead import fetched_ahead
from tilewright.codegen.streaming import LARGE
from tilewright.dtypes import BF16, FP32, FP64, DType
from tilewright.ir.affine import as_expr, simplify, symbol
from tilewright.ir.core import Program, Value
from tilewright.ops import arith, loop
from unit.codegen.kernels import (
    IN,
    LANES,
    OUT,
    buffer,
    constant,
    emit,
    for_loop,
    index,
    kernel_program,
    lanes,
    native,
)
from unit.codegen.native_code import NUMPY, available_isas
from unit.codegen.sample_kernels import data, softmax

COLUMNS = 300


def doubled(rows: int, columns: object, dtype: DType) -> Program:
    """y = x + x, row by row."""

    def body(x: Value, y: Value) -> None:
        count = columns if isinstance(columns, int) else loop.extent(y, axis=1)

        def row(r: Value) -> list[Value]:
            def lane(c: Value) -> None:
                given = loop.load(x, (r, c), None)
                loop.store(y, (r, c), arith.add(given, given), None)

            lanes(count, lane)
            return []

        for_loop(0, rows, [], row)

    kind = buffer(rows, columns, dtype=dtype)  # type: ignore[arg-type]
    return kernel_program([("x", kind, IN), ("y", kind, OUT)], body)


@pytest.mark.parametrize("dtype", [FP32, FP64, BF16])
@pytest.mark.parametrize("dynamic", [False, True])
def test_rows_that_begin_anywhere_are_written_once_and_completely(
    dtype: DType, dynamic: bool
) -> None:
    kind = np.dtype(NUMPY[dtype.name])
    rows = LARGE // (COLUMNS * kind.itemsize) + 1
    program = doubled(rows, symbol("n", 0) + 0 if dynamic else COLUMNS, dtype)
    size = rows * COLUMNS
    x = data(rows, COLUMNS, dtype=dtype)
    room = np.empty(size + 64, kind)
    for isa in available_isas():
        kernel = native(program, isa)
        for shift in (0, 1, 4, 15):
            room[:] = kind.type(7)
            start = (-room.ctypes.data % 64) // kind.itemsize + shift
            kernel(x, room[start : start + size].reshape(rows, COLUMNS))
            got = room[start : start + size].reshape(rows, COLUMNS)
            assert (got == x + x).all(), (isa, shift)
            assert (room[:start] == 7).all(), (isa, shift)
            assert (room[start + size :] == 7).all(), (isa, shift)


@pytest.mark.parametrize("count", [1, 15, 255, 256, 257, 271, 272, 320])
def test_loops_of_any_length_begin_with_a_line(count: int) -> None:
    rows = LARGE // (count * 4) + 1
    program = doubled(rows, count, FP32)
    x = data(rows, count)
    whole = np.zeros(rows * count + 3, np.float32)
    y = whole[3:].reshape(rows, count)
    native(program, available_isas()[0])(x, y)
    assert (y == x + x).all()


def variances(rows: int, columns: int) -> Program:
    """The mean square of each row after its mean is taken away: two loops, and one that stores."""

    def body(x: Value, y: Value) -> None:
        def total(r: Value, of: object) -> Value:
            def lane(c: Value, _: Value) -> list[Value]:
                return [of(loop.load(x, (r, c), None))]  # type: ignore[operator]

            start = [constant(0.0)]
            (found,) = for_loop(0, columns, start, lane, kind=LANES, combine=("add",))
            return found

        def row(r: Value) -> list[Value]:
            mean = arith.mul(total(r, lambda v: v), constant(1 / columns))
            square = total(r, lambda v: arith.mul(arith.sub(v, mean), arith.sub(v, mean)))
            loop.store(y, (r,), square, None)
            return []

        for_loop(0, rows, [], row)

    return kernel_program([("x", buffer(rows, columns), IN), ("y", buffer(rows), OUT)], body)


def test_a_loop_that_only_reads_again_brings_the_next_row() -> None:
    (isa, *_) = available_isas()
    text = emit(variances(1000, 1000), isa)[0].text
    assert text.count("call void @llvm.prefetch") == 4
    assert "getelementptr float" in text
    rows = data(1000, 1000)
    got = np.zeros(1000, np.float32)
    native(variances(1000, 1000), isa)(rows, got)
    np.testing.assert_allclose(got, rows.var(1) * 1000, rtol=1e-4)


def test_small_rows_and_loops_that_store_bring_nothing() -> None:
    (isa, *_) = available_isas()
    assert "call void @llvm.prefetch" not in emit(variances(10, 1000), isa)[0].text
    assert "call void @llvm.prefetch" not in emit(softmax(4096, 4096), isa)[0].text


def fetches(program: Program) -> int:
    (isa, *_) = available_isas()
    return emit(program, isa)[0].text.count("call void @llvm.prefetch")


def test_short_rows_bring_others_and_long_ones_are_foreseen() -> None:
    assert fetches(doubled(10000, 128, FP32)) > 0
    assert fetches(doubled(10000, 512, FP32)) == 0
    assert fetches(doubled(100, 128, FP32)) == 0


def added(rows: int, count: int = 1000) -> Program:
    """Each row gets the sum of the first `count` columns of the next ones."""

    def body(x: Value, y: Value) -> None:
        def row(r: Value) -> list[Value]:
            def lane(c: Value) -> None:
                total = constant(0.0)
                for k in range(rows):
                    at = arith.add(r, index(k))
                    total = arith.add(total, loop.load(x, (at, c), None))
                loop.store(y, (r, c), total, None)

            lanes(count, lane)
            return []

        for_loop(0, 992, [], row)

    kinds = [("x", buffer(1000, 1000), IN), ("y", buffer(1000, 1000), OUT)]
    return kernel_program(kinds, body)


def test_many_rows_at_once_bring_what_is_some_way_on() -> None:
    assert fetches(added(4)) == 0
    assert fetches(added(8)) > 0
    x = data(1000, 1000)
    got = np.zeros((1000, 1000), np.float32)
    native(added(8), available_isas()[0])(x, got)
    wanted = np.zeros((992, 1000), np.float32)
    for k in range(8):
        wanted += x[k : k + 992]
    assert (got[:992] == wanted).all()


def test_many_rows_bring_those_that_follow_where_they_end() -> None:
    (function,) = added(8, 600).functions.values()
    (asked,) = fetched_ahead(function.body).values()
    assert len(asked) == 8
    for fetch in asked:
        assert fetch.end == as_expr(600) - fetch.distance
        assert simplify(fetch.turn) == as_expr(1000 - 600)
    (isa, *_) = available_isas()
    x, got = data(1000, 1000), np.zeros((1000, 1000), np.float32)
    native(added(8, 600), isa)(x, got)
    wanted = sum(x[k : k + 992] for k in range(1, 8)) + x[:992]
    np.testing.assert_allclose(got[:992, :600], wanted[:, :600], rtol=1e-5, atol=1e-5)
