"""What recording buys: layers built once and replayed, beside layers built for each call."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from benchmarks.harness import OURS, Row
from tilewright import ir
from tilewright import language as pl
from tilewright.runtime import RuntimeKind

LAYERS = 40
ROW = pl.Tensor[[64], pl.FP32]
ROWS = pl.Tensor[[LAYERS, 64], pl.FP32]


def decoder(kind: pl.FunctionType) -> ir.Program:
    """Forty calls of a layer, which is a function of this type."""

    @pl.program
    class Decoder:
        @pl.function(type=kind)
        def layer(self, x: pl.InOut[ROW], weights: ROWS, row: pl.Scalar[pl.INDEX]) -> ROW:
            with pl.at(level=pl.Level.CORE_GROUP):
                x[:] = pl.tanh(pl.add(x, pl.reshape(pl.slice(weights, [1, 64], [row, 0]), [64])))
            return x

        @pl.function
        def decode(self, x: pl.InOut[ROW], weights: ROWS) -> ROW:
            for i in pl.unroll(LAYERS):
                x = self.layer(x, weights, i)
            return x

    return Decoder


def seconds_of(kind: pl.FunctionType, runtime: RuntimeKind | None) -> tuple[float, float]:
    """Seconds to compile and call once, and of a later call; medians of five."""
    x, weights = np.zeros(64, np.float32), np.ones((LAYERS, 64), np.float32)
    first: list[float] = []
    later: list[float] = []
    for _ in range(5):
        program = decoder(kind)
        start = time.perf_counter()
        compiled: Any = ir.compile(program, **({} if runtime is None else {"runtime": runtime}))
        compiled(x, weights)
        built = time.perf_counter()
        compiled(x, weights)
        first.append(built - start)
        later.append(time.perf_counter() - built)
    return statistics.median(first), statistics.median(later)


def rows() -> list[Row]:
    """Every figure."""
    recorded, replayed = seconds_of(pl.FunctionType.Graph, RuntimeKind.HOST_BUILD_GRAPH)
    inlined, _ = seconds_of(pl.FunctionType.Opaque, None)
    built = {OURS: recorded / LAYERS, "built for each call": inlined / LAYERS}
    again = {OURS: replayed / LAYERS, "recorded": recorded / LAYERS}
    return [
        Row("a layer of 40, recorded once", built, {"built for each call": 2.0}),
        Row("the same layer, replayed", again, {"recorded": 2.0}),
    ]
