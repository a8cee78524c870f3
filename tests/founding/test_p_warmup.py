"""Rows P-100 to P-116: binaries are prepared without running anything."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import errors
from tilewright.cache import CacheConfig, cache_stats
from tilewright.codegen import machine
from tilewright.runtime import RunConfig

F32 = np.float32


def entry() -> Any:
    """A kernel that nothing has compiled yet."""

    @pl.jit
    def add_three(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            tile = pl.load(x, [0, 0], [16, 16])
            pl.store(pl.add(tile, 3.0), [0, 0], out)
        return out

    return add_three


def test_p100_p109_p177_warmup_gives_the_object_of_compile() -> None:
    k = entry()
    prepared = k.warmup()
    assert prepared is k.compile() and prepared.program is not None
    x, out = np.ones((16, 16), F32), np.zeros((16, 16), F32)
    prepared(x, out)
    np.testing.assert_array_equal(out, x + 3)


def test_p101_the_first_call_after_it_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    k = entry()
    k.warmup()
    monkeypatch.setattr(machine, "compile_text", None)
    x, out = np.ones((16, 16), F32), np.zeros((16, 16), F32)
    k(x, out)
    assert (out == 4).all()


def test_p102_p104_samples_are_looked_at_and_left_alone() -> None:
    k = entry()
    x, out = np.full((16, 16), np.nan, F32), np.full((16, 16), -7, F32)
    assert k.warmup(x, out) is k.warmup()
    assert (out == -7).all() and np.isnan(x).all()


def test_p103_p112_a_missing_toolchain_is_an_error_and_can_be_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    k = entry()

    def missing() -> Any:
        raise ImportError("No module named 'llvmlite'")

    monkeypatch.setattr(machine, "host_target", missing)
    with pytest.raises(errors.ToolchainError, match="llvmlite"):
        k.warmup()
    monkeypatch.undo()
    assert k.warmup() is k.compile()


@pl.jit
def shift(
    x: pl.Tensor[[16, 16], pl.FP32],
    out: pl.Out[pl.Tensor[[16, 16], pl.FP32]],
    c: pl.Scalar[pl.FP32],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.add(pl.load(x, [0, 0], [16, 16]), c), [0, 0], out)
    return out


def test_p105_p107_scalars_are_run_time_values() -> None:
    prepared = shift.warmup()
    x = np.random.default_rng(3).random((16, 16), F32)
    for c in (1.0, -2.5):
        out = np.zeros_like(x)
        assert shift.compile(x, out, c) is prepared
        prepared(x, out, c)
        np.testing.assert_array_equal(out, x + F32(c))


@pl.jit
def first_rows(
    x: pl.Tensor[[32, 16], pl.FP32], out: pl.Out[pl.Tensor[[32, 16], pl.FP32]], n: pl.constexpr
):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.load(x, [0, 0], [n, 16]), [0, 0], out)
    return out


def test_p106_p107_constants_must_be_given_and_are_no_parameters() -> None:
    with pytest.raises(TypeError, match="'n'"):
        first_rows.warmup()
    eight, sixteen = first_rows.warmup(n=8), first_rows.warmup(n=16)
    assert eight is not sixteen and first_rows.warmup(n=8) is eight
    assert eight.param_names == ["x", "out"]
    x, out = np.ones((32, 16), F32), np.zeros((32, 16), F32)
    first_rows(x, out, n=16)
    assert out.sum() == 16 * 16
    with pytest.raises(TypeError):
        eight(x, out, 8)
    with pytest.raises(TypeError):
        eight(x, out, n=8)


@pl.jit
def with_default(
    x: pl.Tensor[[32, 16], pl.FP32], out: pl.Out[pl.Tensor[[32, 16], pl.FP32]], n: pl.constexpr = 4
):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.load(x, [0, 0], [n, 16]), [0, 0], out)
    return out


def test_a_constant_has_its_default_whatever_was_called_before() -> None:
    x = np.ones((32, 16), F32)
    for n, expected in ((8, 8), (None, 4), (16, 16), (None, 4)):
        out = np.zeros_like(x)
        with_default(x, out) if n is None else with_default(x, out, n=n)
        assert out.sum() == expected * 16


@pl.jit
def scaled(
    x: pl.Tensor[[16, 16], pl.FP32],
    out: pl.Out[pl.Tensor[[16, 16], pl.FP32]],
    s: pl.Scalar[pl.FP32] = 2.0,
):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.mul(pl.load(x, [0, 0], [16, 16]), s), [0, 0], out)
    return out


def test_a_scalar_that_a_call_leaves_out_has_its_default_in_every_way_of_calling() -> None:
    x, out = np.ones((16, 16), F32), np.zeros((16, 16), F32)
    for _ in range(3):
        for args, expected in (((x, out), 2), ((x, out, 3.0), 3), ((x, 4.0), 4), ((x,), 2)):
            out[:] = 0
            assert (scaled(*args) == expected).all()
            assert (out == (expected if len(args) > 1 and args[1] is out else 0)).all()
    assert (scaled(x, out=out, s=5.0) == 5).all() and (scaled(x=x) == 2).all()
    with pytest.raises(TypeError, match=r"got 4.*\n.*Call it as scaled\(x, out, s\)"):
        scaled(x, out, 1.0, 2.0)


def test_p108_codegen_only_prepares_binaries_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    k = entry()
    k.warmup(config=RunConfig(codegen_only=True))
    monkeypatch.setattr(machine, "compile_text", None)
    x, out = np.ones((16, 16), F32), np.zeros((16, 16), F32)
    assert k(x, out, config=RunConfig(codegen_only=True)) is None and not out.any()
    k(x, out)
    assert (out == 4).all()


def test_p113_diagnostic_requests_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    k = entry()
    one, two = (k.warmup(config=RunConfig(dump_passes=True)) for _ in range(2))
    assert one is not two and k.warmup() not in (one, two)


SCRIPT = """
import sys
import numpy as np
import tilewright.language as pl
from tilewright.cache import cache_stats

