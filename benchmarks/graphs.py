"""What recording buys: layers built once and replayed, beside layers built for each call."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import OURS, Row, once
from benchmarks.quiet import WATCH, Figure
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


def seconds_of(kind: pl.FunctionType, runtime: RuntimeKind | None) -> tuple[Figure, Figure]:
    """Seconds to compile and call once, and of a later call; medians of five."""
    x, weights = np.zeros(64, np.float32), np.ones((LAYERS, 64), np.float32)
    options: dict[str, Any] = {} if runtime is None else {"runtime": runtime}
    compiled: Any = None

    def first(program: ir.Program) -> None:
        nonlocal compiled
        compiled = ir.compile(program, **options)
        compiled(x, weights)

    def first_of_fresh() -> float:
        program = decoder(kind)
        return once(lambda: first(program))

    def later() -> float:
        return once(lambda: compiled(x, weights))

    took = WATCH.medians({"first": first_of_fresh, "later": later}, 5)
    return took["first"], took["later"]


def rows() -> list[Row]:
    """Every figure."""
    recorded, replayed = seconds_of(pl.FunctionType.Graph, RuntimeKind.HOST_BUILD_GRAPH)
    inlined, _ = seconds_of(pl.FunctionType.Opaque, None)
    built: dict[str, float] = {OURS: recorded / LAYERS, "built for each call": inlined / LAYERS}
    again: dict[str, float] = {OURS: replayed / LAYERS, "recorded": recorded / LAYERS}
    return [
        Row("a layer of 40, recorded once", built, {"built for each call": 2.0}),
        Row("the same layer, replayed", again, {"recorded": 2.0}),
    ]
