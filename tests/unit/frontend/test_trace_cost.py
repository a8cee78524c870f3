"""What a trace costs, in calls of Python functions: it grows with the operations only."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.language as nl
from tilewright.garbage import without_collections
from tilewright.ir import builder

X = np.ones((64, 256), np.float32)


@pytest.fixture(autouse=True)
def _no_observers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "FINISH_HOOKS", [])


def calls_of(function: Any, *args: Any) -> int:
    """Calls of Python functions while a fresh kernel of `function` is traced, once it is warm."""
    nki.jit(function).specialize(*args)
    seen = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal seen
        seen += event == "call"

    with without_collections():  # what is collected meanwhile is of other tests
        sys.setprofile(count)
        try:
            nki.jit(function).specialize(*args)
        finally:
            sys.setprofile(None)
    return seen


def elementwise(x, rounds):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    a, b = nl.load(x), nl.load(x)
    for _ in nl.static_range(rounds):
        a = nl.add(a, b)
        a = nl.exp(a)
    nl.store(out, a)
    return out


def windows(x, rounds):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.zeros((64, 16), dtype=nl.float32)
    for i in nl.static_range(rounds):
        total[...] += nl.load(x[:, nl.ds(i % 16, 16)])
        nl.store(out[0:64, 16:32], total)
    return out


def per_program(x, rounds):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x[nl.ds(nl.program_id(0) * 16, 16)])
    for _ in nl.static_range(rounds):
        tile = nl.exp(tile)
    nl.store(out[nl.ds(nl.program_id(0) * 16, 16)], tile)
    return out


@pytest.mark.parametrize(
    ("function", "most"), [(elementwise, 240), (windows, 1400)], ids=["elementwise", "windows"]
)
def test_a_trace_takes_as_many_calls_for_every_round(function: Any, most: int) -> None:
    few, many, more = (calls_of(function, X, rounds) for rounds in (20, 40, 80))
    assert more - many == pytest.approx(2 * (many - few), rel=0.02)
    assert (many - few) / 20 < most


def test_the_depth_of_the_callers_stack_does_not_matter() -> None:
    def deeper(levels: int) -> int:
        return deeper(levels - 1) if levels else calls_of(elementwise, X, 20)

    assert deeper(0) == pytest.approx(deeper(40), rel=0.01)


def test_a_grid_is_traced_once() -> None:
    kernel = nki.jit(per_program)
    traces = [kernel[n].specialize(X, 8).program["per_program"] for n in (1, 4)]
    one, four = (len(list(trace.body.walk())) for trace in traces)
    assert one == four
