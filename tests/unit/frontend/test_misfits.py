"""Whatever an operation is given, what it says is about the arguments, not about Python."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from inspect import Parameter
from typing import Any

import pytest

import tilewright.language as pl
from tilewright.errors import InternalError, TilewrightError
from tilewright.ir.opdef import OPS, SPELLINGS, OpDef, Spelling

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
        "def f(x: pl.Tensor[[8, 16], pl.FP32], t: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec],\n"
        "      s: pl.Scalar[pl.INDEX], b: pl.Buffer[[8, 16], pl.FP32, pl.Mem.DDR]):\n"
        f"    r = {call}\n"
    )
    try:
        pl.parse(text).as_python()
    except InternalError as error:
        return f"InternalError: {error}"
    except TilewrightError as error:
        return str(error).splitlines()[0]
    except (AttributeError, TypeError, ValueError) as error:
        return f"Internal: {error}"
    return ""


@pytest.mark.parametrize("room", sorted({path.rpartition(".")[0] for path in SPELLINGS}))
def test_nonsense_is_named(room: str) -> None:
    spellings = [
        s for path in SPELLINGS if path.rpartition(".")[0] == room for s in SPELLINGS[path]
    ]
    texts = {f"{s.path}({call})": s for s in spellings for call in calls(s)}
    poor = {call: said for call in texts if RAW.search(said := says(call)) or "Internal" in said}
    assert not poor, poor


def own_name_calls(opdef: OpDef[..., Any]) -> Iterator[str]:
    """Calls of an op by its own name, in which one argument is nonsense."""
    parts = [f"{p}_" if keyword.iskeyword(p) else p for p in opdef.name.split(".")]
    needed = [name for name in opdef.attr_names if name not in opdef.attr_defaults]
    for base in ("s", "b", "[s]"):
        given = [*[base] * len(opdef.operand_names), *(f"{name}=3" for name in needed)]
        for nonsense in (*NONSENSE, "s", "x", "[x]", "pl"):
            for k, name in enumerate((*opdef.operand_names, *needed)):
                bad = nonsense if name in opdef.operand_names else f"{name}={nonsense}"
                yield f"pl.op.{'.'.join(parts)}({', '.join([*given[:k], bad, *given[k + 1 :]])})"


@pytest.mark.parametrize("family", sorted({name.partition(".")[0] for name in OPS}))
def test_nonsense_given_to_an_op_by_its_own_name_is_named(family: str) -> None:
    ops = [op for op in OPS.values() if op.name.partition(".")[0] == family]
    calls = {call for op in ops for call in own_name_calls(op)}
    poor = {call: said for call in sorted(calls) if "Internal" in (said := says(call))}
    assert not poor, poor


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("pl.load(x, 3, [8, 16])", "pl.load: offsets is 3; a list of integers is accepted"),
        ("pl.create_tile([8, 16], 4)", "4 is not a dtype, such as pl.FP32"),
        ("pl.fillpad(x, pad_value='a')", "pl.fillpad: pad_value is 'a'; a pl.PadValue is accepted"),
        ("pl.max(3, [x])", "pl.max does not take these arguments: lhs=3, rhs=[pl.Tensor[[8, 16], "),
        ("pl.load(x, [0, 0], [8, 16], target_memory=3)", "load: target_memory is 3; a pl.MemoryS"),
        ("pl.store(t, [0, 0], x, atomic=pl.FP32)", "store: atomic is pl.FP32; a pl.AtomicType is"),
        ("pl.load(x, [0, 0], [8, 16], clamp='a')", "load: clamp is 'a'; True or False is acc"),
        ("pl.load(x, [0, 0], [8, 16], clamp=7)", "load: clamp is 7; True or False is accep"),
        ("pl.exp(x, 2)", "pl.exp: too many positional arguments"),
        ("pl.loop.load(b, s)", "loop.load: indices is pl.Scalar[pl.INDEX]; Sequence[Value]"),
        ("pl.loop.load(b, [s, None])", "loop.load: indices is [pl.Scalar[pl.INDEX], None]; Seq"),
        ("pl.loop.load(x, [s, s])", "loop: pl.Tensor[[8, 16], pl.FP32] is not a buffer"),
        ("pl.op.arith.exp(x)", "arith.exp: pl.Tensor[[8, 16], pl.FP32] is not a scalar"),
        ("pl.op.reduce.sum(x, axes=0)", "reduce.sum: axes is 0; tuple[int, ...] is accepted"),
        ("pl.op.control.if_(s)", "pl.op.control.if_ is a statement: it cannot be called"),
    ],
)
def test_the_argument_is_named(call: str, said: str) -> None:
    assert says(call).startswith(said)
