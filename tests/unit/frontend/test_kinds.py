"""pl.full and its like make what their surroundings compute with: tensors, or tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from unit.frontend.parsed_kernels import settled

F32 = np.float32
HEAD = "def f(x: pl.Tensor[[32, 64], pl.FP32], out: pl.Out[pl.Tensor[[32, 16], pl.FP32]]):"


def read(*body: str) -> Any:
    return settled(pl.parse("\n".join(["@pl.function", HEAD, *(f"    {line}" for line in body)])))


@pl.jit
def sums(x: pl.Tensor[[32, 64], pl.FP32], out: pl.Out[pl.Tensor[[32, 1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = pl.full([32, 1], pl.FP32, 0.0)
        for k in pl.range(4):
            part = x[:, k * 16 : k * 16 + 16]
            total = pl.add(total, pl.row_sum(pl.mul(part, part)))
        out[:] = total
    return out


def test_a_loop_over_tensors_carries_a_tensor() -> None:
    x = np.random.default_rng(0).random((32, 64), F32)
    np.testing.assert_allclose(sums(x), (x * x).sum(1, keepdims=True), rtol=1e-5)
    assert "total: pl.Tensor[[32, 1], pl.FP32] = pl.tensor.full(" in sums.specialize().as_python()


@pytest.mark.parametrize("word", ["full([1, 16], pl.INT32, 3)", "ci(0, [1, 16])"])
@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ((), "tensor"),
        (("u = pl.add(x, 1.0)",), "tensor"),
        (("u = pl.load(x, [0, 0], [8, 16])",), "tile"),
        (("u = pl.tile.create([8, 16], pl.FP32)",), "tile"),
        (("u = x[0:8, :]", "pl.store(pl.load(u, [0, 0], [8, 16]), [0, 0], out)"), "tile"),
    ],
)
def test_what_is_brought_on_chip_decides(word: str, more: tuple[str, ...], kind: str) -> None:
    text = read(f"t = pl.{word}", *more, "v = pl.neg(t)").as_python()
    assert f"= pl.{kind}.{word.partition('(')[0]}(" in text


def test_each_scope_is_on_its_own() -> None:
    text = read(
        "with pl.at(level=pl.Level.CORE_GROUP):",
        "    a = pl.full([32, 16], pl.FP32, 1.0)",
        "    out[:] = pl.add(a, x[:, 0:16])",
        "with pl.at(level=pl.Level.CORE_GROUP):",
        "    b = pl.full([32, 16], pl.FP32, 1.0)",
        "    pl.store(b, [0, 0], out)",
    ).as_python()
    assert "a: pl.Tensor[" in text and "b: pl.Tile[" in text


@pl.inline
def ones_like(x):  # type: ignore[no-untyped-def]
    return pl.add(x, pl.full([32, 16], pl.FP32, 1.0))


def test_a_helper_makes_what_it_is_given() -> None:
    @pl.function(type=pl.FunctionType.InCore)
    def f(x: pl.Tensor[[32, 16], pl.FP32]) -> pl.Tensor[[32, 16], pl.FP32]:
        a = ones_like(x)
        b = ones_like(pl.load(x, [0, 0], [32, 16]))
        return pl.store(b, [0, 0], a)

    text = settled(f).as_python()
    assert text.count("pl.tensor.full(") == 1 and text.count("pl.tile.full(") == 1
