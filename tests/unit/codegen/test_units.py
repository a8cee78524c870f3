"""Micro-kernels are objects of their own, compiled once."""

from __future__ import annotations

import numpy as np

from tilewright.archive import split
from tilewright.codegen import machine
from tilewright.codegen.units import split_units
from tilewright.frontend.text import parse
from tilewright.ir.core import Program
from unit.codegen.kernels import agree, emit
from unit.codegen.native_code import target_for

TEXT = """
import tilewright.language as pl

@pl.program
class example:
    @pl.function
    def k(
        self,
        a: pl.Buffer[[64, {k}], pl.FP32],
        b: pl.Buffer[[{k}, 96], pl.FP32],
        c: pl.InOut[pl.Buffer[[64, 96], pl.FP32]],
        d: pl.InOut[pl.Buffer[[64, 96], pl.FP32]],
    ):
        pl.loop.matmul(c, a, b)
        for r in pl.range(64):
            for i in pl.loop.lanes(96):
                s = pl.loop.load(d, [r, i])
                pl.loop.store(d, [r, i], s * {factor})
"""


def product(k: int = 32, factor: float = 2.0) -> Program:
    """A product and a loop."""
    made = parse(TEXT.format(k=k, factor=factor))
    assert isinstance(made, Program)
    return made


def test_long_micro_kernels_leave_the_module_and_are_declared_in_it() -> None:
    text = emit(product(), "avx2")[0].text
    main, units = split_units(text)
    assert units
    for unit in units:
        (head,) = [line for line in unit.splitlines() if line.startswith("define ")]
        name = head[head.index("@") : head.index("(")]
        assert f"declare hidden fastcc void {name}(ptr, i64" in main
        assert f"define internal fastcc void {name}(" not in main
        assert "attributes #1" in unit
    assert text.count("define ") == main.count("define ") + len(units)


def test_kernels_with_the_same_micro_kernels_have_them_compiled_once() -> None:
    target = target_for("avx2")
    objects = [split(emit(product(factor=f), "avx2")[0].compile(target)) for f in (2.0, 3.0)]
    before = machine.compile_unit.cache_info().misses
    again = split(emit(product(factor=4.0), "avx2")[0].compile(target))
    assert machine.compile_unit.cache_info().misses == before
    assert objects[0][1:] == objects[1][1:] == again[1:]
    assert objects[0][0] != objects[1][0]


def test_text_without_micro_kernels_is_one_object() -> None:
    assert split_units("define i32 @kernel() #0 {\nret i32 0\n}\n")[1] == []


def test_products_are_right() -> None:
    rng = np.random.default_rng(1)
    shapes = [(64, 32), (32, 96), (64, 96), (64, 96)]
    agree(product(), *(rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes))
