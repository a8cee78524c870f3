"""The workloads in eager torch, into `out` where torch offers that; imported only with torch."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional


def matmul(a: Any, b: Any, out: Any) -> Any:
    if a.dtype == torch.int8:
        return torch._int_mm(a, b, out=out)
    return torch.mm(a, b, out=out)


def matmul_t(a_t: Any, b: Any, out: Any) -> Any:
    return torch.mm(a_t.T, b, out=out)


def softmax(x: Any, out: Any) -> Any:
    return torch.softmax(x, -1, out=out)


def rms_norm(x: Any, gain: Any, out: Any) -> Any:
    return functional.rms_norm(x, (x.shape[1],), gain[0], 1e-6)


def layer_norm(x: Any, gain: Any, bias: Any, out: Any) -> Any:
    return functional.layer_norm(x, (x.shape[1],), gain[0], bias[0], 1e-5)


def gelu_linear(x: Any, w: Any, b: Any, out: Any) -> Any:
    return torch._C._nn.gelu(torch.addmm(b[0], x, w), out=out)


def silu_mlp(x: Any, gate: Any, up: Any, down: Any, out: Any) -> Any:
    return torch.mm(functional.silu(x @ gate, inplace=True).mul_(x @ up), down, out=out)


def int8_weights(x: Any, w: Any, scale: Any, out: Any) -> Any:
    return torch.mm(x, w.float(), out=out).mul_(scale)


def attention(q: Any, k: Any, v: Any, out: Any) -> Any:
    return functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]


def causal_attention(q: Any, k: Any, v: Any, out: Any) -> Any:
    whole = functional.scaled_dot_product_attention
    return whole(q[None, None], k[None, None], v[None, None], is_causal=True)[0, 0]


def column_sum(x: Any, out: Any) -> Any:
    return torch.sum(x, 0, keepdim=True, out=out)


def transpose(x: Any, out: Any) -> Any:
    return out.copy_(x.T)


def row_argmax(x: Any, out: Any) -> Any:
    return torch.argmax(x, 1, keepdim=True)


def rope(x: Any, cos: Any, sin: Any, out: Any) -> Any:
    half = x.shape[-1] // 2
    left, right = x[..., :half], x[..., half:]
    torch.mul(left, cos, out=out[..., :half]).addcmul_(right, sin, value=-1)
    torch.mul(right, cos, out=out[..., half:]).addcmul_(left, sin)
    return out


def chain(x: Any, y: Any, out: Any) -> Any:
    out.copy_(x)
    for _ in range(6):
        out.mul_(0.75).add_(y).clamp_(-1.0, 2.0).sub_(y, alpha=0.25)
    return out


def exp(x: Any, out: Any) -> Any:
    return torch.exp(x, out=out)


def log(x: Any, out: Any) -> Any:
    return torch.log(x, out=out)


def tanh(x: Any, out: Any) -> Any:
    return torch.tanh(x, out=out)


def erf(x: Any, out: Any) -> Any:
    return torch.erf(x, out=out)


def sigmoid(x: Any, out: Any) -> Any:
    return torch.sigmoid(x, out=out)
