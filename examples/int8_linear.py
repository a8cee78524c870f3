"""A linear layer with INT8 weights: rows are quantised as they come, products summed in INT32.

python examples/int8_linear.py
"""

import numpy as np

import tilewright.language as pl

ROWS = 32
TILE_K = 64
TILE_N = 64

M = pl.dynamic("M")


@pl.jit
def int8_linear(
    x: pl.Tensor[[M, 256], pl.FP32],
    w: pl.Tensor[[256, 128], pl.INT8],
    scale: pl.Tensor[[1, 128], pl.FP32],
    out: pl.Out[pl.Tensor[[M, 128], pl.FP32]],
):
    for i in pl.parallel(0, M, ROWS):
        with pl.at(level=pl.Level.CORE_GROUP):
            row = pl.load(x, [i, 0], [ROWS, 256])
            largest = pl.maximum(pl.row_max(row), pl.neg(pl.row_min(row)))
            step = pl.maximums(pl.mul(largest, 1.0 / 127.0), 1e-8)
            q = pl.cast(pl.row_expand_div(row, step), pl.INT8, mode="rint")
            for j in pl.range(0, 128, TILE_N):
                acc = pl.full([ROWS, TILE_N], dtype=pl.INT32, value=0)
                for k in pl.range(0, 256, TILE_K):
                    left = pl.slice(q, [ROWS, TILE_K], [0, k])
                    acc = pl.matmul_acc(acc, left, pl.load(w, [k, j], [TILE_K, TILE_N]))
                y = pl.row_expand_mul(pl.cast(acc, pl.FP32), step)
                y = pl.col_expand_mul(y, pl.load(scale, [0, j], [1, TILE_N]))
                pl.store(y, [i, j], out)
    return out


def check(rows: int = 96) -> dict[str, float]:
    """The largest error, relative to numpy's exact sums, for `rows` rows."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, 256)).astype(np.float32)
    w = rng.integers(-127, 128, (256, 128)).astype(np.int8)
    scale = rng.random((1, 128)).astype(np.float32)
    out = np.empty((rows, 128), np.float32)
    int8_linear(x, w, scale, out)
    step = np.maximum(np.abs(x).max(1, keepdims=True) * np.float32(1 / 127), np.float32(1e-8))
    q = np.rint(x / step).astype(np.int8)
    expected = (q.astype(np.int32) @ w.astype(np.int32)) * step * scale
    return {f"INT8 linear of {rows} rows": float(np.abs(out / expected - 1).max())}


if __name__ == "__main__":
    print(check())