@pl.jit
def add_three(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.add(pl.load(x, [0, 0], [16, 16]), 3.0), [0, 0], out)
    return out

prepared = add_three.warmup()
x, out = np.ones((16, 16), np.float32), np.zeros((16, 16), np.float32)
add_three(x, out)
assert (out == 4).all()
assert add_three.lower() is not None
print(cache_stats().ready_hits, cache_stats().misses, prepared.program is None)
"""


def in_a_process(tmp_path: Path, text: str = SCRIPT, **environment: str) -> list[str]:
    import os

    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(text), encoding="utf-8")
    env = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(tmp_path / "cache"), **environment}
    env["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, str(script)], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_p114_p116_processes_share_ready_artifacts_when_asked_to(tmp_path: Path) -> None:
    assert in_a_process(tmp_path) == ["0", "0", "False"]
    assert not (tmp_path / "cache").exists()
    assert in_a_process(tmp_path, TILEWRIGHT_CACHE="1") == ["0", "1", "False"]
    assert in_a_process(tmp_path, TILEWRIGHT_CACHE="1") == ["1", "0", "True"]


RESTARTED = """
import sys
import numpy as np
import tilewright.language as pl

@pl.jit
def add_three(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.add(pl.load(x, [0, 0], [16, 16]), 3.0), [0, 0], out)
    return out

x = np.ones((16, 16), np.float32)
assert (add_three(x) == 4).all()
rooms = "llvmlite", "tilewright.codegen", "tilewright.interp", "tilewright.jit.making"
print(*(name for name in rooms if name in sys.modules))
"""


def test_p114_a_kernel_from_disk_runs_without_what_compiles(tmp_path: Path) -> None:
    cold = in_a_process(tmp_path, RESTARTED, TILEWRIGHT_CACHE="1")
    assert {"llvmlite", "tilewright.codegen", "tilewright.jit.making"} <= {*cold}
    assert in_a_process(tmp_path, RESTARTED, TILEWRIGHT_CACHE="1") == []


def test_p115_a_readonly_root_is_used_and_left_alone(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    policy = CacheConfig(enabled=True, root=root, readonly=True)
    misses = cache_stats().misses
    compiled = entry().warmup(config=RunConfig(cache_config=policy))
    assert compiled.program is not None and cache_stats().misses == misses + 1
    assert list(root.iterdir()) == []
