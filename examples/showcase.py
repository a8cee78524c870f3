"""The main job: six kernels on real sizes, checked against float64, timed against numpy.

    python examples/showcase.py [--threads N]

Prints the IR of row softmax from both styles side by side, then a table. Both sides get the same
number of threads, one unless said, and take turns. The exit status is 0 when every kernel is within
its tolerance.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.columns import Columns
from rich.console import Console
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent))
import showcase_kernels as kernels

Array = npt.NDArray[Any]
BLOCK = 128
GENERATOR = np.random.default_rng(7)
CONSOLE = Console(width=150)
SETTLED = "TILEWRIGHT_SHOWCASE_THREADS"


@dataclass(frozen=True)
class Job:
    """One kernel: `ours` and `numpy` compute the same, `exact` the float64 answer."""

    name: str
    ours: Callable[[], Array]
    numpy: Callable[[], Array]
    exact: Callable[[], Array]
    tolerance: float


def normal(*shape: int, scale: float = 1.0) -> Array:
    """Normal float32 numbers."""
    return (GENERATOR.standard_normal(shape) * scale).astype(np.float32)


def softmax(x: Array) -> Array:
    """Row softmax."""
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def rms_norm(x: Array, gain: Array) -> Array:
    """x / sqrt(mean(x²) + 1e-6) * gain, by rows."""
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6) * gain


def erf(x: Array) -> Array:
    """The error function, by the standard library."""
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


def gelu(x: Array) -> Array:
    """The exact activation."""
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def gelu_tanh(x: Array) -> Array:
    """What numpy users write, for want of a vector erf."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def attention(q: Array, k: Array, v: Array) -> Array:
    """Causal attention, all scores at once."""
    score = q @ k.T / math.sqrt(q.shape[1])
    return softmax(np.where(np.tril(np.ones(score.shape, bool)), score, -np.inf)) @ v


def tiled_attention(q: Array, k: Array, v: Array) -> Array:
    """Causal attention with the kernel's tiling, in numpy."""
    out = np.empty_like(q)
    mask = np.tril(np.ones((BLOCK, BLOCK), bool))
    for i in range(0, len(q), BLOCK):
        query = q[i : i + BLOCK] * np.float32(1 / math.sqrt(q.shape[1]))
        top = np.full((BLOCK, 1), -np.inf, np.float32)
        total = np.zeros((BLOCK, 1), np.float32)
        acc = np.zeros((BLOCK, q.shape[1]), np.float32)
        for j in range(0, i + 1, BLOCK):
            score = query @ k[j : j + BLOCK].T
            if i == j:
                score = np.where(mask, score, np.float32(-np.inf))
            highest = np.maximum(top, score.max(axis=1, keepdims=True))
            p = np.exp(score - highest)
            shrink = np.exp(top - highest)
            total = total * shrink + p.sum(axis=1, keepdims=True)
            acc = acc * shrink + p @ v[j : j + BLOCK]
            top = highest
        out[i : i + BLOCK] = acc / total
    return out


def into(kernel: Any, out: Array, *args: Array) -> Callable[[], Array]:
    """Calls an in-place kernel and gives its output."""

    def run() -> Array:
        kernel(*args, out)
        return out

    return run


