"""Scans along the last axis go across lines by blocks, and keep the order of every step."""

from __future__ import annotations

from typing import Any

import pytest

from passes.programs import IN, OUT, add, arrays, check, const, kernel, load, lowered, store, tensor
from tilewright.dtypes import FP32, FP64, INT8, INT32, DType
from tilewright.ir.affine import symbol
from tilewright.ir.core import Value
from tilewright.ir.enums import ForKind
from tilewright.ops import control, memory, scan
from tilewright.passes.pipeline import lower
from tilewright.passes.scans import FEW_LINES, LINES, STEPS
from unit.codegen.kernels import agree

SHAPES = [
    (1, 5),
    (FEW_LINES, 40),
    (FEW_LINES + 1, STEPS),
    (7, STEPS + 1),
    (LINES, 3 * STEPS),
    (LINES + 3, STEPS - 1),
    (2 * LINES + 9, 2 * STEPS + 5),
    (3, 6, 70),
    (9, 1),
]


def cumulative(shape: tuple[int, ...], dtype: DType, combine: str, start: Any = 0) -> Any:
    zeros = [0] * len(shape)

    def body(x: Value, out: Value) -> list[Value]:
        t = load(x, zeros, shape)
        result = scan.cumulative(t, const(start, dtype), axis=-1, combine=combine)
        return [store(result, zeros, out)]

    kind = tensor(*shape, dtype=dtype)
    return kernel([("x", kind, IN), ("out", kind, OUT)], body)


def linear(shape: tuple[int, ...]) -> Any:
    """A recurrence that starts from an element per line."""
    zeros, first = [0] * len(shape), (*shape[:-1], 1)

    def body(decay: Value, x: Value, start: Value, out: Value) -> list[Value]:
        given = load(decay, zeros, shape), load(x, zeros, shape), load(start, zeros, first)
        return [store(add(scan.linear(*given, axis=-1), given[1]), zeros, out)]

    kind = tensor(*shape)
    kinds = [("decay", kind, IN), ("x", kind, IN), ("start", tensor(*first), IN)]
    return kernel([*kinds, ("out", kind, OUT)], body)


@pytest.mark.parametrize("shape", SHAPES)
def test_lines_of_any_shape_are_scanned_in_order(shape: tuple[int, ...]) -> None:
    for given in (cumulative(shape, FP32, "add"), linear(shape)):
        check(given)
        agree(lower(given, "k"), *arrays(given["k"]))


@pytest.mark.parametrize("combine", ["mul", "max", "sub"])
@pytest.mark.parametrize("dtype", [FP32, FP64, INT32, INT8])
def test_any_word_of_any_type_goes_across_lines(dtype: DType, combine: str) -> None:
    check(cumulative((LINES + 2, 2 * STEPS + 3), dtype, combine, 1))


def test_run_time_extents_are_scanned_by_the_same_blocks() -> None:
    m, n = symbol("M", 1).expr, symbol("N", 1).expr

    def body(x: Value, out: Value) -> list[Value]:
        result = scan.cumulative(x, const(0.0), axis=1)
        return [memory.assemble(out, result, [0, 0])]

    given = kernel([("x", tensor(m, n), IN), ("out", tensor(m, n), OUT)], body)
    for rows, columns in ((1, 1), (LINES, STEPS), (LINES + 1, 2 * STEPS - 1), (3, 100)):
        check(given, dims={"M": rows, "N": columns})


def test_many_lines_take_vectors_and_few_take_a_scalar() -> None:
    def carried(lines: int) -> bool:
        function = lowered(cumulative((lines, 200), FP32, "add"))
        nests = [op for op in function.body.walk() if op.opdef is control.for_]
        return any(op.operands[3] for op in nests if op.attrs["kind"] is ForKind.Sequential)

    assert carried(FEW_LINES)
    assert not carried(FEW_LINES + 1)
