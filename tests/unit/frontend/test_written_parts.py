"""Parts of parameters that are written print, and read back in the same order: also inlined."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import ir
from tilewright.errors import TilewrightError
from tilewright.ir.core import Program
from tilewright.passes.inline_calls import inline_calls
from tilewright.passes.simplify import simplify

HELPERS = """
T = pl.Tensor[[8, 8], pl.FP32]
H = pl.Tensor[[4, 8], pl.FP32]
Q = pl.Tensor[[4, 4], pl.FP32]
R = pl.Tensor[[8], pl.FP32]

@pl.program
class P:
    @pl.function
    def half(self, a: H, o: pl.Out[H]) -> H:
        o[:] = pl.mul(a, 2.0)
        return o

    @pl.function
    def inner(self, a: H, o: pl.InOut[H]):
        o[1:3, :] = pl.slice(a, [2, 8], [0, 0])

    @pl.function
    def tiles(self, a: H, o: pl.Out[H]) -> H:
        t = pl.load(a, [0, 0], [4, 8])
        o = pl.store(t, [0, 0], o)
        return o

    @pl.function
    def quarter(self, a: H, o: pl.InOut[Q]) -> Q:
        o[0:2, :] = pl.slice(a, [2, 4], [0, 0])
        o[2:4, :] = pl.slice(a, [2, 4], [2, 0])
        return o

    @pl.function
    def row(self, a: H, o: pl.InOut[R]):
        o[:] = pl.reshape(pl.slice(a, [1, 8], [0, 0]), [8])

    @pl.function
    def both(self, a: H, o: pl.Out[H], p: pl.InOut[H]):
        o[:] = pl.mul(a, 2.0)
        p[0:2, :] = pl.slice(a, [2, 8], [0, 0])

    @pl.function
    def main(self, x: T, y: pl.InOut[T], z: pl.InOut[T], n: pl.INDEX):
"""
STATEMENTS = """
y[0:4, :] = self.half(x[0:4, :], y[0:4, :])
self.half(x[0:4, :], z[4:8, :])
self.inner(x[4:8, :], y[0:4, :])
self.inner(y[4:8, :], z[0:4, :])
self.tiles(x[0:4, :], y[4:8, :])
self.quarter(z[0:4, :], y[0:4, 4:8])
self.quarter(y[0:4, :], z[4:8, 0:4])
self.row(x[0:4, :], y[2])
self.row(y[0:4, :], z[n])
y[0:4, :][1:3, :] = x[0:2, :]
z[2:6, :] = y[0:4, :]
y = pl.assemble(y, x[0:4, :], [n, 0])
t = pl.load(z, [0, 0], [4, 8]); y = pl.store(t, [4, 0], y)
self.both(x[0:4, :], y[0:4, :], z[0:4, :])
self.both(y[0:4, :], y[4:8, :], z[0:4, :])
pl.tensor.write(y, [0, n], 3.0)
for i in pl.range(2): self.half(x[0:4, :], y[i * 4:i * 4 + 4, :])
for i in pl.range(2): self.inner(y[0:4, :], z[i * 4:i * 4 + 4, :])
if n > 2: self.half(x[0:4, :], y[0:4, :]); z[0:1, :] = x[0:1, :]
""".strip().splitlines()


def program(*statements: str) -> Program:
    return pl.parse_program(HELPERS + "".join(f"        {line}\n" for line in statements))


def levels(made: Program) -> list[Program]:
    inlined = inline_calls(made, "main")
    return [made, inlined, simplify(inlined, "main")]


def run(made: Program, execution: str | None, n: int) -> list[Any]:
    arrays = [np.arange(64, dtype=np.float32).reshape(8, 8) + 100 * k for k in range(3)]
    ir.compile(made, execution=execution)(*arrays, n)
    return arrays


@pytest.mark.parametrize("seed", range(36))
def test_writes_of_parts_print_and_read_back_at_every_level(seed: int) -> None:
    draw = random.Random(seed)
    body = draw.choices(STATEMENTS, k=draw.randint(2, 5))
    try:
        made = program(*body)
    except TilewrightError:
        return  # a part of what was written as a whole, and the like
    texts = [level.as_python() for level in levels(made)]
    for level, text in zip(levels(made), texts):
        ir.assert_structural_equal(pl.parse_program(text), level)
    if seed % 6 == 0:
        for given, want in zip(run(made, None, 3), run(made, "interpret", 3)):
            np.testing.assert_array_equal(given, want)


def test_most_of_the_programs_above_can_be_read() -> None:
    read = 0
    for seed in range(36):
        draw = random.Random(seed)
        try:
            program(*draw.choices(STATEMENTS, k=draw.randint(2, 5)))
        except TilewrightError:
            continue
        read += 1
    assert read > 27


def test_a_part_is_written_once_however_it_is_said() -> None:
    said = program("y[0:4, :] = self.half(x[0:4, :], y[0:4, :])")
    implied = program("self.half(x[0:4, :], y[0:4, :])")
    ir.assert_structural_equal(said, implied)


def test_a_text_by_hand_writes_parts_as_a_kernel_does(capsys: pytest.CaptureFixture[str]) -> None:
    made = program(
        "pl.static_print(1, x)",
        "part = y[0:4, :]",
        "self.half(x[0:4, :], part)",
        "z[0:4, :] = part",
    )
    assert capsys.readouterr().out == "1 x: pl.Tensor[[8, 8], pl.FP32]\n"
    for execution in (None, "interpret"):
        x, y, z = run(made, execution, 0)
        np.testing.assert_array_equal(y[:4], 2 * x[:4])
        np.testing.assert_array_equal(z[:4], 2 * x[:4])
