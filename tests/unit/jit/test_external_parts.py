"""Kernels in C++ write parts of tensors where these are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import interp, ir
from tilewright.passes import pipeline
from unit.external.cpp import needs_compiler, write

pytestmark = needs_compiler

WHERE = """\
#include "tilewright.h"
/* Adds x, and notes where it writes in the first element. */
int32_t where(tw::Tensor<const int64_t, 2> x, tw::Tensor<int64_t, 2> out) {
    for (int64_t i = 0; i < out.shape(0); ++i)
        for (int64_t j = 0; j < out.shape(1); ++j) out(i, j) += x(i, j);
    out(0, 0) = reinterpret_cast<int64_t>(out.data());
    return TW_OK;
}
int32_t both(tw::Tensor<int64_t, 2> a, tw::Tensor<int64_t, 2> b) {
    for (int64_t i = 0; i < a.shape(0); ++i)
        for (int64_t j = 0; j < a.shape(1); ++j) a(i, j) = 1, b(i, j) += 2;
    a(0, 0) = reinterpret_cast<int64_t>(a.data());
    b(0, 0) = reinterpret_cast<int64_t>(b.data());
    return TW_OK;
}
"""
WHOLE, PART = "pl.Tensor[[8, 6], pl.INT64]", "pl.Tensor[[2, 3], pl.INT64]"


def program(tmp_path: Path, *main: str) -> Any:
    """A program whose `main`, of x and out [8, 6], may call `where` and `both` on parts [2, 3]."""
    source = write(tmp_path, WHERE)
    external = f"@pl.function(type=pl.FunctionType.AIV, external_source={source!r})"
    lines = [
        "@pl.program",
        "class P:",
        f"    {external}",
        f"    def where(self, x: {PART}, out: pl.InOut[{PART}]) -> {PART}: ...",
        f"    {external}",
        f"    def both(self, a: pl.InOut[{PART}], b: pl.InOut[{PART}]): ...",
        "    @pl.function",
        f"    def main(self, x: {WHOLE}, out: pl.InOut[{WHOLE}]):",
        *(f"        {line}" for line in main),
        "        return out",
    ]
    return pl.parse_program("\n".join(lines) + "\n", str(tmp_path / "program.py"))


def run_native(p: Any) -> tuple[Any, Any, Any]:
    """x, out before, and out after a compiled run; interpreted runs differ in addresses only."""
    x = np.arange(48, dtype=np.int64).reshape(8, 6)
    before = np.full((8, 6), 100, np.int64)
    out = before.copy()
    ir.compile(p)(x, out)
    for run in (
        ir.compile(p, execution="interpret"),
        lambda *given: interp.run(pipeline.lower(p, "main"), "main", given),
    ):
        other = before.copy()
        run(x, other)
        is_number = (out < 1 << 20) & (other < 1 << 20)
        np.testing.assert_array_equal(out[is_number], other[is_number])
    return x, before, out


def address(array: Any, row: int, column: int) -> int:
    """Where an element is."""
    return array.ctypes.data + row * array.strides[0] + column * array.strides[1]


def test_a_part_of_rows_and_columns_is_written_in_place(tmp_path: Path) -> None:
    p = program(
        tmp_path,
        "for i in pl.range(4):",
        "    self.where(x[2 * i : 2 * i + 2, 0:3], out[2 * i : 2 * i + 2, 3:6])",
    )
    x, before, out = run_native(p)
    for i in range(4):
        assert out[2 * i, 3] == address(out, 2 * i, 3)
    assert "alloc" not in pipeline.lower(p, "main").as_python()
    np.testing.assert_array_equal(out[:, 4:], before[:, 4:] + x[:, 1:3])
    np.testing.assert_array_equal(out[:, :3], before[:, :3])


def test_two_parts_of_one_tensor_are_written_in_place(tmp_path: Path) -> None:
    p = program(tmp_path, "self.both(out[0:2, 0:3], out[4:6, 2:5])")
    _, before, out = run_native(p)
    assert out[0, 0] == address(out, 0, 0) and out[4, 2] == address(out, 4, 2)
    assert "alloc" not in pipeline.lower(p, "main").as_python()
    assert (out[1, :3] == 1).all() and (out[5, 2:5] == before[5, 2:5] + 2).all()


READ: dict[str, tuple[list[str], Callable[[Any, Any], Any]]] = {
    "a part that was taken before": (
        [
            "old = pl.create_tensor([8, 6], dtype=pl.INT64)",
            "old[:] = pl.add(out, 0)",
            "self.where(x[0:2, 0:3], out[2:4, 0:3])",
            "out[6:8, :] = old[2:4, :]",
        ],
        lambda x, out: (out[6:8], np.full((2, 6), 100)),
    ),
    "another part of what is written": (
        ["self.where(out[0:2, 3:6], out[2:4, 0:3])"],
        lambda x, out: (out[3, :3], np.full(3, 200)),
    ),
    "the part that is written": (
        ["self.where(out[2:4, 0:3], out[2:4, 0:3])"],
        lambda x, out: (out[3, :3], np.full(3, 200)),
    ),
    "what the kernel gives": (
        [
            "t = self.where(x[0:2, 0:3], out[2:4, 0:3])",
            "out[6:8, 0:3] = pl.add(t, 1)",
        ],
        lambda x, out: (out[7, :3], x[1, :3] + 101),
    ),
    "the tensor afterwards": (
        [
            "self.where(x[0:2, 0:3], out[2:4, 0:3])",
            "self.where(out[2:4, 0:3], out[4:6, 0:3])",
        ],
        lambda x, out: (out[5, :3], x[1, :3] + 200),
    ),
}


@pytest.mark.parametrize("name", READ)
def test_what_is_read_is_what_was_there(name: str, tmp_path: Path) -> None:
    lines, wanted = READ[name]
    x, _, out = run_native(program(tmp_path, *lines))
    np.testing.assert_array_equal(*wanted(x, out))
