"""Nests that run on the panels of a product give what they give after it."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.codegen.epilogue import find_epilogues
from tilewright.frontend.text import parse
from tilewright.ir.core import Program
from tilewright.ops import loop
from unit.codegen.kernels import agree

HEAD = """
import tilewright.language as pl

@pl.program
class example:
    @pl.function
    def k(
        self,
        a: pl.Buffer[[{m}, {k}], pl.FP32],
        b: pl.Buffer[[{k}, {n}], pl.FP32],
        bias: pl.InOut[pl.Buffer[[1, {n}], pl.FP32]],
        c: pl.InOut[pl.Buffer[[{m}, {n}], pl.FP32]],
        out: pl.InOut[pl.Buffer[[{m}, {n}], pl.FP32]],
    ):
        pl.loop.matmul(c, a, b)
{nest}
"""
BIAS = """
for r in pl.parallel({m}):
    for i in pl.loop.lanes({n}):
        s = pl.loop.load(c, [r, i])
        s_1 = pl.loop.load(bias, [0, i])
        pl.loop.store(c, [r, i], s * 0.5 + s_1)
"""
MOVED = """
for r in pl.parallel({m}):
    s_2 = pl.loop.load(bias, [0, 0])
    for i in pl.loop.lanes({n}):
        s = pl.loop.load(c, [r, i])
        pl.loop.store(out, [r, i], s * s_2)
"""
ROWS = """
for r in pl.parallel({m}):
    row = pl.loop.alloc(shape=[{n}], dtype=pl.FP32)
    for i, (most,) in pl.loop.lanes({n}, combine=['max'], init_values=(float("-inf"),)):
        s = pl.loop.load(c, [r, i])
        pl.loop.store(row, [i], s * 2.0)
        top = pl.yield_(s)
    for i in pl.loop.lanes({n}):
        s_1 = pl.loop.load(row, [{n} - 1 - i])
        pl.loop.store(out, [r, i], s_1 - top)
"""
SIZES = [(3, 5, 7), (8, 16, 48), (37, 70, 130), (64, 1100, 100), (300, 40, 1), (260, 64, 230)]


def program(nest: str, m: int, k: int, n: int) -> Program:
    body = "\n".join(f"        {line}" for line in nest.format(m=m, n=n).strip("\n").splitlines())
    return parse(HEAD.format(m=m, k=k, n=n, nest=body))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("nest", [BIAS, MOVED, ROWS])
def test_a_nest_follows_each_panel_of_a_product(nest: str, size: tuple[int, int, int]) -> None:
    m, k, n = size
    given = program(nest, m, k, n)
    (epilogue,) = find_epilogues(given["k"].body).values()
    assert epilogue.splits == (nest is not ROWS)
    rng = np.random.default_rng(5)
    shapes = [(m, k), (k, n), (1, n), (m, n), (m, n)]
    # small whole numbers: every sum is exact, so that the interpreter gives the same bits
    arrays = [rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes]
    agree(given, *arrays)


KEPT_APART = {
    "it writes an operand": BIAS.replace("store(c,", "store(a,"),
    "it reads another row": BIAS.replace("load(c, [r, i])", "load(c, [{m} - 1 - r, i])"),
    "its rows depend on each other": BIAS.replace("pl.parallel", "pl.range"),
    "it does not touch the product": BIAS.replace("(c,", "(out,"),
    "it covers some rows": BIAS.replace("pl.parallel({m})", "pl.parallel({m} - 1)"),
}


@pytest.mark.parametrize("reason", KEPT_APART)
def test_a_nest_comes_after_the_product_where(reason: str) -> None:
    assert not find_epilogues(program(KEPT_APART[reason], 32, 32, 32)["k"].body)


def test_columns_are_not_split_where_one_needs_another() -> None:
    shifted = (
        MOVED.replace("load(c, [r, i])", "load(out, [r, {n} - 1 - i])")
        + """
    s_3 = pl.loop.load(c, [r, 0])
    pl.loop.store(bias, [0, r], s_3)
"""
    )
    (epilogue,) = find_epilogues(program(shifted, 32, 32, 32)["k"].body).values()
    assert not epilogue.splits
    assert epilogue.nest.opdef is not loop.matmul
