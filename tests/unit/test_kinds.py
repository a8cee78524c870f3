"""Public functions say which argument is of no use, where they are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tilewright.language as pl
from tilewright import ir, passes
from tilewright.kinds import accepts
from tilewright.ops import elementwise

PROGRAM = """
@pl.program
class P:
    @pl.function
    def main(self, x: pl.Tensor[[8, 4], pl.FP32]) -> pl.Tensor[[8, 4], pl.FP32]:
        return pl.exp(x)
"""


def emitted(*given: Any) -> Any:
    with ir.Builder() as builder:
        return builder.emit(*given)


def emitted_inside(block: Any) -> None:
    with ir.Builder() as builder, builder.inside(block):
        pass


Case = tuple[Callable[[Any], object], str]
CASES: dict[str, Case] = {
    "verify": (ir.verify, "verify: program is 3, not a Program"),
    "python_print_type": (ir.python_print_type, "type_ is 3, not a Type"),
    "register_format_callback": (ir.register_format_callback, "not a Callable or None"),
    "Program": (lambda x: ir.Program("P", x), "Program: functions is 3, not a Mapping"),
    "emit": (lambda x: emitted(x, ()), "opdef is 3, not an OpDef"),
    "emit a name": (lambda x: emitted("add", (x, x)), "opdef is 'add', not an OpDef"),
    "emit operands": (
        lambda x: emitted(elementwise.add, (x, x)),
        r"an operand of elementwise.add is 3, not a Value",
    ),
    "inside": (emitted_inside, "block is 3, not a Block"),
    "PassContext": (
        lambda x: passes.PassContext([x]),
        "instruments is some of 3, not",
    ),
    "instruments": (
        lambda x: passes.PassContext(instruments=x),
        "instruments is 3, not a Iterable",
    ),
    "memory_planner": (
        lambda x: passes.PassContext(memory_planner=x),
        "memory_planner is 3, not a MemoryPlanner or None",
    ),
    "fit": (lambda x: passes.fit(x, "a2a3"), "fit: program is 3"),
    "fit a device": (
        lambda x: passes.fit(pl.parse_program(PROGRAM), x),
        "fit: device is 3, not a Model or str",
    ),
    "create_program_pass": (passes.create_program_pass, "change is 3, not a Callable"),
    "create_function_pass": (passes.create_function_pass, "change is 3, not a Callable"),
    "run_verifier": (passes.run_verifier, "properties is 3, not a IRPropertySet"),
    "verify_properties": (
        lambda x: passes.verify_properties(passes.IRPropertySet(), x),
        "program is 3, not a Program",
    ),
    "IRPropertySet": (lambda x: passes.IRPropertySet([x]), "IRPropertySet takes some of 3, not"),
    "DiagnosticCheckSet": (passes.DiagnosticCheckSet().insert, "not a DiagnosticCheck"),
    "PassManager": (passes.PassManager, "strategy is 3, not a OptimizationStrategy"),
    "VerificationInstrument": (passes.VerificationInstrument, "mode is 3"),
    "CallbackInstrument": (passes.CallbackInstrument, "before_pass is 3"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_of_no_use_is_named_at_the_call(name: str) -> None:
    call, message = CASES[name]
    with pytest.raises(TypeError, match=message):
        call(3)


def test_what_is_left_out_is_not_looked_at() -> None:
    @accepts(a=int, c=[str])
    def f(a: int, b: object = None, *, c: object = None) -> tuple[object, ...]:
        return a, b, c

    assert f(1) == (1, None, None) and f(1, 2, c=["x"]) == (1, 2, ["x"])
    with pytest.raises(TypeError, match="f: c is some of 2, not a str"):
        f(1, c=["x", 2])
    with pytest.raises(TypeError, match="f: a is 'x', not a int"):
        f(a="x")  # type: ignore[arg-type]
