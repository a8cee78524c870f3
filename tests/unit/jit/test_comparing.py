"""Compiled code beside the interpreter: a difference is found at the operation where it begins."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
import tilewright.nki as nki
import tilewright.nki.language as nl
from tilewright.errors import ArgumentTypeMismatch, InternalError, ShapeMismatch, render
from tilewright.jit.comparing import first_difference
from tilewright.ops import elementwise
from tilewright.runtime import RunConfig

X = np.linspace(-1, 1, 64 * 16, dtype=np.float32).reshape(64, 16)


def make_parsed() -> Any:
    @pl.jit
    def parsed(x: pl.Tensor[[64, 16], pl.FP32], out: pl.Out[pl.Tensor[[64, 16], pl.FP32]]):
        for i in pl.range(0, 64, 16):
            with pl.at(level=pl.Level.CORE_GROUP):
                tile = pl.mul(pl.load(x, [i, 0], [16, 16]), 0.5)
                power = pl.exp(tile)
                pl.store(pl.add(power, tile), [i, 0], out)
        return out

    return parsed


@nki.jit
def traced(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.zeros((16, 16), dtype=nl.float32)
    for i in nl.sequential_range(4):
        tile = nl.load(x[nl.ds(i * 16, 16)]) * 0.5
        power = nl.exp(tile)
        total[...] = total + power
        save(out, i, total)
    return out


def save(out, i, total):
    nl.store(out[nl.ds(i * 16, 16)], total)


@pytest.fixture
def wrong_exp(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter computes exp wrong where its argument is near 0.4."""
    right: Any = elementwise.exp.evaluate

    def wrong(x: Any) -> Any:
        return np.where(np.abs(np.asarray(x) - 0.4) < 1e-2, np.float32(7), right(x))

    monkeypatch.setattr(elementwise.exp, "evaluate", wrong)


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TILEWRIGHT_COMPARE", "1")
    yield


COMPARE = RunConfig(execution="compare")


def test_nothing_is_said_where_both_agree() -> None:
    out = np.zeros_like(X)
    make_parsed()(X, out, config=COMPARE)
    np.testing.assert_allclose(out, np.exp(X / 2) + X / 2, rtol=1e-6)


def test_arguments_are_refused_as_without_comparing() -> None:
    kernel = make_parsed()
    huge = np.broadcast_to(np.float32(0), (1 << 40, 16))
    for value, error in ((None, ArgumentTypeMismatch), (huge, ShapeMismatch)):
        with pytest.raises(error, match="argument 'x'"):
            kernel(value, config=COMPARE)


@pytest.mark.torch
def test_tensors_that_numpy_does_not_read_are_compared() -> None:
    import torch

    @pl.jit
    def doubled(x: pl.Tensor[[4, 8], pl.BF16], out: pl.Out[pl.Tensor[[4, 8], pl.BF16]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(x, x)
        return out

    x = torch.ones(4, 8, dtype=torch.bfloat16)
    assert (doubled(x, config=COMPARE) == 2).all()


@pytest.mark.usefixtures("wrong_exp")
def test_the_operation_that_differs_first_is_located_in_a_parsed_kernel() -> None:
    with pytest.raises(InternalError) as caught:
        make_parsed()(X, np.zeros_like(X), config=COMPARE)
    text = render(caught.value)
    assert "elementwise.exp differs in iteration [3]: element [8, 15]" in text
    assert "7.0 in the interpreter" in text
    assert "power = pl.exp(tile)" in text and "^^^^^^^^^^^^" in text
    assert "output 'out' differs" in text


@pytest.mark.usefixtures("wrong_exp", "compared")
def test_the_operation_that_differs_first_is_located_in_a_traced_kernel() -> None:
    with pytest.raises(InternalError) as caught:
        nki.jit(traced.function)(X)
    text = render(caught.value)
    assert "elementwise.exp differs in iteration [3]" in text
    assert "power = nl.exp(tile)" in text


@pytest.mark.usefixtures("compared")
def test_traced_kernels_that_agree_give_their_results() -> None:
    got = nki.jit(traced.function)(X)
    want = np.cumsum(np.exp(X / 2).reshape(4, 16, 16), axis=0).reshape(64, 16)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_differences_are_above_rounding_and_exact_for_integers() -> None:
    a = np.array([1.0, np.nan, np.inf, 1e-9], np.float32)
    assert first_difference(a, a + np.float32(1e-6)) is None
    assert first_difference(a, np.where(np.isinf(a), 1, a)) == (2,)
    assert first_difference(np.array([[1, 2]]), np.array([[1, 3]])) == (0, 1)


SCRIPT = """
import numpy as np
import tilewright.nki as nki
import tilewright.nki.language as nl
from tilewright.ops import elementwise

right = elementwise.tanh.evaluate
elementwise.tanh.evaluate = lambda x: right(x) + np.float32(0.25)

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.tanh(nl.load(x)) + 1.0)
    return out

kernel(np.ones((4, 8), np.float32))
"""


def test_the_command_line_compares(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-m", "tilewright.cli", "run"]
    plain = subprocess.run([*command, str(script)], capture_output=True, text=True)
    assert plain.returncode == 0, plain.stderr
    done = subprocess.run([*command, "--compare", str(script)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "elementwise.tanh differs: element [0, 0]" in done.stderr
    assert "nl.store(out, nl.tanh(nl.load(x)) + 1.0)" in done.stderr
