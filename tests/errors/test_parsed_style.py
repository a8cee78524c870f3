"""A bad kernel for every error of the parsed style: its class, its place, its help."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import pytest

import tilewright.language as pl
from tilewright.errors import (
    ArgumentError,
    ArgumentTypeMismatch,
    DTypeMismatch,
    InvalidOperationError,
    ParserError,
    ParserSyntaxError,
    ParserTypeError,
    RankMismatch,
    ScopeIsolationError,
    ShapeMismatch,
    SSAViolationError,
    StaleRead,
    TilewrightError,
    UndefinedVariableError,
    UnsupportedFeatureError,
    catalogue,
)

HEAD = """@pl.function{options}
def kernel(x: pl.Tensor[[16, 16], pl.FP32], out: pl.InOut[pl.Tensor[[16, 16], pl.FP32]],
           n: pl.Scalar[pl.INDEX]):
"""


@dataclass(frozen=True)
class Bad:
    """A body; the error it must raise, the text under its carets, and a word of its help."""

    error: type[TilewrightError]
    body: str
    token: str
    help: str = ""
    options: str = ""


BAD = {
    "static_assert": Bad(
        ParserError,
        "pl.static_assert(x.shape[0] == 8, 'eight rows')",
        "pl.static_assert(x.shape[0] == 8, 'eight rows')",
    ),
    "bare_yield": Bad(
        ParserSyntaxError,
        "for i, (a,) in pl.range(4, init_values=(n,)):\n    pl.yield_(a)",
        "pl.yield_(a)",
        "pl.yield_",
    ),
    "annotation": Bad(
        ParserTypeError,
        "y: pl.Tensor[[16, 8], pl.FP32] = pl.exp(x)",
        "y",
        "Change annotation to: pl.Tensor[[16, 16], pl.FP32]",
    ),
    "undefined": Bad(UndefinedVariableError, "y = pl.add(x, xx)", "xx", "Did you mean 'x'?"),
    "twice": Bad(
        SSAViolationError,
        "y = pl.exp(x)\ny = pl.exp(y)",
        "y",
        "new name",
        options="(strict_ssa=True)",
    ),
    "augmented": Bad(UnsupportedFeatureError, "n += 1", "n += 1", "Write 'n = n + 1'"),
    "unknown_op": Bad(
        InvalidOperationError, "y = pl.matmull(x, x)", "pl.matmull", "Did you mean 'pl.matmul'?"
    ),
    "loop_local": Bad(
        ScopeIsolationError,
        "for i in pl.range(4):\n    part = n + i\ny = part + 1",
        "part",
        "before the loop",
    ),
    "stale": Bad(
        StaleRead,
        "t = pl.load(x, [0, 0], [16, 16])\nnew = pl.store(t, [0, 0], out)\ny = pl.exp(out)",
        "pl.exp(out)",
        "'new'",
    ),
    "kind": Bad(ArgumentTypeMismatch, "y = pl.tile.exp(x)", "pl.tile.exp(x)"),
    "dtype": Bad(
        DTypeMismatch,
        "t = pl.load(x, [0, 0], [16, 16])\ny = pl.add(t, n)",
        "pl.add(t, n)",
        "pl.cast",
    ),
    "rank": Bad(RankMismatch, "y = pl.load(x, [0], [16])", "pl.load(x, [0], [16])"),
    "shape": Bad(
        ShapeMismatch,
        "y = pl.add(x, pl.slice(x, [8, 16], [0, 0]))",
        "pl.add(x, pl.slice(x, [8, 16], [0, 0]))",
    ),
}
RAISED_ELSEWHERE = {
    "TilewrightError", "ArgumentError", "InternalError", "KernelFault",  # bases and defects
    "ArgumentCountMismatch", "StrideMismatch", "ByteOrderMismatch", "ReadOnlyOutput",  # at calls
    "OutputOverlap", "IndexOutOfBounds", "DivisionByZero", "RuntimeShapeMismatch", "Deadlock",
    "VerificationError", "PartialCodegenError", "UnsupportedOnTarget", "LimitExceeded",
    "ToolchainError", "SourceUnavailable",
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_the_error_has_its_class_place_and_help(name: str) -> None:
    bad = BAD[name]
    text = text_of(bad)
    with pytest.raises(TilewrightError) as caught:
        pl.parse(text, f"<bad {name}>")
    error = caught.value
    assert isinstance(error, bad.error) and error.code == bad.error.code
    assert type(error).__name__ == bad.error.__name__
    assert underlined(error, text) == bad.token
    assert bad.help in (error.hint or "")
    assert f"--> <bad {name}>:" in str(error)


def text_of(bad: Bad) -> str:
    """The bad kernel as a text."""
    body = "".join(f"    {line}\n" for line in bad.body.splitlines())
    return HEAD.format(options=bad.options) + body


ARGUMENT_ERRORS = [name for name, bad in BAD.items() if issubclass(bad.error, ArgumentError)]


@pytest.mark.parametrize("name", ARGUMENT_ERRORS)
def test_what_a_type_rule_refuses_in_a_body_is_an_invalid_operation_of_its_own_class(
    name: str,
) -> None:
    bad = BAD[name]
    text = text_of(bad)
    with pytest.raises(InvalidOperationError) as caught:
        pl.parse(text)
    error = caught.value
    assert isinstance(error, bad.error) and isinstance(error, (TypeError, ValueError))
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, InvalidOperationError) and isinstance(again, bad.error)
    assert str(again) == str(error) and type(error) not in catalogue()


def underlined(error: TilewrightError, text: str) -> str:
    """The part of the source line under the carets."""
    lines = str(error).splitlines()
    row = next(k for k, line in enumerate(lines) if "^" in line)
    start, end = lines[row].index("^"), lines[row].rindex("^") + 1
    assert lines[row - 1].split("|", 1)[1].strip() in text
    return lines[row - 1][start:end]


def test_every_class_of_the_parsed_style_has_a_bad_kernel() -> None:
    covered = {bad.error.__name__ for bad in BAD.values()} | RAISED_ELSEWHERE
    parsed = {
        cls.__name__
        for cls in catalogue()
        if cls.__module__ in ("tilewright.errors.parsing", "tilewright.errors.arguments")
        or cls is StaleRead
    }
    assert parsed <= covered
