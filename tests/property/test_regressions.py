"""Programs that once meant something else at loop level or natively, as small as they got."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from property import levels
from property.generator import Case
from tilewright.dtypes import BF16, BOOL, FP32, INDEX, INT8
from tilewright.frontend.annotations import dynamic
from tilewright.ir.affine import as_expr, evaluate, symbols
from tilewright.ir.builder import Builder
from tilewright.ir.core import Program, Value
from tilewright.ir.enums import AtomicType, ForKind
from tilewright.ir.types import ScalarType, TensorType
from tilewright.ops import arith, elementwise, matmul, memory, reduce, shape
from tilewright.ops.cast import cast
from unit.interp.build import IN, INOUT, OUT, for_loop, function, program

CHECKS = ("printed", "checked", "loop_level", "poisoned", "native")
Body = Callable[..., Any]
PROGRAMS: list[Any] = []


def case_of(p: Program) -> Case:
    """Arguments for a program: small whole numbers, zero for index scalars, symbols are 5."""

    def make(value: Value, seed: int) -> Callable[[], Any]:
        type_ = value.type
        if isinstance(type_, ScalarType):
            return lambda: 0 if type_.dtype is INDEX else type_.dtype.numpy.type(1)
        assert isinstance(type_, TensorType)
        dtype = type_.dtype.numpy
        extents = [evaluate(extent, dict.fromkeys(symbols(extent), 5)) for extent in type_.shape]
        numbers = np.random.default_rng(seed).integers(1, 9, extents)
        return lambda: np.asarray(numbers).astype(dtype)

    return Case(p, [make(value, seed) for seed, value in enumerate(p["main"].params)])


def fault(params: list[Any]) -> Callable[[Body], Body]:
    """Registers a body that gives (returned values, finals)."""

    def register(body: Body) -> Body:
        made = program(function("main", params, body))
        PROGRAMS.append(pytest.param(made, id=body.__name__))
        return body

    return register


MATRIX = TensorType((2, 2), FP32)


@fault([("x", MATRIX, IN)])
def an_old_version_of_a_computed_value_is_read_after_one_element_is_written(x: Value) -> Any:
    old = elementwise.neg(x)
    new = memory.write(old, [0, 0], Builder.current().constant(0.5, FP32))
    return [new, old, reduce.sum_(old, axes=(1,), keepdims=True)], []


@fault([("x", MATRIX, IN), ("y", TensorType((1, 1), FP32), IN)])
def an_old_version_of_a_computed_value_is_read_after_a_window_is_written(x: Value, y: Value) -> Any:
    old = elementwise.neg(x)
    new = memory.assemble(old, y, [0, 0])
    (rest,) = for_loop(0, 2, [elementwise.abs_(x)], lambda i, c: [elementwise.add(c, old)])
    return [new, rest, old], []


@fault([("x", MATRIX, IN), ("out", TensorType((1,), FP32), OUT)])
def an_element_of_an_old_version_is_read_after_a_write(x: Value, out: Value) -> Any:
    old = elementwise.neg(x)
    new = memory.write(old, [0, 0], Builder.current().constant(0.5, FP32))
    element = memory.read(old, [0, 0])
    return [new, old], [memory.write(out, [0], element)]


@fault([("x", TensorType((5,), BOOL), IN)])
def a_reduction_is_joined_with_itself(x: Value) -> Any:
    total = reduce.all_(x, axes=(0,), keepdims=True)
    return [total, shape.concat((total, total), axis=0)], []


@fault([("x", TensorType((65, 65), BF16), INOUT), ("y", TensorType((65, 65), BF16), IN)])
def rows_of_narrow_elements_are_updated_in_place(x: Value, y: Value) -> Any:
    def iteration(i: Value, carried: Value) -> list[Value]:
        row = shape.slice_(carried, [i, 0], shape=(1, 65))
        return [memory.assemble(carried, elementwise.add(row, row), [i, 0])]

    narrow = elementwise.cast(y, dtype=INT8)
    return [narrow], list(for_loop(0, 65, [x], iteration))


@fault([("x", MATRIX, IN)])
def a_write_that_nobody_reads_leaves_the_old_version(x: Value) -> Any:
    old = elementwise.neg(x)

    def iteration(i: Value, carried: Value) -> list[Value]:
        memory.write(old, [0, 0], Builder.current().constant(0.5, FP32))
        return [elementwise.add(carried, old)]

    memory.write(old, [1, 1], Builder.current().constant(0.5, FP32))
    return [old, *for_loop(0, 2, [elementwise.abs_(x)], iteration)], []


@fault([("x", MATRIX, IN)])
def arithmetic_on_constants_is_not_folded(x: Value) -> Any:
    builder = Builder.current()
    two = arith.add(builder.constant(-1.0, FP32), builder.constant(3.0, FP32))
    some = elementwise.select(cast(two, dtype=BOOL), x, cast(two, dtype=FP32))
    const = cast(builder.constant(0.5, FP32), dtype=BOOL)
    return [elementwise.mul(some, arith.neg(two)), elementwise.select(const, x, two)], []


@fault([("x", MATRIX, IN), ("out", MATRIX, OUT)])
def a_tile_times_a_tensor(x: Value, out: Value) -> Any:
    tile = memory.load(x, [0, 0], shapes=(2, 2))
    product = matmul.acc(matmul.matmul(tile, x), x, tile)
    return [], [memory.store(product, [0, 0], out)]


LONG = as_expr(dynamic("M"))


@fault([("x", TensorType((4, 1), FP32), INOUT), ("y", TensorType((1, LONG), FP32), IN)])
def a_parallel_loop_needs_scratch_of_unknown_size(x: Value, y: Value) -> Any:
    def iteration(i: Value, carried: Value) -> list[Value]:
        row = shape.slice_(carried, [i, 0], shape=(1, 1))
        product = matmul.matmul(y, row, a_trans=True, b_trans=True)
        again = matmul.acc(product, y, row, a_trans=True, b_trans=True)
        total = reduce.sum_(again, axes=(0,), keepdims=True)
        return [memory.assemble(carried, total, [i, 0])]

    return [], list(for_loop(0, 4, [x], iteration, kind=ForKind.Parallel))


@fault([("x", TensorType((5, LONG), FP32), IN)])
def a_window_is_clamped_where_an_extent_is_not_known(x: Value) -> Any:
    tile = memory.load(x, [1, 1], shapes=(4, 1), clamp=True)
    return [shape.fillpad(tile, fill=0.5, valid=tile.type.valid_shape)], []


@fault([("x", TensorType((4,), FP32), IN), ("out", TensorType((4,), FP32), OUT)])
def an_array_without_axes_is_written_beside_what_is_launched(x: Value, out: Value) -> Any:
    total = elementwise.neg(reduce.sum_(x, axes=(0,), keepdims=False))
    written = memory.assemble(total, total, [], atomic=AtomicType.Add)

    def block(i: Value, carried: Value) -> list[Value]:
        return [memory.assemble(carried, shape.slice_(x, [i], shape=(1,)), [i])]

    return [written], list(for_loop(0, 4, [out], block, kind=ForKind.Spmd))


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("made", PROGRAMS)
def test_once_miscompiled(made: Program, check: str) -> None:
    levels.CHECKS[check](case_of(made))
