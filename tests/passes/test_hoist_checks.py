"""Checks go before a loop where that shows nowhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from passes.programs import Array
from property.levels import Chains
from tilewright.errors import IndexOutOfBounds
from tilewright.frontend.text import parse
from tilewright.interp import Interpreter
from tilewright.ir.core import Operation, Program
from tilewright.ir.verifier import verify
from tilewright.ops import control, loop
from tilewright.passes.hoist_checks import hoist_checks

HEAD = """
import tilewright.language as pl

M = pl.dynamic("M")
N = pl.dynamic("N")

@pl.program
class example:
    @pl.function
    def main(
        self,
        a: pl.Buffer[[M, 4], pl.FP32],
        b: pl.Buffer[[4, N], pl.FP32],
        out: pl.InOut[pl.Buffer[[M, N], pl.FP32]],
    ):
        m = pl.loop.extent(a, axis=0)
        n = pl.loop.extent(b, axis=1)
{body}
"""
TILES = """
for i in pl.parallel(0, m, 8):
    for j in pl.parallel(0, n, 16):
        pl.loop.check_index(7 + i, m)
        pl.loop.check_index(15 + j, n, axis=1)
        t = pl.loop.view(out, [i, j], shape=[8, 16], strides=[n, 1])
        x = pl.loop.view(a, [i, 0], shape=[8, 4], strides=[4, 1])
        y = pl.loop.view(b, [0, j], shape=[4, 16], strides=[n, 1])
        pl.loop.matmul(t, x, y)
"""


def program(body: str) -> Program:
    lines = [f"        {line}" for line in body.strip("\n").splitlines()]
    found = parse(HEAD.format(body="\n".join(lines)))
    assert isinstance(found, Program)
    return found


def in_loops(given: Program) -> list[Operation]:
    """The checks inside loops."""
    loops = [op for op in given["main"].body.walk() if op.opdef is control.for_]
    return [
        inner for op in loops for inner in op.regions[0].walk() if inner.opdef is loop.check_index
    ]


def run(given: Program, m: int, n: int) -> list[Array] | str:
    rng = np.random.default_rng(3)
    shapes = [(m, 4), (4, n), (m, n)]
    args: list[Any] = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    try:
        Interpreter(given, words=Chains(), checked=True).run("main", args)
    except IndexOutOfBounds as error:
        return type(error).__name__
    return args


@pytest.mark.parametrize("m", [3, 8, 20, 24])
@pytest.mark.parametrize("n", [0, 5, 16, 30, 48])
def test_tiles_of_run_time_extents_are_checked_at_once(m: int, n: int) -> None:
    before = program(TILES)
    after = hoist_checks(before, "main")
    verify(after)
    assert not in_loops(after)
    wanted, found = run(before, m, n), run(after, m, n)
    if isinstance(wanted, str) or isinstance(found, str):
        assert wanted == found
    else:
        for left, right in zip(wanted, found, strict=True):
            np.testing.assert_array_equal(left, right)


WORK = "pl.loop.matmul(t, x, y)"
KEPT = {
    "another failure may come first": ("pl.loop.check_index(7 + i, m)\n", ""),
    "tiles overlap": ("check_index(15 + j", "check_index(16 + j"),
    "the last tile may be a part": ("parallel(0, n, 16)", "parallel(0, n, 8)"),
    "the first fails": ("parallel(0, n, 16)", "parallel(-32, n, 16)"),
}


@pytest.mark.parametrize("reason", KEPT)
def test_checks_stay_where(reason: str) -> None:
    old, new = KEPT[reason]
    body = TILES.replace(old, new)
    if not new:
        body = TILES.replace(WORK, "pl.loop.check_extent(i, m)\n        " + WORK)
    assert in_loops(hoist_checks(program(body), "main"))


def test_a_loop_whose_check_is_not_always_made_keeps_its_end() -> None:
    """Without columns nothing is checked; rows that are not a multiple are still filled."""
    filling = """
    for r in pl.parallel(8):
        pl.loop.store(out, [0, 0], 1.0, i + r < m)
"""
    before = program(TILES + filling)
    after = hoist_checks(before, "main")
    assert not in_loops(after)
    (outer,) = (op for op in after["main"].body.ops if op.opdef is control.for_)
    assert outer.operands[1] is not None
    ends = [op.operands[1].op for op in after["main"].body.walk() if op.opdef is control.for_]
    assert ends[0] is not None
    assert ends[0].opdef is loop.extent
    assert ends[1] is not None
    assert ends[1].opdef is not loop.extent


M, K, N = pl.dynamic("M"), pl.dynamic("K"), pl.dynamic("N")


@pl.jit
def shifted_product(
    x: pl.Tensor[[M, K], pl.FP32],
    w: pl.Tensor[[K, N], pl.FP32],
    bias: pl.Tensor[[1, N], pl.FP32],
    out: pl.Out[pl.Tensor[[M, N], pl.FP32]],
):
    rows, inner = x.shape
    cols = w.shape[1]
    for i in pl.parallel(0, rows, 16):
        for j in pl.parallel(0, cols, 16):
            with pl.at(level=pl.Level.CORE_GROUP):
                acc = pl.full([16, 16], dtype=pl.FP32, value=0.0)
                for k in pl.range(0, inner, 16):
                    left = pl.load(x, [i, k], [16, 16])
                    acc = pl.matmul_acc(acc, left, pl.load(w, [k, j], [16, 16]))
                shifted = pl.col_expand_add(acc, pl.load(bias, [0, j], [1, 16]))
                pl.store(pl.relu(shifted), [i, j], out)
    return out


SHAPES = [(16, 16, 16), (32, 160, 48), (64, 2064, 528), (16, 0, 32), (0, 16, 16), (32, 16, 0)]


@pytest.mark.parametrize("size", SHAPES)
def test_dynamic_tiles_compute_the_product(size: tuple[int, int, int]) -> None:
    m, k, n = size
    rng = np.random.default_rng(1)
    x, w, bias = (rng.integers(-3, 4, s).astype(np.float32) for s in ((m, k), (k, n), (1, n)))
    out = np.full((m, n), np.nan, np.float32)
    shifted_product(x, w, bias, out)
    np.testing.assert_array_equal(out, np.maximum(x @ w + bias, 0))


def test_dynamic_tiles_are_one_product_and_what_follows_it() -> None:
    x = np.ones((16, 16), np.float32)
    ops = list(shifted_product.lower(x, x, x[:1], x)["shifted_product"].body.walk())
    assert sum(op.opdef is loop.matmul for op in ops) == 1
    assert sum(op.opdef is control.for_ for op in ops) == 2


@pytest.mark.parametrize("size", [(24, 16, 16), (16, 24, 16), (16, 16, 40), (8, 16, 16)])
def test_dynamic_tiles_that_do_not_fit_are_a_fault(size: tuple[int, int, int]) -> None:
    m, k, n = size
    x, w, bias = (np.ones(shape, np.float32) for shape in ((m, k), (k, n), (1, n)))
    with pytest.raises(IndexOutOfBounds):
        shifted_product(x, w, bias, np.zeros((m, n), np.float32))


def test_a_check_of_what_only_the_loop_knows_stays() -> None:
    given = program("""
s = pl.loop.alloc(shape=[8], dtype=pl.INDEX)
for i in pl.range(8):
    v = pl.loop.load(s, [i])
    pl.loop.check_index(v, m)
    x = pl.loop.load(a, [v, 0])
    pl.loop.store(out, [v, 0], x)
pl.loop.matmul(out, a, b)
""")
    assert len(in_loops(hoist_checks(given, "main"))) == 1
