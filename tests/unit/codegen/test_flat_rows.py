"""Short rows that lie end to end are one row where nothing sees where a row ends."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.language as pl
from tilewright.codegen.flat_rows import find_flat_rows
from tilewright.codegen.streaming import LARGE
from tilewright.frontend.text import parse
from tilewright.ir.core import Program
from tilewright.ops import control
from unit.codegen.kernels import agree, emit, native
from unit.codegen.native_code import available_isas

TEXT = """
import tilewright.language as pl

@pl.program
class example:
    @pl.function
    def k(self, x: pl.Buffer[[6, 40, 5], pl.FP32], bias: pl.Buffer[[40], pl.FP32],
          out: pl.InOut[pl.Buffer[[6, 40, 5], pl.{dtype}]]):
        for i in pl.range(6):
            for r in pl.parallel({rows}):
                {before}
                for c in pl.loop.lanes({width}):
                    pl.loop.store(out, [i, r, c], {given})
"""
GIVEN = "pl.loop.load(x, [i, r, c]) * 2.0"


def written(
    given: str = GIVEN,
    dtype: str = "FP32",
    rows: str = "40",
    width: str = "5",
    before: str = "z = r + 1",
) -> Program:
    program = parse(TEXT.format(given=given, dtype=dtype, rows=rows, width=width, before=before))
    assert isinstance(program, Program)
    return program


def is_flat(program: Program) -> bool:
    loops = [op for op in program["k"].body.walk() if op.opdef is control.for_]
    return any(find_flat_rows(op) is not None for op in loops)


ALLOWED = {
    "elements": written(),
    "a number of the outer loop": written(f"{GIVEN} + pl.loop.load(bias, [i])"),
    "rows shifted as a whole": written("pl.loop.load(x, [5 - i, r, c])"),
    "the first rows": written(rows="17"),
    "places that come to the same": written("pl.loop.load(x, [i, r + i - i, c])"),
    "integers": written("pl.cast(pl.loop.load(x, [i, r, c]), pl.INT32) * 3", "INT32"),
}
REFUSED = {
    "a number for each row": written(f"{GIVEN} + pl.loop.load(bias, [r])"),
    "a number for each column": written(f"{GIVEN} + pl.loop.load(bias, [c])"),
    "rows of another order": written("pl.loop.load(x, [i, 39 - r, c])"),
    "columns of another order": written("pl.loop.load(x, [i, r, 4 - c])"),
    "numbers made of the place": written("pl.cast(c, pl.FP32)"),
    "numbers made of the row": written("pl.cast(r, pl.FP32) + pl.loop.load(x, [i, r, c])"),
    "numbers made of the row before": written(
        "y + pl.loop.load(x, [i, r, c])", before="y = pl.cast(r, pl.FP32)"
    ),
    "an element that is written": written("pl.loop.load(out, [i, 0, 0])"),
    "rows of rows": written("pl.loop.load(x, [i, r // 2, c])"),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_rows_that_are_joined_keep_their_elements(name: str) -> None:
    program = ALLOWED[name]
    assert is_flat(program)
    rng = np.random.default_rng(1)
    x, bias = (8 * rng.standard_normal(n, dtype=np.float32) for n in ((6, 40, 5), 40))
    out = np.zeros((6, 40, 5), np.int32 if name == "integers" else np.float32)
    agree(program, x, bias, out)


@pytest.mark.parametrize("name", REFUSED)
def test_rows_that_cannot_be_joined_stay(name: str) -> None:
    program = REFUSED[name]
    assert not is_flat(program)
    rng = np.random.default_rng(1)
    x, bias = (8 * rng.standard_normal(n, dtype=np.float32) for n in ((6, 40, 5), 40))
    agree(program, x, bias, np.zeros((6, 40, 5), np.float32))


def test_rows_with_gaps_stay_rows() -> None:
    program = written()
    x = np.zeros((6, 40, 7), np.float32)[:, :, 1:6]
    x[...] = np.random.default_rng(3).standard_normal(x.shape)
    out = np.zeros((6, 40, 5), np.float32)
    native(program, available_isas()[0], {"x": "strided"})(x, np.zeros(40, np.float32), out)
    assert (out == x * np.float32(2)).all()
    agree(written(width="4"), np.ascontiguousarray(x), np.zeros(40, np.float32), 0 * out)


N = pl.dynamic("N")


@pl.jit
def points(x: pl.Tensor[[N, 3], pl.FP32], out: pl.Out[pl.Tensor[[N, 3], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, :] = pl.mul(x, 2.0)
    return out


@pytest.mark.parametrize("rows", [1, 5, 16, 100_000])
def test_any_number_of_short_rows_is_one_row(rows: int) -> None:
    x = np.random.default_rng(4).standard_normal((rows, 3), dtype=np.float32)
    out = np.zeros_like(x)
    points(x, out)
    assert (out == x * np.float32(2)).all()


@pl.jit
def scaled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, cols = x.shape
    for i in pl.parallel(0, rows, 8):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [i, 0], [8, cols])
            pl.store(pl.add(pl.mul(t, 3.0), t), [i, 0], out)
    return out


@pytest.mark.parametrize("shape", [(16, 3), (64, 4), (8, 100), (24, 65)])
def test_kernels_with_short_rows_compile_to_what_they_mean(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(2).standard_normal(shape, dtype=np.float32)
    out = np.empty_like(x)
    scaled(x, out)
    assert (out == x * np.float32(3) + x).all()


def test_large_outputs_of_short_rows_go_past_the_caches() -> None:
    rows = LARGE // 12 + 1
    text = (
        TEXT.replace("InOut", "Out")
        .replace("6, 40, 5", f"1, {rows}, 3")
        .replace("range(6)", "range(1)")
    )
    program = parse(text.format(given=GIVEN, dtype="FP32", rows=rows, width=3, before="z = r + 1"))
    assert isinstance(program, Program)
    isa = available_isas()[0]
    assert "nontemporal !0" in emit(program, isa)[0].text
