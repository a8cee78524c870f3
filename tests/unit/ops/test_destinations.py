"""Operations that are given a destination write the caller's tensor, used as a value or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import ir
from unit.frontend.parsed_kernels import execute

RNG = np.random.default_rng(0)
X = RNG.standard_normal((8, 16)).astype(np.float32)
ROWS = np.array([[3, 1], [7, 0]], np.int32)
NEW = RNG.standard_normal((4, 16)).astype(np.float32)
PLACES = RNG.permutation(128).reshape(8, 16).astype(np.int32)


def kernel(line: str, rank: int = 2, kind: str = "Opaque") -> Any:
    shape, new = ("8, 16", "4, 16") if rank == 2 else ("2, 4, 1, 16", "2, 2, 1, 16")
    return pl.parse(
        f"@pl.function(type=pl.FunctionType.{kind})\n"
        f"def f(x: pl.Tensor[[8, 16], pl.FP32], rows: pl.Tensor[[2, 2], pl.INT32],\n"
        f"      new: pl.Tensor[[{new}], pl.FP32], places: pl.Tensor[[8, 16], pl.INT32],\n"
        f"      o: pl.InOut[pl.Tensor[[{shape}], pl.FP32]]):\n    {line}\n"
    )


def put(place: Any, value: Any) -> Any:
    wanted = np.zeros_like(X)
    wanted[place] = value
    return wanted


WRITES: list[Any] = [
    ("pl.store(pl.load(x, [0, 0], [8, 16]), [0, 0], o)", X, 2, "InCore"),
    ("pl.assemble(o, pl.slice(x, [2, 16], [4, 0]), [1, 0])", put(slice(1, 3), X[4:6]), 2, "Opaque"),
    ("pl.write(o, [2, 3], pl.read(x, [1, 1]))", put((2, 3), X[1, 1]), 2, "Opaque"),
    ("pl.gather_row(o, x, [1, 0], [5, 0], [1, 16])", put(1, X[5]), 2, "Opaque"),
    ("pl.scatter_update(o, -2, rows, new)", put(ROWS.ravel(), NEW), 2, "Opaque"),
    ("pl.scatter_update(o, rows, new)", put(ROWS.ravel(), NEW), 4, "Opaque"),
    (
        "pl.mscatter(pl.load(x, [0, 0], [8, 16]), pl.load(places, [0, 0], [8, 16]), o)",
        put(np.unravel_index(PLACES, (8, 16)), X),
        2,
        "InCore",
    ),
]


@pytest.mark.parametrize("head", ["", "o = ", "later = "])
@pytest.mark.parametrize(("line", "wanted", "rank", "kind"), WRITES)
def test_what_is_written_is_in_the_argument(
    line: str, wanted: Any, rank: int, kind: str, head: str
) -> None:
    function = kernel(head + line, rank, kind)
    shape = (8, 16) if rank == 2 else (2, 4, 1, 16)
    for run in (ir.compile(function), lambda *args: execute(function, *args)):
        out = np.zeros(shape, np.float32)
        run(X, ROWS, NEW.reshape((4, 16) if rank == 2 else (2, 2, 1, 16)), PLACES, out)
        np.testing.assert_array_equal(out.reshape(8, 16), wanted)


def test_both_results_of_an_operation_of_several_stay() -> None:
    function = pl.parse("""
@pl.function
def f(x: pl.Tensor[[2, 8], pl.INT32], o: pl.Out[pl.Tensor[[2, 4], pl.INT32]],
      n: pl.Out[pl.Tensor[[2, 1], pl.INT32]]):
    where, count = pl.gather(x, kvalue=5, cmp_mode="gt", out_cols=4)
    o[:] = pl.tensor.cast(where, pl.INT32)
    n[:] = pl.reshape(pl.tensor.cast(count, pl.INT32), [2, 1])
""")
    x = np.array([[9, 1, 6, 2, 7, 0, 0, 0], [0, 0, 0, 8, 0, 0, 0, 0]], np.int32)
    o, n = np.zeros((2, 4), np.int32), np.zeros((2, 1), np.int32)
    ir.compile(function)(x, o, n)
    np.testing.assert_array_equal(o[0, :3], [0, 2, 4])
    np.testing.assert_array_equal(n, [[3], [1]])
