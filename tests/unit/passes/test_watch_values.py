"""Tiles are kept in further outputs, one element of them per iteration."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.language as pl
from tilewright.frontend.text import parse_program
from tilewright.interp import Interpreter
from tilewright.passes.watch_values import find_watches, watch_values
from tilewright.testing.native import run_native

X = np.arange(64, dtype=np.float32).reshape(16, 4)
NESTED = """
@pl.program
class example:
    @pl.function
    def main(
        self, n: pl.Scalar[pl.INDEX], x: pl.Tensor[[16, 4], pl.FP32]
    ) -> pl.Tile[[4, 4], pl.FP32]:
        total = pl.full([4, 4], dtype=pl.FP32, value=0.0)
        for i, (total,) in pl.range(4, 16, 4, init_values=(total,)):
            part = pl.load(x, [i, 0], [4, 4])
            if i > n:
                grown = pl.add(total, part)
                next = pl.yield_(grown)
            else:
                next = pl.yield_(total)
            total = pl.yield_(next)
        k = pl.const(0, pl.INDEX)
        for k, total in pl.while_(init_values=(k, total)):
            pl.cond(k < n)
            doubled = pl.mul(total, 2.0)
            k, total = pl.yield_(k + 1, doubled)
        return total
"""


@pytest.mark.parametrize("engine", ["interpreted", "compiled"])
def test_every_iteration_of_every_region_is_kept(engine: str) -> None:
    program = parse_program(NESTED)
    watches = find_watches(program["main"], 1 << 20)
    names = [watch.operation.result.name for watch in watches]
    watched = watch_values(program, "main", watches)
    kept = [np.zeros(tuple(map(int, w.type.shape)), np.float32) for w in watches]
    args = [5, X, *kept]
    if engine == "interpreted":
        Interpreter(watched).run("main", args)
    else:
        run_native(watched, "main", args)
    found = dict(zip(names, kept, strict=True))
    parts = X.reshape(4, 4, 4)[1:]
    assert np.array_equal(found["part"], parts)
    assert np.array_equal(found["grown"], [0 * parts[0], parts[1], parts[1] + parts[2]])
    assert np.array_equal(found["doubled"], (parts[1] + parts[2]) * 32)


def test_a_tile_that_is_large_over_all_iterations_is_kept_once() -> None:
    program = parse_program(NESTED)
    by_name = {w.operation.result.name: w for w in find_watches(program["main"], 100)}
    assert by_name["part"].trips == () and by_name["part"].type.shape == (4, 4)
    assert pl.FP32 is by_name["part"].type.dtype
