"""Nests that are alike are compiled once, and each still does what it does in its place."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tilewright.frontend.text import parse
from tilewright.ir.core import Program
from unit.codegen.kernels import agree, emit

HEAD = """
import tilewright.language as pl

@pl.program
class example:
    @pl.function
    def k(
        self,
        x: pl.Buffer[[64, 500], pl.FP32],
        factors: pl.Buffer[[8], pl.FP32],
        out: pl.InOut[pl.Buffer[[64, 500], pl.FP32]],
    ):
        {body}
"""
TILE = """
top = pl.loop.view(x, [{row}, 0], shape=[16, 500], strides=[500, 1])
given = pl.loop.view(out, [{row}, 0], shape=[16, 500], strides=[500, 1])
factor = pl.loop.load(factors, [{number}])
for r in pl.{kind}(16):
    row = pl.loop.alloc(shape=[500], dtype=pl.FP32)
    for c, (s,) in pl.loop.lanes(500, combine=['add'], init_values=(0.0,)):
        s_0 = pl.loop.load(top, [r, c])
        s_1 = s_0 * s_0 + 1.0
        pl.loop.store(row, [c], s_1)
        total = pl.yield_(s_1)
    for c in pl.loop.lanes(500):
        pl.loop.store(given, [r, c], pl.loop.load(row, [c]) * factor + total * {constant})
"""
SHIFTED = """
keep_{number} = pl.loop.alloc(shape=[{kept}], dtype=pl.FP32)
for c in pl.loop.lanes({kept}):
    pl.loop.store(keep_{number}, [c], pl.loop.load(factors, [{number}]))
for r in pl.parallel(16):
    place = {row} + r
    row = pl.loop.alloc(shape=[500], dtype=pl.FP32)
    for c in pl.loop.lanes(500):
        s_0 = pl.loop.load(x, [place, c])
        pl.loop.store(row, [499 - c], s_0 * pl.loop.load(factors, [{number}]))
    for c in pl.loop.lanes(500):
        pl.loop.store(out, [place, c], pl.loop.load(row, [c]) + 1.0)
for c in pl.loop.lanes({kept}):
    pl.loop.store(out, [{row}, c], pl.loop.load(keep_{number}, [c]))
"""
NEST = re.compile(r"define internal i32 @tilewright\.nest\d+\(")


def tile(number: int, kind: str = "parallel", constant: float = 0.5) -> str:
    """Squares, and their sums, of rows 16 * number to 16 * number + 15."""
    return TILE.strip("\n").format(row=16 * number, number=number, kind=kind, constant=constant)


def program(*parts: str) -> Program:
    """A program of these statements."""
    made = parse(HEAD.format(body="\n".join(parts).replace("\n", "\n" + " " * 8)))
    assert isinstance(made, Program)
    return made


def nests(given: Program) -> int:
    """How many functions of nests its kernel has."""
    kernel, _ = emit(given, "avx2")
    return len(NEST.findall(kernel.text))


def agrees(given: Program) -> None:
    """Native code gives the interpreter's bits."""
    rng = np.random.default_rng(3)
    shapes = [(64, 500), (8,), (64, 500)]
    agree(given, *(rng.standard_normal(shape, dtype=np.float32) for shape in shapes))


@pytest.mark.parametrize("kind", ["parallel", "range"])
def test_nests_that_differ_in_what_they_touch_are_one_function(kind: str) -> None:
    given = program(*(tile(number, kind) for number in range(4)))
    assert nests(given) == 1
    agrees(given)


def test_nests_that_differ_in_where_they_are_in_memory_are_one_function() -> None:
    parts = (
        SHIFTED.strip("\n").format(row=16 * number, number=number, kept=16 * number + 16)
        for number in range(4)
    )
    given = program(*parts)
    assert nests(given) == 1
    agrees(given)


def test_nests_that_differ_in_a_number_stay_in_place() -> None:
    given = program(*(tile(number, constant=float(number)) for number in range(4)))
    assert nests(given) == 0
    agrees(given)


def test_a_nest_of_its_own_stays_in_place() -> None:
    assert nests(program(tile(0))) == 0


def test_nests_in_loops_are_the_same_function() -> None:
    inside = "for _ in pl.range(3):\n" + tile(0)
    given = program(inside.replace("\n", "\n    "), tile(1))
    assert nests(given) == 1
    agrees(given)
