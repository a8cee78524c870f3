# ruff: noqa: RET504  (kernels are language, not Python)
"""The text of a specialized program reads back as the same program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import ir
from unit.jit import test_helpers as helpers

M = pl.dynamic("M")
SCALE = 2.5


@pl.jit.inline
def scaled(t, by: pl.constexpr = 3):
    return pl.mul(t, SCALE * by)


@pl.jit.incore
def rows(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.constexpr):
    for i in pl.range(x.shape[0]):
        t = pl.load(x, [i, 0], [1, n])
        if i > 2:
            t = scaled(scaled(t), by=n)
        else:
            t = scaled(t)
        pl.store(t, [i, 0], out)
    return out


@pl.jit
def nested(x: pl.Tensor[[M, 8], pl.FP32], out: pl.Out[pl.Tensor[[M, 8], pl.FP32]]):
    out = rows(x, out, n=8)
    return out


@pl.jit
def exits(x: pl.Tensor[[16, 8], pl.FP32], out: pl.Out[pl.Tensor[[16, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(16):
            if i == 5:
                break
            pl.store(scaled(pl.load(x, [i, 0], [1, 8]), by=2), [i, 0], out)
    return out


KERNELS: list[Any] = [
    nested,
    exits,
    helpers.by_keyword,
    helpers.by_default,
    helpers.by_graph,
    helpers.submitted,
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_the_text_reads_back_as_the_program(kernel: Any) -> None:
    program, text = kernel.specialize(), kernel.source()
    again = pl.parse_program(text)
    assert kernel.name in again.functions
    for name, function in again.functions.items():
        ir.assert_structural_equal(function, program[name])


def test_the_text_knows_the_language_only() -> None:
    text = nested.source()
    assert "SCALE" not in text and "constexpr" not in text and "7.5" in text
    assert 'M = pl.dynamic("M")' in text and "self.rows(x, out)" in text


def test_variants_stand_beside_each_other() -> None:
    text = nested.source()
    assert "def scaled(self, t)" in text and "def scaled__2(self, t)" in text
    x = np.ones((4, 8), np.float32)
    np.testing.assert_array_equal(nested(x)[:, 0], np.float32([7.5, 7.5, 7.5, 150.0]))
