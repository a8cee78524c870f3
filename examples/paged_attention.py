"""Attention of one query over keys and values that lie in pages, found through a block table.

How many blocks a sequence has is known only when the kernel runs: the last one may be partly used.
"""

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
