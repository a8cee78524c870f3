"""The workloads as loops that numba compiles, without threads and with fast mathematics.

Plain functions: `contenders` compiles them where numba is installed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def softmax(x: Any, out: Any) -> None:
    rows, cols = x.shape
    for i in range(rows):
        top = x[i, 0]
        for j in range(cols):
            top = max(top, x[i, j])
        total = np.float32(0)
        for j in range(cols):
            e = math.exp(x[i, j] - top)
            out[i, j] = e
            total += e
        scale = np.float32(1) / total
        for j in range(cols):
            out[i, j] *= scale


def rms_norm(x: Any, gain: Any, out: Any) -> None:
    rows, cols = x.shape
    for i in range(rows):
        total = np.float32(0)
        for j in range(cols):
            total += x[i, j] * x[i, j]
        scale = np.float32(1) / np.sqrt(total / np.float32(cols) + np.float32(1e-6))
        for j in range(cols):
            out[i, j] = x[i, j] * scale * gain[0, j]


def layer_norm(x: Any, gain: Any, bias: Any, out: Any) -> None:
    rows, cols = x.shape
    for i in range(rows):
        total = np.float32(0)
        for j in range(cols):
            total += x[i, j]
        mean = total / np.float32(cols)
        square = np.float32(0)
        for j in range(cols):
            square += (x[i, j] - mean) * (x[i, j] - mean)
        scale = np.float32(1) / np.sqrt(square / np.float32(cols) + np.float32(1e-5))
        for j in range(cols):
            out[i, j] = (x[i, j] - mean) * scale * gain[0, j] + bias[0, j]


def column_sum(x: Any, out: Any) -> None:
    rows, cols = x.shape
    for j in range(cols):
        out[0, j] = 0
    for i in range(rows):
        for j in range(cols):
            out[0, j] += x[i, j]


def transpose(x: Any, out: Any) -> None:
    rows, cols = x.shape
    for i in range(0, rows, 32):
        for j in range(0, cols, 32):
            for k in range(i, min(i + 32, rows)):
                for n in range(j, min(j + 32, cols)):
                    out[n, k] = x[k, n]


def row_argmax(x: Any, out: Any) -> None:
    rows, cols = x.shape
    for i in range(rows):
        best = 0
        for j in range(1, cols):
            if x[i, j] > x[i, best]:
                best = j
        out[i, 0] = best


def rope(x: Any, cos: Any, sin: Any, out: Any) -> None:
    heads, length, head = x.shape
    half = head // 2
    for h in range(heads):
        for i in range(length):
            for j in range(half):
                left, right = x[h, i, j], x[h, i, j + half]
                out[h, i, j] = left * cos[i, j] - right * sin[i, j]
                out[h, i, j + half] = right * cos[i, j] + left * sin[i, j]


def chain(x: Any, y: Any, out: Any) -> None:
    rows, cols = x.shape
    for i in range(rows):
        for j in range(cols):
            a, b = x[i, j], y[i, j]
            for _ in range(6):
                a = min(max(a * np.float32(0.75) + b, np.float32(-1)), np.float32(2))
                a -= b * np.float32(0.25)
            out[i, j] = a


def exp(x: Any, out: Any) -> None:
    rows, cols = x.shape
    for i in range(rows):
        for j in range(cols):
            out[i, j] = math.exp(x[i, j])


def log(x: Any, out: Any) -> None:
    rows, cols = x.shape
    for i in range(rows):
        for j in range(cols):
            out[i, j] = math.log(x[i, j])


def tanh(x: Any, out: Any) -> None:
    rows, cols = x.shape
    for i in range(rows):
        for j in range(cols):
            out[i, j] = math.tanh(x[i, j])


def erf(x: Any, out: Any) -> None:
    rows, cols = x.shape
    for i in range(rows):
        for j in range(cols):
            out[i, j] = math.erf(x[i, j])


def sigmoid(x: Any, out: Any) -> None:
    rows, cols = x.shape
    for i in range(rows):
        for j in range(cols):
            out[i, j] = np.float32(1) / (np.float32(1) + math.exp(-x[i, j]))
