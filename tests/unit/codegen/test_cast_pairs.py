"""What is compiled for a cast of any type to any other is its meaning, at hard values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tilewright import dtypes
from tilewright.dtypes import BOOL, FP8E8M0, DType
from tilewright.interp import Interpreter
from tilewright.ir.builder import Builder, finish_program
from tilewright.ir.core import Block, Function, Program, Value
from tilewright.ir.enums import ParamDirection, Rounding
from tilewright.ir.types import TileType
from tilewright.ops import control, elementwise
from tilewright.ops.cast import NEAREST, integer_limits
from tilewright.testing import assert_same_values
from tilewright.testing.native import run_native

Array = np.ndarray[Any, Any]
KINDS = ("float", "int", "uint", "bool")
TYPES = [each for each in dtypes.ALL if each.kind in KINDS]
SMALL = [each for each in TYPES if each.is_float() and each.bits <= 16]
USES = [(each, m) for each in TYPES for m in (Rounding if each.is_float() else [Rounding.RINT])]
"""Only floats are rounded in several ways."""
ROOM = 1 << 15
"""Values of a wide type that one test converts."""


def values_of(dtype: DType) -> Array:
    """Every value of a type of up to 16 bits; of a wider one the hard ones and some at random."""
    if dtype is BOOL:
        return np.array([False, True])
    if dtype.bits <= 16:
        return np.arange(1 << dtype.bits, dtype=f"u{dtype.nbytes}").view(dtype.numpy)
    rng = np.random.default_rng(dtype.bits)
    wild = rng.integers(0, 256, 2000 * dtype.nbytes, dtype=np.uint8).view(dtype.numpy)
    hard = hard_floats(dtype) if dtype.is_float() else hard_integers(dtype)
    return np.concatenate([wild, hard])


def hard_floats(dtype: DType) -> Array:
    """Values of small types, what lies midway, powers of two, and the neighbours of all these."""
    powers = np.ldexp(1.0, np.arange(-1074, 1024))
    found = [powers, 1.5 * powers[:-1], np.array([0.0, np.inf, np.nan])]
    for small in SMALL:
        exact = values_of(small).astype(np.float64)
        exact = np.unique(np.abs(exact[np.isfinite(exact)]))
        found += [exact, (exact[1:] + exact[:-1]) / 2]
    each = np.unique(np.concatenate(found)).astype(dtype.numpy)
    each = each[:: 1 + 6 * len(each) // ROOM]
    near = [np.nextafter(each, dtype.numpy.type(to)) for to in (np.inf, -np.inf)]
    return np.concatenate([side * part for part in (each, *near) for side in (1, -1)])


def hard_integers(dtype: DType) -> Array:
    """Powers of two and their neighbours."""
    low, high = integer_limits(dtype)
    near = [side * (1 << k) + d for k in range(64) for side in (1, -1) for d in (-1, 0, 1)]
    return np.array([low, high, *(each for each in near if low <= each <= high)], dtype.numpy)


def conversions(source: DType, targets: Sequence[DType], count: int, mode: Rounding) -> Program:
    """A program that gives its argument as each of `targets`."""
    x, block, builder = Value(TileType((count,), source), "x"), Block(), Builder()
    with builder, builder.inside(block):
        results = [elementwise.cast(x, dtype=target, mode=mode) for target in targets]
        control.return_(tuple(results), ())
    body = Block((x,), block.ops)
    types = tuple(each.type for each in results)
    return finish_program("p", {"main": Function("main", (ParamDirection.In,), body, types)})


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("source", "mode"), USES, ids=lambda each: each.name)
def test_a_cast_means_what_is_compiled(source: DType, mode: Rounding) -> None:
    x = values_of(source)
    targets = [each for each in TYPES if each is not FP8E8M0 or mode in NEAREST]
    program = conversions(source, targets, len(x), mode)
    meant = Interpreter(program).run("main", [x.copy()])
    compiled = run_native(program, "main", [x.copy()])
    for target, given, wanted in zip(targets, compiled, meant, strict=True):
        if not target.is_float():
            given, wanted = (each.astype(np.int64) for each in (given, wanted))
        assert_same_values(given, wanted, f"{source} to {target}")


def test_a_double_rounds_once() -> None:
    tie = np.array([1 + 2**-8, 1 + 2**-8 + 2**-40, 1 + 2**-8 - 2**-40])
    got = Interpreter(conversions(dtypes.FP64, [dtypes.BF16], 3, Rounding.RINT)).run("main", [tie])
    assert got[0].astype(float).tolist() == [1, 1 + 2**-7, 1]


def test_the_least_power_of_two_is_the_nearest_to_smaller_numbers() -> None:
    x = np.array([2.0**-1074, 2.0**-149, 2.0**-127, 2.0**-126, 0.0, -1.0, 2.0**200])
    got = Interpreter(conversions(dtypes.FP64, [FP8E8M0], 7, Rounding.RINT)).run("main", [x])
    assert got[0].view(np.uint8).tolist() == [0, 0, 0, 1, 255, 255, 255]
