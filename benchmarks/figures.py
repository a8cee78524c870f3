"""The figures of the main workloads, single thread, beside numpy in one run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilewright.language as pl
from benchmarks.harness import Row, Run, interleave
from tilewright.interp import Interpreter

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import showcase
import showcase_kernels as kernels

ROWS, COLS = pl.dynamic("ROWS"), pl.dynamic("COLS")
GENERATOR = np.random.default_rng(3)


@pl.jit
def dynamic_softmax(
    x: pl.Tensor[[ROWS, COLS], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]]
):
    rows, cols = x.shape
    for i in pl.parallel(rows):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.slice(x, [1, cols], [i, 0])
            e = pl.exp(pl.row_expand_sub(t, pl.row_max(t)))
            out[i : i + 1, :] = pl.row_expand_mul(e, pl.recip(pl.row_sum(e)))
    return out


@pl.jit
def add(
    x: pl.Tensor[[4, 16], pl.FP32],
    y: pl.Tensor[[4, 16], pl.FP32],
    out: pl.Out[pl.Tensor[[4, 16], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.add(pl.load(x, [0, 0], [4, 16]), pl.load(y, [0, 0], [4, 16])), [0, 0], out)
    return out


def normal(*shape: int) -> Any:
    """Normal float32 numbers."""
    return GENERATOR.standard_normal(shape, dtype=np.float32)


def calls(kernel: Callable[..., Any], *args: Any) -> Run:
    """A call of `kernel` without arguments."""
    return lambda: kernel(*args)


def numpy_softmax(x: Any, out: Any) -> Run:
    """Row softmax in numpy without temporaries of the matrix's size."""

    def run() -> None:
        np.subtract(x, x.max(axis=1, keepdims=True), out=out)
        np.exp(out, out=out)
        np.multiply(out, 1 / out.sum(axis=1, keepdims=True), out=out)

    return run


def row(name: str, at_least: float, ours: Run, peer: Run, peer_name: str = "numpy") -> Row:
    """A measured row."""
    seconds = interleave({"tilewright": ours, peer_name: peer})
    return Row(name, seconds, peer=peer_name, at_least=at_least)


def softmax_rows() -> list[Row]:
    """Row softmax, static and dynamic extents."""
    found: list[Row] = []
    for n in (1024, 2048):
        x, out = normal(n, n), np.empty((n, n), np.float32)
        static = calls(kernels.softmax, x, out)
        found.append(row(f"softmax {n}²", 3.0, static, numpy_softmax(x, np.empty_like(x))))
        dynamic = calls(dynamic_softmax, x, out)
        name = f"softmax {n}², dynamic extents"
        found.append(row(name, 1 / 1.15, dynamic, static, "static"))
    return found


def matmul_rows() -> list[Row]:
    """128-tile matmul as written, and the linear layer with its activation."""
    found: list[Row] = []
    for n in (512, 1024):
        a, b, out = normal(n, n), normal(n, n), np.empty((n, n), np.float32)
        peer = calls(np.matmul, a, b, out)
        found.append(row(f"128-tile matmul {n}", 0.9, calls(kernels.matmul, a, b, out), peer))
    a, b, out = normal(1024, 1024), normal(1024, 1024), np.empty((1024, 1024), np.float32)
    ours = calls(kernels.gelu_linear, a, b, normal(1, 1024), out)
    found.append(
        row("GELU(x@W+b) 1024, peer: bare matmul", 1 / 1.05, ours, calls(np.matmul, a, b, out))
    )
    return found


def attention_rows() -> list[Row]:
    """Causal flash attention, native and interpreted, beside numpy of the same tiling."""
    q, k, v = normal(2048, 64), normal(2048, 64), normal(2048, 64)
    out = np.empty_like(q)
    peer = calls(showcase.tiled_attention, q, k, v)
    ours = calls(kernels.causal_attention, q, k, v, out)
    program = kernels.causal_attention.specialize(q, k, v, out)
    interpreter = Interpreter(program)
    interpreted = calls(interpreter.run, next(iter(program.functions)), (q, k, v, out))
    return [
        row("flash attention 2048×64", 1.5, ours, peer),
        row("the same, interpreted", 1 / 3, interpreted, peer),
    ]


def launch_rows() -> list[Row]:
    """A warm call of a kernel of three arrays; the bound is 300 ns."""
    x, y, out = normal(4, 16), normal(4, 16), np.empty((4, 16), np.float32)
    seconds = interleave({"tilewright": calls(add, x, y, out), "np.add": calls(np.add, x, y, out)})
    launch = Row("warm launch, 3 arrays", seconds, peer="np.add")
    bound = Row("warm launch within 300 ns", {**seconds, "300 ns": 300e-9}, peer="300 ns")
    bound.at_least = 1.0
    return [launch, bound]


def rows() -> list[Row]:
    """Every figure."""
    return [*softmax_rows(), *matmul_rows(), *attention_rows(), *launch_rows()]
