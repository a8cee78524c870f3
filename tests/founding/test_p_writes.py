# ruff: noqa: RET504  (kernels are language, not Python)
"""Rows P-140 to P-156: what writes an output, what does not, and the warning that says so."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import errors, ir, passes
from tilewright.ir.core import Program
from tilewright.passes.diagnostics import diagnose
from tilewright.runtime import RunConfig

F32 = np.float32
Array = np.ndarray[Any, Any]
Warned = Callable[[Program], list[str]]


def program(*body: str, direction: str = "Out", more: str = "", kind: str = "InCore") -> Program:
    """`main` of a 16x16 `a` and `b`, the output `out` and what `more` declares."""
    tensor = "pl.Tensor[[16, 16], pl.FP32]"
    lines = [
        "@pl.program",
        "class P:",
        f"    @pl.function(type=pl.FunctionType.{kind})",
        f"    def main(self, a: {tensor}, b: {tensor}, out: pl.{direction}[{tensor}]{more}):",
        *(f"        {line}" for line in body),
    ]
    return pl.parse_program("\n".join(lines) + "\n", "prog.py")


def arrays() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    return rng.random((16, 16), F32), rng.random((16, 16), F32)


def run(given: Program, fill: float = 9.0, interpret: bool = False) -> tuple[Array, Array, Array]:
    a, b = arrays()
    out = np.full((16, 16), fill, F32)
    ir.compile(given, execution="interpret" if interpret else None)(a, b, out)
    return a, b, out


@pytest.fixture
def warned(capfd: pytest.CaptureFixture[str]) -> Warned:
    """Compiles a program and gives the lines that warn of dropped writes."""

    def compile_and_read(given: Program) -> list[str]:
        capfd.readouterr()
        ir.compile(given)
        text = "".join(capfd.readouterr())
        return [line for line in text.splitlines() if "OutParamWriteDropped" in line]

    return compile_and_read


# ---- what writes ---------------------------------------------------------------------------------

BOTH = pytest.mark.parametrize("interpret", [False, True], ids=["native", "interpreted"])


@BOTH
def test_p_140_a_bare_assignment_never_writes_the_callers_buffer(interpret: bool) -> None:
    _, _, out = run(program("out = pl.add(a, b)", direction="InOut"), interpret=interpret)
    assert (out == 9).all()


@BOTH
def test_p_140_the_value_of_the_name_is_the_new_one(interpret: bool) -> None:
    given = program("out = pl.add(a, b)", "return out", direction="InOut")
    a, b = arrays()
    out = np.full((16, 16), 9.0, F32)
    got = ir.compile(given, execution="interpret" if interpret else None)(a, b, out)
    assert (out == 9).all()
    if got is not None:
        np.testing.assert_array_equal(got, a + b)


@BOTH
def test_p_141_an_in_out_buffer_keeps_the_callers_input(interpret: bool) -> None:
    given = program("out = pl.add(a, b)", "out = pl.mul(out, 2.0)", direction="InOut")
    assert (run(given, 3.5, interpret)[2] == 3.5).all()


@BOTH
def test_p_141_an_out_buffer_is_not_the_result(interpret: bool) -> None:
    a, b, out = run(program("out = pl.add(a, b)"), interpret=interpret)
    assert not np.array_equal(out, a + b)


@BOTH
@pytest.mark.parametrize("direction", ["Out", "InOut"])
def test_p_142_whole_write(direction: str, interpret: bool) -> None:
    a, b, out = run(program("out[:] = pl.add(a, b)", direction=direction), interpret=interpret)
    np.testing.assert_array_equal(out, a + b)


@BOTH
@pytest.mark.parametrize("subscript", ["[:, :]", "[0:16, 0:16]", "[0:16, :]"])
def test_p_142_p_143_the_full_window_is_a_whole_write(subscript: str, interpret: bool) -> None:
    a, b, out = run(program(f"out{subscript} = pl.add(a, b)"), interpret=interpret)
    np.testing.assert_array_equal(out, a + b)


WINDOWS = [(0, 8, 0, 16), (8, 16, 0, 16), (4, 12, 2, 10), (0, 1, 15, 16)]


@BOTH
@pytest.mark.parametrize("window", WINDOWS)
def test_p_143_a_window_is_written_and_the_rest_is_unchanged(
    window: tuple[int, int, int, int], interpret: bool
) -> None:
    r0, r1, c0, c1 = window
    source = f"pl.slice(a, [{r1 - r0}, {c1 - c0}], [{r0}, {c0}])"
    a, _, out = run(
        program(f"out[{r0}:{r1}, {c0}:{c1}] = {source}", direction="InOut"), interpret=interpret
    )
    want = np.full((16, 16), 9.0, F32)
    want[r0:r1, c0:c1] = a[r0:r1, c0:c1]
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("window", WINDOWS)
def test_p_144_the_subscript_is_sugar_for_assemble(window: tuple[int, int, int, int]) -> None:
    r0, r1, c0, c1 = window
    source = f"pl.slice(a, [{r1 - r0}, {c1 - c0}], [{r0}, {c0}])"
    sugar = program(f"out[{r0}:{r1}, {c0}:{c1}] = {source}", "return out")
    explicit = program(f"out = pl.assemble(out, {source}, [{r0}, {c0}])", "return out")
    ir.assert_structural_equal(sugar, explicit)


@BOTH
def test_p_144_assemble_writes_a_window_at_the_offset(interpret: bool) -> None:
    given = program(
        "out = pl.assemble(out, pl.slice(a, [8, 16], [0, 0]), [8, 0])", direction="InOut"
    )
    a, _, out = run(given, interpret=interpret)
    np.testing.assert_array_equal(out[8:], a[:8])
    assert (out[:8] == 9).all()


@pytest.mark.parametrize(
    "body",
    [("out = pl.add(a, b)",), ("t = pl.add(a, b)", "out = t"), ("out = a",)],
    ids=["call", "through a local", "another parameter"],
)
def test_p_145_assignment_of_any_expression_writes_nothing(body: tuple[str, ...]) -> None:
    assert (run(program(*body, direction="InOut"))[2] == 9).all()


def test_p_146_whole_write_and_assemble_agree_only_for_the_full_extent_at_zero() -> None:
    whole = program("out[:] = a", "return out")
    ir.assert_structural_equal(whole, program("out = pl.assemble(out, a, [0, 0])", "return out"))
    part = "pl.slice(a, [8, 16], [0, 0])"
    shifted = program(f"out = pl.assemble(out, {part}, [8, 0])", "return out")
    assert not ir.structural_equal(whole, shifted)
    assert not ir.structural_equal(
        program(f"out = pl.assemble(out, {part}, [0, 0])", "return out"), shifted
    )


# ---- the warning ---------------------------------------------------------------------------------

LINE = (
    "[warning] [OutParamWriteDropped] (pipeline_input) Assigning to {direction} parameter 'out' "
    "in function 'main' rebinds the name only — the caller's buffer is never written. Use "
    "'out[:] = <expr>' to write the whole tensor, or 'out[<slices>] = <expr>' for a sub-window. "
    "at prog.py:5:9"
)


def test_p_147_a_dropped_write_is_reported(warned: Warned) -> None:
    (line,) = warned(program("out = pl.add(a, b)"))
    assert line.startswith("[warning] [OutParamWriteDropped]")


def test_p_147_the_jit_reports_it_at_the_authors_line(capfd: pytest.CaptureFixture[str]) -> None:
    @pl.jit
    def kernel(a: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out = pl.add(a, 1.0)
        return out

    kernel.compile()
    text = "".join(capfd.readouterr())
    line = kernel.definition.function.__code__.co_firstlineno + 3  # decorator, def, with
    assert re.search(rf"OutParamWriteDropped.* at {re.escape(__file__)}:{line}:13$", text, re.M)


@pytest.mark.parametrize("direction", ["Out", "InOut"])
def test_p_148_p_149_the_line_names_the_direction_and_the_place(
    direction: str, warned: Warned
) -> None:
    given = program("out = pl.add(a, b)", direction=direction)
    assert warned(given) == [LINE.format(direction=direction)]


CARRIED = (
    "for i, (o,) in pl.range(4, init_values=(out,)):",
    "    o = pl.store(pl.load(a, [i * 4, 0], [4, 16]), [i * 4, 0], o)",
    "    staged = pl.yield_(o)",
    "out = staged",
)
PLAIN_LOOP = (
    "for i in pl.range(4):",
    "    out = pl.store(pl.load(a, [i * 4, 0], [4, 16]), [i * 4, 0], out)",
)
BRANCH = (
    "if n > 0:",
    "    res = pl.yield_(pl.store(pl.load(a, [0, 0], [16, 16]), [0, 0], out))",
    "else:",
    "    res = pl.yield_(pl.store(pl.load(b, [0, 0], [16, 16]), [0, 0], out))",
    "out = res",
)


@pytest.mark.parametrize("body", [CARRIED, PLAIN_LOOP], ids=["carried", "rebound"])
def test_p_150_a_write_through_a_loop_carry_is_silent(
    body: tuple[str, ...], warned: Warned
) -> None:
    given = program(*body)
    assert warned(given) == []
    a, _, out = run(given)
    np.testing.assert_array_equal(out, a)


def test_p_150_so_is_one_through_both_arms_of_a_branch(warned: Warned) -> None:
    given = program(*BRANCH, more=", n: pl.Scalar[pl.INT32]")
    assert warned(given) == []
    a, b = arrays()
    for n, want in ((1, a), (-1, b)):
        out = np.zeros((16, 16), F32)
        ir.compile(given)(a, b, out, n)
        np.testing.assert_array_equal(out, want)


def test_p_150_the_founding_loop_with_a_collective_is_silent(warned: Warned) -> None:
    text = """
