"""What the workloads compute, written once over an array library.

In float64 numpy a formula is the reference that every contender is checked against; torch.compile
and jax compile the same text.
"""

from __future__ import annotations

import importlib
import math
from types import SimpleNamespace
from typing import Any


def array_library(module: Any, erf: Any) -> Any:
    """numpy or jax.numpy under the names that formulas use; reductions keep their axis."""
    return SimpleNamespace(
        exp=module.exp, log=module.log, tanh=module.tanh, sqrt=module.sqrt, erf=erf,
        max=lambda x, axis=-1: module.max(x, axis=axis, keepdims=True),
        sum=lambda x, axis=-1: module.sum(x, axis=axis, keepdims=True),
        argmax=lambda x: module.argmax(x, axis=-1, keepdims=True),
        swap=lambda x: module.swapaxes(x, -1, -2),
        join=lambda *parts: module.concatenate(parts, axis=-1),
        between=lambda x, low, high: module.minimum(module.maximum(x, low), high),
        real=lambda x: x.astype(module.result_type(x, module.float32)),
        causal=lambda x: module.where(module.tri(*x.shape, dtype=bool), x, -math.inf),
    )  # fmt: skip


def numpy_library() -> Any:
    """Formulas in numpy; the error function is scipy's where it is installed."""
    numpy: Any = importlib.import_module("numpy")
    try:
        erf = importlib.import_module("scipy.special").erf
    except ImportError:
        erf = numpy.vectorize(math.erf, otypes=[float])
    return array_library(numpy, erf)


def torch_library() -> Any:
    """Formulas in torch."""
    torch: Any = importlib.import_module("torch")
    return SimpleNamespace(
        exp=torch.exp, log=torch.log, tanh=torch.tanh, sqrt=torch.sqrt, erf=torch.erf,
        max=lambda x, axis=-1: torch.amax(x, axis, keepdim=True),
        sum=lambda x, axis=-1: torch.sum(x, axis, keepdim=True),
        argmax=lambda x: torch.argmax(x, -1, keepdim=True),
        swap=lambda x: x.transpose(-1, -2),
        join=lambda *parts: torch.cat(parts, -1),
        between=lambda x, low, high: torch.clamp(x, low, high),
        real=lambda x: x.to(torch.float32),
        causal=lambda x: x.masked_fill(x.new_ones(x.shape, dtype=torch.bool).triu(1), -math.inf),
    )  # fmt: skip


def matmul(xp: Any, a: Any, b: Any) -> Any:
    return a @ b


def matmul_t(xp: Any, a_t: Any, b: Any) -> Any:
    return xp.swap(a_t) @ b


def softmax(xp: Any, x: Any) -> Any:
    e = xp.exp(x - xp.max(x))
    return e / xp.sum(e)


def rms_norm(xp: Any, x: Any, gain: Any) -> Any:
    return x / xp.sqrt(xp.sum(x * x) / x.shape[-1] + 1e-6) * gain


def layer_norm(xp: Any, x: Any, gain: Any, bias: Any) -> Any:
    d = x - xp.sum(x) / x.shape[-1]
    return d / xp.sqrt(xp.sum(d * d) / x.shape[-1] + 1e-5) * gain + bias


def gelu_linear(xp: Any, x: Any, w: Any, b: Any) -> Any:
    h = x @ w + b
    return 0.5 * h * (1 + xp.erf(h * 0.5**0.5))


def silu_mlp(xp: Any, x: Any, gate: Any, up: Any, down: Any) -> Any:
    g = x @ gate
    return (g / (1 + xp.exp(-g)) * (x @ up)) @ down


def int8_weights(xp: Any, x: Any, w: Any, scale: Any) -> Any:
    return (x @ xp.real(w)) * scale


def attention(xp: Any, q: Any, k: Any, v: Any) -> Any:
    return softmax(xp, q @ xp.swap(k) * q.shape[-1] ** -0.5) @ v


def causal_attention(xp: Any, q: Any, k: Any, v: Any) -> Any:
    score = q @ xp.swap(k) * q.shape[-1] ** -0.5
    return softmax(xp, xp.causal(score)) @ v


def column_sum(xp: Any, x: Any) -> Any:
    return xp.sum(x, 0)


def transpose(xp: Any, x: Any) -> Any:
    return xp.swap(x)


def row_argmax(xp: Any, x: Any) -> Any:
    return xp.argmax(x)


def rope(xp: Any, x: Any, cos: Any, sin: Any) -> Any:
    half = x.shape[-1] // 2
    left, right = x[..., :half], x[..., half:]
    return xp.join(left * cos - right * sin, right * cos + left * sin)


def chain(xp: Any, x: Any, y: Any) -> Any:
    for _ in range(6):
        x = xp.between(x * 0.75 + y, -1.0, 2.0) - y * 0.25
    return x


def exp(xp: Any, x: Any) -> Any:
    return xp.exp(x)


def log(xp: Any, x: Any) -> Any:
    return xp.log(x)


def tanh(xp: Any, x: Any) -> Any:
    return xp.tanh(x)


def erf(xp: Any, x: Any) -> Any:
    return xp.erf(x)


def sigmoid(xp: Any, x: Any) -> Any:
    return 1 / (1 + xp.exp(-x))
