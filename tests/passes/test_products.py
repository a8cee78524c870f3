"""What may be done with products at the loop level, and what may not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from passes.programs import Array
from property.levels import Chains
from tilewright.frontend.text import parse
from tilewright.interp import Interpreter
from tilewright.ir.core import Program
from tilewright.ir.verifier import verify
from tilewright.ops import control, loop
from tilewright.passes.merge_products import merge_products
from tilewright.passes.merge_tiles import merge_tiles
from tilewright.passes.place_products import place_products

HEAD = """
import tilewright.language as pl

@pl.program
class example:
    @pl.function
    def main(self, {params}):
{body}
"""
A, B, OUT = (
    "a: pl.Buffer[[16, 8], pl.FP32]",
    "b: pl.Buffer[[8, 32], pl.FP32]",
    "[[16, 32], pl.FP32]",
)
PARAMS = f"{A}, {B}, x: pl.InOut[pl.Buffer{OUT}], out: pl.Out[pl.Buffer{OUT}]"


def program(body: str, params: str = PARAMS) -> Program:
    lines = [f"        {line}" for line in body.strip("\n").splitlines()]
    return parse(HEAD.format(params=params, body="\n".join(lines)))


def run(given: Program) -> list[Array]:
    rng = np.random.default_rng(1)
    args: list[Any] = [
        rng.standard_normal(param.type.shape).astype(np.float32) for param in given["main"].params
    ]
    Interpreter(given, words=Chains(), checked=True).run("main", args)
    return args


def count(given: Program, opdef: Any) -> int:
    return sum(op.opdef is opdef for op in given["main"].body.walk())


def same_meaning(before: Program, after: Program) -> None:
    verify(after)
    for left, right in zip(run(before), run(after), strict=True):
        np.testing.assert_array_equal(left, right)


# ---------------------------------------------------------------------- places

PRODUCT = """
t = pl.loop.alloc(shape=[16, 32], dtype=pl.FP32)
pl.loop.matmul(t, a, b)
"""
COPY = """
for r in pl.parallel(16):
    for c in pl.loop.lanes(32):
        s = pl.loop.load(t, [r, c])
        pl.loop.store(out, [r, c], s)
"""


def placed(body: str) -> Program:
    before = program(body)
    after = place_products(before, "main")
    same_meaning(before, after)
    return after


def test_a_product_that_is_only_copied_is_computed_where_it_goes() -> None:
    after = placed(PRODUCT + COPY)
    assert (count(after, loop.alloc), count(after, control.for_)) == (0, 0)


def test_a_row_that_is_reduced_first_is_worked_on_in_place() -> None:
    after = placed(
        PRODUCT
        + """
for r in pl.parallel(16):
    for c, (most,) in pl.loop.lanes(32, combine=['max'], init_values=(float("-inf"),)):
        s = pl.loop.load(t, [r, c])
        top = pl.yield_(s)
    for c in pl.loop.lanes(32):
        s = pl.loop.load(t, [r, c])
        pl.loop.store(out, [r, c], s - top)
"""
    )
    assert count(after, loop.alloc) == 0


KEPT = {
    "the target is read meanwhile": """
pl.loop.store(x, [0, 0], pl.loop.load(out, [0, 0]))
for r in pl.parallel(16):
    for c in pl.loop.lanes(32):
        s = pl.loop.load(t, [r, c])
        pl.loop.store(out, [r, c], s)
""",
    "the nest reads another element": """
for r in pl.parallel(16):
    for c in pl.loop.lanes(32):
        s = pl.loop.load(t, [r, 31 - c])
        pl.loop.store(out, [r, c], s)
""",
    "the nest reads the row again after the store": """
for r in pl.parallel(16):
    for c in pl.loop.lanes(32):
        s = pl.loop.load(t, [r, c])
        pl.loop.store(out, [r, c], s + 1.0)
    for c in pl.loop.lanes(32):
        s = pl.loop.load(t, [r, c])
        pl.loop.store(x, [r, c], s)
""",
    "the nest fills a part": """
for r in pl.parallel(8):
    for c in pl.loop.lanes(32):
        s = pl.loop.load(t, [r, c])
        pl.loop.store(out, [r, c], s)
""",
    "the product is read again": """
for r in pl.parallel(16):
    for c in pl.loop.lanes(32):
        s = pl.loop.load(t, [r, c])
        pl.loop.store(out, [r, c], s)
pl.loop.store(x, [0, 0], pl.loop.load(t, [0, 0]))
""",
    "the target is read in the nest": """
