"""Kernels in the manner of published ones: pooling, normalization, blocked products, attention."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl

RNG = np.random.default_rng(5)
F32 = np.float32


def close(got: Any, want: Any, rtol: float = 2e-4, atol: float = 2e-5) -> None:
    np.testing.assert_allclose(np.asarray(got, F32), np.asarray(want, F32), rtol=rtol, atol=atol)


@nki.jit
def normalized(x, gain):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    p, one, f = nl.arange(128)[:, None], nl.arange(1)[:, None], nl.arange(columns)[None, :]
    g = nl.load(gain.reshape((1, columns))[one, f])
    for i in nl.affine_range(math.ceil(rows / 128)):
        inside = i * 128 + p < rows
        t = nl.load(x[i * 128 + p, f], mask=inside)
        mean_square = nl.sum(nl.square(t), axis=[1]) / columns
        result = nl.multiply(t, nl.rsqrt(mean_square))
        result[...] = nl.multiply(result, g.broadcast_to((128, columns)), mask=inside)
        nl.store(out[i * 128 + p, f], value=result, mask=inside)
    return out


def test_rows_are_normalized_up_to_a_ragged_edge() -> None:
    x, gain = RNG.standard_normal((250, 96)).astype(F32), RNG.standard_normal(96).astype(F32)
    want = x / np.sqrt((x * x).mean(1, keepdims=True)) * gain
    close(normalized(x, gain), want)


@nki.jit
def pooled(x, size):
    channels, height, width = x.shape
    out = nl.ndarray((channels, height // size, width // size), dtype=x.dtype, buffer=nl.shared_hbm)
    c = nl.arange(channels)[:, None, None, None, None]
    h = nl.arange(height // size)[None, :, None, None, None]
    w = nl.arange(width // size)[None, None, :, None, None]
    dh = nl.arange(size)[None, None, None, :, None]
    dw = nl.arange(size)[None, None, None, None, :]
    t = nl.load(x)
    windows = t[c, size * h + dh, size * w + dw]
    nl.store(out, nl.sum(windows, axis=[3, 4]) / (size * size))
    return out


def test_windows_of_five_dimensions_are_averaged() -> None:
    x = RNG.standard_normal((16, 12, 8)).astype(F32)
    want = x.reshape(16, 6, 2, 4, 2).mean(axis=(2, 4))
    close(pooled(x, 2), want)


@nki.jit
def blocked_matmul(lhs_t, rhs, blocks=2):
    k, m = lhs_t.shape
    n = rhs.shape[1]
    out = nl.ndarray((m, n), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    depth = k // 128 // blocks
    for i in nl.affine_range(m // 128):
        for j in nl.affine_range(n // 256):
            total = nl.zeros((nl.par_dim(128), 256), dtype=nl.float32, buffer=nl.sbuf)
            for b in nl.sequential_range(blocks):
                tiles = nl.ndarray((depth, nl.par_dim(128), 128), lhs_t.dtype, buffer=nl.sbuf)
                for d in nl.affine_range(depth):
                    at = nl.mgrid[0:128, 0:128]
                    row = (b * depth + d) * 128
                    tiles[d, at.p, at.x] = nl.load(lhs_t[row + at.p, i * 128 + at.x])
                partial = nl.zeros((128, 256), dtype=nl.float32, buffer=nl.psum)
                for d in nl.affine_range(depth):
                    row = (b * depth + d) * 128
                    r = nl.load(rhs[row : row + 128, j * 256 : (j + 1) * 256])
                    partial += nl.matmul(tiles[d], r, transpose_x=True)
                total[...] += partial
            done = nl.copy(total, dtype=out.dtype)
            nl.store(out[nl.ds(i * 128, 128), nl.ds(j * 256, 256)], value=done)
    return out


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("dtype", [F32, ml_dtypes.bfloat16])
def test_a_product_is_blocked_in_all_dimensions(dtype: Any) -> None:
    a = (RNG.standard_normal((512, 256)) / 8).astype(dtype)
    b = (RNG.standard_normal((512, 512)) / 8).astype(dtype)
    want = a.astype(F32).T @ b.astype(F32)
    tolerance = 1e-4 if dtype is F32 else 2e-2
    close(blocked_matmul(a, b), want, rtol=tolerance, atol=tolerance)


@nki.jit
def attention(q, k, v):
    heads, depth, length = q.shape
    out = nl.ndarray((heads, length, depth), dtype=q.dtype, buffer=nl.shared_hbm)
    h = nl.program_id(0)
    keys = nl.load(k[h])
    p, f = nl.arange(128)[:, None], nl.arange(length)[None, :]
    for i in nl.affine_range(length // 128):
        rows = nl.ds(i * 128, 128)
        scores = nl.copy(nisa.nc_matmul(nl.load(q[h, :, rows]), keys))
        scores = nisa.affine_select(i * 128 + p >= f, scores, -3.0e38)
        largest = nisa.tensor_reduce(np.max, data=scores, axis=(1,), dtype=nl.float32, negate=True)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        powers = nisa.activation_reduce(
            np.exp, scores, bias=largest, scale=1.0, reduce_op=np.add, reduce_res=total
        )
        acc = nl.zeros((128, depth), dtype=nl.float32, buffer=nl.psum)
        for j in nl.affine_range(length // 128):
            turned = nl.copy(nisa.nc_transpose(powers[:, nl.ds(j * 128, 128)]))
            acc += nisa.nc_matmul(turned, nl.load(v[h, nl.ds(j * 128, 128), :]))
        nl.store(out[h, rows, :], nl.multiply(acc, nl.reciprocal(total), dtype=out.dtype))
    return out


def test_causal_attention_by_programs() -> None:
    q, k = (RNG.standard_normal((2, 64, 256)).astype(F32) / 4 for _ in range(2))
    v = RNG.standard_normal((2, 256, 64)).astype(F32)
    scores = np.einsum("hdi,hdj->hij", q, k)
    scores = np.where(np.tril(np.ones((256, 256), bool)), scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    want = powers / powers.sum(-1, keepdims=True) @ v
    close(attention[2](q, k, v), want, rtol=1e-3, atol=1e-4)


@nki.jit(builtin_range="sequential")
def online_softmax(x):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    top = nl.full((rows, 1), -1e30, dtype=nl.float32)
    total = nl.zeros((rows, 1), dtype=nl.float32)
    for i in range(columns // 32):
        t = nl.load(x[:, nl.ds(i * 32, 32)])
        new_top = nl.maximum(top, nl.max(t, axis=1))
        total[...] = total * nl.exp(top - new_top) + nl.sum(nl.exp(t - new_top), axis=1)
        top[...] = new_top
    for i in range(columns // 32):
        t = nl.load(x[:, nl.ds(i * 32, 32)])
        nl.store(out[:, nl.ds(i * 32, 32)], nl.exp(t - top) / total)
    return out


def test_running_maxima_and_sums_are_carried_by_loops() -> None:
    x = RNG.standard_normal((64, 256)).astype(F32) * 3
    powers = np.exp(x - x.max(1, keepdims=True))
    close(online_softmax(x), powers / powers.sum(1, keepdims=True))


@nki.jit
def scanned(x, decay):
    channels, length = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    state = nl.zeros((channels, 1), dtype=nl.float32)
    for i in nl.sequential_range(length // 64):
        part = nl.ds(i * 64, 64)
        result = nisa.tensor_tensor_scan(
            nl.load(decay[:, part]), nl.load(x[:, part]), initial=state, op0=np.multiply, op1=np.add
        )
        nl.store(out[:, part], result)
        state[...] = result[:, 63:64]
    return out


def test_a_recurrence_is_carried_from_block_to_block() -> None:
    x = RNG.standard_normal((32, 256)).astype(F32)
    decay = RNG.uniform(0.5, 1.0, (32, 256)).astype(F32)
    want, state = np.empty_like(x), np.zeros(32, F32)
    for i in range(256):
        state = decay[:, i] * state + x[:, i]
        want[:, i] = state
    close(scanned(x, decay), want, rtol=1e-3, atol=1e-4)


class Config:
    """An object with settings that helpers read."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def apply(self, t: Any) -> Any:
        """A method that is traced in place."""
        return t * self.scale


def test_objects_closures_and_containers_of_tiles() -> None:
    config = Config(2.0)

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tiles: dict[str, Any] = {}

        def keep(name, t):
            tiles[name] = t
            return t

        for place, name in enumerate(("a", "b")):
            rows = slice(place * 8, place * 8 + 8)
            tiles[name] = config.apply(keep(name, nl.load(x[rows])))
        for place, (_, t) in enumerate(sorted(tiles.items())):
            nl.store(out[place * 8 : place * 8 + 8], t + float(len(tiles)))
        return out

    x = RNG.standard_normal((16, 24)).astype(F32)
    close(kernel(x), x * 2 + 2)
    config.scale = 3.0
    close(kernel(x), x * 3 + 2)
