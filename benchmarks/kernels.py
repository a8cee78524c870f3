"""The kernels that are measured beside those of the examples, in the parsed style.

They are written as an author would.
Extents come from the arrays (`x.shape`) or are dynamic; `M`, `N`, `K`, `H` stand for any number.
"""

from __future__ import annotations

from typing import Any

from showcase_kernels import attend

import tilewright.language as pl

ROWS = 32
TILE = 128
NEG_INF = float("-inf")

H, K, M, N = pl.dynamic("H"), pl.dynamic("K"), pl.dynamic("M"), pl.dynamic("N")


def matmul_to(dtype: Any) -> Any:
    """A whole product, rounded to `dtype`."""

    @pl.jit
    def kernel(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.matmul(a, b, out_dtype=dtype)
        return out

    return kernel


def tiled_matmul(tile: int) -> Any:
    """A product in square tiles."""

    @pl.jit
    def kernel(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
        rows, inner = a.shape
        cols = b.shape[1]
        for i in pl.parallel(0, rows, tile):
            for j in pl.parallel(0, cols, tile):
                with pl.at(level=pl.Level.CORE_GROUP):
                    acc = pl.full([tile, tile], dtype=pl.FP32, value=0.0)
                    for k in pl.range(0, inner, tile):
                        left = pl.load(a, [i, k], [tile, tile])
                        acc = pl.matmul_acc(acc, left, pl.load(b, [k, j], [tile, tile]))
                    pl.store(acc, [i, j], out)
        return out

    return kernel


@pl.jit
def dynamic_softmax(x: pl.Tensor[[M, N], pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
    rows, cols = x.shape
    for i in pl.parallel(rows):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.slice(x, [1, cols], [i, 0])
            e = pl.exp(pl.row_expand_sub(t, pl.row_max(t)))
            out[i : i + 1, :] = pl.row_expand_mul(e, pl.recip(pl.row_sum(e)))
    return out


@pl.jit
def rms_norm(x: pl.Tensor, gain: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, cols = x.shape
    for i in pl.parallel(0, rows, ROWS):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [i, 0], [ROWS, cols])
            mean = pl.mul(pl.row_sum(pl.mul(t, t)), 1.0 / cols)
            y = pl.row_expand_mul(t, pl.rsqrt(pl.add(mean, 1e-6)))
            pl.store(pl.col_expand_mul(y, pl.load(gain, [0, 0], [1, cols])), [i, 0], out)
    return out


@pl.jit
def dynamic_rms_norm(
    x: pl.Tensor[[M, N], pl.FP32],
    gain: pl.Tensor[[1, N], pl.FP32],
    out: pl.Out[pl.Tensor[[M, N], pl.FP32]],
):
    rows, cols = x.shape
    for i in pl.parallel(rows):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.slice(x, [1, cols], [i, 0])
            mean = pl.div(pl.row_sum(pl.mul(t, t)), pl.cast(cols, pl.FP32))
            y = pl.row_expand_mul(t, pl.rsqrt(pl.add(mean, 1e-6)))
            out[i : i + 1, :] = pl.col_expand_mul(y, gain)
    return out


@pl.jit
def layer_norm(x: pl.Tensor, gain: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, cols = x.shape
    for i in pl.parallel(0, rows, ROWS):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [i, 0], [ROWS, cols])
            d = pl.row_expand_sub(t, pl.mul(pl.row_sum(t), 1.0 / cols))
            var = pl.mul(pl.row_sum(pl.mul(d, d)), 1.0 / cols)
            y = pl.row_expand_mul(d, pl.rsqrt(pl.add(var, 1e-5)))
            scaled = pl.col_expand_mul(y, pl.load(gain, [0, 0], [1, cols]))
            pl.store(pl.col_expand_add(scaled, pl.load(bias, [0, 0], [1, cols])), [i, 0], out)
    return out


@pl.jit.inline
def product(a, b, i, j, inner):
    """The tile of a @ b at [i, j]."""
    acc = pl.full([TILE, TILE], dtype=pl.FP32, value=0.0)
    for k in pl.range(0, inner, TILE):
        acc = pl.matmul_acc(acc, pl.load(a, [i, k], [TILE, TILE]), pl.load(b, [k, j], [TILE, TILE]))
    return acc


@pl.jit
def dynamic_gelu_linear(
    x: pl.Tensor[[M, K], pl.FP32],
    w: pl.Tensor[[K, N], pl.FP32],
    b: pl.Tensor[[1, N], pl.FP32],
    out: pl.Out[pl.Tensor[[M, N], pl.FP32]],
):
    rows, inner = x.shape
    cols = w.shape[1]
    for i in pl.parallel(0, rows, TILE):
        for j in pl.parallel(0, cols, TILE):
            with pl.at(level=pl.Level.CORE_GROUP):
                h = pl.col_expand_add(product(x, w, i, j, inner), pl.load(b, [0, j], [1, TILE]))
                pl.store(pl.gelu(h), [i, j], out)
    return out


@pl.jit
def silu_mlp(x: pl.Tensor, gate: pl.Tensor, up: pl.Tensor, down: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, inner = x.shape
    hidden = gate.shape[1]
    cols = down.shape[1]
    h = pl.create_tensor([rows, hidden], dtype=pl.FP32)
    for i in pl.parallel(0, rows, TILE):
        for j in pl.parallel(0, hidden, TILE):
            with pl.at(level=pl.Level.CORE_GROUP):
                g = pl.silu(product(x, gate, i, j, inner))
                h = pl.store(pl.mul(g, product(x, up, i, j, inner)), [i, j], h)
    for i in pl.parallel(0, rows, TILE):
        for j in pl.parallel(0, cols, TILE):
            with pl.at(level=pl.Level.CORE_GROUP):
                pl.store(product(h, down, i, j, hidden), [i, j], out)
    return out


@pl.jit
def int8_weights(x: pl.Tensor, w: pl.Tensor, scale: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, inner = x.shape
    cols = w.shape[1]
    for i in pl.parallel(0, rows, TILE):
        for j in pl.parallel(0, cols, TILE):
            with pl.at(level=pl.Level.CORE_GROUP):
                acc = pl.full([TILE, TILE], dtype=pl.FP32, value=0.0)
                for k in pl.range(0, inner, TILE):
                    weights = pl.cast(pl.load(w, [k, j], [TILE, TILE]), pl.FP32)
                    acc = pl.matmul_acc(acc, pl.load(x, [i, k], [TILE, TILE]), weights)
                scaled = pl.col_expand_mul(acc, pl.load(scale, [0, j], [1, TILE]))
                pl.store(scaled, [i, j], out)
    return out


@pl.jit
def attention(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    heads, length, head = q.shape
    for h in pl.parallel(heads):
        for i in pl.parallel(0, length, TILE):
            with pl.at(level=pl.Level.CORE_GROUP):
                query = pl.load(q, [h, i, 0], [1, TILE, head])
                query = pl.mul(pl.reshape(query, [TILE, head]), 1.0 / head**0.5)
                top = pl.full([TILE, 1], dtype=pl.FP32, value=NEG_INF)
                total = pl.full([TILE, 1], dtype=pl.FP32, value=0.0)
                acc = pl.full([TILE, head], dtype=pl.FP32, value=0.0)
                for j in pl.range(0, length, TILE):
                    key = pl.reshape(pl.load(k, [h, j, 0], [1, TILE, head]), [TILE, head])
                    value = pl.reshape(pl.load(v, [h, j, 0], [1, TILE, head]), [TILE, head])
                    score = pl.matmul(query, key, b_trans=True)
                    top, total, acc = attend(score, value, top, total, acc)
                pl.store(pl.row_expand_div(acc, total), [h, i, 0], out)
    return out


@pl.jit
def dynamic_attention(
    q: pl.Tensor[[H, M, K], pl.FP32],
    k: pl.Tensor[[H, N, K], pl.FP32],
    v: pl.Tensor[[H, N, K], pl.FP32],
    scale: pl.Scalar[pl.FP32],
    out: pl.Out[pl.Tensor[[H, M, K], pl.FP32]],
):
    heads, rows, head = q.shape
    length = k.shape[1]
    for h in pl.parallel(heads):
        for i in pl.parallel(0, rows, TILE):
            with pl.at(level=pl.Level.CORE_GROUP):
                query = pl.mul(pl.slice(q, [1, TILE, head], [h, i, 0], drop_dims=[0]), scale)
                key = pl.slice(k, [1, TILE, head], [h, 0, 0], drop_dims=[0])
                value = pl.slice(v, [1, TILE, head], [h, 0, 0], drop_dims=[0])
                score = pl.matmul(query, key, b_trans=True)
                top = pl.row_max(score)
                p = pl.exp(pl.row_expand_sub(score, top))
                total = pl.row_sum(p)
                acc = pl.matmul(p, value)
                for j in pl.range(TILE, length, TILE):
                    key = pl.slice(k, [1, TILE, head], [h, j, 0], drop_dims=[0])
                    value = pl.slice(v, [1, TILE, head], [h, j, 0], drop_dims=[0])
                    score = pl.matmul(query, key, b_trans=True)
                    top, total, acc = attend(score, value, top, total, acc)
                out[h, i : i + TILE, :] = pl.row_expand_div(acc, total)
    return out


@pl.jit
def column_sum(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, cols = x.shape
    with pl.at(level=pl.Level.CORE_GROUP):
        total = pl.full([1, cols], dtype=pl.FP32, value=0.0)
        for i in pl.range(0, rows, ROWS):
            total = pl.add(total, pl.col_sum(pl.load(x, [i, 0], [ROWS, cols])))
        pl.store(total, [0, 0], out)
    return out


@pl.jit
def column_sum_by_strips(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, cols = x.shape
    for j in pl.parallel(0, cols, TILE):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.col_sum(pl.load(x, [0, j], [rows, TILE])), [0, j], out)
    return out


@pl.jit
def transpose(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, cols = x.shape
    for i in pl.parallel(0, rows, TILE):
        for j in pl.parallel(0, cols, TILE):
            with pl.at(level=pl.Level.CORE_GROUP):
                t = pl.load(x, [i, j], [TILE, TILE])
                pl.store(pl.transpose(t, 0, 1), [j, i], out)
    return out


@pl.jit
def row_argmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, cols = x.shape
    for i in pl.parallel(0, rows, ROWS):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.row_argmax(pl.load(x, [i, 0], [ROWS, cols])), [i, 0], out)
    return out


@pl.jit
def rope(x: pl.Tensor, cos: pl.Tensor, sin: pl.Tensor, out: pl.Out[pl.Tensor]):
    heads, length, head = x.shape
    half = head // 2
    for h in pl.parallel(heads):
        for i in pl.parallel(0, length, ROWS):
            with pl.at(level=pl.Level.CORE_GROUP):
                c, s = pl.load(cos, [i, 0], [ROWS, half]), pl.load(sin, [i, 0], [ROWS, half])
                left = pl.reshape(pl.load(x, [h, i, 0], [1, ROWS, half]), [ROWS, half])
                right = pl.reshape(pl.load(x, [h, i, half], [1, ROWS, half]), [ROWS, half])
                first = pl.sub(pl.mul(left, c), pl.mul(right, s))
                second = pl.add(pl.mul(right, c), pl.mul(left, s))
                pl.store(pl.reshape(first, [1, ROWS, half]), [h, i, 0], out)
                pl.store(pl.reshape(second, [1, ROWS, half]), [h, i, half], out)
    return out


@pl.jit
def chain(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, cols = x.shape
    for i in pl.parallel(0, rows, ROWS):
        with pl.at(level=pl.Level.CORE_GROUP):
            a = pl.load(x, [i, 0], [ROWS, cols])
            b = pl.load(y, [i, 0], [ROWS, cols])
            for _ in pl.unroll(6):
                a = pl.maximum(pl.add(pl.mul(a, 0.75), b), -1.0)
                a = pl.sub(pl.minimum(a, 2.0), pl.mul(b, 0.25))
            pl.store(a, [i, 0], out)
    return out


def pointwise(word: str) -> Any:
    """One function of every element."""
    function = getattr(pl, word)

    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        rows, cols = x.shape
        for i in pl.parallel(0, rows, ROWS):
            with pl.at(level=pl.Level.CORE_GROUP):
                pl.store(function(pl.load(x, [i, 0], [ROWS, cols])), [i, 0], out)
        return out

    return kernel
