"""An operand that leaves its tensor where a mask does not hold: every instruction takes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl

X = np.random.default_rng(0).permutation(4 * 12).astype(np.float32).reshape(4, 12)
WIDE, HELD = 15, 12
LARGEST = np.sort(X, axis=1)[:, ::-1]


def statistics(x: Any) -> Any:
    parts = [x[:, start::2] for start in (0, 1)]
    one = [np.stack([np.full(4, p.shape[1]), p.mean(1), p.var(1) * p.shape[1]], 1) for p in parts]
    return np.concatenate(one, axis=1)


CASES: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "bn_stats": (lambda t, m: nisa.bn_stats(t, mask=m), statistics(X)),
    "max8": (lambda t, m: nisa.max8(src=t, mask=m), LARGEST[:, :8]),
    "nc_find_index8": (
        lambda t, m: nisa.nc_find_index8(data=t, vals=nisa.max8(src=t, mask=m), mask=m),
        np.argsort(-X, axis=1)[:, :8],
    ),
    "tensor_tensor_scan": (
        lambda t, m: nisa.tensor_tensor_scan(t, t, 0.0, np.multiply, np.add, mask=m),
        None,
    ),
    "nc_match_replace8": (
        lambda t, m: nisa.nc_match_replace8(
            data=t, vals=nisa.max8(src=t, mask=m), imm=-5.0, mask=m
        ),
        np.where(LARGEST[:, 7:8] <= X, -5.0, X),
    ),
    "tensor_reduce": (
        lambda t, m: nisa.tensor_reduce(np.add, t, axis=1, keepdims=True, mask=m),
        X.sum(1, keepdims=True),
    ),
    "activation": (lambda t, m: nisa.activation(np.square, t, mask=m), X * X),
}


@pytest.mark.parametrize("name", CASES)
def test_elements_that_the_mask_leaves_out_may_lie_outside(name: str) -> None:
    compute, want = CASES[name]
    want = scanned(X) if want is None else np.asarray(want, np.float32)

    @nki.jit
    def kernel(x):
        out = nl.ndarray(want.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(x)
        rows, columns = nl.arange(4)[:, None], nl.arange(WIDE)[None, :]
        result = compute(tile[rows, columns], columns < HELD)
        nl.store(out, result[:, 0 : want.shape[1]])
        return out

    np.testing.assert_allclose(kernel(X), want, rtol=1e-5)


def scanned(x: Any) -> Any:
    state, found = np.zeros(4, np.float32), []
    for column in x.T:
        state = column * state + column
        found.append(state)
    return np.stack(found, 1)


def test_selections_take_such_operands_too() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((4, HELD), dtype=nl.float32, buffer=nl.shared_hbm)
        tile, result = nl.load(x), nl.zeros((4, WIDE), dtype=nl.float32)
        odd = nl.mod(tile, 2.0, dtype=nl.uint8)
        rows, columns = nl.arange(4)[:, None], nl.arange(WIDE)[None, :]
        inside = columns < HELD
        nisa.select_reduce(
            dst=result,
            predicate=odd[rows, columns],
            on_true=tile[rows, columns],
            on_false=-1.0,
            mask=inside,
        )
        low, high = (nl.full((4, 1), n, dtype=nl.float32) for n in (2.0, 9.0))
        ranged = nisa.range_select(
            on_true_tile=tile[rows, columns],
            comp_op0=np.greater_equal,
            comp_op1=np.less,
            bound0=low,
            bound1=high,
            on_false_value=0.0,
            mask=inside,
        )
        nl.store(out, result[:, 0:HELD] + ranged[:, 0:HELD])
        return out

    places = np.arange(HELD)
    ranged = np.where((places >= 2) & (places < 9), X, 0)
    np.testing.assert_array_equal(kernel(X), np.where(X % 2 == 1, X, -1) + ranged)
