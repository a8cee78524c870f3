"""Kernels beside what users would run instead, single thread, one run: numpy and torch eager.

A missing peer leaves its rows out. The norms stand beside a copy of the same bytes: the floor of
what moves that much memory.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

import tilewright.language as pl
from benchmarks.figures import calls, kernels, normal, numpy_softmax
from benchmarks.harness import Row, Run, interleave

try:
    import torch
except ImportError:
    torch = None

TILE = 128


@pl.jit
def whole_matmul(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(a, b)
    return out


@pl.jit
def rms_norm(x: pl.Tensor, gain: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, cols = x.shape
    for i in pl.parallel(0, rows, 32):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [i, 0], [32, cols])
            mean = pl.mul(pl.row_sum(pl.mul(t, t)), 1.0 / cols)
            y = pl.row_expand_mul(t, pl.rsqrt(pl.add(mean, 1e-6)))
            pl.store(pl.col_expand_mul(y, pl.load(gain, [0, 0], [1, cols])), [i, 0], out)
    return out


@pl.jit
def layer_norm(x: pl.Tensor, gain: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, cols = x.shape
    for i in pl.parallel(0, rows, 32):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [i, 0], [32, cols])
            d = pl.row_expand_sub(t, pl.mul(pl.row_sum(t), 1.0 / cols))
            var = pl.mul(pl.row_sum(pl.mul(d, d)), 1.0 / cols)
            y = pl.row_expand_mul(d, pl.rsqrt(pl.add(var, 1e-5)))
            scaled = pl.col_expand_mul(y, pl.load(gain, [0, 0], [1, cols]))
            pl.store(pl.col_expand_add(scaled, pl.load(bias, [0, 0], [1, cols])), [i, 0], out)
    return out


@pl.jit
def attention(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, head = q.shape
    for i in pl.parallel(0, rows, TILE):
        with pl.at(level=pl.Level.CORE_GROUP):
            query = pl.mul(pl.load(q, [i, 0], [TILE, head]), 1.0 / head**0.5)
            top = pl.full([TILE, 1], dtype=pl.FP32, value=float("-inf"))
            total = pl.full([TILE, 1], dtype=pl.FP32, value=0.0)
            acc = pl.full([TILE, head], dtype=pl.FP32, value=0.0)
            for j in pl.range(0, rows, TILE):
                score = pl.matmul(query, pl.load(k, [j, 0], [TILE, head]), b_trans=True)
                highest = pl.maximum(top, pl.row_max(score))
                p = pl.exp(pl.row_expand_sub(score, highest))
                shrink = pl.exp(pl.sub(top, highest))
                total = pl.add(pl.mul(total, shrink), pl.row_sum(p))
                acc = pl.matmul_acc(
                    pl.row_expand_mul(acc, shrink), p, pl.load(v, [j, 0], [TILE, head])
                )
                top = highest
            pl.store(pl.row_expand_div(acc, total), [i, 0], out)
    return out


def pointwise(word: str) -> Any:
    """A kernel of one elementwise function over 1M elements."""
    function = getattr(pl, word)

    @pl.jit
    def kernel(x: pl.Tensor[[1024, 1024], pl.FP32], out: pl.Out[pl.Tensor[[1024, 1024], pl.FP32]]):
        for i in pl.parallel(0, 1024, 32):
            with pl.at(level=pl.Level.CORE_GROUP):
                pl.store(function(pl.load(x, [i, 0], [32, 1024])), [i, 0], out)
        return out

    return kernel


def row(name: str, at_least: float | None, ours: Run, peer: Run, peer_name: str) -> Row:
    """A measured row."""
    seconds = interleave({"tilewright": ours, peer_name: peer}, seconds=1.0)
    return Row(name, seconds, peer=peer_name, at_least=at_least)


def matmul_rows() -> list[Row]:
    """Whole FP32 products, square and odd, beside numpy's default kernel."""
    shapes = [(n, n, n) for n in (64, 128, 256, 512, 1024, 2048)]
    shapes += [(100, 100, 100), (333, 777, 555), (1, 4096, 4096)]
    found: list[Row] = []
    for m, k, n in shapes:
        a, b, out = normal(m, k), normal(k, n), np.empty((m, n), np.float32)
        name = f"matmul {m}×{k}×{n}"
        ours = calls(whole_matmul, a, b, out)
        found.append(row(name, 0.95, ours, calls(np.matmul, a, b, out), "numpy"))
    return found


def row_rows() -> list[Row]:
    """Softmax and the norms, beside numpy, torch and a copy of the same bytes."""
    found: list[Row] = []
    for n in (1024, 2048, 4096):
        x, out = normal(n, n), np.empty((n, n), np.float32)
        ours = calls(kernels.softmax, x, out)
        found.append(row(f"softmax {n}²", 3.0, ours, numpy_softmax(x, np.empty_like(x)), "numpy"))
        if torch is not None:
            xt, ot = torch.from_numpy(x), torch.empty(n, n)
            peer = lambda xt=xt, ot=ot: torch.softmax(xt, 1, out=ot)  # noqa: E731
            found.append(row(f"softmax {n}²", 1.4, ours, peer, "torch"))
    x, out = normal(2048, 2048), np.empty((2048, 2048), np.float32)
    gain, bias = normal(1, 2048), normal(1, 2048)
    copy = calls(np.copyto, np.empty_like(x), x)
    found.append(row("RMSNorm 2048²", 1 / 1.3, calls(rms_norm, x, gain, out), copy, "copy"))
    ours = calls(layer_norm, x, gain, bias, out)
    found.append(row("LayerNorm 2048²", 1 / 1.3, ours, copy, "copy"))
    return found


def attention_rows() -> list[Row]:
    """Attention of one head, beside torch's fused one."""
    if torch is None:
        return []
    sdpa = torch.nn.functional.scaled_dot_product_attention
    found: list[Row] = []
    for length, head in ((512, 64), (1024, 64), (4096, 128)):
        q, k, v = (normal(length, head) for _ in range(3))
        tensors = [torch.from_numpy(t)[None, None] for t in (q, k, v)]
        ours = calls(attention, q, k, v, np.empty_like(q))
        name = f"attention {length}×{head}"
        found.append(row(name, 1.1, ours, calls(sdpa, *tensors), "torch"))
    return found


def word_rows() -> list[Row]:
    """Mathematics over a million elements in memory."""
    found: list[Row] = []
    x, out = np.abs(normal(1024, 1024)), np.empty((1024, 1024), np.float32)
    peers = {"exp": (np.exp, 1.6), "log": (np.log, 0.85), "tanh": (np.tanh, 0.9)}
    for word, (peer, bound) in peers.items():
        ours = calls(pointwise(word), x, out)
        found.append(row(f"{word} 1M", bound, ours, calls(peer, x, out), "numpy"))
    if importlib.util.find_spec("scipy"):
        from scipy.special import erf

        ours = calls(pointwise("erf"), x, out)
        found.append(row("erf 1M", 10.0, ours, calls(erf, x, out), "scipy"))
    return found


def rows() -> list[Row]:
    """Every row; torch on one thread."""
    if torch is not None:
        torch.set_num_threads(1)
    return [*matmul_rows(), *row_rows(), *attention_rows(), *word_rows()]
