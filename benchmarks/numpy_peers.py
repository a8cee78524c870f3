"""The workloads as numpy users write them for speed: into `out`, without needless temporaries."""

from __future__ import annotations

from typing import Any

import numpy as np

NEED_SCIPY = ("erf", "gelu_linear")
"""Words that numpy alone does not have."""


def matmul(a: Any, b: Any, out: Any) -> None:
    np.matmul(a, b, out=out)


def matmul_t(a_t: Any, b: Any, out: Any) -> None:
    np.matmul(a_t.T, b, out=out)


def softmax(x: Any, out: Any) -> None:
    np.subtract(x, x.max(axis=-1, keepdims=True), out=out)
    np.exp(out, out=out)
    np.multiply(out, 1 / out.sum(axis=-1, keepdims=True), out=out)


def rms_norm(x: Any, gain: Any, out: Any) -> None:
    mean = np.einsum("ij,ij->i", x, x)[:, None] / np.float32(x.shape[1])
    np.multiply(x, 1 / np.sqrt(mean + np.float32(1e-6)), out=out)
    np.multiply(out, gain, out=out)


def layer_norm(x: Any, gain: Any, bias: Any, out: Any) -> None:
    np.subtract(x, x.mean(axis=1, keepdims=True), out=out)
    var = np.einsum("ij,ij->i", out, out)[:, None] / np.float32(x.shape[1])
    np.multiply(out, 1 / np.sqrt(var + np.float32(1e-5)), out=out)
    np.multiply(out, gain, out=out)
    np.add(out, bias, out=out)


def gelu_linear(x: Any, w: Any, b: Any, out: Any) -> None:
    np.matmul(x, w, out=out)
    np.add(out, b, out=out)
    half = np.multiply(out, np.float32(0.5))
    erf(np.multiply(out, np.float32(0.5**0.5), out=out), out)
    np.add(out, 1, out=out)
    np.multiply(out, half, out=out)


def silu_mlp(x: Any, gate: Any, up: Any, down: Any, out: Any) -> None:
    g = np.matmul(x, gate)
    sigmoid(g, out)
    np.multiply(g, out, out=g)
    np.multiply(g, np.matmul(x, up, out=out), out=g)
    np.matmul(g, down, out=out)


def int8_weights(x: Any, w: Any, scale: Any, out: Any) -> None:
    np.matmul(x, w.astype(np.float32), out=out)
    np.multiply(out, scale, out=out)


def attention(q: Any, k: Any, v: Any, out: Any) -> None:
    score = np.matmul(q, k.swapaxes(1, 2))
    np.multiply(score, np.float32(q.shape[2] ** -0.5), out=score)
    softmax(score, score)
    np.matmul(score, v, out=out)


def column_sum(x: Any, out: Any) -> None:
    x.sum(axis=0, keepdims=True, out=out)


def transpose(x: Any, out: Any) -> None:
    np.copyto(out, x.T)


def row_argmax(x: Any, out: Any) -> None:
    out[:] = x.argmax(axis=1, keepdims=True)


def rope(x: Any, cos: Any, sin: Any, out: Any) -> None:
    half = x.shape[-1] // 2
    left, right = x[..., :half], x[..., half:]
    np.multiply(left, cos, out=out[..., :half])
    out[..., :half] -= right * sin
    np.multiply(right, cos, out=out[..., half:])
    out[..., half:] += left * sin


def chain(x: Any, y: Any, out: Any) -> None:
    quarter = np.multiply(y, np.float32(0.25))
    np.copyto(out, x)
    for _ in range(6):
        np.multiply(out, np.float32(0.75), out=out)
        np.add(out, y, out=out)
        np.clip(out, np.float32(-1.0), np.float32(2.0), out=out)
        np.subtract(out, quarter, out=out)


def exp(x: Any, out: Any) -> None:
    np.exp(x, out=out)


def log(x: Any, out: Any) -> None:
    np.log(x, out=out)


def tanh(x: Any, out: Any) -> None:
    np.tanh(x, out=out)


def erf(x: Any, out: Any) -> None:
    from scipy import special

    special.erf(x, out=out)


def sigmoid(x: Any, out: Any) -> None:
    np.negative(x, out=out)
    np.exp(out, out=out)
    np.add(out, 1, out=out)
    np.reciprocal(out, out=out)


# ---- beside: a part of the work ------------------------------------------------------------------


def one_matmul(x: Any, w: Any, *rest: Any) -> None:
    np.matmul(x, w, out=rest[-1])


def three_matmuls(x: Any, gate: Any, up: Any, down: Any, out: Any) -> None:
    for w in (gate, up, down):
        np.matmul(x, w, out=out)
