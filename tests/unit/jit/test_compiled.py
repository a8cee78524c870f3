# ruff: noqa: F821, RET504  (kernels are language, not Python)
"""How a compiled program is called, looked at, kept and restored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import errors, ir, passes
from tilewright.jit import CompiledProgram, compile_program
from tilewright.jit.kernels import InterpretedKernel
from tilewright.passes import pipeline
from tilewright.runtime import RunConfig

F32 = np.float32
M, N = pl.dynamic("M"), pl.dynamic("N")


@pl.program
class Scaled:
    @pl.function
    def main(
        self,
        x: pl.Tensor[[4, 4], pl.FP32],
        c: pl.Scalar[pl.FP32],
        out: pl.Out[pl.Tensor[[4, 4], pl.FP32]],
    ) -> pl.Tensor[[4, 4], pl.FP32]:
        out[:] = pl.mul(x, c)
        return out


@pytest.fixture(params=["native", "interpret"])
def scaled(request: pytest.FixtureRequest) -> CompiledProgram:
    return ir.compile(Scaled, execution=request.param)


X = np.arange(16, dtype=F32).reshape(4, 4)


def test_all_parameters_are_written_in_place_and_given_back(scaled: CompiledProgram) -> None:
    out = np.zeros_like(X)
    assert scaled(X, 2.0, out) is out
    np.testing.assert_array_equal(out, X * 2)


def test_inputs_only_allocate_the_outputs(scaled: CompiledProgram) -> None:
    np.testing.assert_array_equal(scaled(X, 3.0), X * 3)


def test_arguments_may_be_named(scaled: CompiledProgram) -> None:
    np.testing.assert_array_equal(scaled(c=3.0, x=X), X * 3)
    with pytest.raises(TypeError, match="has no parameter 'y'"):
        scaled(X, y=1.0)


def test_a_wrong_number_of_arguments_names_both_ways(scaled: CompiledProgram) -> None:
    text = (
        r"main expects 3 \(in-place\) or 2 \(return\) arguments, got 1\. "
        r"Parameters: \['x', 'c', 'out'\]"
    )
    with pytest.raises(TypeError, match=text):
        scaled(X)


def test_it_says_what_it_is(scaled: CompiledProgram) -> None:
    assert scaled.param_names == ["x", "c", "out"] and scaled.output_param_names == ["out"]
    assert scaled.platform == "a2a3sim" and scaled.program is Scaled


def test_arrays_that_do_not_fit_are_refused_alike(scaled: CompiledProgram) -> None:
    with pytest.raises(errors.ShapeMismatch):
        scaled(X[:2], 1.0)
    with pytest.raises(errors.DTypeMismatch):
        scaled(X.astype(np.float64), 1.0)
    with pytest.raises(errors.OutputOverlap):
        buffer = np.zeros((5, 4), F32)
        scaled(buffer[1:], 1.0, buffer[:4])


def test_a_config_may_come_with_the_call(scaled: CompiledProgram) -> None:
    np.testing.assert_array_equal(scaled(X, 3.0, config=RunConfig(device_id=3)), X * 3)
    np.testing.assert_array_equal(scaled(X, 3.0, config=RunConfig(checked=True)), X * 3)


@pytest.mark.parametrize("execution", ["interpret", "checked", "compare"])
def test_a_call_may_ask_how_the_program_runs(
    execution: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaled: Any = ir.compile(Scaled)
    interpreted: list[str] = []
    run = InterpretedKernel.run

    def spy(self: InterpretedKernel, *args: Any) -> Any:
        interpreted.append(self.entry)
        return run(self, *args)

    monkeypatch.setattr(InterpretedKernel, "run", spy)
    scaled(X, 3.0)
    assert not interpreted
    np.testing.assert_array_equal(scaled(X, 3.0, config=RunConfig(execution=execution)), X * 3)
    assert interpreted == ["main"]


@pytest.mark.torch
def test_torch_tensors_go_in_and_come_out() -> None:
    import torch

    compiled = ir.compile(Scaled)
    x = torch.arange(16, dtype=torch.float32).reshape(4, 4)
    out = torch.zeros(4, 4)
    assert compiled(x, 2.0, out) is out
    assert torch.equal(out, x * 2)
    made = compiled(x, 5.0)
    assert isinstance(made, torch.Tensor) and torch.equal(made, x * 5)


# ---- what is returned ----------------------------------------------------------------------------


@pl.function
def sums(n: pl.INT64) -> tuple[pl.INT64, pl.INT64]:
    total: pl.INT64 = 0
    twice: pl.INT64 = n * 2
    for i in pl.range(n):
        total = total + i
    return total, twice


@pl.function
def scalar_and_tensor(
    x: pl.Tensor[[4, 4], pl.FP32], n: pl.INT64
) -> tuple[pl.Tensor[[4, 4], pl.FP32], pl.INT64]:
    y = pl.mul(x, 2.0)
    return y, n + 1


@pytest.mark.parametrize("execution", ["native", "interpret"])
def test_scalars_come_back_as_numbers(execution: str) -> None:
    assert ir.compile(sums, execution=execution)(5) == (10, 10)
    y, n = ir.compile(scalar_and_tensor, execution=execution)(X, 6)
    np.testing.assert_array_equal(y, X * 2)
    assert n == 7 and type(n) is int


# ---- extents -------------------------------------------------------------------------------------


@pl.function
def grown(
    x: pl.Tensor[[M, 4], pl.FP32], out: pl.Out[pl.Tensor[[N, 4], pl.FP32]]
) -> pl.Tensor[[N, 4], pl.FP32]:
    out = pl.assemble(out, x, [0, 0])
    return out


def test_an_output_whose_shape_nothing_gives_must_be_passed() -> None:
    compiled = ir.compile(grown)
    with pytest.raises(TypeError, match="'out' cannot be allocated"):
        compiled(X)


@pl.function
def sized(n: pl.INDEX, x: pl.Tensor[[n, 4], pl.FP32]) -> pl.Tensor[[n, 4], pl.FP32]:
    y = pl.mul(x, 2.0)
    return y


@pytest.mark.parametrize("execution", ["native", "interpret"])
def test_a_scalar_that_is_an_extent_must_be_that_of_the_array(execution: str) -> None:
    compiled = ir.compile(sized, execution=execution)
    np.testing.assert_array_equal(compiled(4, X), X * 2)
    for _ in range(2):
        with pytest.raises(errors.ShapeMismatch, match="n = 3"):
            compiled(3, X)


@pytest.mark.parametrize("execution", ["native", "interpret"])
def test_dimensions_of_one_label_are_told_apart(execution: str) -> None:
    """Labels are for reading; whether two dimensions are one is a matter of identity."""
    other, half = pl.dynamic("M"), pl.dynamic("M")

    @pl.function
    def both(
        x: pl.Tensor[[M, 4], pl.FP32],
        y: pl.Tensor[[other, half], pl.FP32],
        out: pl.Out[pl.Tensor[[M, 4], pl.FP32]],
        out2: pl.Out[pl.Tensor[[half, other], pl.FP32]],
    ):
        for i in pl.range(x.shape[0]):
            pl.store(pl.mul(pl.load(x, [i, 0], [1, 4]), 2.0), [i, 0], out)
        for i in pl.range(y.shape[0]):
            for j in pl.range(y.shape[1]):
                pl.store(pl.add(pl.load(y, [i, j], [1, 1]), 1.0), [j, i], out2)

    compiled = ir.compile(both, execution=execution)
    for rows, others, halves in ((3, 5, 2), (2, 1, 7)):
        x = np.arange(rows * 4, dtype=F32).reshape(rows, 4)
        y = np.arange(others * halves, dtype=F32).reshape(others, halves)
        out, out2 = np.zeros((rows, 4), F32), np.zeros((halves, others), F32)
        for _ in range(2):
            compiled(x, y, out, out2)
            np.testing.assert_array_equal(out, x * 2)
            np.testing.assert_array_equal(out2, y.T + 1)
    with pytest.raises(errors.ShapeMismatch, match="M_2"):
        compiled(x, y, out, np.zeros((halves, others + 1), F32))


# ---- entries -------------------------------------------------------------------------------------


@pl.program
class Several:
    @pl.function(type=pl.FunctionType.InCore)
    def core(
        self, x: pl.Tensor[[4, 4], pl.FP32], out: pl.Out[pl.Tensor[[4, 4], pl.FP32]]
    ) -> pl.Tensor[[4, 4], pl.FP32]:
        return pl.store(pl.mul(pl.load(x, [0, 0], [4, 4]), 2.0), [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def first(
        self, x: pl.Tensor[[4, 4], pl.FP32], out: pl.Out[pl.Tensor[[4, 4], pl.FP32]]
    ) -> pl.Tensor[[4, 4], pl.FP32]:
        return self.core(x, out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def second(
        self, x: pl.Tensor[[4, 4], pl.FP32], out: pl.Out[pl.Tensor[[4, 4], pl.FP32]]
    ) -> pl.Tensor[[4, 4], pl.FP32]:
        out = self.core(x, out)
        return out


def test_every_orchestration_can_be_called_by_name() -> None:
    compiled = ir.compile(Several)
    assert [each.name for each in compiled.entries] == ["first", "second"]
    for name in ("first", "second"):
        np.testing.assert_array_equal(compiled[name](X), X * 2)
    with pytest.raises(KeyError, match="first, second"):
        compiled["third"]


@pytest.mark.parametrize("restored", [False, True])
def test_nothing_is_called_when_none_is_chosen(tmp_path: Path, restored: bool) -> None:
    compiled = ir.compile(Several)
    if restored:
        compiled = CompiledProgram.from_dir(compiled.save(tmp_path))
    for prepare in (False, True):
        if prepare:
            compiled.prepare()
        out = np.zeros_like(X)
        for arguments in ((X,), (X, out)):
            with pytest.raises(errors.InvalidOperationError, match="first, second, and none is"):
                compiled(*arguments)
        assert not out.any()


def test_main_is_called_when_none_is_chosen() -> None:
    text = Several.as_python().replace("def second", "def main")
    compiled = ir.compile(pl.parse_program(text))
    assert [each.name for each in compiled.entries] == ["main", "first"]
    np.testing.assert_array_equal(compiled(X), X * 2)
    np.testing.assert_array_equal(compiled["first"](X), X * 2)


def test_one_entry_can_be_chosen() -> None:
    np.testing.assert_array_equal(compile_program(Several, "core")(X), X * 2)
    with pytest.raises(errors.InvalidOperationError, match="no function 'nothing'"):
        compile_program(Several, "nothing")


# ---- on disk -------------------------------------------------------------------------------------


def test_files_are_written_when_their_directory_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    compiled = ir.compile(Scaled)
    assert list(tmp_path.iterdir()) == []
    names = {path.name for path in compiled.output_dir.iterdir()}
    assert {"program.py", "main.o", "main.ll", "main.json", "main.tir"} <= names
    assert pl.parse((compiled.output_dir / "program.py").read_text()) is not None


@pytest.mark.parametrize("execution", ["native", "interpret"])
def test_a_directory_becomes_a_callable_again(tmp_path: Path, execution: str) -> None:
    made = ir.compile(Several, output_dir=tmp_path / "d", execution=execution)
    again = CompiledProgram.from_dir(made.output_dir)
    for name in ("first", "second"):
        np.testing.assert_array_equal(again[name](X), X * 2)
    assert again.program is not None
    assert ir.structural_equal(again.program, Several)


def test_a_directory_without_a_kernel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.ToolchainError, match="no compiled kernel"):
        CompiledProgram.from_dir(tmp_path)


# ---- what cannot be compiled ---------------------------------------------------------------------


def test_what_has_no_native_form_says_what_else_can_run_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any) -> Any:
        raise errors.UnsupportedFeatureError("sort has no lowering")

    monkeypatch.setattr(pipeline, "lower", refuse)
    with pytest.raises(errors.UnsupportedFeatureError, match="execution='interpret'"):
        ir.compile(Scaled)


def test_an_unknown_execution_is_refused() -> None:
    with pytest.raises(ValueError, match="interpret"):
        ir.compile(Scaled, execution="magic")


def test_instruments_see_every_pass_of_ir_compile() -> None:
    seen: list[str] = []
    with passes.PassContext([passes.CallbackInstrument(lambda n, _: seen.append(n))]):
        ir.compile(Scaled)
    assert seen == [step.__name__ for step in pipeline.PIPELINE]


def test_an_entry_cannot_call_an_entry() -> None:
    @pl.jit
    def inner(x: pl.Tensor[[4, 4], pl.FP32], out: pl.Out[pl.Tensor[[4, 4], pl.FP32]]):
        return out

    @pl.jit
    def outer(x: pl.Tensor[[4, 4], pl.FP32], out: pl.Out[pl.Tensor[[4, 4], pl.FP32]]):
        out = inner(x, out)
        return out

    with pytest.raises(errors.InvalidOperationError, match=r"@pl\.jit\.incore"):
        outer.compile()


def test_a_compiled_object_takes_no_other_config() -> None:
    @pl.jit
    def k(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(x, 1.0)
        return out

    x = np.zeros((8, 8), np.float32)
    for call in (k, k.compile()):
        with pytest.raises(TypeError, match="config is 3; a RunConfig is accepted"):
            call(x, config=3)


@pytest.mark.torch
def test_advice_is_in_the_words_of_the_array() -> None:
    torch = pytest.importorskip("torch")

    @pl.jit
    def k(x: pl.Tensor[[8, 8], pl.BF16], out: pl.Out[pl.Tensor[[8, 8], pl.BF16]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(x, 1.0)
        return out

    for given, advice in (
        (torch.zeros(8, 8), r"help: pass x\.to\(torch\.bfloat16\)"),
        (np.zeros((8, 8), np.float32), r"help: pass x\.astype\(ml_dtypes\.bfloat16\)"),
    ):
        with pytest.raises(errors.DTypeMismatch, match=advice):
            k(given)


def test_an_output_without_a_type_must_be_passed_however_warm_the_kernel_is() -> None:
    @pl.jit
    def scaled(x: pl.Tensor, out: pl.Out[pl.Tensor], by: pl.Scalar[pl.FP32]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.mul(x, by)
        return out

    x, out = np.ones((4, 8), np.float32), np.zeros((4, 8), np.float32)
    for _ in range(3):
        with pytest.raises(errors.ParserTypeError, match="'out' has an annotation with no shape"):
            scaled(x, 2.0)
        assert (scaled(x, out, 2.0) == 2).all()