import tilewright.language as pl
import tilewright.language.distributed as pld

@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def main(self, a: pl.Tensor[[4, 16], pl.FP32],
             data: pl.InOut[pld.DistributedTensor[[4, 16], pl.FP32]],
             signal: pl.InOut[pld.DistributedTensor[[1, 1], pl.INT32]]):
        for i, (d,) in pl.range(0, 4, 1, init_values=(data,)):
            d = pl.store(pl.load(a, [i, 0], [1, 16]), [i, 0], d)
            staged = pl.yield_(d)
        data = pld.tensor.allreduce(staged, signal, op=pld.ReduceOp.Sum)
"""
    assert diagnose(pl.parse_program(text)) == []


@pytest.mark.parametrize("expression", ["pl.add(out, b)", "pl.mul(pl.add(out, a), 2.0)"])
def test_p_151_a_value_that_reads_the_parameter_is_not_reported(
    expression: str, warned: Warned
) -> None:
    given = program(f"out = {expression}", direction="InOut")
    assert warned(given) == []
    assert (run(given)[2] == 9).all()  # though the write is dropped


def test_p_152_the_recommended_form_writes(warned: Warned) -> None:
    given = program("out[:] = pl.add(out, b)", direction="InOut")
    assert warned(given) == []
    _, b, out = run(given)
    np.testing.assert_array_equal(out, b + 9)


def disabled() -> passes.DiagnosticCheckSet:
    checks = passes.DiagnosticCheckSet()
    checks.insert(passes.DiagnosticCheck.OutParamWriteDropped)
    return checks


def test_p_153_the_check_can_be_disabled(capfd: pytest.CaptureFixture[str]) -> None:
    ir.compile(program("out = pl.add(a, b)"), disabled_diagnostics=disabled())
    assert "OutParamWriteDropped" not in "".join(capfd.readouterr())


def test_p_153_so_it_can_for_the_jit(capfd: pytest.CaptureFixture[str]) -> None:
    @pl.jit
    def kernel(a: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out = pl.add(a, 1.0)
        return out

    kernel.compile(config=RunConfig(disabled_diagnostics=disabled()))
    assert "OutParamWriteDropped" not in "".join(capfd.readouterr())


WRITTEN = (
    "[warning] [InParamWritten] (pipeline_input) Parameter 'x' of function 'f' is written — it is "
    "taken as InOut. Declare it as pl.InOut[...], or as pl.Out[...] where its contents before the "
    "call do not matter. at prog.py:2:7"
)


def undeclared(direction: str = "") -> Any:
    type_ = "pl.Tensor[[16, 16], pl.FP32]"
    declared = f"pl.{direction}[{type_}]" if direction else type_
    return pl.parse(f"@pl.function\ndef f(x: {declared}):\n    x[0:8] = x[8:16]\n", "prog.py")


def test_a_parameter_that_is_written_undeclared_is_reported_at_its_declaration(
    capfd: pytest.CaptureFixture[str],
) -> None:
    given = undeclared()
    assert "InParamWritten" not in "".join(capfd.readouterr())
    ir.compile(given)
    assert WRITTEN in capfd.readouterr().err.splitlines()
    ir.compile(undeclared("InOut"))
    assert "InParamWritten" not in "".join(capfd.readouterr())


def test_that_report_can_be_disabled_like_its_sister(capfd: pytest.CaptureFixture[str]) -> None:
    checks = passes.DiagnosticCheckSet()
    checks.insert(passes.DiagnosticCheck.InParamWritten)
    ir.compile(undeclared(), disabled_diagnostics=checks)
    ir.compile(undeclared(), diagnostic_phase=passes.DiagnosticPhase.NONE)
    assert "InParamWritten" not in "".join(capfd.readouterr())


def test_p_153_a_set_of_checks_answers_and_forgets() -> None:
    checks = disabled()
    assert checks.contains(passes.DiagnosticCheck.OutParamWriteDropped)
    checks.remove(passes.DiagnosticCheck.OutParamWriteDropped)
    assert not checks.contains(passes.DiagnosticCheck.OutParamWriteDropped)


def test_p_154_each_parameter_is_judged_alone(warned: Warned) -> None:
    more = ", two: pl.Out[pl.Tensor[[16, 16], pl.FP32]]"
    one = warned(program("out[:] = a", "two = pl.add(a, b)", more=more))
    assert len(one) == 1 and "parameter 'two'" in one[0]


def test_p_154_two_dropped_writes_are_reported_in_statement_order(warned: Warned) -> None:
    more = ", two: pl.Out[pl.Tensor[[16, 16], pl.FP32]]"
    lines = warned(program("two = pl.add(a, b)", "out = pl.mul(a, b)", more=more))
    found = [re.findall(r"parameter '(\w+)'", line) for line in lines]
    assert found == [["two"], ["out"]]


def test_p_155_inputs_and_locals_are_never_reported(warned: Warned) -> None:
    assert warned(program("a = pl.add(a, b)", "t = pl.exp(a)", "t = pl.exp(b)", "out[:] = t")) == []


def test_p_156_the_check_runs_once_on_what_enters_the_pipeline(warned: Warned) -> None:
    lines = warned(program("out = pl.add(a, b)"))
    assert len(lines) == 1 and "(pipeline_input)" in lines[0]


def test_p_156_it_can_be_moved_or_turned_off_as_a_phase(
    capfd: pytest.CaptureFixture[str],
) -> None:
    for phase in (passes.DiagnosticPhase.NONE, "none"):
        ir.compile(program("out = pl.add(a, b)"), diagnostic_phase=phase)
        assert "OutParamWriteDropped" not in "".join(capfd.readouterr())
    with pytest.raises(ValueError, match="'no' is not a valid DiagnosticPhase"):
        ir.compile(program("out = pl.add(a, b)"), diagnostic_phase="no")


def test_p_142_the_written_value_has_the_extents_of_the_window() -> None:
    with pytest.raises(errors.ShapeMismatch, match=r"\[8, 8\] is written into a window of .*16"):
        program("out[:] = pl.exp(pl.load(a, [0, 0], [8, 8]))")


@pytest.mark.parametrize(
    "body",
    [
        ("t = pl.add(a, b)", "out = t"),
        ("out = b",),
        ("t = pl.add(a, b)", "for i in pl.range(3):", "    out = t"),
        ("t: pl.Tensor[[16, 16], pl.FP32] = pl.add(a, b)", "u = t", "u, out = u, t"),
    ],
)
def test_p_147_the_value_may_have_a_name_already(body: tuple[str, ...], warned: Warned) -> None:
    (line,) = warned(program(*body))
    assert line.endswith(f"prog.py:{4 + len(body)}:{line.rpartition(':')[2]}")


def test_p_150_a_name_of_what_was_written_is_silent(warned: Warned) -> None:
    for body in (
        ("t = pl.store(pl.load(a, [0, 0], [16, 16]), [0, 0], out)", "out = t"),
        ("t = pl.assemble(out, a, [0, 0])", "for i in pl.range(3):", "    out = t"),
    ):
        assert warned(program(*body)) == []


@pl.inline
def plus_one(x: pl.Tensor[[8], pl.FP32]) -> pl.Tensor[[8], pl.FP32]:
    out = pl.add(x, 1.0)
    return out


def test_p_155_a_local_of_a_helper_is_not_the_parameter_of_its_name(warned: Warned) -> None:
    @pl.program
    class Kept:
        @pl.function
        def main(self, x: pl.Tensor[[8], pl.FP32], out: pl.Out[pl.Tensor[[8], pl.FP32]]):
            y = plus_one(x)
            out[:] = y

    @pl.program
    class Dropped:
        @pl.function
        def main(self, x: pl.Tensor[[8], pl.FP32], result: pl.Out[pl.Tensor[[8], pl.FP32]]):
            result = plus_one(x)  # noqa: F841

    assert warned(Kept) == [] and len(warned(Dropped)) == 1
