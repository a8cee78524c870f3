"""Rows R-022 to R-027: policies, counters, damaged entries, the warm-up commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
import tilewright.language as pl
from tilewright import errors, ir
from tilewright.cache import (
    CacheConfig,
    State,
    Store,
    cache_stats,
    configure_cache,
    current_config,
)
from tilewright.cli import cache_commands
from tilewright.codegen import machine
from tilewright.jit import __main__ as warming
from tilewright.jit import _persistent
from tilewright.jit.driver import compile_program
from tilewright.runtime import RunConfig

F32 = np.float32


@pytest.fixture(autouse=True)
def no_policy() -> Iterator[None]:
    configure_cache(None)
    yield
    configure_cache(None)


def entry() -> Any:
    @pl.jit
    def k(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(x, 1.0)
        return out

    return k


def config(root: Path, **more: Any) -> RunConfig:
    return RunConfig(cache_config=CacheConfig(enabled=True, root=root, **more))


def counted(action: Any) -> dict[str, Any]:
    """What an action adds to the counters."""
    before = cache_stats()
    action()
    after = cache_stats()
    names = before.__dataclass_fields__
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in names}
    return {n: b if isinstance(b, str) else b - a for n, (a, b) in pairs.items() if a != b}


def test_r022_a_policy_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        CacheConfig().enabled = True  # type: ignore[misc]
    assert not CacheConfig().enabled


def test_r022_requests_win_over_the_process_which_wins_over_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", "1")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    assert current_config().enabled and current_config().directory == str(tmp_path)
    configure_cache(CacheConfig(enabled=False))
    assert not current_config().enabled and current_config().root is None
    explicit = CacheConfig(enabled=True, readonly=True)
    assert current_config(explicit) is explicit


@pytest.mark.parametrize("name", ["CACHE", "CACHE_READONLY"])
@pytest.mark.parametrize("prefix", ["TILEWRIGHT_", "PYPTO_"])
def test_r023_booleans_are_exactly_0_or_1(
    name: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(prefix + name, "yes")
    with pytest.raises(ValueError, match=prefix + name):
        current_config()
    monkeypatch.setenv(prefix + name, "1")
    assert current_config() == CacheConfig(
        enabled=name == "CACHE", readonly=name != "CACHE", root=os.environ["TILEWRIGHT_CACHE_DIR"]
    )  # fmt: skip


def test_r024_lookup_goes_from_memory_to_disk_to_building(tmp_path: Path) -> None:
    first, policy = entry(), config(tmp_path)
    made = counted(lambda: first.compile(config=policy))
    assert made["misses"] == made["generation_builds"] == made["binary_builds"] == 1
    assert counted(lambda: first.compile(config=policy)) == {"requests": 1, "object_hits": 1}
    restored = counted(lambda: entry().compile(config=policy))
    assert restored["ready_hits"] == 1 and "binary_builds" not in restored


def test_a_program_is_kept_where_its_request_says(tmp_path: Path) -> None:
    program = entry().specialize(np.zeros((16, 16), F32), np.zeros((16, 16), F32))
    policy = CacheConfig(enabled=True, root=tmp_path)
    made = counted(lambda: compile_program(program, cache_config=policy))
    assert made["misses"] == 1 and list(tmp_path.iterdir())
    assert counted(lambda: compile_program(program, cache_config=policy))["ready_hits"] == 1
    configure_cache(policy)
    off = CacheConfig(enabled=False)
    assert not {"misses", "ready_hits"} & set(
        counted(lambda: compile_program(program, cache_config=off))
    )


def test_r024_a_restored_kernel_runs_and_reports_faults_like_a_new_one(tmp_path: Path) -> None:
    entry().compile(config=config(tmp_path))
    k = entry()
    restored = k.compile(config=config(tmp_path))
    x, out = np.ones((16, 16), F32), np.zeros((16, 16), F32)
    assert restored.program is None and restored(x, out) is out
    np.testing.assert_array_equal(out, x + 1)
    np.testing.assert_array_equal(restored(x), x + 1)
    with pytest.raises(errors.ShapeMismatch):
        restored(x[:4], out)


def test_r024_text_that_could_not_be_assembled_is_kept_for_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise errors.ToolchainError("no assembler today")

    monkeypatch.setattr(_persistent, "finish", refuse)
    with pytest.raises(errors.ToolchainError):
        entry().compile(config=config(tmp_path))
    monkeypatch.undo()
    made = counted(lambda: entry().compile(config=config(tmp_path)))
    assert made["generated_hits"] == made["binary_builds"] == 1 and "misses" not in made


def test_disabled_and_forced_requests_are_counted(tmp_path: Path) -> None:
    k = entry()
    assert counted(lambda: k.compile())["disabled_requests"] == 1
    fresh = RunConfig(save_kernels_dir=str(tmp_path / "out"))
    assert counted(lambda: k.compile(config=fresh))["forced_rebuilds"] == 1


@pl.function(type=pl.FunctionType.InCore)
def outside(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    pl.store(pl.load(x, [0, 0], [16, 16]), [0, 0], out)


def test_what_only_ir_identifies_goes_around_the_disk(tmp_path: Path) -> None:
    @pl.jit
    def k(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        outside(x, out)
        return out

    made = counted(lambda: k.compile(config=config(tmp_path)))
    assert made["bypasses"] == 1 and "IR" in made["last_bypass_reason"]
    assert list(tmp_path.iterdir()) == []


def test_r025_readonly_roots_are_read_and_never_written(tmp_path: Path) -> None:
    entry().compile(config=config(tmp_path))
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    assert counted(lambda: entry().compile(config=config(tmp_path, readonly=True)))["ready_hits"]
    other = config(tmp_path, readonly=True, extra_fingerprint="another")
    assert counted(lambda: entry().compile(config=other))["misses"] == 1
    assert before == sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))


def test_extra_sources_and_fingerprints_are_in_the_key(tmp_path: Path) -> None:
    source, root = tmp_path / "source.txt", tmp_path / "root"
    source.write_text("one")
    entry().compile(config=config(root, extra_source_paths=(source,)))
    assert counted(lambda: entry().compile(config=config(root, extra_source_paths=(source,))))[
        "ready_hits"
    ]
    source.write_text("two")
    assert counted(lambda: entry().compile(config=config(root, extra_source_paths=(source,))))[
        "misses"
    ]


def test_r027_damaged_entries_are_rebuilt(tmp_path: Path) -> None:
    entry().compile(config=config(tmp_path))
    (path,) = Store(tmp_path).files()
    path.write_bytes(path.read_bytes()[:-10])
    made = counted(lambda: entry().compile(config=config(tmp_path)))
    assert made["invalid_entries"] == 1 and made["misses"] == 1
    assert Store(tmp_path).find(path.stem, State.READY) is not None


def test_the_instruction_set_is_in_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if machine.host_target().isa != "avx512":
        pytest.skip("needs a machine with more than one instruction set")
    entry().compile(config=config(tmp_path))
    monkeypatch.setenv("TILEWRIGHT_TARGET_ISA", "avx2")
    assert counted(lambda: entry().compile(config=config(tmp_path)))["misses"] == 1


def test_the_names_are_where_users_look_for_them() -> None:
    assert tilewright.CacheConfig is CacheConfig and tilewright.cache_stats is cache_stats


# ---- the commands --------------------------------------------------------------------------------

KERNELS = """
import tilewright.language as pl