for r in pl.parallel(16):
    for c in pl.loop.lanes(32):
        s = pl.loop.load(t, [r, c])
        s_1 = pl.loop.load(x, [r, c])
        pl.loop.store(x, [r, c], s + s_1)
""",
}


@pytest.mark.parametrize("reason", KEPT)
def test_a_product_stays_in_memory_of_its_own_where(reason: str) -> None:
    assert (
        count(placed("pl.loop.store(out, [0, 0], 3.0)" + PRODUCT + KEPT[reason]), loop.alloc) == 1
    )


def test_two_products_do_not_end_up_in_one_place() -> None:
    after = placed(
        PRODUCT
        + """
t_1 = pl.loop.alloc(shape=[16, 32], dtype=pl.FP32)
pl.loop.matmul(t_1, a, b)
pl.loop.matmul(t_1, a, b, accumulate=True)
for r in pl.parallel(16):
    for c in pl.loop.lanes(32):
        s = pl.loop.load(t, [r, c])
        s_1 = pl.loop.load(t_1, [r, c])
        pl.loop.store(out, [r, c], s)
        pl.loop.store(x, [r, c], s_1)
"""
    )
    assert count(after, loop.alloc) == 0


# ---------------------------------------------------------------------- slices along k


def sliced(low: int, step: int, width: int, before: str = "") -> str:
    return f"""{before}
for k in pl.range({low}, 8, {step}):
    y = pl.loop.view(a, [0, k], shape=[16, {width}], strides=[8, 1])
    z = pl.loop.view(b, [k, 0], shape=[{width}, 32], strides=[32, 1])
    pl.loop.matmul(x, y, z, accumulate=True)
"""


@pytest.mark.parametrize(
    ("low", "step", "width", "loops"), [(0, 4, 4, 0), (4, 2, 2, 0), (0, 4, 2, 1), (1, 4, 4, 1)]
)
def test_slices_that_follow_each_other_are_one_product(
    low: int, step: int, width: int, loops: int
) -> None:
    if low == 1:
        before = program(sliced(0, 3, 2))
    else:
        before = program(sliced(low, step, width))
    after = merge_products(before, "main")
    same_meaning(before, after)
    assert count(after, control.for_) == loops
    assert count(after, loop.matmul) == 1


@pytest.mark.parametrize(("value", "nests"), [("0.0", 0), ("-0.0", 2), ("1.0", 2)])
def test_only_what_a_chain_starts_from_anyway_need_not_be_written(value: str, nests: int) -> None:
    fill = f"""
for r in pl.parallel(16):
    for c in pl.loop.lanes(32):
        pl.loop.store(x, [r, c], {value})
"""
    before = program(fill + "pl.loop.matmul(x, a, b, accumulate=True)")
    after = merge_products(before, "main")
    same_meaning(before, after)
    assert count(after, control.for_) == nests


# ---------------------------------------------------------------------- tiles


def tiled(nest: str, extra: str = "") -> str:
    return f"""
for j in pl.parallel(0, 32, 16):
    t = pl.loop.view(out, [0, j], shape=[16, 16], strides=[32, 1])
    y = pl.loop.view(b, [0, j], shape=[8, 16], strides=[32, 1])
    pl.loop.matmul(t, a, y)
    for r in pl.parallel(16):
        for c in pl.loop.lanes(16):
            s = pl.loop.load(t, [r, c])
            {nest}
{extra}"""


TILES = {
    "s_1 = pl.loop.load(x, [r, j + c])\n            pl.loop.store(t, [r, c], s * s_1)": True,
    "s_1 = pl.loop.load(x, [r, 0])\n            pl.loop.store(t, [r, c], s * s_1)": True,
    "s_1 = pl.loop.load(x, [r, c])\n            pl.loop.store(t, [r, c], s * s_1)": False,
    "s_1 = pl.loop.load(x, [r, j])\n            pl.loop.store(t, [r, c], s * s_1)": False,
    "pl.loop.store(t, [r, c], s + pl.cast(c, pl.FP32))": False,
    "pl.loop.store(t, [r, c], s + 1.0)\n            pl.loop.store(x, [r, c], s)": False,
}


@pytest.mark.parametrize("nest", TILES)
def test_tiles_are_one_where_their_position_only_finds_elements(nest: str) -> None:
    before = program(tiled(nest))
    after = merge_tiles(before, "main")
    same_meaning(before, after)
    assert count(after, control.for_) == (2 if TILES[nest] else 3)


def test_rows_of_tiles_may_be_reduced() -> None:
    before = program(
        """
