"""Nests that run on the panels of a product give what they give after it."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from tilewright import ir
from tilewright.codegen.epilogue import find_epilogues
from tilewright.dtypes import BF16, FP16, INT32
from tilewright.frontend.text import parse
from tilewright.ir.core import Program
from tilewright.ops import loop
from unit.codegen.kernels import Array, agree, emit

HEAD = """
import tilewright.language as pl
{head}

@pl.program
class example:
    @pl.function
    def k(
        self,
        a: pl.Buffer[[{m}, {k}], pl.FP32],
        b: pl.Buffer[[{k}, {n}], pl.FP32],
        bias: pl.InOut[pl.Buffer[[1, {n}], pl.FP32]],
        {c}: pl.InOut[pl.Buffer[[{m}, {n}], pl.FP32]],
        out: pl.InOut[pl.Buffer[[{m}, {n}], pl.FP32]],{more}
    ):{scratch}
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
NARROW = """
for r in pl.parallel({m}):
    for i in pl.loop.lanes({n}):
        s = pl.loop.load(c, [r, i])
        s_1 = pl.loop.load(out, [r, i])
        s_2 = pl.loop.load(bias, [0, i])
        pl.loop.store(narrow, [r, i], pl.cast(pl.op.arith.max(s * s_2 + s_1, 0.0), pl.{dtype}))
"""
CENTRED = """
for r in pl.parallel({m}):
    for i, (most,) in pl.loop.lanes({n}, combine=['max'], init_values=(float("-inf"),)):
        s = pl.loop.load(c, [r, i])
        top = pl.yield_(s)
    for i in pl.loop.lanes({n}):
        s_1 = pl.loop.load(c, [r, i])
        pl.loop.store(c, [r, i], s_1 + s_1 - top)
"""
MASKED = """
for r in pl.parallel({m}):
    for i in pl.loop.lanes({n}):
        s = pl.loop.load(c, [r, i], r + i < 60)
        pl.loop.store(c, [r, i], s + 1.0, i < r + 40)
"""
TWICE = BIAS + "\npl.loop.matmul(c, a, b)\n" + BIAS
DTYPES = {"FP16": FP16, "BF16": BF16, "INT32": INT32}
SIZES = [(3, 5, 7), (8, 16, 48), (37, 70, 130), (64, 1100, 100), (300, 40, 1), (260, 64, 230)]


def program(
    nest: str, m: int, k: int, n: int, *, dtype: str = "", private: bool = False
) -> Program:
    """A product and a nest; with a `dtype`, which may write `narrow`; `c` may be private to it."""
    more = f"\n        narrow: pl.InOut[pl.Buffer[[{m}, {n}], pl.{dtype}]]," if dtype else ""
    scratch = f"\n        c = pl.loop.alloc(shape=[{m}, {n}], dtype=pl.FP32)" if private else ""
    names = {"more": more, "scratch": scratch, "c": "unused" if private else "c", "head": ""}
    return parsed(HEAD.format(m=m, k=k, n=n, nest=indented(nest.format(m=m, n=n)), **names))


def dynamic_program(nest: str) -> Program:
    """A product and a nest over extents that only run time knows."""
    head = "\n".join(f'{name} = pl.dynamic("{name}")' for name in "MKN")
    scratch = "\n" + indented(
        "m = pl.loop.extent(a, axis=0)\n"
        "n = pl.loop.extent(b, axis=1)\n"
        "c = pl.loop.view(whole, [0, 0], shape=[m, n], strides=[n, 1])"
    )
    names = {"more": "", "scratch": scratch, "c": "whole", "head": head}
    text = HEAD.format(m="M", k="K", n="N", nest=indented(nest.format(m="m", n="n")), **names)
    return parsed(text)


def parsed(text: str) -> Program:
    """The program of a text."""
    found = parse(text)
    assert isinstance(found, Program)
    return found


def indented(text: str) -> str:
    """Lines of the body of a function."""
    return "\n".join(f"        {line}" for line in text.strip("\n").splitlines())


def whole_numbers(m: int, k: int, n: int) -> list[Array]:
    """Arguments so small that every sum is exact: the interpreter gives the same bits."""
    rng = np.random.default_rng(5)
    shapes = [(m, k), (k, n), (1, n), (m, n), (m, n)]
    return [rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("nest", [BIAS, MOVED, ROWS])
def test_a_nest_follows_each_panel_of_a_product(nest: str, size: tuple[int, int, int]) -> None:
    m, k, n = size
    given = program(nest, m, k, n)
    (epilogue,) = find_epilogues(given["k"].body).values()
    assert (epilogue.lanes is None) == (nest is ROWS)
    agree(given, *whole_numbers(m, k, n))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["FP16", "BF16", "INT32"])
