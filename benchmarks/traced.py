"""What a warm call of a traced kernel costs, next to numpy's for the same small addition."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright.nki as nki
import tilewright.nki.language as nl
from benchmarks.harness import Row, interleave

SHAPE = (4, 16)
WEIGHT = 1.0


@nki.jit
def add(x, y):
    """`x + y`; the trace reads a global, which every launch checks."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) + nl.load(y) * WEIGHT)
    return out


def rows() -> list[Row]:
    """One row per way to call; at most 600 ns where `np.add`, called alike, takes as much."""
    x = np.ones(SHAPE, np.float32)

    def plain(x: Any, y: Any) -> Any:
        return np.add(x, y)

    ways = {
        "traced kernel(x, y)": lambda: add(x, x),
        "traced kernel[1](x, y)": lambda: add[1](x, x),
        "traced kernel[2](x, y)": lambda: add[2](x, x),
    }
    return [
        Row(name, interleave({"tilewright": run, "numpy": lambda: plain(x, x)}), at_least=1.0)
        for name, run in ways.items()
    ]
