"""Compile-time expressions mean what Python means, or are refused where they stand."""

import ast
import math
from typing import Any

import pytest

from tilewright import dtypes
from tilewright.errors import (
    InvalidOperationError,
    ParserError,
    UndefinedVariableError,
    UnsupportedFeatureError,
)
from tilewright.frontend.evaluator import Evaluator
from tilewright.frontend.namespace import Namespace
from tilewright.source import SourceText

NAMES: dict[str, Any] = {"BLOCK": 32, "SHAPE": [8, (4, 2)], "dtypes": dtypes, "math": math}


def evaluate(text: str, **names: Any) -> Any:
    evaluator = Evaluator(Namespace({**NAMES, **names}), SourceText("<expr>", text))
    return evaluator.evaluate(ast.parse(text, mode="eval").body)


@pytest.mark.parametrize(
    "text",
    [
        "BLOCK * 2 + 1",
        "-BLOCK // 3 % 5 << 2",
        "[BLOCK, *SHAPE]",
        "SHAPE[1][0]",
        "SHAPE[0:1]",
        "(1, 2.5, True, None, 'rint')",
        "BLOCK > 3 and SHAPE",
        "0 or BLOCK",
        "not BLOCK",
        "1 if BLOCK == 32 else 2",
        "{'a': BLOCK}",
        "len(SHAPE) + max(1, 2)",
        "math.ceil(BLOCK / 5)",
        "f'{BLOCK:>4}|{SHAPE!r}'",
        "3 in SHAPE",
        "math.inf",
    ],
)
def test_an_expression_has_its_python_value(text: str) -> None:
    assert evaluate(text) == eval(text, dict(NAMES))


def test_dtypes_and_their_methods_are_values() -> None:
    assert evaluate("dtypes.FP32") is dtypes.FP32
    assert evaluate("64 * dtypes.FP32.get_byte()") == 256


def test_an_unknown_name_is_reported_with_the_nearest_one() -> None:
    with pytest.raises(UndefinedVariableError) as caught:
        evaluate("1 + BLOK")
    assert caught.value.hint == "Did you mean 'BLOCK'?"
    assert caught.value.span is not None and caught.value.span.col == 5


def test_an_unknown_attribute_is_reported_with_the_nearest_one() -> None:
    with pytest.raises(InvalidOperationError) as caught:
        evaluate("dtypes.FP23")
    assert "Did you mean 'FP" in str(caught.value.hint)


def test_a_python_error_is_reported_at_its_expression() -> None:
    with pytest.raises(ParserError, match="ZeroDivisionError") as caught:
        evaluate("2 + BLOCK // 0")
    assert caught.value.span is not None and caught.value.span.col == 5


def test_calling_an_arbitrary_function_is_refused() -> None:
    with pytest.raises(InvalidOperationError, match="'helper' cannot be called in a kernel"):
        evaluate("helper(3)", helper=lambda x: x)


@pytest.mark.parametrize("text", ["[x for x in SHAPE]", "lambda: 1", "...", "(y := 3)"])
def test_other_expressions_are_refused_by_name(text: str) -> None:
    with pytest.raises(UnsupportedFeatureError):
        evaluate(text)


def test_comparisons_do_not_chain() -> None:
    with pytest.raises(UnsupportedFeatureError, match="Chained"):
        evaluate("1 < BLOCK < 3")