@pl.jit
def bare(x: pl.Tensor, out: pl.Out[pl.Tensor], c: pl.Scalar[pl.FP32], n: pl.constexpr):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.add(pl.load(x, [0, 0], [n, 16]), c), [0, 0], out)
    return out
"""


def request(**changes: Any) -> dict[str, Any]:
    tensor = {"shape": [16, 16], "dtype": "float32"}
    plain = {"kernel": "bare", "tensors": {"x": tensor, "out": tensor}, "scalars": {"n": 8}}
    return {**plain, **changes}


def run_module(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    return subprocess.run(
        [sys.executable, "-m", "tilewright.jit", *arguments],
        env=env, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip


def write_warmup(tmp_path: Path, requests: list[dict[str, Any]]) -> list[str]:
    (tmp_path / "kernels.py").write_text(KERNELS, encoding="utf-8")
    data = {"schema_version": 1, "cache": {"root": str(tmp_path / "root")}, "requests": requests}
    (tmp_path / "warmup.json").write_text(json.dumps(data), encoding="utf-8")
    return ["warm", "--module", "kernels", "--config", "warmup.json"]


def test_r026_kernels_are_warmed_by_a_file(tmp_path: Path) -> None:
    command = write_warmup(tmp_path, [request(), request(scalars={"n": 4})])
    done = run_module(tmp_path, *command)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["binary_builds"] == 2
    stat = run_module(tmp_path, "stat", "--root", "root")
    assert json.loads(stat.stdout)["ready"] == 2


def test_the_command_shows_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plans: list[Any] = [object(), object(), object()]
    assert list(cache_commands.tracked(plans)) == plans and capsys.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert list(cache_commands.tracked(plans)) == plans
    assert "100%" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong", [{"kernel": "nothing"}, {"scalars": {}}, {"run_config": {"no_such_option": 1}}]
)
def test_r026_a_wrong_request_stops_everything_before_it_starts(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    done = run_module(tmp_path, *write_warmup(tmp_path, [request(), request(**wrong)]))
    assert done.returncode != 0 and "request 1" in done.stderr
    assert not (tmp_path / "root").exists()


# ---- programs ------------------------------------------------------------------------------------


@pl.program
class Plain:
    @pl.function
    def main(self, x: pl.Tensor[[16, 16], pl.FP32]) -> pl.Tensor[[16, 16], pl.FP32]:
        y: pl.Tensor[[16, 16], pl.FP32] = pl.mul(x, 2.0)
        return y


def test_programs_are_kept_by_their_content(tmp_path: Path) -> None:
    configure_cache(CacheConfig(enabled=True, root=tmp_path))
    assert counted(lambda: ir.compile(Plain))["misses"] == 1
    again = pl.parse_program(Plain.as_python())
    assert counted(lambda: ir.compile(again))["ready_hits"] == 1
    x = np.ones((16, 16), F32)
    np.testing.assert_array_equal(ir.compile(again)(x), x * 2)
    assert ir.compile(again).program is again


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("1/0", "'broken_kernels' cannot be imported: ZeroDivisionError: division by zero"),
        ("def f(:", "'broken_kernels' cannot be imported: SyntaxError"),
    ],
)
def test_a_module_that_cannot_be_warmed_is_named(
    source: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    file = tmp_path / "warmup.json"
    file.write_text('{"schema_version": 1}', encoding="utf-8-sig")
    (tmp_path / "broken_kernels.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert warming.main(["warm", "--module", "broken_kernels", "--config", str(file)]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "warmup.json is not JSON"),
        ("[" * 100_000, "warmup.json is not JSON"),
        ('{"schema_version": 1, "cache": {"root": 3}}', "cache: root is 3, not a path"),
        ('{"schema_version": 1, "cache": {"rot": "x"}}', "cache has an unknown name 'rot'"),
        (
            '{"schema_version": 1, "requests": [{"kernel": "bare", "run_config": {"arch": "A"}}]}',
            "run_config: arch is 'A'; Ascend910B",
        ),
        (
            '{"schema_version": 1, "requests": [{"kernel": "bare", "run_config": {"ach": "A"}}]}',
            "run_config has an unknown name 'ach'",
        ),
        ("[]", "the file is [], not an object"),
        ('{"schema_version": 1, "requests": 3}', "requests is 3, not a list"),
        ('{"schema_version": 1, "request": []}', "the file has an unknown name 'request'"),
        (
            '{"schema_version": 1, "requests": [{"kernel": "bare", "tensor": {}}]}',
            "request 0: it has an unknown name 'tensor'; known are kernel, run_config, tensors",
        ),
        ('{"schema_version": 1, "requests": [{}]}', "request 0: 'kernel' is missing"),
        ('{"schema_version": 1, "requests": [3]}', "request 0: it is 3, not an object"),
        (
            '{"schema_version": 1, "requests": [{"kernel": "bare", "tensors": {"x": {}}}]}',
            "request 0: 'dtype' is missing",
        ),
    ],
)
def test_r026_a_file_that_lists_no_requests_is_named(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "warmup.json"
    file.write_text(text, encoding="utf-8")
    (tmp_path / "warmed_kernels.py").write_text(KERNELS, encoding="utf-8")
    sys.path.insert(0, str(tmp_path))
    try:
        assert warming.main(["warm", "--module", "warmed_kernels", "--config", str(file)]) == 1
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("warmed_kernels", None)
    assert said in capsys.readouterr().err
