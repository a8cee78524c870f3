"""Sources that nest deeper, or constants that are larger, than anybody computes with."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
import tilewright.nki as nki
import tilewright.nki.language as nl
from tilewright import ir
from tilewright.errors import DTypeMismatch, ParserError, ParserSyntaxError, TilewrightError

PARSED = """
@pl.jit
def kernel(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 8])
        c = pl.read(t, [0, 0])
{body}
        pl.store(t, [0, 0], out)
    return out
"""
TRACED = """
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
{body}
    nl.store(out, t)
    return out
"""
FORMS: dict[str, Callable[[int], str]] = {
    "calls": lambda n: "t = " + "abs_(" * n + "t" + ")" * n,
    "signs": lambda n: "t = t * (" + "-" * n + "1.0)",
    "sums": lambda n: "t = t" + " + 1.0" * n,
    "choices": lambda n: "t = t * (" + "1.0 if x.shape[0] < 3 else " * n + "1.0)",
    "branches": lambda n: (
        "if x.shape[0] < 0:\n    t = t\n"
        + "".join(f"elif x.shape[0] == -{i}:\n    t = t * 1.0\n" for i in range(n))
    ),
}


def made(style: str, body: str) -> Any:
    template, indent = (PARSED, " " * 8) if style == "parsed" else (TRACED, " " * 4)
    body = body.replace("abs_", "pl.abs" if style == "parsed" else "nl.abs")
    lines = "\n".join(indent + line for line in body.splitlines())
    text, file = template.format(body=lines), f"<{style} {hash(body)}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    names: dict[str, Any] = {"pl": pl, "nki": nki, "nl": nl}
    exec(compile(text, file, "exec"), names)
    return names["kernel"]


def call(kernel: Any) -> Any:
    x = np.ones((4, 8), np.float32)
    return kernel(x)


@pytest.mark.parametrize("style", ["parsed", "traced"])
@pytest.mark.parametrize("form", FORMS)
def test_fifty_levels_are_read_and_hundreds_refused_where_they_are(form: str, style: str) -> None:
    assert call(made(style, FORMS[form](50))).shape == (4, 8)
    if form == "calls":
        return  # Python itself reads no more than 200 parentheses, which may be few enough
    with pytest.raises(ParserSyntaxError, match=r"nested|stand in each other") as caught:
        call(made(style, FORMS[form](500)))
    assert caught.value.span is not None


@pytest.mark.parametrize("style", ["parsed", "traced"])
def test_as_many_calls_as_python_nests_are_read_or_refused_where_they_are(style: str) -> None:
    try:
        assert call(made(style, FORMS["calls"](190))).shape == (4, 8)
    except ParserSyntaxError as error:
        assert "nested" in error.message and error.span is not None


@pytest.mark.parametrize("levels", [40, 79])
def test_nested_branches_are_printed_and_read_back(levels: int) -> None:
    lines = [" " * k + f"if c > -{k}.0:" for k in range(levels - 1)]
    program = made("parsed", "\n".join([*lines, " " * levels + "t = pl.add(t, 1.0)"])).specialize()
    ir.assert_structural_equal(program, pl.parse_program(program.as_python()))


def test_a_branch_in_too_many_is_refused_at_its_line() -> None:
    lines = [" " * k + f"if c > -{k}.0:" for k in range(90)]
    kernel = made("parsed", "\n".join([*lines, " " * 91 + "t = pl.add(t, 1.0)"]))
    with pytest.raises(ParserSyntaxError, match="More than 80 blocks") as caught:
        kernel.specialize()
    assert caught.value.span is not None and caught.value.span.line == 7 + 79


@pytest.mark.parametrize(
    "expression",
    ["2 ** (2 ** 40)", "1 << (1 << 40)", "'a' * (1 << 40)", "(1 << 40) * [0]", "(-3) ** 99999999"],
)
def test_a_constant_that_nobody_can_hold_is_refused_at_once(expression: str) -> None:
    text = f"N = {expression}\n@pl.function\ndef f(x: pl.Tensor[[4], pl.FP32]):\n    return x\n"
    with pytest.raises(ParserError, match="OverflowError: the result would have more than"):
        pl.parse(text)


@pytest.mark.parametrize(
    ("dtype", "number", "fits"),
    [
        ("INT8", 255, True),
        ("INT8", -128, True),
        ("INT8", 256, False),
        ("INT8", -129, False),
        ("UINT8", -1, True),
        ("UINT8", 256, False),
        ("INT32", 1 << 31, True),
        ("INT32", 1 << 32, False),
        ("INT64", 1 << 64, False),
        ("FP32", 1 << 200, True),
        ("FP32", 10**400, False),
    ],
)
def test_an_integer_without_a_form_in_the_type_is_refused(
    dtype: str, number: int, fits: bool
) -> None:
    text = (
        f"@pl.function\ndef f(x: pl.Tensor[[4], pl.{dtype}]):\n    y = pl.add(x, {number})\n"
        "    return y\n"
    )
    if fits:
        assert pl.parse(text)
        return
    with pytest.raises(DTypeMismatch, match=r"has more bits than|is beyond every") as caught:
        pl.parse(text)
    assert caught.value.span is not None


def test_a_traced_kernel_refuses_a_number_beyond_every_float() -> None:
    with pytest.raises(TilewrightError, match=r"an integer of 1329 bits is beyond every pl\.FP32"):
        call(made("traced", "t = t * 10 ** 400"))
