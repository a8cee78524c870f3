"""The kernels of the main job: five in the parsed style, softmax in the traced style as well."""

import tilewright.language as pl
import tilewright.nki as nki
import tilewright.nki.language as nl

ROWS = 32
TILE = 128
BLOCK = 128
NEG_INF = float("-inf")

M = pl.dynamic("M")


@pl.jit
def softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, cols = x.shape
    for i in pl.parallel(0, rows, ROWS):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [i, 0], [ROWS, cols])
            e = pl.exp(pl.row_expand_sub(t, pl.row_max(t)))
            pl.store(pl.row_expand_mul(e, pl.recip(pl.row_sum(e))), [i, 0], out)
    return out


@nki.jit
def softmax_traced(x):
    rows = x.shape[0]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(rows // ROWS):
        t = nl.load(x[i * ROWS : (i + 1) * ROWS, :])
        e = nl.exp(t - nl.max(t, axis=1, keepdims=True))
        scaled = e * nl.reciprocal(nl.sum(e, axis=1, keepdims=True))
        nl.store(out[i * ROWS : (i + 1) * ROWS, :], scaled)
    return out


@pl.jit
def rms_norm(
    x: pl.Tensor[[M, 2048], pl.FP32],
    gain: pl.Tensor[[1, 2048], pl.FP32],
    out: pl.Out[pl.Tensor[[M, 2048], pl.FP32]],
):
    for i in pl.parallel(M):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [i, 0], [1, 2048])
            mean = pl.mul(pl.row_sum(pl.mul(t, t)), 1.0 / 2048)
            scale = pl.rsqrt(pl.add(mean, 1e-6))
            scaled = pl.mul(pl.row_expand_mul(t, scale), pl.load(gain, [0, 0], [1, 2048]))
            pl.store(scaled, [i, 0], out)
    return out


@pl.jit
def gelu_linear(x: pl.Tensor, w: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, inner = x.shape
    cols = w.shape[1]
    for i in pl.parallel(0, rows, TILE):
        for j in pl.parallel(0, cols, TILE):
            with pl.at(level=pl.Level.CORE_GROUP):
                acc = pl.matmul(pl.load(x, [i, 0], [TILE, TILE]), pl.load(w, [0, j], [TILE, TILE]))
                for k in pl.range(TILE, inner, TILE):
                    acc = pl.matmul_acc(
                        acc, pl.load(x, [i, k], [TILE, TILE]), pl.load(w, [k, j], [TILE, TILE])
                    )
                h = pl.col_expand_add(acc, pl.load(b, [0, j], [1, TILE]))
                pl.store(pl.gelu(h), [i, j], out)
    return out


@pl.jit
def matmul(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, inner = a.shape
    cols = b.shape[1]
    for i in pl.parallel(0, rows, TILE):
        for j in pl.parallel(0, cols, TILE):
            with pl.at(level=pl.Level.CORE_GROUP):
                acc = pl.full([TILE, TILE], dtype=pl.FP32, value=0.0)
                for k in pl.range(0, inner, TILE):
                    acc = pl.matmul_acc(
                        acc, pl.load(a, [i, k], [TILE, TILE]), pl.load(b, [k, j], [TILE, TILE])
                    )
                pl.store(acc, [i, j], out)
    return out


@pl.jit.inline
def attend(score, value, top, total, acc):
    """One step of the online softmax: the next running maximum, sum and weighted values."""
    highest = pl.maximum(top, pl.row_max(score))
    p = pl.exp(pl.row_expand_sub(score, highest))
    shrink = pl.exp(pl.sub(top, highest))
    total = pl.add(pl.mul(total, shrink), pl.row_sum(p))
    acc = pl.matmul_acc(pl.row_expand_mul(acc, shrink), p, value)
    return highest, total, acc


@pl.jit
def causal_attention(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    length, head = q.shape
    for i in pl.parallel(0, length, BLOCK):
        with pl.at(level=pl.Level.CORE_GROUP):
            query = pl.mul(pl.load(q, [i, 0], [BLOCK, head]), 0.125)
            top = pl.full([BLOCK, 1], dtype=pl.FP32, value=NEG_INF)
            total = pl.full([BLOCK, 1], dtype=pl.FP32, value=0.0)
            acc = pl.full([BLOCK, head], dtype=pl.FP32, value=0.0)
            for j in pl.range(0, i, BLOCK):
                score = pl.matmul(query, pl.load(k, [j, 0], [BLOCK, head]), b_trans=True)
                value = pl.load(v, [j, 0], [BLOCK, head])
                top, total, acc = attend(score, value, top, total, acc)
            score = pl.matmul(query, pl.load(k, [i, 0], [BLOCK, head]), b_trans=True)
            causal = pl.log(pl.cast(pl.tri(0, [BLOCK, BLOCK]), pl.FP32))
            value = pl.load(v, [i, 0], [BLOCK, head])
            top, total, acc = attend(pl.add(score, causal), value, top, total, acc)
            pl.store(pl.row_expand_div(acc, total), [i, 0], out)
    return out