@pytest.mark.parametrize("private", [False, True])
def test_results_of_any_dtype_are_made_of_the_accumulators(
    dtype: str, private: bool, size: tuple[int, int, int]
) -> None:
    m, k, n = size
    given = program(NARROW.replace("{dtype}", dtype), m, k, n, dtype=dtype, private=private)
    (epilogue,) = find_epilogues(given["k"].body).values()
    assert epilogue.lanes is not None
    assert epilogue.keeps == (not private)
    result = np.zeros((m, n), DTYPES[dtype].numpy)
    agree(given, *whole_numbers(m, k, n), result)


@pytest.mark.parametrize("m", [1, 8, 20, 40])
@pytest.mark.parametrize("n", [90, 400])
def test_rows_are_finished_once_where_b_is_packed_in_blocks(m: int, n: int) -> None:
    text = program(CENTRED, m, 1200, n).as_python()
    text = text.replace(f"pl.Buffer[[1200, {n}]", f"pl.Buffer[[{n}, 1200]")
    given = parsed(text.replace("matmul(c, a, b", "matmul(c, a, b, b_trans=True"))
    (epilogue,) = find_epilogues(given["k"].body).values()
    assert epilogue.lanes is None
    a, b, *others = whole_numbers(m, 1200, n)
    agree(given, a, np.ascontiguousarray(b.T), *others)


@pytest.mark.parametrize("size", SIZES)
def test_masked_accesses_of_a_product(size: tuple[int, int, int]) -> None:
    m, k, n = size
    given = program(MASKED, m, k, n)
    (epilogue,) = find_epilogues(given["k"].body).values()
    assert epilogue.lanes is not None
    assert epilogue.keeps
    agree(given, *whole_numbers(m, k, n))


@pytest.mark.parametrize("nest", [BIAS, MOVED, MASKED])
def test_extents_of_run_time(nest: str) -> None:
    given = dynamic_program(nest)
    (epilogue,) = find_epilogues(given["k"].body).values()
    assert epilogue.lanes is not None
    for size in [*SIZES, (1, 90, 70), (70, 3, 50)]:
        agree(given, *whole_numbers(*size))


def test_columns_that_end_before_a_line_begins_are_finished_once() -> None:
    """Their length is known at run time only, and so is where lines of the cache begin."""
    text = """
import tilewright.language as pl
K = pl.dynamic("K")

@pl.program
class example:
    @pl.function
    def k(
        self,
        x: pl.Tensor[[3, K], pl.FP32],
        w: pl.Tensor[[20, K], pl.FP32],
        out: pl.Out[pl.Tensor[[3, 20], pl.FP32]],
    ):
        out[:] = pl.add(pl.matmul(x, w, b_trans=True), 1.0)
        return out
"""
    compiled = ir.compile(parsed(text))
    for length, start in itertools.product((1, 5, 15, 16, 17, 40), range(0, 16, 3)):
        x, w = whole_numbers(3, length, 20)[0], np.zeros(20 * length + 32, np.float32)
        first = (-w.ctypes.data // 4 + start) % 16
        w = w[first : first + 20 * length].reshape(20, length)
        w[:] = whole_numbers(20, length, 1)[0]
        out = np.empty((3, 20), np.float32)
        compiled(x, w, out)
        assert np.array_equal(out, x @ w.T + 1), (length, start)


def accumulators_stored(text: str) -> set[str]:
    """The names of fused sums that the micro-kernels in an LLVM text store as they are."""
    found: set[str] = set()
    for function in re.findall(r"define internal fastcc void @.*?\n}", text, re.DOTALL):
        sums = set(re.findall(r"(%\w+) = call <16 x float> @llvm.fma", function))
        for _ in range(2):  # the sums that leave a loop have a name of their own
            for name, given in re.findall(r"(%\w+) = phi <16 x float> (.*)", function):
                sums |= {name} if sums & set(re.findall(r"%\w+", given)) else set()
        found |= sums & set(re.findall(r"store <16 x float> (%\w+),", function))
        found |= sums & set(re.findall(r"masked.store.*?\(<16 x float> (%\w+),", function))
    return found


def test_a_product_that_nobody_else_reads_is_never_stored() -> None:
    size = (64, 96, 100)
    for nest, private in ((BIAS, False), (MOVED, True), (NARROW, True)):
        given = program(nest.replace("{dtype}", "FP16"), *size, dtype="FP16", private=private)
        text = emit(given, "avx512")[0].text
        assert "@tilewright.finished.block" in text
        assert not accumulators_stored(text)
    assert accumulators_stored(emit(program(MOVED, *size), "avx512")[0].text)


def test_equal_epilogues_share_their_micro_kernels() -> None:
    one, two = (emit(program(nest, 64, 96, 100), "avx512")[0].text for nest in (BIAS, TWICE))
    assert two.count("fastcc void @tilewright.finished") > one.count(
        "fastcc void @tilewright.finished"
    )
    defined = [len(re.findall(r"define .*@tilewright.finished.block", text)) for text in (one, two)]
    assert defined[0] == defined[1]


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
    assert epilogue.lanes is None
    assert epilogue.nest.opdef is not loop.matmul
