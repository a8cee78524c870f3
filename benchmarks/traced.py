"""The traced style: warm calls beside numpy's, attention in both styles, tracing itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright.language as pl
import tilewright.nki as nki
import tilewright.nki.language as nl
from benchmarks.compile_time import fresh_module
from benchmarks.harness import Row, bound, interleave, once
from benchmarks.quiet import WATCH, Figure

SHAPE = (4, 16)
WEIGHT = 1.0
BLOCK = 128
LOWEST = -3.0e38
SCALE = 0.125
GENERATOR = np.random.default_rng(5)


@nki.jit
def add(x, y):
    """`x + y`; the trace reads a global, which every launch checks."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) + nl.load(y) * WEIGHT)
    return out


@nki.jit
def attention(q, k, v):
    """Attention of [S, D] queries with an online softmax."""
    rows, depth = q.shape
    out = nl.ndarray((rows, depth), dtype=q.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(rows // BLOCK):
        mine = nl.ds(i * BLOCK, BLOCK)
        q_t = nl.load_transpose2d(q[mine]) * SCALE
        acc = nl.zeros((BLOCK, depth), dtype=nl.float32)
        total = nl.zeros((BLOCK, 1), dtype=nl.float32)
        peak = nl.full((BLOCK, 1), LOWEST, dtype=nl.float32)
        for j in nl.sequential_range(rows // BLOCK):
            attend(q_t, k, v, j, acc, total, peak)
        nl.store(out[mine], acc / total)
    return out


@nki.jit
def unrolled_attention(q, k, v):
    """The first block of `attention`, with the loop over keys unrolled."""
    rows, depth = q.shape
    out = nl.ndarray((BLOCK, depth), dtype=q.dtype, buffer=nl.shared_hbm)
    q_t = nl.load_transpose2d(q[0:BLOCK]) * SCALE
    acc = nl.zeros((BLOCK, depth), dtype=nl.float32)
    total = nl.zeros((BLOCK, 1), dtype=nl.float32)
    peak = nl.full((BLOCK, 1), LOWEST, dtype=nl.float32)
    for j in nl.static_range(rows // BLOCK):
        attend(q_t, k, v, j, acc, total, peak)
    nl.store(out, acc / total)
    return out


def attend(q_t, k, v, j, acc, total, peak):
    """One step of the online softmax, in place."""
    there = nl.ds(j * BLOCK, BLOCK)
    scores = nl.matmul(q_t, nl.load_transpose2d(k[there]), transpose_x=True)
    higher = nl.maximum(peak, nl.max(scores, axis=1, keepdims=True))
    weights = nl.exp(scores - higher)
    shrink = nl.exp(peak - higher)
    total[...] = total * shrink + nl.sum(weights, axis=1, keepdims=True)
    acc[...] = acc * shrink + nl.matmul(weights, nl.load(v[there]))
    peak[...] = higher


@pl.jit
def parsed_attention(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    """`attention` in the parsed style."""
    rows, depth = q.shape
    for i in pl.parallel(0, rows, BLOCK):
        with pl.at(level=pl.Level.CORE_GROUP):
            query = pl.mul(pl.load(q, [i, 0], [BLOCK, depth]), SCALE)
            acc = pl.full([BLOCK, depth], dtype=pl.FP32, value=0.0)
            total = pl.full([BLOCK, 1], dtype=pl.FP32, value=0.0)
            peak = pl.full([BLOCK, 1], dtype=pl.FP32, value=LOWEST)
            for j in pl.range(0, rows, BLOCK):
                score = pl.matmul(query, pl.load(k, [j, 0], [BLOCK, depth]), b_trans=True)
                higher = pl.maximum(peak, pl.row_max(score))
                weights = pl.exp(pl.row_expand_sub(score, higher))
                shrink = pl.exp(pl.sub(peak, higher))
                total = pl.add(pl.mul(total, shrink), pl.row_sum(weights))
                there = pl.matmul(weights, pl.load(v, [j, 0], [BLOCK, depth]))
                acc = pl.add(pl.row_expand_mul(acc, shrink), there)
                peak = higher
            pl.store(pl.row_expand_div(acc, total), [i, 0], out)
    return out


def numpy_attention(q: Any, k: Any, v: Any) -> Any:
    """`attention` in numpy, with the same tiling."""
    out = np.empty_like(q)
    for i in range(0, len(q), BLOCK):
        query = q[i : i + BLOCK] * np.float32(SCALE)
        acc = np.zeros((BLOCK, q.shape[1]), np.float32)
        total = np.zeros((BLOCK, 1), np.float32)
        peak = np.full((BLOCK, 1), LOWEST, np.float32)
        for j in range(0, len(k), BLOCK):
            score = query @ k[j : j + BLOCK].T
            higher = np.maximum(peak, score.max(axis=1, keepdims=True))
            weights = np.exp(score - higher)
            shrink = np.exp(peak - higher)
            total = total * shrink + weights.sum(axis=1, keepdims=True)
            acc = acc * shrink + weights @ v[j : j + BLOCK]
            peak = higher
        out[i : i + BLOCK] = acc / total
    return out


def straight_line(ops: int) -> str:
    """A kernel of `ops` operations on [64, 256] tiles, one statement each."""
    words = ("add", "multiply", "maximum", "subtract")
    body = [f"    a = nl.{words[i % 4]}(a, b)" for i in range(ops)]
    head = """
import tilewright.nki as nki
import tilewright.nki.language as nl
@nki.jit
def chain(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    a, b = nl.load(x), nl.load(x)
"""
    return "\n".join([head, *body, "    nl.store(out, a)", "    return out", ""])


def seconds_of(fresh: Callable[[], Callable[[], object]]) -> Figure:
    """The median time of three runs of what `fresh` makes."""
    return WATCH.median(lambda: once(fresh()), 3)


def tracing_time(ops: int) -> Figure:
    """Seconds from a kernel of `ops` operations that nobody has read to its IR."""
    x = np.ones((64, 256), np.float32)

    def fresh() -> Callable[[], object]:
        kernel: Any = fresh_module(straight_line(ops)).chain
        return lambda: kernel.specialize(x)

    return seconds_of(fresh)


def normal(*shape: int) -> Any:
    """Normal float32 numbers."""
    return GENERATOR.standard_normal(shape, dtype=np.float32)


def tracing_rows() -> list[Row]:
    """Tracing: an operation, the growth with their number, a grid, an unrolled loop."""
    small, large = tracing_time(2_000), tracing_time(20_000)
    q = normal(64 * BLOCK, 64)
    x = normal(*SHAPE)

    def whole(kernel: Any, *args: Any) -> Callable[[], Callable[[], object]]:
        return lambda: lambda: nki.jit(kernel.function)(*args)

    def on_grid(size: int) -> Callable[[], object]:
        return lambda: nki.jit(add.function)[size].specialize(x, x)

    grids = interleave({"1": on_grid(1), "64": on_grid(64)})
    whole(unrolled_attention, q[:BLOCK], q[:BLOCK], q[:BLOCK])()()
    return [
        bound("tracing an operation, 20,000 ops", large / 20_000, 40e-6),
        bound("20,000 ops within 12 times 2,000 ops", large, 12 * small),
        bound("a grid of 64 within 1.5 times one", grids["64"], 1.5 * grids["1"]),
        bound(
            "attention, 64 steps unrolled: first call",
            seconds_of(whole(unrolled_attention, q, q, q)),
            1.0,
        ),
    ]


def attention_rows() -> list[Row]:
    """Attention beside numpy and beside the parsed style."""
    q, k, v = normal(2048, 64), normal(2048, 64), normal(2048, 64)
    out = np.empty_like(q)
    seconds = interleave(
        {
            "tilewright": lambda: attention(q, k, v),
            "parsed": lambda: parsed_attention(q, k, v, out),
            "numpy": lambda: numpy_attention(q, k, v),
        }
    )
    return [Row("traced attention 2048×64", seconds, {"numpy": 1.5, "parsed": 1 / 1.1})]


def call_rows() -> list[Row]:
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
        Row(name, interleave({"tilewright": run, "numpy": lambda: plain(x, x)}), {"numpy": 1.0})
        for name, run in ways.items()
    ]


def rows() -> list[Row]:
    """Every figure."""
    return [*call_rows(), *attention_rows(), *tracing_rows()]
