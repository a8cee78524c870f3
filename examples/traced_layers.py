"""Layers in the traced style: normalized projection, convolution, product on a grid.

python examples/traced_layers.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import tilewright.nki as nki
import tilewright.nki.language as nl

Array = npt.NDArray[Any]
ROWS, INNER, COLUMNS = 128, 128, 512
"""Extents of the blocks of a product."""


@nki.jit
def normalized_projection(x, gamma, weights):
    """RMSNorm of the rows of x [S, H], times gamma [1, H], projected by weights [H, N]: [S, N].

    The normalized rows stay on the chip.
    """
    rows, width = x.shape
    columns = weights.shape[1]
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(rows // ROWS):
        mine = nl.ds(i * ROWS, ROWS)
        normal = nl.rms_norm(nl.load(x[mine]), nl.load(gamma), axis=1, n=width)
        for j in nl.affine_range(columns // COLUMNS):
            there = nl.ds(j * COLUMNS, COLUMNS)
            acc = nl.zeros((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum)
            for p in nl.affine_range(width // INNER):
                part = nl.ds(p * INNER, INNER)
                acc += nl.matmul(normal[:, part], nl.load(weights[part, there]))
            nl.store(out[mine, there], acc)
    return out


@nki.jit
def depthwise_convolution(images, filters):
    """Each channel of images [N, C, H, W] with its own filter of filters [C, R, S], no padding."""
    count, channels, height, width = images.shape
    _, r, s = filters.shape
    tall, wide = height - r + 1, width - s + 1
    out = nl.ndarray((count, channels, tall, wide), dtype=images.dtype, buffer=nl.shared_hbm)
    taps = nl.load(filters.reshape((channels, r * s)))
    for n in nl.affine_range(count):
        image = nl.load(images[n])
        total = nl.zeros((channels, tall, wide), dtype=nl.float32)
        for k in nl.static_range(r * s):
            window = image[:, k // s : k // s + tall, k % s : k % s + wide]
            tap = taps[:, k : k + 1].reshape((channels, 1, 1))
            total += window * tap.broadcast_to((channels, tall, wide))
        nl.store(out[n], total)
    return out


@nki.jit
def product(left_t, right):
    """left_t.T @ right; program (i, j) of the grid makes block (i, j) of the result."""
    inner, rows = left_t.shape
    out = nl.ndarray((rows, right.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    mine = nl.ds(nl.program_id(0) * ROWS, ROWS)
    there = nl.ds(nl.program_id(1) * COLUMNS, COLUMNS)
    acc = nl.zeros((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum)
    for p in nl.affine_range(inner // INNER):
        part = nl.ds(p * INNER, INNER)
        acc += nl.matmul(nl.load(left_t[part, mine]), nl.load(right[part, there]), transpose_x=True)
    nl.store(out[mine, there], acc)
    return out


def expected_projection(x: Array, gamma: Array, weights: Array) -> Array:
    """`normalized_projection` in float64."""
    wide = x.astype(np.float64)
    normal = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6)
    return normal * gamma @ weights.astype(np.float64)


def expected_convolution(images: Array, filters: Array) -> Array:
    """`depthwise_convolution` in float64."""
    windows = np.lib.stride_tricks.sliding_window_view(
        images.astype(np.float64), filters.shape[1:], (2, 3)
    )
    return np.einsum("nchwrs,crs->nchw", windows, filters)


def check() -> dict[str, float]:
    """The largest absolute error of each layer."""
    rng = np.random.default_rng(0)

    def random(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    x, gamma, weights = random(256, 256), random(1, 256), random(256, 1536) / 16
    images, filters = random(2, 64, 18, 20), random(64, 3, 3)
    left_t, right = random(256, 256), random(256, 1024)
    got = {
        "normalized projection": normalized_projection(x, gamma, weights)
        - expected_projection(x, gamma, weights),
        "depthwise convolution": depthwise_convolution(images, filters)
        - expected_convolution(images, filters),
        "product on a grid": product[2, 2](left_t, right)
        - left_t.T.astype(np.float64) @ right.astype(np.float64),
    }
    return {name: float(np.abs(difference).max()) for name, difference in got.items()}


if __name__ == "__main__":
    print(check())
