"""Flash attention on both kinds of core: products on the cube core, softmax on the vector core.

Score tiles go to the vector side through one pipe, probabilities come back through another; each
side waits where a ring is empty or full, and frees the slots that it has read.

python examples/mixed_attention.py
"""

import numpy as np

import tilewright.language as pl
from tilewright import ir

LENGTH = 128
HEAD = 64
BLOCK = 32
BLOCKS = LENGTH // BLOCK
NEG_INF = float("-inf")
SCORES, PROBABILITIES, PRODUCTS = 0, 1, 2

T = pl.Tensor[[LENGTH, HEAD], pl.FP32]


@pl.program
class MixedAttention:
    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, q: T, k: T, v: T):
        pl.aic_initialize_pipe(slot_num=2, id=SCORES)
        for i in pl.range(BLOCKS):
            query = pl.load(q, [i * BLOCK, 0], [BLOCK, HEAD])
            for j in pl.range(BLOCKS):
                key = pl.load(k, [j * BLOCK, 0], [BLOCK, HEAD])
                pl.tpush_to_aiv(pl.matmul(query, key, b_trans=True), split=0, id=SCORES)
                p = pl.tpop_from_aiv(shape=[BLOCK, BLOCK], dtype=pl.FP32, id=PROBABILITIES)
                value = pl.load(v, [j * BLOCK, 0], [BLOCK, HEAD])
                pl.tpush_to_aiv(pl.matmul(p, value), split=0, id=PRODUCTS)
                pl.tfree_to_aiv(p, id=PROBABILITIES)

    @pl.function(type=pl.FunctionType.AIV)
    def vector(self, out: pl.Out[T]) -> T:
        pl.aiv_initialize_pipe(slot_num=2, id=SCORES)
        for i in pl.range(BLOCKS):
            top = pl.full([BLOCK, 1], dtype=pl.FP32, value=NEG_INF)
            total = pl.full([BLOCK, 1], dtype=pl.FP32, value=0.0)
            acc = pl.full([BLOCK, HEAD], dtype=pl.FP32, value=0.0)
            for _ in pl.range(BLOCKS):
                raw = pl.tpop_from_aic(shape=[BLOCK, BLOCK], dtype=pl.FP32, id=SCORES)
                score = pl.mul(raw, 0.125)
                pl.tfree_to_aic(raw, id=SCORES)
                highest = pl.maximum(top, pl.row_max(score))
                p = pl.exp(pl.row_expand_sub(score, highest))
                pl.tpush_to_aic(p, split=0, id=PROBABILITIES)
                shrink = pl.exp(pl.sub(top, highest))
                total = pl.add(pl.mul(total, shrink), pl.row_sum(p))
                product = pl.tpop_from_aic(shape=[BLOCK, HEAD], dtype=pl.FP32, id=PRODUCTS)
                acc = pl.add(pl.row_expand_mul(acc, shrink), product)
                pl.tfree_to_aic(product, id=PRODUCTS)
                top = highest
            out = pl.store(pl.row_expand_div(acc, total), [i * BLOCK, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Group)
    def main(self, q: T, k: T, v: T, out: pl.Out[T]) -> T:
        self.cube(q, k, v)
        return self.vector(out)


def check() -> dict[str, float]:
    """The largest absolute error beside float64."""
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, LENGTH, HEAD)).astype(np.float32)
    out = np.empty_like(q)
    ir.compile(MixedAttention)(q, k, v, out)
    weights = np.exp(q.astype(float) @ k.T / 8)
    expected = weights @ v / weights.sum(1, keepdims=True)
    return {"attention on two kinds of core": float(np.abs(out - expected).max())}


if __name__ == "__main__":
    print(check())
