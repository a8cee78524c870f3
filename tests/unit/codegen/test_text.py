"""LLVM text: exact constants, loops, helpers once."""

from __future__ import annotations

import ctypes

import pytest

from tilewright.codegen.index import Index
from tilewright.codegen.text import (
    NAMELESS,
    Module,
    Text,
    constant_text,
    float_text,
    round_to_float,
    type_text,
    vector_text,
)
from tilewright.target import ISAS
from unit.codegen.native_code import Loaded, available_isas, new_module


def test_float_constants_are_the_nearest_binary32() -> None:
    assert float_text(0.1, "float") == "0x3FB99999A0000000"
    assert float_text(0.1, "double") == "0x3FB999999999999A"
    assert round_to_float(1e39) == float("inf")
    assert round_to_float(-1e39) == float("-inf")
    assert constant_text(1, "i1", 1) == "true"
    assert constant_text(-3, "i32", 16) == "splat (i32 -3)"
    assert vector_text([1, 0], "i1") == "<i1 true, i1 false>"
    assert type_text("i8", 4) == "<4 x i8>"


def test_a_helper_is_written_once() -> None:
    module = Module(ISAS["avx2"])
    made: list[str] = []

    def make(m: Module) -> str:
        made.append("x")
        return "; helper"

    for _ in range(3):
        module.require("@h", make)
    assert made == ["x"]
    assert module.finish().count("; helper") == 1


def test_equal_functions_are_one() -> None:
    module = Module(ISAS["avx2"])

    def give(number: int) -> str:
        text = Text(module, f"define internal i32 {NAMELESS}() #0")
        text.do(f"ret i32 {number}")
        return module.share(text, "give")

    symbols = [give(1), give(2), give(1)]
    assert symbols[0] == symbols[2] != symbols[1]
    text = module.finish()
    assert text.count("define ") == 2
    assert all(f"define internal i32 {symbol}()" in text for symbol in symbols)


def loop_sum(low: str, high: str, step: int) -> Text:
    """The sum of the counters of a loop."""
    module = new_module(available_isas()[0])()
    text = Text(module, "define i64 @f(i64 %n) #0")
    with text.loop(low, high, step, [("i64", "0")]) as loop:
        loop.following = [text.integer("add", loop.carries[0], loop.counter)]
    text.do(f"ret i64 {loop.carries[0]}")
    module.add(text)
    return text


@pytest.mark.parametrize("n", [-3, 0, 1, 7, 100])
def test_loops_run_as_often_as_range(n: int) -> None:
    text = loop_sum("2", "%n", 3)
    loaded = Loaded(text.module.finish(), available_isas()[0])
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loaded.address("f"))
    assert function(n) == sum(range(2, n, 3))


def test_known_index_arithmetic_writes_nothing() -> None:
    text = Text(Module(ISAS["avx2"]))
    index = Index(text)
    assert index.add(2, 3) == 5
    assert index.mul(index.sub("%x", 0), 1) == "%x"
    assert index.mul("%x", 0) == 0
    assert index.round_down(50, 16) == 48
    assert index.mod(-3, 8) == 5
    assert index.place("%p", 0, "float") == "%p"
    assert text.lines == []


@pytest.mark.parametrize("divisor", [1, 4, 7, "%d"])
def test_index_division_rounds_down(divisor: int | str) -> None:
    module = new_module(available_isas()[0])()
    text = Text(module, "define i64 @f(i64 %x, i64 %d) #0")
    index = Index(text)
    quotient, rest = index.floordiv("%x", divisor), index.mod("%x", divisor)
    total = index.add(index.mul(quotient, 1000), rest)
    text.do(f"ret i64 {total}")
    module.add(text)
    loaded = Loaded(module.finish(), available_isas()[0])
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(loaded.address("f"))
    by = 7 if divisor == "%d" else int(divisor)
    for x in (-9, -7, -1, 0, 3, 7, 100):
        assert function(x, by) == x // by * 1000 + x % by


def test_loops_of_one_step_are_no_loops() -> None:
    text = Text(Module(ISAS["avx2"]))
    with Index(text).steps(0, 10, 16) as i:
        assert i == 0
    assert text.lines == []