def jobs() -> list[Job]:
    """The six kernels, softmax once in each style."""
    x, wide, gain = normal(2048, 2048), normal(3000, 2048), normal(1, 2048)
    a, b, bias = normal(1024, 1024), normal(1024, 1024, scale=1 / 32), normal(1, 1024)
    q, k, v = normal(2048, 64), normal(2048, 64), normal(2048, 64)
    x64, wide64, a64, q64 = (given.astype(np.float64) for given in (x, wide, a, q))
    return [
        Job("row softmax 2048² (parsed)", into(kernels.softmax, np.empty_like(x), x),
            lambda: softmax(x), lambda: softmax(x64), 1e-6),
        Job("row softmax 2048² (traced)", lambda: kernels.softmax_traced(x),
            lambda: softmax(x), lambda: softmax(x64), 1e-6),
        Job("RMSNorm 3000×2048, dynamic rows",
            into(kernels.rms_norm, np.empty_like(wide), wide, gain),
            lambda: rms_norm(wide, gain), lambda: rms_norm(wide64, gain), 1e-5),
        Job("GELU(x@W+b) 1024³", into(kernels.gelu_linear, np.empty_like(a), a, b, bias),
            lambda: gelu_tanh(a @ b + bias), lambda: gelu(a64 @ b + bias), 1e-4),
        Job("blocked matmul 1024³", into(kernels.matmul, np.empty_like(a), a, b),
            lambda: a @ b, lambda: a64 @ b, 1e-4),
        Job("causal attention 2048×64", into(kernels.causal_attention, np.empty_like(q), q, k, v),
            lambda: tiled_attention(q, k, v), lambda: attention(q64, k, v), 1e-5),
    ]  # fmt: skip


def timed(*runs: Callable[[], Array], rounds: int = 7) -> list[float]:
    """Median seconds of a call of each, taking turns."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for run, taken in zip(runs, times):
            start = time.perf_counter()
            run()
            taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in times]


def row_of(job: Job) -> tuple[tuple[str, ...], bool]:
    """The table row of a job and whether it is within its tolerance."""
    start = time.perf_counter()
    result = job.ours()
    first = time.perf_counter() - start
    error = float(np.abs(result - job.exact()).max())
    ours, peer = timed(job.ours, job.numpy)
    holds = error <= job.tolerance
    cells = (
        job.name,
        f"{error:.1e}",
        f"{job.tolerance:.0e}",
        f"{first * 1e3:.0f} ms",
        f"{ours * 1e3:.2f} ms",
        f"{peer * 1e3:.2f} ms",
        f"{peer / ours:.2f}×",
        "ok" if holds else "WRONG",
    )
    return cells, holds


def show_ir() -> None:
    """Row softmax as IR, from both styles."""
    x = normal(128, 256)
    texts = {
        "parsed: @pl.jit": kernels.softmax.specialize(x, np.empty_like(x)),
        "traced: @nki.jit": kernels.softmax_traced.lower(x),
    }
    panels = [
        Panel(Syntax(text.as_python(concise=True), "python", word_wrap=True), title=title, width=74)
        for title, text in texts.items()
    ]
    CONSOLE.print(Columns(panels))


def environment(threads: int) -> dict[str, str]:
    """Variables under which both sides use so many threads, and idle ones sleep at once.

    numpy's BLAS keeps its threads spinning after a product, which would slow whoever comes next.
    """
    own = {"TILEWRIGHT_NUM_THREADS": str(threads), "OPENBLAS_THREAD_TIMEOUT": "4"}
    blas = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    return {**os.environ, **own, **dict.fromkeys(blas, str(threads)), SETTLED: str(threads)}


def show_kernels(threads: int) -> int:
    """Runs everything; 0 when all kernels are right."""
    show_ir()
    many = "one thread" if threads == 1 else f"{threads} threads"
    table = Table(title=f"kernels on this machine, numpy beside them, {many} each")
    for column in ("kernel", "error", "tolerance", "first call", "call", "numpy", "speed-up", ""):
        table.add_column(column, justify="left" if column == "kernel" else "right")
    outcomes = [row_of(job) for job in jobs()]
    for cells, _ in outcomes:
        table.add_row(*cells)
    CONSOLE.print(table)
    return 0 if all(holds for _, holds in outcomes) else 1


def main() -> int:
    """Starts this program again with the number of threads it is asked for, and runs it there."""
    parser = argparse.ArgumentParser(description="six kernels, checked and timed beside numpy")
    parser.add_argument("--threads", type=int, default=1, help="of each side (one)")
    threads = parser.parse_args().threads
    if os.environ.get(SETTLED) == str(threads):
        return show_kernels(threads)
    command = [sys.executable, *sys.orig_argv[1:]]
    return subprocess.call(command, env=environment(threads))


if __name__ == "__main__":
    sys.exit(main())
