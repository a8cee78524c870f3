"""Rows that add up are joined where that shows nowhere, and the sums keep their bits."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import interp
from tilewright.frontend.text import parse
from tilewright.ir.affine import symbols
from tilewright.ir.core import Operation, Program
from tilewright.ops import control, loop
from tilewright.ops.extents import constant_of
from tilewright.passes.join_rows import find_rows, join_rows
from tilewright.passes.loops import extents_of
from tilewright.passes.pipeline import lower
from unit.codegen.kernels import agree

TEXT = """
import tilewright.language as pl

@pl.program
class example:
    @pl.function
    def k(self, x: pl.Buffer[[{rows}, 40], pl.FP32], y: pl.Buffer[[40], pl.FP32],
          total: pl.InOut[pl.Buffer[[{place}], pl.FP32]]):
        for r in pl.range({range}):
            {before}
            for c in pl.loop.lanes(40):
                {lanes}
"""
SUM = (
    "pl.loop.store(total, [c], pl.loop.load(total, [c]) "
    "+ pl.loop.load(x, [r, c]) * pl.loop.load(y, [c]))"
)


def written(lanes: str = SUM, *, rows: int = 19, before: str = "z = r + 0", **more: str) -> Program:
    place = more.get("place", "40")
    span = more.get("span", str(rows))
    text = TEXT.format(rows=rows, range=span, before=before, lanes=lanes, place=place)
    return parse(text)


def loads(program: Program) -> int:
    return sum(op.opdef is loop.load for op in program["k"].body.walk())


def is_joined(program: Program) -> bool:
    return any(find_rows(op) is not None for op in program["k"].body.walk())


@pytest.mark.parametrize("rows", [2, 7, 8, 9, 16, 19])
def test_sums_keep_their_bits(rows: int) -> None:
    rng = np.random.default_rng(rows)
    x, y, total = (rng.standard_normal(n, dtype=np.float32) for n in ((rows, 40), 40, 40))
    program = written(rows=rows)
    assert is_joined(program)
    expected = total.copy()
    for row in x:
        expected += row * y
    after = join_rows(program, "k")
    agree(after, x, y, total)
    got = total.copy()
    interp.run(after, "k", [x, y, got])
    assert got.tobytes() == expected.tobytes()


def test_what_is_the_same_for_all_rows_is_read_once() -> None:
    after = join_rows(written(rows=16), "k")
    block, rest = 1 + 1 + 6, 3  # the accumulator, y, and x of each row
    assert loads(after) == block + rest
    stores = [op for op in after["k"].body.walk() if op.opdef is loop.store]
    assert len(stores) == 2


REFUSED = {
    "an accumulator that moves with the row": written(
        "pl.loop.store(total, [r + c], pl.loop.load(total, [r + c]) + pl.loop.load(x, [r, c]))",
        place="60",
    ),
    "an accumulator that is read elsewhere": written(
        "pl.loop.store(total, [c], pl.loop.load(total, [39 - c]) + pl.loop.load(x, [r, c]))"
    ),
    "an accumulator in a part that moves with the row": written(
        "pl.loop.store(z, [c], pl.loop.load(z, [c]) + pl.loop.load(x, [r, c]))",
        before="z = pl.loop.view(total, [r], shape=[40], strides=[1])",
        place="60",
    ),
    "an accumulator that a row reads": written(before="z = pl.loop.load(total, [r])"),
    "one accumulator for all lanes": written(
        "pl.loop.store(total, [0], pl.loop.load(total, [0]) + pl.loop.load(x, [r, c]))"
    ),
    "rows that are not counted from zero": written(span="1, 19"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_rows_that_cannot_be_joined_stay(name: str) -> None:
    program = REFUSED[name]
    assert not is_joined(program)
    assert join_rows(program, "k")["k"] is program["k"]


@pl.jit
def mean_square_of_columns(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, cols = x.shape
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [rows, cols])
        pl.store(pl.mul(pl.col_sum(pl.mul(t, t)), 1.0 / rows), [0, 0], out)
    return out


@pytest.mark.parametrize("shape", [(1, 5), (7, 33), (30, 130)])
def test_column_sums_compile_to_what_they_mean(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    out, wanted = np.empty((2, 1, shape[1]), np.float32)
    mean_square_of_columns(x, out)
    interp.run(mean_square_of_columns.specialize(x, out), mean_square_of_columns.name, [x, wanted])
    assert out.tobytes() == wanted.tobytes()


M = pl.dynamic("M")


@pl.jit
def column_maxima(x: pl.Tensor[[M, 48], pl.FP32], out: pl.Out[pl.Tensor[[1, 48], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        rows, cols = x.shape
        out[:, :] = pl.col_max(pl.slice(x, [rows, cols], [0, 0]))
    return out


def test_rows_of_unknown_number_are_joined() -> None:
    lowered = column_maxima.lower()
    steps = [op for op in lowered["column_maxima"].body.walk() if op.opdef is control.for_]
    assert any(op.operands[2].op and op.operands[2].op.attrs.get("value") == 8 for op in steps)
    for rows in (1, 7, 8, 20):
        x = np.random.default_rng(rows).standard_normal((rows, 48), dtype=np.float32)
        out = np.empty((1, 48), np.float32)
        column_maxima(x, out)
        assert (out == x.max(0, keepdims=True)).all()


def test_extents_of_parameters_stay_what_they_are() -> None:
    given = parse("""
import tilewright.language as pl

M = pl.dynamic("M")

@pl.program
class example:
    @pl.function
    def k(self, x: pl.Tensor[[6, M], pl.FP32]) -> pl.Tensor[[1, M], pl.FP32]:
        return pl.op.reduce.sum(x, axes=[0], keepdims=True)
""")
    assert isinstance(given, Program)
    function = lower(given, "k")["k"]
    assert any(op.opdef is control.for_ and step(op) > 1 for op in function.body.walk())
    known = extents_of(function)
    for op in function.body.walk():
        if op.opdef is loop.alloc:
            assert known.issuperset(s for extent in op.attrs["shape"] for s in symbols(extent))
    x = np.random.default_rng(2).integers(-9, 9, (6, 37)).astype(np.float32)
    agree(lower(given, "k"), x, np.zeros((1, 37), np.float32))


def step(op: Operation) -> int:
    """The step of a loop, 0 where only run time knows it."""
    return constant_of(op.operands[2]) or 0


@pytest.mark.parametrize("dtype", [pl.INT8, pl.INT32, pl.INT64, pl.UINT32, pl.INDEX])
def test_a_number_of_rows_that_is_data_may_be_of_any_type_and_below_zero(dtype: pl.DType) -> None:
    @pl.jit
    def kernel(
        x: pl.Tensor[[4, 8], pl.FP32],
        out: pl.Out[pl.Tensor[[4, 8], pl.FP32]],
        n: pl.Scalar[dtype],
    ):
        for a in pl.parallel(4):
            with pl.at(level=pl.Level.CORE_GROUP):
                t = pl.load(x, [a, 0], [1, 8])
                for _ in pl.range(n):
                    t = pl.add(t, 1.0)
                pl.store(t, [a, 0], out)
        return out

    x, out = np.zeros((4, 8), np.float32), np.zeros((4, 8), np.float32)
    for n in (0, 1, 7, 8, 9, 64, *((-3, -8, -13) if dtype is not pl.UINT32 else ())):
        assert (kernel(x, out, n) == max(n, 0)).all(), n
