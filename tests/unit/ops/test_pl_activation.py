"""Activations stay within the bounds that their pages state, in every float type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.special

import tilewright.language as pl

Array = np.ndarray[Any, Any]
ROUNDING = {"FP32": 2.0**-24, "FP16": 2.0**-11, "BF16": 2.0**-8}
NORMAL = {"FP32": (2.0**-126, 3.4e38), "FP16": (2.0**-14, 65504.0), "BF16": (2.0**-126, 3.38e38)}
RELATIVE, ABSOLUTE = 2.1, 1.4
EXACT: dict[str, Callable[[Array], Array]] = {
    "gelu": lambda x: 0.5 * x * scipy.special.erfc(-x / np.sqrt(2)),
    "silu": lambda x: x * scipy.special.expit(x),
}
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def kernel(name: str) -> Any:
    function = getattr(pl, name)

    @pl.jit
    def activation(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        rows, cols = x.shape
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(function(pl.load(x, [0, 0], [rows, cols])), [0, 0], out)
        return out

    return activation


def numbers(dtype: str) -> Array:
    """Every float of 16 bits; of 32 one in 2**14, from each power of two."""
    if dtype == "FP32":
        return np.arange(7, 1 << 32, 1 << 14, dtype=np.uint64).astype(np.uint32).view(np.float32)
    narrow = {"FP16": np.float16, "BF16": ml_dtypes.bfloat16}[dtype]
    return np.arange(1 << 16, dtype=np.uint16).view(narrow)


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("name", EXACT)
def test_activation_is_within_its_stated_bounds(name: str, dtype: str) -> None:
    x = numbers(dtype).reshape(256, -1)
    got = kernel(name)(x, np.zeros_like(x)).astype(np.float64)
    least, most = NORMAL[dtype]
    wide = x.astype(np.float64)
    exact = EXACT[name](wide)
    error = np.abs(got - exact) / ROUNDING[dtype]
    counted = np.isfinite(wide) & (np.abs(exact) < most)
    above = counted & (wide > 0) & (exact >= least)
    assert (error[above] / exact[above]).max() <= RELATIVE
    assert error[counted & (wide < 0)].max() <= ABSOLUTE
