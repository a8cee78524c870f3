"""`dtype_policy`: what tiles of bfloat16 and 8-bit floats hold, and what is stored of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.errors.nki import NKIValueError

X = 1.0 + np.arange(128, dtype=np.float32).reshape(8, 16) / 4096
NARROW = {"bfloat16": nl.bfloat16, "float8_e4m3": nl.float8_e4m3, "float8_e5m2": nl.float8_e5m2}


def filled(t: Any, dtype: Any) -> Any:
    made = nl.ndarray((8, 16), dtype=dtype, buffer=nl.sbuf)
    made[...] = t
    return made


WAYS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "copy": lambda x, t, dtype: nl.copy(t, dtype=dtype),
    "load": lambda x, t, dtype: nl.load(x, dtype=dtype),
    "conversion": lambda x, t, dtype: t.astype(dtype),
    "assignment": lambda x, t, dtype: filled(t, dtype),
    "function": lambda x, t, dtype: nl.multiply(t, 1.0, dtype=dtype),
    "instruction": lambda x, t, dtype: nisa.tensor_copy(t, dtype=dtype),
    "activation": lambda x, t, dtype: nl.relu(t, dtype=dtype),
    "selection": lambda x, t, dtype: nl.where(nl.greater(t, 0.0), t, 0.0, dtype=dtype),
}


@pytest.mark.parametrize("policy", ["precise", "legacy"])
@pytest.mark.parametrize(
    ("name", "way"), [*(("bfloat16", way) for way in WAYS), *((name, "copy") for name in NARROW)]
)
def test_a_tile_holds_what_the_policy_says(name: str, way: str, policy: str) -> None:
    dtype, made = NARROW[name], WAYS[way]

    @nki.jit(dtype_policy=policy)
    def kernel(x):
        held = nl.ndarray((8, 16), dtype=nl.float32, buffer=nl.shared_hbm)
        stored = nl.ndarray((8, 16), dtype=dtype, buffer=nl.shared_hbm)
        tile = made(x, nl.load(x), dtype)
        nl.store(held, nl.copy(tile, dtype=nl.float32))
        nl.store(stored, tile)
        return held, stored

    held, stored = kernel(X)
    rounded = X.astype(stored.dtype)
    assert np.array_equal(held, X if policy == "legacy" else rounded.astype(np.float32))
    assert np.array_equal(stored.view(np.uint8), rounded.view(np.uint8))


def test_a_policy_is_one_of_two() -> None:
    with pytest.raises(NKIValueError, match="'precise', 'legacy'"):
        nki.jit(dtype_policy="exact")(lambda x: x)
