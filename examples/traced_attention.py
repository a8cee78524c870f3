"""Flash attention in the traced style, forward and backward, checked against float64.

python examples/traced_attention.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl

Array = npt.NDArray[Any]
BLOCK = 128
LOWEST = -3.0e38


def scores_of(q_t, k_t, i, j, causal):
    """Scores of query block `i` against key block `j`; later keys get the lowest number."""
    scores = nl.matmul(q_t, k_t, transpose_x=True)
    if not causal:
        return scores
    row, column = nl.mgrid[0:BLOCK, 0:BLOCK]
    return nisa.affine_select(
        pred=(i * BLOCK + row >= j * BLOCK + column), on_true_tile=scores, on_false_value=LOWEST
    )


@nki.jit
def forward(q, k, v, causal=False):
    """Attention of [S, D] queries, and the logarithm of each row's normalizer: [S, 1]."""
    rows, depth = q.shape
    out = nl.ndarray((rows, depth), dtype=q.dtype, buffer=nl.shared_hbm)
    norm = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(rows // BLOCK):
        mine = nl.ds(i * BLOCK, BLOCK)
        q_t = nl.load_transpose2d(q[mine]) * depth**-0.5
        acc = nl.zeros((BLOCK, depth), dtype=nl.float32)
        total = nl.zeros((BLOCK, 1), dtype=nl.float32)
        peak = nl.full((BLOCK, 1), LOWEST, dtype=nl.float32)
        for j in nl.sequential_range(rows // BLOCK):
            there = nl.ds(j * BLOCK, BLOCK)
            scores = scores_of(q_t, nl.load_transpose2d(k[there]), i, j, causal)
            higher = nl.maximum(peak, nl.max(scores, axis=1, keepdims=True))
            weights = nl.exp(scores - higher)
            shrink = nl.exp(peak - higher)
            total[...] = total * shrink + nl.sum(weights, axis=1, keepdims=True)
            acc[...] = acc * shrink + nl.matmul(weights, nl.load(v[there]))
            peak[...] = higher
        nl.store(out[mine], acc / total)
        nl.store(norm[mine], peak + nl.log(total))
    return out, norm


@nki.jit
def backward(q, k, v, out, norm, d_out, causal=False):
    """Gradients of `forward` with respect to q, k and v, for the gradient `d_out` of its output."""
    rows, depth = q.shape
    grads = [nl.ndarray((rows, depth), dtype=q.dtype, buffer=nl.shared_hbm) for _ in range(3)]
    scale = depth**-0.5

    def weights_and_slopes(i, j):
        mine, there = nl.ds(i * BLOCK, BLOCK), nl.ds(j * BLOCK, BLOCK)
        q_t, k_t = nl.load_transpose2d(q[mine]) * scale, nl.load_transpose2d(k[there])
        weights = nl.exp(scores_of(q_t, k_t, i, j, causal) - nl.load(norm[mine]))
        d_here = nl.load(d_out[mine])
        inner = nl.sum(d_here * nl.load(out[mine]), axis=1, keepdims=True)
        d_weights = nl.matmul(d_here, nl.load_transpose2d(v[there]))
        return weights, weights * (d_weights - inner) * scale

    for i in nl.affine_range(rows // BLOCK):
        d_q = nl.zeros((BLOCK, depth), dtype=nl.float32, buffer=nl.psum)
        for j in nl.affine_range(rows // BLOCK):
            _, slopes = weights_and_slopes(i, j)
            d_q += nl.matmul(slopes, nl.load(k[nl.ds(j * BLOCK, BLOCK)]))
        nl.store(grads[0][nl.ds(i * BLOCK, BLOCK)], d_q)
    for j in nl.affine_range(rows // BLOCK):
        d_k = nl.zeros((BLOCK, depth), dtype=nl.float32, buffer=nl.psum)
        d_v = nl.zeros((BLOCK, depth), dtype=nl.float32, buffer=nl.psum)
        for i in nl.affine_range(rows // BLOCK):
            mine = nl.ds(i * BLOCK, BLOCK)
            weights, slopes = weights_and_slopes(i, j)
            d_k += nl.matmul(slopes, nl.load(q[mine]), transpose_x=True)
            d_v += nl.matmul(weights, nl.load(d_out[mine]), transpose_x=True)
        nl.store(grads[1][nl.ds(j * BLOCK, BLOCK)], d_k)
        nl.store(grads[2][nl.ds(j * BLOCK, BLOCK)], d_v)
    return tuple(grads)


def expected(q: Array, k: Array, v: Array, d_out: Array, causal: bool) -> list[Array]:
    """Output and gradients in float64."""
    q, k, v, d_out = (each.astype(np.float64) for each in (q, k, v, d_out))
    scale = q.shape[1] ** -0.5
    scores = q @ k.T * scale
    if causal:
        scores = np.where(np.tri(len(q), dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    out = weights @ v
    slopes = weights * (d_out @ v.T - (d_out * out).sum(1, keepdims=True)) * scale
    return [out, slopes @ k, slopes.T @ q, weights.T @ d_out]


def check(rows: int = 256, depth: int = 64) -> dict[str, float]:
    """The largest absolute error of each result."""
    rng = np.random.default_rng(0)
    q, k, v, d_out = (rng.standard_normal((rows, depth)).astype(np.float32) for _ in range(4))
    errors: dict[str, float] = {}
    for causal in (False, True):
        out, norm = forward(q, k, v, causal)
        got = (out, *backward(q, k, v, out, norm, d_out, causal))
        for name, each, want in zip(
            ("out", "d_q", "d_k", "d_v"), got, expected(q, k, v, d_out, causal), strict=True
        ):
            errors[f"{'causal ' * causal}{name}"] = float(np.abs(each - want).max())
    return errors


if __name__ == "__main__":
    print(check())
