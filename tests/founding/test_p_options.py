"""Rows P-001 to P-003 and P-082 to P-099: options, and requests that compile afresh."""

from __future__ import annotations

import dataclasses
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import ir, passes
from tilewright.jit import CompileProfiler
from tilewright.runtime import (
    BackendType,
    ExecutionMode,
    MemoryPlanner,
    OptimizationStrategy,
    PassDumpLevel,
    RunConfig,
    RuntimeKind,
)
from tilewright.runtime.config import PLATFORMS

F32 = np.float32


@pl.jit
def add_c(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.add(pl.load(x, [0, 0], [16, 16]), 3.0), [0, 0], out)
    return out


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def dumps(directory: Any) -> list[str]:
    return sorted(path.name for path in Path(directory).rglob("*_after_*.py"))


def test_p001_platform_is_deprecated_and_says_what_to_write() -> None:
    with pytest.warns(DeprecationWarning, match=r"backend_type.*execution_mode"):
        RunConfig(platform="a2a3sim")


def test_p002_every_legacy_platform_selects_the_artifact_of_its_target() -> None:
    for name, (backend, mode) in PLATFORMS.items():
        with pytest.warns(DeprecationWarning):
            old = RunConfig(platform=name)
        new = RunConfig(backend_type=backend, execution_mode=mode)
        assert add_c.compile(config=old) is add_c.compile(config=new)


def test_p003_p083_the_defaults_warn_about_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = dataclasses.replace(RunConfig(), device_id=0)
    assert config == RunConfig() and config.platform == "a2a3sim"
    assert config.dump_level is PassDumpLevel.NONE
    assert config.strategy is OptimizationStrategy.Default


def test_p082_no_config_is_the_default_config() -> None:
    assert add_c.compile() is add_c.compile(config=RunConfig())


@pytest.mark.parametrize(
    "option",
    [
        {"backend_type": BackendType.Ascend950},
        {"execution_mode": ExecutionMode.ONBOARD},
        {"strategy": OptimizationStrategy.DebugTileOptimization},
        {"memory_planner": MemoryPlanner.PTOAS},
        {"runtime": RuntimeKind.HOST_BUILD_GRAPH},
        {"emit_source_loc": True},
    ],
)
def test_p084_semantic_options_select_artifacts(option: dict[str, Any]) -> None:
    first = add_c.compile()
    other = add_c.compile(config=RunConfig(**option))
    assert other is not first and add_c.compile(config=RunConfig(**option)) is other
    assert add_c.compile() is first


@pytest.mark.parametrize("name", ["TILEWRIGHT_EMIT_PTO_LOC", "PYPTO_EMIT_PTO_LOC"])
def test_p084_so_does_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = add_c.compile()
    monkeypatch.setenv(name, "1")
    assert add_c.compile() is not first
    monkeypatch.setenv(name, "0")
    assert add_c.compile() is first


@pytest.mark.parametrize(
    "option", [{"device_id": 1}, {"codegen_only": True}, {"save_kernels": True}]
)
def test_p085_controls_of_a_run_select_nothing(option: dict[str, Any]) -> None:
    assert add_c.compile(config=RunConfig(**option)) is add_c.compile()


@pytest.mark.parametrize("level", [True, PassDumpLevel.CONCISE, PassDumpLevel.EXPLICIT])
def test_p086_p094_dumps_compile_afresh_into_directories_of_their_own(level: Any) -> None:
    cached = add_c.compile()
    one = add_c.compile(config=RunConfig(dump_passes=level))
    two = add_c.compile(config=RunConfig(dump_passes=level))
    assert len({id(cached), id(one), id(two)}) == 3 and add_c.compile() is cached
    assert one.output_dir != two.output_dir
    assert dumps(one.output_dir) and dumps(one.output_dir) == dumps(two.output_dir)


@pytest.mark.parametrize("option", [{"dump_ptoas_passes": True}, {"compile_profiling": True}])
def test_p087_p088_so_do_other_reports(option: dict[str, Any]) -> None:
    cached = add_c.compile()
    made = [add_c.compile(config=RunConfig(**option)) for _ in range(2)]
    assert len({id(cached), *map(id, made)}) == 3 and add_c.compile() is cached
    assert all(any(Path(each.output_dir).iterdir()) for each in made)


