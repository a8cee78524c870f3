"""Whatever an operation is given, what it says is about the arguments, not about Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import Parameter

import pytest

import tilewright.language as pl
from tilewright.errors import InternalError, TilewrightError
from tilewright.ir.opdef import SPELLINGS, Spelling

NONSENSE = ("3", "'a'", "None", "[[1]]", "pl.FP32")
RAW = re.compile(
    "has no attribute|not iterable|argument must be|invalid literal|has no len|not subscriptable"
    "|unsupported operand|not supported between|out of range|to unpack|not callable|object at 0x"
)
PLAIN = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def calls(spelling: Spelling) -> Iterator[str]:
    """Calls in which one argument is nonsense and the others are a tensor, or a tile."""
    params = list(spelling.signature.parameters.values())
    needed = [p for p in params if p.default is p.empty and p.kind in PLAIN]
    options = [p for p in params if p not in needed and p.kind is not Parameter.VAR_POSITIONAL]
    for base in "xt":
        given = [base] * len(needed)
        for nonsense in NONSENSE:
            for k in range(len(needed)):
                yield ", ".join([*given[:k], nonsense, *given[k + 1 :]])
            for option in options:
                yield ", ".join([*given, f"{option.name}={nonsense}"])


def says(call: str) -> str:
    """What reading a kernel with this call raises, first line; "" when nothing."""
    text = (
        "@pl.function(type=pl.FunctionType.InCore)\n"
        "def f(x: pl.Tensor[[8, 16], pl.FP32], t: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec]):\n"
        f"    r = {call}\n"
    )
    try:
        pl.parse(text)
    except InternalError as error:
        return f"InternalError: {error}"
    except TilewrightError as error:
        return str(error).splitlines()[0]
    return ""


@pytest.mark.parametrize("room", sorted({path.rpartition(".")[0] for path in SPELLINGS}))
def test_nonsense_is_named(room: str) -> None:
    spellings = [
        s for path in SPELLINGS if path.rpartition(".")[0] == room for s in SPELLINGS[path]
    ]
    texts = {f"{s.path}({call})": s for s in spellings for call in calls(s)}
    poor = {call: said for call in texts if RAW.search(said := says(call)) or "Internal" in said}
    assert not poor, poor


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("pl.load(x, 3, [8, 16])", "pl.load: offsets is 3; a list of integers is accepted"),
        ("pl.create_tile([8, 16], 4)", "4 is not a dtype, such as pl.FP32"),
        ("pl.fillpad(x, pad_value='a')", "pl.fillpad: pad_value is 'a'; a pl.PadValue is accepted"),
        ("pl.max(3, [x])", "pl.max does not take these arguments: lhs=3, rhs=[pl.Tensor[[8, 16], "),
        ("pl.exp(x, 2)", "pl.exp: too many positional arguments"),
    ],
)
def test_the_argument_is_named(call: str, said: str) -> None:
    assert says(call).startswith(said)
