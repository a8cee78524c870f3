"""Every workload, by suite. A row more is a declaration more; see `Workload`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import showcase
import showcase_kernels

import tilewright.language as pl
from benchmarks import kernels, numpy_peers, traced_kernels
from benchmarks.contenders import Array
from benchmarks.workload import Inputs, Workload
from tilewright.interp import Interpreter

BF16 = np.dtype(ml_dtypes.bfloat16)
MILLION = (1024, 1024)


def normal(*shapes: tuple[int, ...], scales: tuple[float, ...] = ()) -> Inputs:
    """Normal float32 numbers, the same ones every time."""

    def make() -> tuple[Array, ...]:
        generator = np.random.default_rng(3)
        found = [generator.standard_normal(shape, dtype=np.float32) for shape in shapes]
        for x, scale in zip(found, scales):
            x *= np.float32(scale)
        return tuple(found)

    return make


def converted(inputs: Inputs, *dtypes: Any) -> Inputs:
    """`inputs`, each in a dtype of its own; integers keep three bits of the fraction."""

    def make() -> tuple[Array, ...]:
        pairs = zip(inputs(), dtypes)
        return tuple(
            np.clip(x * 32, -127, 127).astype(dtype) if dtype == np.int8 else x.astype(dtype)
            for x, dtype in pairs
        )

    return make


def matmuls() -> list[Workload]:
    """Whole products: square, odd, a vector's, and of narrow numbers."""
    shapes = [(n, n, n) for n in (64, 128, 256, 512, 1024, 2048)]
    shapes += [(100, 100, 100), (333, 777, 555), (1, 4096, 4096)]
    found = [
        Workload(
            f"matmul {m}×{k}×{n}", "matmul", kernels.matmul_to(pl.FP32), normal((m, k), (k, n)),
            flops=None if m == 1 else 2.0 * m * k * n, blas=True, bars={"numpy": 0.95},
        )
        for m, k, n in shapes
    ]  # fmt: skip
    square = normal((1024, 1024), (1024, 1024))
    narrow = (
        ("bf16", BF16, pl.BF16, BF16, ("torch", "jax"), 1.0, 4e-3),
        ("int8", np.dtype(np.int8), pl.INT32, np.dtype(np.int32), ("torch",), 0.95, 0.0),
    )
    for name, dtype, ours, result, peers, bar, tolerance in narrow:
        found.append(
            Workload(
                f"{name} matmul 1024", "matmul", kernels.matmul_to(ours),
                converted(square, dtype, dtype), flops=2.0 * 1024**3, dtype=result,
                peers=peers, bars={"torch": bar}, tolerance=tolerance,
            )
        )  # fmt: skip
    return found


def tiled_matmuls() -> list[Workload]:
    """Products that say their tiles, in both styles; the traced ones take a transposed."""
    bars = {(128, 512): 1.0, (128, 1024): 0.95, (128, 2048): 0.9}
    found: list[Workload] = []
    for tile in (128, 64):
        parsed, traced = kernels.tiled_matmul(tile), traced_kernels.tiled_matmul(tile)
        for n in (512, 1024, 2048):
            common: dict[str, Any] = {
                "inputs": normal((n, n), (n, n)), "flops": 2.0 * n**3, "blas": True,
                "bars": {"numpy": bars[tile, n]} if tile == 128 else {}, "peers": ("numpy",),
            }  # fmt: skip
            name = f"{tile}-tile matmul {n}"
            found.append(Workload(f"{name}, parsed", "matmul", parsed, **common))
            found.append(Workload(f"{name}, traced", "matmul_t", traced, returns=True, **common))
    return found


def rows() -> list[Workload]:
    """Softmax and the norms of rows."""
    found: list[Workload] = []
    for n in (1024, 2048, 4096):
        bars = {"numpy": 3.0, "torch": 1.4, "torch.compile": 1.7}
        found.append(
            Workload(f"softmax {n}²", "softmax", showcase_kernels.softmax, normal((n, n)), bars)
        )
    inputs = normal((2048, 2048))
    found.append(
        Workload("softmax 2048², traced", "softmax", showcase_kernels.softmax_traced, inputs,
                 returns=True, peers=("numpy",), bars={"numpy": 3.0})
    )  # fmt: skip
    for n in (1024, 2048, 4096):
        inputs, bars = normal((n, n), (1, n)), {"floor": 1 / 1.3} if n == 2048 else {}
        found.append(Workload(f"RMSNorm {n}²", "rms_norm", kernels.rms_norm, inputs, bars))
    inputs = normal((2048, 2048), (1, 2048), (1, 2048))
    floor = {"floor": 1 / 1.3}
    found.append(Workload("LayerNorm 2048²", "layer_norm", kernels.layer_norm, inputs, floor))
    return found


