"""Reductions give the bits of the documented order."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tilewright.dtypes import FP32, INDEX, INT32, DType
from tilewright.ir.affine import symbol
from tilewright.ir.core import Program, Value
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
    native,
)
from unit.codegen.native_code import available_isas
from unit.codegen.sample_kernels import SIZES, data, extreme, reduction, softmax
from unit.interp.build import for_loop

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


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


def test_a_long_sum_goes_through_four_accumulators() -> None:
    kernel, _ = emit(reduction(4096, "add", FP32, 0.0), available_isas()[0])
    assert len(re.findall(r"= phi <16 x float>", kernel.text)) == 4
