"""The traced examples give what float64 gives, and their kernels mean the same interpreted."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import tilewright.nki as nki

ROOT = Path(__file__).parents[2] / "examples"
TOLERANCES = {"attention": 1e-5, "layers": 2e-4, "sequences": 2e-5}


def example(name: str) -> ModuleType:
    """An example, imported afresh."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", TOLERANCES)
def test_every_result_of_an_example_is_near_float64(name: str) -> None:
    errors = example(f"traced_{name}").check()
    assert errors
    assert {what: e for what, e in errors.items() if not e < TOLERANCES[name]} == {}


@pytest.mark.parametrize("name", TOLERANCES)
def test_every_example_is_right_when_simulated(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = example(f"traced_{name}")
    for key, kernel in list(vars(module).items()):
        if isinstance(kernel, nki.TraceKernel):
            monkeypatch.setattr(module, key, nki.jit(kernel, mode="simulation"))
    errors = module.check()
    assert {what: e for what, e in errors.items() if not e < TOLERANCES[name]} == {}


@pytest.mark.parametrize("name", TOLERANCES)
def test_every_operation_of_an_example_agrees_with_the_interpreter(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_COMPARE", "1")
    assert example(f"traced_{name}").check()
