"""Attention of one query over keys and values that lie in pages, found through a block table.

How many blocks a sequence has is known only when the kernel runs: the last one may be partly used.

python examples/paged_attention.py
"""

import numpy as np

import tilewright.language as pl

HEADS = 16
HEAD = 64
BLOCK = 32
NEG_INF = float("-inf")

PAGES = pl.dynamic("PAGES")
TABLE = pl.dynamic("TABLE")


@pl.jit
def paged_attention(
    q: pl.Tensor[[HEADS, HEAD], pl.FP32],
    keys: pl.Tensor[[PAGES, BLOCK, HEAD], pl.FP32],
    values: pl.Tensor[[PAGES, BLOCK, HEAD], pl.FP32],
    table: pl.Tensor[[1, TABLE], pl.INT32],
    length: pl.Scalar[pl.INDEX],
    out: pl.Out[pl.Tensor[[HEADS, HEAD], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        query = pl.mul(pl.load(q, [0, 0], [HEADS, HEAD]), 0.125)
        top = pl.full([HEADS, 1], dtype=pl.FP32, value=NEG_INF)
        total = pl.full([HEADS, 1], dtype=pl.FP32, value=0.0)
        acc = pl.full([HEADS, HEAD], dtype=pl.FP32, value=0.0)
        blocks = (length + BLOCK - 1) // BLOCK
        for j in pl.range(blocks):
            page = pl.cast(pl.read(table, [0, j]), pl.INDEX)
            used = pl.min(length - j * BLOCK, BLOCK)
            key = pl.reshape(pl.load(keys, [page, 0, 0], [1, BLOCK, HEAD]), [BLOCK, HEAD])
            value = pl.reshape(pl.load(values, [page, 0, 0], [1, BLOCK, HEAD]), [BLOCK, HEAD])
            score = pl.matmul(query, key, b_trans=True)
            score = pl.fillpad(pl.set_validshape(score, HEADS, used), pad_value=pl.PadValue.min)
            highest = pl.maximum(top, pl.row_max(score))
            p = pl.exp(pl.row_expand_sub(score, highest))
            shrink = pl.exp(pl.sub(top, highest))
            total = pl.add(pl.mul(total, shrink), pl.row_sum(p))
            acc = pl.matmul_acc(pl.row_expand_mul(acc, shrink), p, value)
            top = highest
        pl.store(pl.row_expand_div(acc, total), [0, 0], out)
    return out


def check(length: int = 75) -> dict[str, float]:
    """The largest absolute error, beside float64, of a sequence of `length` tokens."""
    rng = np.random.default_rng(0)
    q = rng.standard_normal((HEADS, HEAD)).astype(np.float32)
    keys, values = rng.standard_normal((2, 9, BLOCK, HEAD)).astype(np.float32)
    table = np.array([[7, 2, 5, 0]], np.int32)
    out = np.empty_like(q)
    paged_attention(q, keys, values, table, length, out)
    k, v = (pages[table[0]].reshape(-1, HEAD)[:length].astype(float) for pages in (keys, values))
    weights = np.exp(q @ k.T / 8)
    expected = weights @ v / weights.sum(1, keepdims=True)
    return {f"paged attention over {length} tokens": float(np.abs(out - expected).max())}


if __name__ == "__main__":
    print(check())