for i in pl.parallel(0, 16, 4):
    t = pl.loop.view(out, [i, 0], shape=[4, 32], strides=[32, 1])
    y = pl.loop.view(a, [i, 0], shape=[4, 8], strides=[8, 1])
    pl.loop.matmul(t, y, b)
    for r in pl.parallel(4):
        for c, (total,) in pl.loop.lanes(32, combine=['add'], init_values=(0.0,)):
            s = pl.loop.load(t, [r, c])
            sum_ = pl.yield_(s)
        for c in pl.loop.lanes(32):
            s = pl.loop.load(t, [r, c])
            pl.loop.store(t, [r, c], s - sum_)
"""
    )
    after = merge_tiles(before, "main")
    same_meaning(before, after)
    assert count(after, control.for_) == 3


GATED = """
for j in pl.parallel(0, 32, 16):
    g = pl.loop.alloc(shape=[16, 16], dtype=pl.FP32)
    y = pl.loop.view(b, [0, j], shape=[{k}, 16], strides=[32, 1])
    pl.loop.matmul(g, a, y)
    for r in pl.parallel(16):
        for c in pl.loop.lanes(16):
            s = pl.loop.load(g, [r, c])
            pl.loop.store(g, [r, c], s * 2.0)
    t = pl.loop.view(out, [0, j], shape=[16, 16], strides=[32, 1])
    z = pl.loop.view(u, [0, j], shape=[{k}, 16], strides=[32, 1])
    pl.loop.matmul(t, a, z)
    for r_1 in pl.parallel(16):
        for c_1 in pl.loop.lanes(16):
            s_1 = pl.loop.load(g, [r_1, c_1])
            s_2 = pl.loop.load(t, [r_1, c_1])
            pl.loop.store(t, [r_1, c_1], s_1 * s_2)
"""


def gated(body: str = GATED, k: int = 256) -> Program:
    """Two products an iteration, the second nest of which reads what the first has written."""
    params = (
        f"a: pl.Buffer[[16, {k}], pl.FP32], b: pl.Buffer[[{k}, 32], pl.FP32], "
        f"u: pl.Buffer[[{k}, 32], pl.FP32], out: pl.Out[pl.Buffer{OUT}]"
    )
    return program(body.format(k=k), params)


def test_several_products_of_a_tile_are_one_each() -> None:
    before = gated()
    after = merge_tiles(before, "main")
    assert count(after, loop.matmul) == 2
    assert count(after, control.for_) == 4
    (grown,) = (op for op in after["main"].body.walk() if op.opdef is loop.alloc)
    assert grown.attrs["shape"] == (16, 32)
    same_meaning(before, after)


def test_several_products_of_rows_of_tiles_are_one_each() -> None:
    body = (
        GATED.replace("(0, 32, 16)", "(0, 16, 4)")
        .replace("shape=[16, 16]", "shape=[4, 32]")
        .replace("pl.loop.view(out, [0, j]", "pl.loop.view(out, [j, 0]")
        .replace("y = pl.loop.view(b, [0, j], shape=[{k}, 16], strides=[32, 1])", "y = b")
        .replace("z = pl.loop.view(u, [0, j], shape=[{k}, 16], strides=[32, 1])", "z = u")
        .replace("matmul(g, a, y)", "matmul(g, w, b)")
        .replace("matmul(t, a, z)", "matmul(t, w, u)")
        .replace(
            "    y = b\n", "    w = pl.loop.view(a, [j, 0], shape=[4, {k}], strides=[{k}, 1])\n"
        )
        .replace("    z = u\n", "")
        .replace("pl.parallel(16)", "pl.parallel(4)")
        .replace("lanes(16)", "lanes(32)")
    )
    before = gated(body)
    after = merge_tiles(before, "main")
    assert count(after, control.for_) == 4
    same_meaning(before, after)


APART = {
    "the tile of another iteration is read": (GATED.replace("load(t, [r_1", "load(out, [r_1"), 256),
    "elements would leave the cache for little": (GATED, 8),
    "a value depends on the position": (GATED.replace("s * 2.0", "s * pl.cast(j, pl.FP32)"), 256),
    "a row is read by a column": (GATED.replace("load(g, [r_1, c_1])", "load(g, [c_1, r_1])"), 256),
    "it would take too much memory": (GATED.replace("0, 32, 16", "0, 1048576, 16"), 256),
}


@pytest.mark.parametrize("reason", APART)
def test_products_of_a_tile_stay_together_where(reason: str) -> None:
    body, k = APART[reason]
    given = gated(body, k)
    assert count(merge_tiles(given, "main"), control.for_) == 5
