"""Passes as objects: named ones of a user's own, pipelines of them, and the pipeline as one."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright.language as pl
from tilewright import ir, passes
from tilewright.passes import pipeline

TEXT = """
@pl.program
class P:
    @pl.function
    def twice(self, x: pl.Tensor[[8], pl.FP32]) -> pl.Tensor[[8], pl.FP32]:
        return pl.mul(x, 2.0)

    @pl.function(type=pl.FunctionType.Orchestration)
    def start(self, x: pl.Tensor[[8], pl.FP32]) -> pl.Tensor[[8], pl.FP32]:
        return self.twice(x)
"""


def renamed(program: ir.Program) -> ir.Program:
    return ir.Program("Q", program.functions)


def noted(function: ir.Function) -> ir.Function:
    copy = pl.parse(function.as_python()) if function.name == "twice" else function
    assert isinstance(copy, ir.Function)
    copy.doc = f"It is {function.name}."
    return copy


def test_own_passes_run_in_order_and_are_seen_by_instruments() -> None:
    seen: list[Any] = []
    watch = passes.CallbackInstrument(
        before_pass=lambda name, program: seen.append((name, program.name)),
        after_pass=lambda name, program: seen.append((name, program.name)),
    )
    own = passes.PassPipeline().add_pass(passes.create_program_pass(renamed))
    own.add_pass(passes.create_function_pass(noted, "notes"))
    with passes.PassContext(instruments=[watch]):
        made = own.run(pl.parse_program(TEXT))
    assert seen == [("renamed", "P"), ("renamed", "Q"), ("notes", "Q"), ("notes", "Q")]
    assert [f.doc for f in made.functions.values()] == ["It is twice.", "It is start."]
    assert [step.get_name() for step in own.passes] == ["renamed", "notes"]


def test_a_pass_is_a_function_of_programs() -> None:
    step = passes.create_program_pass(renamed, "other")
    assert isinstance(step, passes.Pass) and repr(step) == "<pass other>"
    assert step(pl.parse_program(TEXT)).name == "Q"


def test_the_manager_runs_the_pipeline() -> None:
    manager = ir.PassManager.get_strategy(ir.OptimizationStrategy.Default)
    assert isinstance(manager, passes.PassManager)
    assert manager.get_pass_names() == [step.__name__ for step in pipeline.PIPELINE]
    program = pl.parse_program(TEXT)
    assert [*manager.run_passes(program).functions] == ["start"]
    assert [*manager.run_passes(program, "twice").functions] == ["twice"]


def test_passes_that_are_not_here_are_missing_by_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'convert_to_ssa'"):
        _ = passes.convert_to_ssa


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (
            lambda p: passes.PassManager().run_passes(p["start"]),
            "run_passes takes <Function start>",
        ),
        (lambda p: passes.PassPipeline().run(3), "run takes 3, not a Program"),
        (lambda p: passes.PassPipeline().add_pass(3), "add_pass takes a pass, not 3"),
        (lambda p: passes.create_function_pass(lambda f: None, "lost")(p), "pass lost gave None"),
        (
            lambda p: passes.create_program_pass(lambda p: p["start"], "cut")(p),
            "pass cut gave <Fun",
        ),
        (lambda p: passes.create_program_pass(lambda p: p, "same")(p["start"]), "same takes <Func"),
    ],
)
def test_what_is_no_program_is_named_with_who_gave_it(misuse: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        misuse(pl.parse_program(TEXT))
