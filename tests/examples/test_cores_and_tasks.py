"""The examples on paged attention, experts, quantised products and mixed cores equal numpy."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright import ir
from tilewright.runtime import RunConfig

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> Any:
    """The module of an example."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("length", [1, 32, 75, 128])
def test_paged_attention_reads_as_many_blocks_as_the_sequence_has(length: int) -> None:
    m = example("paged_attention")
    q, keys, values = normal(16, 64), normal(9, 32, 64, seed=1), normal(9, 32, 64, seed=2)
    table = np.array([[7, 2, 5, 0]], np.int32)
    out = np.zeros_like(q)
    m.paged_attention(q, keys, values, table, length, out)
    k, v = (pages[table[0]].reshape(-1, 64)[:length] for pages in (keys, values))
    np.testing.assert_allclose(out, softmax(q @ k.T * 0.125) @ v, rtol=1e-4, atol=1e-5)


def experts() -> tuple[list[Any], Any]:
    """Arguments of the mixture of experts, and what numpy makes of them."""
    x, router = normal(32, 64), normal(64, 4, seed=1)
    up, down = normal(4, 64, 128, seed=2), normal(4, 128, 64, seed=3)
    score = x @ router
    gates = softmax(score) * (score == score.max(1, keepdims=True))
    parts = [gates[:, e : e + 1] * (np.maximum(x @ up[e], 0) @ down[e]) for e in range(4)]
    return [x, router, up, down, np.zeros((4, 32, 64), np.float32)], sum(parts)


@pytest.mark.parametrize("config", [None, RunConfig(checked=True)], ids=["native", "checked"])
def test_every_token_goes_through_its_expert(config: RunConfig | None) -> None:
    compiled = ir.compile(example("mixture_of_experts").MixtureOfExperts)
    assert compiled.explain() == "main: one kernel"
    args, wanted = experts()
    out = np.zeros((32, 64), np.float32)
    compiled(*args, out, config=config)
    np.testing.assert_allclose(out, wanted, rtol=1e-3, atol=1e-3)


def test_experts_without_dependencies_go_wrong_when_checked() -> None:
    source = (EXAMPLES / "mixture_of_experts.py").read_text(encoding="utf-8")
    assert source.count(", deps=[routed]") == source.count(", deps=[done]") == 1
    broken: Any = ir.compile(
        parsed(source.replace(", deps=[routed]", "").replace("deps=[done]", ""))
    )
    args, wanted = experts()
    out = np.zeros((32, 64), np.float32)
    broken(*args, out, config=RunConfig(checked=True))
    assert not np.allclose(out, wanted, rtol=1e-3, atol=1e-3)


def parsed(source: str) -> Any:
    """The program of a changed example."""
    import linecache

    lines = source.splitlines(keepends=True)
    linecache.cache["<broken example>"] = (len(source), None, lines, "<broken example>")
    names: dict[str, Any] = {"__name__": "broken"}
    exec(compile(source, "<broken example>", "exec"), names)
    return names["MixtureOfExperts"]


@pytest.mark.parametrize("rows", [32, 96])
def test_int8_products_are_summed_exactly(rows: int) -> None:
    m = example("int8_linear")
    x = normal(rows, 256)
    w = np.random.default_rng(1).integers(-127, 128, (256, 128)).astype(np.int8)
    scale = np.abs(normal(1, 128, seed=2))
    out = np.zeros((rows, 128), np.float32)
    m.int8_linear(x, w, scale, out)
    step = np.maximum(np.abs(x).max(1, keepdims=True) * np.float32(1 / 127), np.float32(1e-8))
    q = np.rint(x / step).astype(np.int8)
    sums = q.astype(np.int32) @ w.astype(np.int32)
    np.testing.assert_allclose(out, sums * step * scale, rtol=1e-6)


def test_cube_and_vector_cores_share_an_attention() -> None:
    program = example("mixed_attention").MixedAttention
    q, k, v = (normal(128, 64, seed=s) for s in range(3))
    out = np.zeros_like(q)
    compiled = ir.compile(program)
    compiled(q, k, v, out)
    np.testing.assert_allclose(out, softmax(q @ k.T * 0.125) @ v, rtol=1e-4, atol=1e-5)
    assert compiled.explain() == "main: one kernel"
