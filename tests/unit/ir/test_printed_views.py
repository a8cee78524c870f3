"""Views that a type does not mention can be spelled out, and are read back as none."""

from __future__ import annotations

import tilewright.language as pl
from tilewright import ir

TEXT = """
@pl.function
def f(x: pl.Tensor[[4, 8], pl.FP32], o: pl.Out[pl.Tensor[[4, 8], pl.FP32, pl.NZ]]):
    t = pl.load(x, [0, 0], [4, 8], valid_shape=[3, 8])
    pl.store(pl.exp(t), [0, 0], o)
    u = pl.load(x, [0, 0], [4, 8])
    pl.store(u, [0, 0], o)
"""


def test_views_are_spelled_out_when_asked_for() -> None:
    function = pl.parse(TEXT)
    text = ir.python_print(function, explicit_layout=True)
    assert (
        "x: pl.Tensor[[4, 8], pl.FP32, pl.ND], o: pl.Out[pl.Tensor[[4, 8], pl.FP32, pl.NZ]]" in text
    )
    assert "u: pl.Tile[[4, 8], pl.FP32, pl.Mem.Vec, pl.TileView()]" in text
    assert "pl.TileView(valid_shape=[3, 8])" in text
    assert pl.parse(text).as_python() == function.as_python()
    ir.assert_structural_equal(pl.parse(text), function)
    assert "pl.ND" not in ir.python_print(function)


def test_so_are_those_of_a_type_alone() -> None:
    type_ = ir.TensorType((4, 8), pl.FP32)
    assert ir.python_print(type_) == "pl.Tensor[[4, 8], pl.FP32]"
    assert ir.python_print(type_, explicit_layout=True) == "pl.Tensor[[4, 8], pl.FP32, pl.ND]"