@pytest.mark.parametrize("name", ["TILEWRIGHT_COMPILE_PROFILING", "PYPTO_COMPILE_PROFILING"])
def test_p088_profiling_may_come_from_the_environment(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = add_c.compile()
    monkeypatch.setenv(name, "1")
    fresh = add_c.compile()
    assert fresh is not cached and (Path(fresh.output_dir) / "report" / "report.txt").exists()


def test_p088_an_active_profiler_measures_the_stages() -> None:
    cached = add_c.compile()
    with CompileProfiler() as profiler:
        fresh = add_c.compile()
    assert fresh is not cached and (fresh.output_dir / "report" / "report.txt").exists()
    assert {"lower", "emit", "compile"} <= set(profiler.seconds) and add_c.compile() is cached


def test_p089_p095_explicit_directories_are_used_each_time(tmp_path: Path) -> None:
    cached = add_c.compile()
    wanted = tmp_path / "kernels"
    for _ in range(2):
        made = add_c.compile(config=RunConfig(save_kernels_dir=str(wanted)))
        assert made is not cached and made.output_dir == wanted
        assert (wanted / "program.py").exists()
        for path in wanted.iterdir():
            path.unlink()
    assert add_c.compile() is cached


@pytest.mark.parametrize("name", ["TILEWRIGHT_PROG_BUILD_DIR", "PYPTO_PROG_BUILD_DIR"])
def test_p089_p091_the_directory_may_come_from_the_environment(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = add_c.compile()
    monkeypatch.setenv(name, str(tmp_path / "built"))
    assert add_c.compile() is not cached and (tmp_path / "built" / "program.py").exists()
    monkeypatch.setenv(name, "")
    assert add_c.compile() is cached


def disabled() -> passes.DiagnosticCheckSet:
    checks = passes.DiagnosticCheckSet()
    checks.insert(passes.DiagnosticCheck.OutParamWriteDropped)
    return checks


def test_p090_p096_diagnostic_settings_compile_afresh_and_split_no_key() -> None:
    cached = add_c.compile()
    key = add_c.key()
    config = RunConfig(disabled_diagnostics=disabled())
    assert add_c.compile(config=config) is not cached and add_c.key(config=config) == key
    for context in (
        passes.PassContext(instruments=[passes.TimingInstrument()]),
        passes.PassContext(verification_level=passes.VerificationLevel.ROUNDTRIP),
        passes.PassContext(disabled_diagnostics=disabled()),
    ):
        with context:
            assert add_c.compile() is not cached
    assert add_c.compile() is cached


def test_p090_a_warm_kernel_still_serves_a_context_with_instruments() -> None:
    x = np.ones((16, 16), F32)
    out = np.zeros_like(x)
    for _ in range(3):
        add_c(x, out)
    seen: list[str] = []
    watcher = passes.CallbackInstrument(after_pass=lambda name, _: seen.append(name))
    with passes.PassContext(instruments=[watcher]):
        add_c(x, out)
        count = len(seen)
        add_c(x, out)
    assert count and len(seen) == 2 * count
    add_c(x, out)
    assert len(seen) == 2 * count


def test_p092_a_warm_call_notices_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.ones((16, 16), F32)
    out = np.zeros_like(x)
    for _ in range(3):
        add_c(x, out)
    monkeypatch.setenv("TILEWRIGHT_PROG_BUILD_DIR", str(tmp_path / "built"))
    add_c(x, out)
    assert (tmp_path / "built" / "program.py").exists()


@pytest.mark.parametrize("level", [PassDumpLevel.NONE, False])
def test_p091_no_dump_is_no_reason(level: Any) -> None:
    assert add_c.compile(config=RunConfig(dump_passes=level)) is add_c.compile()


def test_p092_requested_dumps_come_again(tmp_path: Path) -> None:
    x = np.ones((16, 16), F32)
    out = np.zeros_like(x)
    add_c(x, out)
    config = RunConfig(dump_passes=True, save_kernels_dir=str(tmp_path / "d"))
    for _ in range(2):
        add_c(x, out, config=config)
        found = list((tmp_path / "d").rglob("*_after_*.py"))
        assert found
        for path in found:
            path.unlink()


def test_p093_a_failed_diagnostic_compilation_harms_nothing(tmp_path: Path) -> None:
    cached = add_c.compile()
    blocked = tmp_path / "file"
    blocked.write_text("in the way", encoding="utf-8")
    with pytest.raises(OSError):
        add_c.compile(config=RunConfig(save_kernels_dir=str(blocked / "below")))
    assert add_c.compile() is cached


def test_p097_contradictions_are_errors_on_hits_too() -> None:
    @pl.jit
    def fresh(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(x, 1.0)
        return out

    texts = []
    config = RunConfig(memory_planner=MemoryPlanner.PTOAS)
    for _ in range(2):
        with (
            passes.PassContext(memory_planner=MemoryPlanner.PYPTO),
            pytest.raises(ValueError, match="memory_planner") as caught,
        ):
            fresh.compile(config=config)
        texts.append(str(caught.value))
        fresh.compile(config=config)
    assert texts[0] == texts[1]


def test_p098_a_plain_context_reuses_what_fits() -> None:
    cached = add_c.compile()
    with passes.PassContext(memory_planner=MemoryPlanner.PYPTO):
        assert add_c.compile() is cached
    with passes.PassContext(memory_planner=MemoryPlanner.PTOAS):
        other = add_c.compile()
    assert other is add_c.compile(config=RunConfig(memory_planner=MemoryPlanner.PTOAS))


def test_p099_the_founding_example(tmp_path: Path) -> None:
    cached = add_c.compile()
    add_c.compile(config=RunConfig(dump_passes=True, save_kernels_dir=str(tmp_path / "debug")))
    assert add_c.compile() is cached


def test_ordinary_compilations_write_nothing() -> None:
    add_c.compile()
    assert os.listdir() == []


def test_the_choices_are_where_each_surface_expects_them() -> None:
    import tilewright
    from tilewright import ir
    from tilewright.jit import CompiledProgram

    assert passes.PassDumpLevel is ir.PassDumpLevel is PassDumpLevel
    assert passes.MemoryPlanner is MemoryPlanner and passes.RuntimeKind is RuntimeKind
    assert ir.OptimizationStrategy is OptimizationStrategy
    assert tilewright.CompileProfiler is CompileProfiler and ir.CompiledProgram is CompiledProgram


@pytest.mark.parametrize(
    "option",
    ["platform", "strategy", "backend_type", "arch", "execution_mode", "dump_passes", "runtime"],
)
def test_p083_an_option_that_is_no_choice_is_named(option: str) -> None:
    with pytest.raises(TypeError, match=rf"^{option} is 7; a \w+ is accepted$"):
        RunConfig(**{option: 7})


def test_what_is_no_program_is_not_compiled() -> None:
    with pytest.raises(TypeError, match="a Program or a Function is compiled, not 3"):
        ir.compile(3)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"platform": "a5sim", "backend_type": BackendType.Ascend910B}, "platform='a5sim' is"),
        ({"platform": "a2a3", "arch": BackendType.Ascend950}, "platform='a2a3' is"),
        ({"platform": "a2a3", "execution_mode": ExecutionMode.SIMULATOR}, "platform='a2a3' is"),
        ({"arch": BackendType.Ascend950, "backend_type": BackendType.Ascend910B}, "backend_type="),
    ],
)
def test_p001_options_that_contradict_are_refused(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"and {message}.*give one of them"):
        RunConfig(**given)


def test_p001_a_copy_takes_the_target_that_it_is_given() -> None:
    new = RunConfig(arch=BackendType.Ascend950)
    assert new.replace(backend_type=BackendType.Ascend910B).platform == "a2a3sim"
    assert new.replace(execution_mode=ExecutionMode.ONBOARD).platform == "a5"
    assert RunConfig().replace(arch=BackendType.Ascend950).platform == "a5sim"


def test_p001_the_warning_is_where_the_author_wrote_platform() -> None:
    f = pl.parse("@pl.function\ndef f(x: pl.Tensor[[8], pl.FP32]):\n    return pl.exp(x)\n")
    with pytest.warns(DeprecationWarning, match="backend_type") as caught:
        RunConfig(platform="a2a3")
        ir.compile(f, platform="a2a3sim")
    assert [warning.filename for warning in caught] == [__file__, __file__]
