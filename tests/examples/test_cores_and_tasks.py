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
    (error,) = example("paged_attention").check(length).values()
    assert error < 1e-5


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
    m = example("mixture_of_experts")
    assert ir.compile(m.MixtureOfExperts).explain() == "main: one kernel"
    (error,) = m.check(config).values()
    assert error < 1e-3


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
    (error,) = example("int8_linear").check(rows).values()
    assert error < 1e-6


def test_cube_and_vector_cores_share_an_attention() -> None:
    m = example("mixed_attention")
    assert ir.compile(m.MixedAttention).explain() == "main: one kernel"
    (error,) = m.check().values()
    assert error < 1e-5
