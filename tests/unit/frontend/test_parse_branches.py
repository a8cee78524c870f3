"""Branches give what both arms give."""

from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright.errors import (
    InvalidOperationError,
    ParserError,
    ParserSyntaxError,
    ParserTypeError,
    ScopeIsolationError,
    UndefinedVariableError,
)
from tilewright.ops import control
from unit.frontend.parsed_kernels import array, execute, settled

TA = pl.Tensor[[16, 16], pl.FP32]


def branches(function: Any) -> list[Any]:
    return [op for op in function.body.walk() if op.opdef is control.if_]


def test_arms_yield_under_one_name() -> None:
    @pl.function
    def f(n: pl.INT64, a: pl.FP32) -> pl.FP32:
        if n > 3:
            y = pl.yield_(a * 2.0)
        else:
            y = pl.yield_(a)
        return y

    assert execute(f, 4, 1.5) == 3.0
    assert execute(f, 3, 1.5) == 1.5


def test_names_bound_in_both_arms_leave_when_they_are_read_later() -> None:
    @pl.function
    def f(n: pl.INT64) -> pl.INT64:
        if n > 3:
            y = n * 2
            scratch = y + 1
        else:
            y = n - 1
        return y

    assert execute(f, 4) == 8
    assert execute(f, 3) == 2
    (branch,) = branches(f)
    assert [value.name for value in branch.results] == ["y"]


def test_a_name_bound_before_keeps_its_value_where_no_arm_rebinds_it() -> None:
    @pl.function
    def f(n: pl.INT64) -> pl.INT64:
        y = 10
        if n > 3:
            y = n
        return y

    assert execute(f, 4) == 4
    assert execute(f, 1) == 10


def test_an_elif_chain_yields_through_its_names() -> None:
    @pl.function
    def f(n: pl.INT64) -> pl.INT64:
        if n < 0:
            y = pl.yield_(0 - n)
        elif n == 0:
            y = pl.yield_(n + 100)
        else:
            y = pl.yield_(n)
        return y

    assert [execute(f, n) for n in (-5, 0, 5)] == [5, 100, 5]


def test_an_output_written_in_one_arm_is_given_by_both() -> None:
    @pl.function(type=pl.FunctionType.InCore)
    def f(x: TA, out: pl.InOut[TA], flag: pl.Scalar[pl.BOOL]) -> TA:
        t = pl.load(x, [0, 0], [16, 16])
        if flag:
            pl.store(t, [0, 0], out)
        return out

    x, out = array(16, 16), np.zeros((16, 16), np.float32)
    execute(f, x, out, False)
    assert not out.any()
    execute(f, x, out, True)
    np.testing.assert_array_equal(out, x)


def test_a_compile_time_condition_selects_its_arm_now() -> None:
    WIDE = True

    @pl.function
    def f(n: pl.INT64) -> pl.INT64:
        if WIDE:
            y = n * 2
        else:
            y = undefined_name(n)  # type: ignore[name-defined] # noqa: F821
        return y

    assert execute(f, 4) == 8
    assert not branches(f)


def test_both_sides_of_and_and_or_are_evaluated() -> None:
    @pl.function
    def f(n: pl.INT64, flag: pl.Scalar[pl.BOOL]) -> pl.INT64:
        y = 0
        if not flag and (n > 3 or n < 0):
            y = n
        return y

    assert [
        execute(f, n, flag) for n, flag in ((4, False), (-1, False), (2, False), (4, True))
    ] == [
        4,
        -1,
        0,
        0,
    ]


REFUSED: dict[str, tuple[type[Exception], str, str]] = {
    "integer_condition": (ParserTypeError, "not a pl.BOOL scalar", "if n:\n    y = n"),
    "literal_condition": (ParserTypeError, "not a pl.BOOL scalar", "if 1:\n    y = n"),
    "one_arm": (UndefinedVariableError, "in one arm", "if n > 1:\n    y = n\nz = y"),
    "different_types": (
        ParserTypeError,
        "different types",
        "if n > 1:\n    y = n\nelse:\n    y = 0.5\nz = y + 1",
    ),
    "yield_in_one_arm": (
        ParserSyntaxError,
        "ends with pl.yield_",
        "if n > 1:\n    y = pl.yield_(n)\nelse:\n    z = n",
    ),
    "yield_counts": (
        ParserSyntaxError,
        "yield 2 and 1 values",
        "if n > 1:\n    y, z = pl.yield_(n, n)\nelse:\n    y = pl.yield_(n)",
    ),
    "chained": (ParserError, "Chained", "if 0 < n < 3:\n    y = n"),
    "conditional_expression": (ParserError, "compile-time condition", "y = n if n > 1 else 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_malformed_branch_is_refused_at_its_line(case: str) -> None:
    kind, message, body = REFUSED[case]
    text = "@pl.function\ndef f(n: pl.Scalar[pl.INDEX]):\n" + "".join(
        f"    {line}\n" for line in body.splitlines()
    )
    with pytest.raises(kind, match=message) as caught:
        pl.parse(text, f"<{case}>")
    span = getattr(caught.value, "span", None)
    assert span is not None and span.line >= 3


def test_a_name_rebound_beside_a_yield_must_be_yielded_too() -> None:
    body = """
@pl.function
def f(n: pl.Scalar[pl.INDEX]) -> pl.Scalar[pl.INDEX]:
    y = n
    if n > 3:
        y = n + 1
        z = pl.yield_(y)
    else:
        z = pl.yield_(n)
    return y + z
"""
    with pytest.raises(ScopeIsolationError, match="'y' is bound only in an arm") as caught:
        pl.parse(body)
    assert caught.value.hint == "Yield 'y' as well."


@pytest.mark.parametrize("arm", [0, 1])
def test_a_yield_that_cannot_be_read_is_one_error(arm: int) -> None:
    yields = ["pl.yield_(x)", "pl.yield_(x)"]
    yields[arm] = "pl.yield_(pl.nope(x))"
    body = f"    if n > 3:\n        z = {yields[0]}\n    else:\n        z = {yields[1]}\n"
    head = "@pl.function\ndef f(x: pl.Tensor[[8], pl.FP32], n: pl.Scalar[pl.INDEX]):\n"
    with pytest.raises(InvalidOperationError, match=r"Unknown operation 'pl\.nope'") as caught:
        pl.parse(f"{head}{body}    return pl.add(z, 1.0)\n")
    assert not caught.value.companions()


PRODUCT = "    t = pl.load(x, [0, 0], [16, 16])\n    m = pl.matmul(t, t)\n"
JOINED = {
    "arms": "    if n > 1:\n        y = pl.yield_(m)\n    else:\n        y = pl.yield_(t)\n",
    "loop": "    for i, (a,) in pl.range(n, init_values=(t,)):\n        y = pl.yield_(m)\n",
    "dtypes": (
        "    m = pl.cast(t, pl.BF16)\n"
        "    if n > 1:\n        y = pl.yield_(t)\n    else:\n        y = pl.yield_(m)\n"
    ),
}


@pytest.mark.parametrize("joined", JOINED.values(), ids=JOINED.keys())
def test_the_hint_makes_what_regions_give_one_type(joined: str) -> None:
    head = f"@pl.function\ndef f(x: pl.Tensor[[16, 16], pl.FP32], n: pl.INDEX):\n{PRODUCT}"
    with pytest.raises(ParserTypeError, match=r"different types|the loop carries") as caught:
        pl.parse(head + joined)
    wanted = (caught.value.hint or "").removeprefix("Yield ").removesuffix(".")
    settled(pl.parse(head + joined.replace("yield_(m)", f"yield_({wanted})")))
