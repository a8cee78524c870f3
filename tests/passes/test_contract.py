"""Matrix products read their operands where they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from passes.programs import (
    IN,
    OUT,
    add,
    allocs,
    check,
    const,
    count,
    exp,
    filled,
    kernel,
    load,
    loops,
    lowered,
    mul,
    store,
    tensor,
    times,
)
from tilewright.dtypes import BF16, FP32, INT32, DType
from tilewright.ir.core import Function, Program, Value
from tilewright.ir.enums import ForKind, MemorySpace
from tilewright.ops import control, elementwise, loop, matmul, memory, shape
from tilewright.ops.cast import cast
from tilewright.passes.contract import LINE, WIDENED
from unit.interp.build import for_loop

SHAPES = ((384, (12, 32)), (640, (32, 20)), (240, (12, 20)))


def test_loaded_tiles_are_views_and_the_accumulator_is_one_buffer() -> None:
    def body(a: Value, b: Value, out: Value) -> list[Value]:
        def step(k: Value, acc: Value) -> list[Value]:
            left = load(a, [0, times(k, 8)], (12, 8))
            return [matmul.acc(acc, left, load(b, [times(k, 8), 0], (8, 20)))]

        (acc,) = for_loop(0, 4, [filled(0.0, 12, 20)], step)
        return [store(acc, [0, 0], out)]

    params = [("a", tensor(12, 32), IN), ("b", tensor(32, 20), IN), ("out", tensor(12, 20), OUT)]
    whole = [np.arange(n, dtype=np.float32).reshape(shape) % 7 for n, shape in SHAPES]
    function = check(kernel(params, body), whole)
    assert (
        allocs(function),
        count(function, loop.matmul),
        loops(function, ForKind.Sequential),
    ) == (0, 1, 0)


def test_a_transposed_operand_is_a_strided_view() -> None:
    def body(a: Value, b: Value) -> tuple[list[Value], list[Value]]:
        return [matmul.matmul(shape.transpose(a, perm=(1, 0)), b)], []

    function = check(kernel([("a", tensor(8, 12), IN), ("b", tensor(8, 20), IN)], body))
    assert allocs(function) == 0


def test_a_stationary_operand_is_read_where_it_is() -> None:
    @nki.jit
    def k(a_t, b):
        out = nl.ndarray((128, 256), dtype=nl.float32, buffer=nl.shared_hbm)
        tiles = [nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf) for x in (a_t, b)]
        for tile, x in zip(tiles, (a_t, b), strict=True):
            nisa.dma_copy(dst=tile, src=x)
        nl.store(out, nisa.nc_matmul(*tiles))
        return out

    a_t, b = np.ones((64, 128), np.float32), np.ones((64, 256), np.float32)
    function = lowered(k.lower(a_t, b))
    (product,) = (op for op in function.body.walk() if op.opdef is loop.matmul)
    assert product.attrs["a_trans"]
    assert product.operands[1:] == function.params[:2]
    assert allocs(function) == 0


def test_a_computed_operand_is_put_in_memory_once() -> None:
    def body(a: Value, b: Value) -> tuple[list[Value], list[Value]]:
        e = exp(a)
        return [matmul.matmul(e, b), matmul.matmul(e, b, b_trans=True)], []

    function = check(kernel([("a", tensor(8, 12), IN), ("b", tensor(12, 12), IN)], body))
    assert allocs(function) == 1


def test_bias_and_gelu_follow_the_product_in_one_nest() -> None:
    def body(x: Value, w: Value, bias: Value, out: Value) -> list[Value]:
        y = add(matmul.matmul(x, w), bias)
        gate = add(elementwise.erf(mul(y, const(0.70710678))), const(1.0))
        return [memory.assemble(out, mul(mul(y, const(0.5)), gate), [0, 0])]

    params = [("x", tensor(24, 32), IN), ("w", tensor(32, 48), IN), ("b", tensor(1, 48), IN)]
    function = check(kernel([*params, ("out", tensor(24, 48), OUT)], body))
    assert (allocs(function), loops(function, ForKind.Lanes)) == (0, 1)


def test_a_narrow_result_is_rounded_where_it_is_used() -> None:
    def body(a: Value, b: Value) -> tuple[list[Value], list[Value]]:
        return [exp(matmul.matmul(a, b, dtype=BF16))], []

    params = [("a", tensor(8, 12, dtype=BF16), IN), ("b", tensor(12, 16, dtype=BF16), IN)]
    assert allocs(check(kernel(params, body))) == 1


def test_batches_are_loops_around_one_product() -> None:
    def body(a: Value, b: Value) -> tuple[list[Value], list[Value]]:
        return [matmul.matmul(a, b)], []

    function = check(kernel([("a", tensor(3, 8, 12), IN), ("b", tensor(3, 12, 5), IN)], body))
    assert count(function, loop.matmul) == 1


def test_a_tile_that_a_loop_multiplies_again_and_again_is_converted_once() -> None:
    def body(a: Value, b: Value, out: Value) -> list[Value]:
        left = elementwise.cast(load(a, [0, 0], (8, 12)), dtype=FP32)

        def step(j: Value, o: Value) -> list[Value]:
            right = load(b, [0, times(j, 4)], (12, 4))
            return [store(matmul.matmul(left, right), [0, times(j, 4)], o)]

        return list(for_loop(0, 3, [out], step))

    params = [("a", tensor(8, 12, dtype=BF16), IN), ("b", tensor(12, 12), IN)]
    function = check(kernel([*params, ("out", tensor(8, 12), OUT)], body))
    (outer,) = (op for op in function.body.ops if op.opdef is loop.alloc)
    assert outer.result.type.shape == (8, 12)


def scores(queries: int) -> Program:
    def body(q: Value, k: Value, out: Value) -> list[Value]:
        def rows(i: Value, o: Value) -> list[Value]:
            left = load(q, [times(i, 8), 0], (8, 16))

            def columns(j: Value, o: Value) -> list[Value]:
                right = load(k, [times(j, 4), 0], (4, 16))
                product = matmul.matmul(left, right, b_trans=True)
                return [store(product, [times(i, 8), times(j, 4)], o)]

            return list(for_loop(0, 5, [o], columns))

        return list(for_loop(0, queries, [out], rows))

    params = [("q", tensor(8 * queries, 16), IN), ("k", tensor(20, 16), IN)]
    return kernel([*params, ("out", tensor(8 * queries, 20), OUT)], body)


def turned_products(function: Function) -> int:
    ops = function.body.walk()
    return sum(op.opdef is loop.matmul and op.attrs["b_trans"] for op in ops)


def test_columns_that_a_loop_reads_again_and_again_are_turned_once() -> None:
    function = check(scores(3))
    assert turned_products(function) == 0
    (copy,) = (op for op in function.body.ops if op.opdef is loop.alloc)
    assert copy.result.type.shape == (16, 20 + LINE)
    assert sum(op.opdef is control.for_ for op in function.body.ops) == 1


def test_columns_that_are_read_once_stay_where_they_are() -> None:
    assert turned_products(check(scores(1))) == 1


NARROW = [(narrow, wide) for wide, dtypes in WIDENED.items() for narrow in dtypes]


def whole_numbers(dtype: DType, *shape: int) -> Any:
    """Small ones; of BF16 so many times its least denormal number."""
    given = np.random.default_rng(0).integers(0, 5, shape)
    return (given * 2.0**-133 if dtype is BF16 else given).astype(dtype.numpy)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("narrow", "wide"), NARROW)
def test_widened_weights_are_read_where_they_are(narrow: DType, wide: DType, turned: bool) -> None:
    def body(x: Value, w: Value, out: Value) -> list[Value]:
        def step(k: Value, acc: Value) -> list[Value]:
            left, at = load(x, [0, times(k, 8)], (12, 8)), [times(k, 8), 0]
            tile = load(w, at[::-1], (20, 8)) if turned else load(w, at, (8, 20))
            return [matmul.acc(acc, left, elementwise.cast(tile, dtype=wide), b_trans=turned)]

        zero = 0.0 if wide is FP32 else 0
        zeros = memory.full(shape=(12, 20), dtype=wide, value=zero, space=MemorySpace.Vec)
        (acc,) = for_loop(0, 4, [zeros], step)
        return [store(acc, [0, 0], out)]

    check_in_place(body, (12, 32), (20, 32) if turned else (32, 20), (12, 20), narrow, wide)


@pytest.mark.parametrize(("narrow", "wide"), NARROW)
def test_widened_weights_are_multiplied_by_a_column_where_they_are(
    narrow: DType, wide: DType
) -> None:
    def body(x: Value, w: Value, out: Value) -> list[Value]:
        product = matmul.matmul(elementwise.cast(w, dtype=wide), x, a_trans=True)
        return [memory.assemble(out, product, [0, 0])]

    check_in_place(body, (32, 1), (32, 20), (20, 1), narrow, wide)


def check_in_place(
    body: Any,
    x: tuple[int, int],
    w: tuple[int, int],
    out: tuple[int, int],
    narrow: DType,
    wide: DType,
) -> None:
    shapes, dtypes = (x, w, out), (wide, narrow, wide)
    params = [
        (name, tensor(*shape, dtype=dtype), OUT if name == "out" else IN)
        for name, shape, dtype in zip(("x", "w", "out"), shapes, dtypes, strict=True)
    ]
    args = [whole_numbers(dtype, *shape) for shape, dtype in zip(shapes, dtypes, strict=True)]
    function = check(kernel(params, body), args)
    (product,) = (op for op in function.body.walk() if op.opdef is loop.matmul)
    assert set(product.operands[1:]) == set(function.params[:2])
    assert count(function, cast) == 0
    assert np.any(args[2])


def test_weights_that_are_rounded_are_converted_first() -> None:
    def body(x: Value, w: Value) -> tuple[list[Value], list[Value]]:
        return [matmul.matmul(x, elementwise.cast(w, dtype=FP32))], []

    params = [("x", tensor(12, 32), IN), ("w", tensor(32, 20, dtype=INT32), IN)]
    assert count(check(kernel(params, body)), cast) == 1