def layers() -> list[Workload]:
    """Products with what stands around them."""
    found: list[Workload] = []
    for n in (1024, 2048):
        found.append(
            Workload(
                f"GELU(x@W+b) {n}", "gelu_linear", showcase_kernels.gelu_linear,
                normal((n, n), (n, n), (1, n), scales=(1, n**-0.5)), flops=2.0 * n**3, blas=True,
                beside={"np.matmul alone": numpy_peers.one_matmul},
                bars={"np.matmul alone": 1.0} if n == 1024 else {},
            )
        )  # fmt: skip
    square = ((1024, 1024),) * 4
    found.append(
        Workload(
            "SiLU MLP 1024", "silu_mlp", kernels.silu_mlp,
            normal(*square, scales=(1, *[1 / 32] * 3)),
            flops=6.0 * 1024**3, blas=True, bars={"np.matmul alone": 1.0},
            beside={"np.matmul alone": numpy_peers.three_matmuls},
        )
    )  # fmt: skip
    inputs = normal((1024, 1024), (1024, 1024), (1, 1024))
    found.append(
        Workload("int8 weights matmul 1024", "int8_weights", kernels.int8_weights,
                 converted(inputs, np.float32, np.int8, np.float32), flops=2.0 * 1024**3, blas=True)
    )  # fmt: skip
    return found


def numpy_tiles(q: Array, k: Array, v: Array, out: Array) -> None:
    """Causal attention in numpy with the kernel's tiles."""
    out[:] = showcase.tiled_attention(q, k, v)


def interpreted(kernel: Any) -> Callable[..., Any]:
    """The kernel as the interpreter runs it, specialized by its first arguments."""
    ready: list[Interpreter] = []

    def run(*args: Array) -> None:
        if not ready:
            ready.append(Interpreter(kernel.specialize(*args)))
        ready[0].run(kernel.name, args)

    return run


def attentions() -> list[Workload]:
    """Online softmax over blocks of keys, all heads in one call; and a causal one."""
    found: list[Workload] = []
    for h, s, d in ((8, 512, 64), (8, 1024, 64), (2, 4096, 128)):
        found.append(
            Workload(
                f"attention ({h},{s},{d})", "attention", kernels.attention,
                normal(*[(h, s, d)] * 3), flops=4.0 * h * s * s * d, bars={"torch": 1.1},
            )
        )  # fmt: skip
    causal = Workload(
        "causal attention 2048×64", "causal_attention", showcase_kernels.causal_attention,
        normal(*[(2048, 64)] * 3), flops=2.0 * 2048 * (2048 + 128) * 64,
        peers=("torch",), beside={"numpy, same tiles": numpy_tiles},
        bars={"numpy, same tiles": 1.5},
    )  # fmt: skip
    slow = replace(
        causal, name=f"{causal.name}, interpreted", kernel=interpreted(causal.kernel), peers=(),
        bars={"numpy, same tiles": 1 / 3},
    )  # fmt: skip
    return [*found, causal, slow]


def movers() -> list[Workload]:
    """What mostly moves memory."""
    large, x = normal((4096, 4096)), (32, 2048, 128)
    two = normal(MILLION, MILLION)
    return [
        Workload("column sum 4096²", "column_sum", kernels.column_sum, large),
        Workload("column sum 4096², by strips", "column_sum", kernels.column_sum_by_strips, large),
        Workload("transpose 4096²", "transpose", kernels.transpose, large),
        Workload("row argmax 4096²", "row_argmax", kernels.row_argmax, large, dtype=np.int32),
        Workload("RoPE 32×2048×128", "rope", kernels.rope, normal(x, (2048, 64), (2048, 64))),
        Workload("30-op chain 1M", "chain", kernels.chain, two),
    ]


def words() -> list[Workload]:
    """Mathematics over a million elements in memory; erf in the column of numpy is scipy's."""
    bars = {"exp": 1.6, "erf": 10.0, "log": 0.85, "tanh": 0.9, "sigmoid": None}
    positive = lambda: tuple(np.abs(x) for x in normal(MILLION)())  # noqa: E731
    return [
        Workload(f"{word} 1M", word, kernels.pointwise(word), positive,
                 bars={} if bar is None else {"numpy": bar})
        for word, bar in bars.items()
    ]  # fmt: skip


def dynamic() -> list[Workload]:
    """Kernels whose every extent is dynamic, beside their own static versions."""
    scale = np.float32(0.125)
    with_scale: Callable[..., tuple[Any, ...]] = lambda *inputs: (*inputs, scale)  # noqa: E731
    return [
        _dynamic(find_workload("softmax 2048²"), kernels.dynamic_softmax),
        _dynamic(find_workload("RMSNorm 2048²"), kernels.dynamic_rms_norm),
        _dynamic(find_workload("GELU(x@W+b) 1024"), kernels.dynamic_gelu_linear),
        replace(
            _dynamic(find_workload("attention (8,1024,64)"), kernels.dynamic_attention),
            arguments=with_scale,
        ),
    ]


def _dynamic(static: Workload, kernel: Any) -> Workload:
    return replace(
        static, name=f"{static.name}, dynamic", kernel=kernel, peers=(),
        beside={"static": static.kernel}, bars={"static": 1 / 1.1},
    )  # fmt: skip


SUITES: dict[str, Callable[[], list[Workload]]] = {
    "matmul": matmuls,
    "tiles": tiled_matmuls,
    "rows": rows,
    "layers": layers,
    "attention": attentions,
    "memory": movers,
    "words": words,
    "dynamic": dynamic,
}


@cache
def workloads(suite: str) -> tuple[Workload, ...]:
    """The workloads of a suite."""
    return tuple(SUITES[suite]())


def find_workload(name: str) -> Workload:
    """The workload of a name; raises StopIteration for another."""
    return next(work for suite in SUITES for work in workloads(suite) if work.name == name)
