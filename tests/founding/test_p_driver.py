# ruff: noqa: RET504  (kernels are language, not Python)
"""Rows of the private modules of the driver: helpers, local metadata, annotations that clash."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
import tilewright.language.distributed as pld
from tilewright import ir
from tilewright.cache import CacheConfig, cache_stats
from tilewright.errors import TilewrightError
from tilewright.ir.affine import Symbol
from tilewright.ir.types import TensorType
from tilewright.jit import DistributedCompiledProgram, _tensor_meta
from tilewright.jit._specialize_types import DynDim
from tilewright.jit.kernels import NativeKernel
from tilewright.runtime import DistributedConfig, RunConfig

F32 = np.float32
M = pl.dynamic("M")
OFFSET = 10.0


@pl.jit.inline
def scaled(x: pl.Tensor, offset: pl.Scalar[pl.FP32] = 1.0, *, factor: pl.constexpr = 2.0):
    return pl.add(pl.mul(x, factor), offset)


@pl.jit
def every_way(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = scaled(x)
        b = scaled(offset=3.0, x=a)
        out[:] = scaled(b, 0.5, factor=4.0)
    return out


def test_p_008_helpers_are_called_by_position_keyword_and_default() -> None:
    x, out = np.arange(64, dtype=F32).reshape(8, 8), np.zeros((8, 8), F32)
    every_way(x, out)
    np.testing.assert_array_equal(out, ((x * 2 + 1) * 2 + 3) * 4 + F32(0.5))


@pl.jit.inline
def pick(x, rows: pl.constexpr):
    return pl.slice(x, [rows, 8], [0, 0])


@pl.jit.incore
def copy(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows = x.shape[0]
    pl.store(pl.load(x, [0, 0], [rows, 8]), [0, 0], out)
    return out


@pl.jit
def locals_of_branches(
    x: pl.Tensor[[8, 8], pl.FP32],
    out: pl.Out[pl.Tensor[[4, 8], pl.FP32]],
    n: pl.Scalar[pl.INDEX],
):
    part = pl.create_tensor([4, 8], dtype=pl.FP32)
    for i in pl.range(2):
        with pl.at(level=pl.Level.CORE_GROUP):
            if n > i:
                part[:] = pick(x, rows=4)
            else:
                part[:] = pl.slice(x, [4, 8], [4, 0])
    out = copy(part, out)
    return out


def test_p_009_locals_of_branches_and_loops_reach_bare_helpers() -> None:
    x = np.arange(64, dtype=F32).reshape(8, 8)
    for n, want in ((2, x[:4]), (0, x[4:])):
        out = np.zeros((4, 8), F32)
        locals_of_branches(x, out, n)
        np.testing.assert_array_equal(out, want)


@pl.jit
def shadows(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
    OFFSET = 1.0
    with pl.at(level=pl.Level.CORE_GROUP):
        y = pl.add(x, OFFSET)
        y = pl.mul(y, 2.0)
        out[:] = y
    return out


def test_p_011_names_of_the_body_hide_those_around_it() -> None:
    assert importlib.import_module("tilewright.jit._specialize_body").__doc__
    out = np.zeros((8, 8), F32)
    shadows(np.zeros((8, 8), F32), out)
    assert (out == 2).all()
    assert "10.0" not in shadows.source()


def test_p_017_inference_of_metadata_does_not_import_the_decorator() -> None:
    program = (
        "import sys, tilewright.jit._tensor_meta\nprint('tilewright.jit.decorator' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert done.stdout.strip() == "False"
    source = ast.parse(Path(_tensor_meta.__file__).read_text("utf-8"))
    modules = {node.module for node in ast.walk(source) if isinstance(node, ast.ImportFrom)}
    assert "tilewright.jit.decorator" not in modules


@pl.jit
def kept(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(x, OFFSET)
    return out


def test_p_043_reuse_across_processes_needs_the_whole_identity(tmp_path: Path) -> None:
    def request(name: str, **facts: Any) -> str:
        policy = CacheConfig(enabled=True, root=tmp_path, **facts)
        before = cache_stats()
        kept.__class__(kept.definition).warmup(config=RunConfig(cache_config=policy))
        after = cache_stats()
        return "hit" if after.ready_hits > before.ready_hits else "miss"

    assert request("first") == "miss"
    assert request("again") == "hit"
    assert request("other", extra_fingerprint="another build") == "miss"


def tensor(*shape: Any) -> TensorType:
    return TensorType(tuple(shape), pl.FP32)


def test_p_046_an_extent_is_a_number_a_dimension_or_an_expression_of_them() -> None:
    meta = _tensor_meta.meta_of(tensor(16, M + 0, M * 8), "t")
    assert meta is not None
    fixed, same, made = meta.shape
    assert fixed == 16 and same == DynDim(M)
    assert isinstance(made, DynDim) and made.synthesized and made.symbol is not M
    assert _tensor_meta.meta_of(pl.Scalar[pl.FP32]) is None


def test_p_047_an_expression_stays_what_it_was_when_a_name_is_rebound() -> None:
    n = Symbol("n")
    width = n * 8
    alias = width
    width = width + 1
    assert alias == n * 8 and width != alias
    first, second = (_tensor_meta.meta_of(tensor(e, e)) for e in (alias, width))
    assert first is not None and second is not None and first.shape != second.shape


def test_p_049_one_expression_twice_in_a_shape_is_one_dimension() -> None:
    n = Symbol("n")
    meta = _tensor_meta.meta_of(tensor(n * 8, n * 8, n * 4))
    other = _tensor_meta.meta_of(tensor(n * 8, 4))
    assert meta is not None and other is not None
    assert meta.shape[0] is meta.shape[1] and meta.shape[0] != meta.shape[2]
    assert other.shape[0] != meta.shape[0]


@pl.jit.inline(auto_scope=False)
def placed(tile: pl.Tile[[8, 16], pl.FP32, SPACE], SPACE: pl.constexpr) -> pl.Tile:  # noqa: F821
    return tile


@pl.jit
def misplaced(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        tile = placed(pl.load(x, [0, 0], [8, 16]), SPACE=3)
        pl.store(tile, [0, 0], out)
    return out


def test_p_062_a_number_in_place_of_a_memory_space_is_refused_by_name() -> None:
    with pytest.raises(TilewrightError, match=r"parameter 'tile'.*\n(.*\n)*.*SPACE=3"):
        misplaced.compile()


@pl.jit
def measured(
    x: pl.Tensor[[8, 16], pl.FP32], n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        tile = placed(pl.load(x, [0, 0], [8, 16]), SPACE=n)
        pl.store(tile, [0, 0], out)
    return out


def test_p_062_what_only_run_time_knows_is_named_as_not_constexpr() -> None:
    wanted = r"'SPACE' is constexpr, and what it is given is not: 'n' is a pl.Scalar\[pl.INDEX\]"
    with pytest.raises(TilewrightError, match=wanted) as caught:
        measured.compile()
    assert caught.value.span is not None and caught.value.hint is not None


@pl.jit
def chip(x: pl.Tensor[[1, 64], pl.FP32], y: pl.Out[pl.Tensor[[1, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, 2.0)
    return y


@pl.jit.host
def ranked(x: pl.Tensor[[2, 1, 64], pl.FP32], y: pl.Out[pl.Tensor[[2, 1, 64], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        chip(x[r], y[r], device=r)


def on_two_ranks() -> RunConfig:
    return RunConfig(distributed_config=DistributedConfig(device_ids=[0, 1]))


def test_p_110_every_child_of_a_distributed_program_is_prepared() -> None:
    compiled = ranked.warmup(config=on_two_ranks())
    assert isinstance(compiled, DistributedCompiledProgram) and compiled.children
    for child in compiled.children.values():
        assert isinstance(child.kernel, NativeKernel) and "image" in vars(child.kernel)
    x, y = np.ones((2, 1, 64), F32), np.zeros((2, 1, 64), F32)
    compiled(x, y)
    assert (y == 2).all()


def test_p_110_every_orchestration_of_a_program_can_be_prepared() -> None:
    text = "@pl.program\nclass P:\n" + "".join(
        "    @pl.function(type=pl.FunctionType.Orchestration)\n"
        f"    def {name}(self, x: pl.Tensor[[8], pl.FP32]) -> pl.Tensor[[8], pl.FP32]:\n"
        "        with pl.at(level=pl.Level.CORE_GROUP):\n"
        f"            y = pl.mul(x, {factor})\n"
        "        return y\n"
        for name, factor in (("first", 2.0), ("second", 3.0))
    )
    compiled = ir.compile(pl.parse_program(text))
    assert [each.name for each in compiled.entries] == ["first", "second"]
    for each, factor in zip(compiled.entries, (2, 3)):
        assert "image" in vars(each.load().kernel)
        assert (compiled[each.name](np.ones(8, F32)) == factor).all()


def test_p_111_warming_up_starts_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    plain = DistributedCompiledProgram.prepare
    monkeypatch.setattr(
        DistributedCompiledProgram,
        "prepare",
        lambda self, *a, **k: (started.append(self.name), plain(self, *a, **k))[1],
    )
    compiled = ranked.warmup(config=on_two_ranks())
    assert started == []
    with compiled.prepare():
        assert started == [compiled.name]
