"""Strips of columns are joined where every strip does the same to what follows the last one."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import interp, ir
from tilewright.frontend.text import parse
from tilewright.ir.core import Program
from tilewright.ops import control
from tilewright.passes.join_strips import find_strips, is_strided, join_strips
from unit.codegen.kernels import agree

N = pl.dynamic("N")
TEXT = """
import tilewright.language as pl

@pl.program
class example:
    @pl.function
    def k(self, x: pl.Buffer[[24, 512], pl.FP32], gain: pl.Buffer[[512], pl.FP32],
          out: pl.{way}[pl.Buffer[[512], pl.FP32]]):
        for j in pl.{kind}(0, 512, 32):
            total = pl.loop.alloc(shape=[32], dtype=pl.FP32)
            for c in pl.loop.lanes(32):
                pl.loop.store(total, [c], 0.0)
            for r in pl.range(24):
                for c in pl.loop.lanes(32):
                    pl.loop.store(total, [{own}], pl.loop.load(total, [{own}]) + {given})
            for c in pl.loop.lanes(32):
                pl.loop.store(out, [j + c], {last})
"""
GIVEN, LAST = "pl.loop.load(x, [r, j + c])", "pl.loop.load(total, [c])"


def written(given: str = GIVEN, last: str = LAST, **more: str) -> Program:
    parts = {"kind": "parallel", "own": "c", "way": "Out", **more}
    program = parse(TEXT.format(given=given, last=last, **parts))
    assert isinstance(program, Program)
    return program


def strips(program: Program) -> list[int]:
    """How many strips become one, for each loop that can be joined."""
    loops = [op for op in program["k"].body.walk() if op.opdef is control.for_]
    found = [find_strips(op) for op in loops if is_strided(op)]
    return [each.many for each in found if each is not None]


ALLOWED = {
    "columns": written(),
    "columns with a factor of their own": written(f"{GIVEN} * pl.loop.load(gain, [j + c])"),
    "columns with a factor of the row": written(f"{GIVEN} * pl.loop.load(gain, [r])"),
}
REFUSED = {
    "the same factors for every strip": written(f"{GIVEN} * pl.loop.load(gain, [c])"),
    "a factor for each strip": written(f"{GIVEN} * pl.loop.load(gain, [j])"),
    "strips that overlap": written("pl.loop.load(x, [r, j + c * 2])"),
    "strips side by side that are not": written("pl.loop.load(x, [r, j // 2 + c])"),
    "rows of a strip": written("pl.loop.load(x, [c, j + r])"),
    "scratch read backwards": written(last="pl.loop.load(total, [31 - c])"),
    "one place of scratch": written(own="0"),
    "numbers made of the place": written(last=f"{LAST} + pl.cast(c, pl.FP32)"),
    "strips in order": written(kind="range"),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_strips_that_are_joined_keep_their_bits(name: str) -> None:
    program = ALLOWED[name]
    assert strips(program) == [8]
    rng = np.random.default_rng(1)
    x, gain, out = (rng.standard_normal(n, dtype=np.float32) for n in ((24, 512), 512, 512))
    wanted = out.copy()
    interp.run(program, "k", [x, gain, wanted])
    after = join_strips(program, "k")
    interp.run(after, "k", [x, gain, out])
    assert out.tobytes() == wanted.tobytes()
    agree(after, x, gain, out)


@pytest.mark.parametrize("name", REFUSED)
def test_strips_that_cannot_be_joined_stay(name: str) -> None:
    program = REFUSED[name]
    assert not strips(program)
    assert join_strips(program, "k")["k"] is program["k"]


@pl.jit
def norms_of_columns(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, cols = x.shape
    for j in pl.parallel(0, cols, 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, j], [rows, 16])
            pl.store(pl.sqrt(pl.col_sum(pl.mul(t, t))), [0, j], out)
    return out


@pytest.mark.parametrize("shape", [(9, 64), (20, 256), (7, 272)])
def test_kernels_by_strips_compile_to_what_they_mean(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(2).standard_normal(shape, dtype=np.float32)
    out, wanted = np.empty((2, 1, shape[1]), np.float32)
    norms_of_columns(x, out)
    interp.run(norms_of_columns.specialize(x, out), norms_of_columns.name, [x, wanted])
    assert out.tobytes() == wanted.tobytes()


def test_strips_that_only_run_time_counts_stay_as_they_are() -> None:
    @pl.function
    def f(x: pl.Tensor[[N, 16], pl.FP32], out: pl.Out[pl.Tensor[[N, 16], pl.FP32]]):
        for i in pl.parallel(x.shape[0] // 8):
            with pl.at(level=pl.Level.CORE_GROUP):
                pl.store(pl.add(pl.load(x, [i * 8, 0], [8, 16]), 0.5), [i * 8, 0], out)

    x = np.random.default_rng(0).standard_normal((24, 16)).astype(np.float32)
    out = np.zeros_like(x)
    ir.compile(f)(x, out)
    np.testing.assert_array_equal(out, x + np.float32(0.5))
