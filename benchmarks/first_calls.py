"""What a first call costs: of kernels in a warm process, and of softmax in a fresh one."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import showcase_kernels

from benchmarks import kernels
from benchmarks.compile_time import fresh_module
from benchmarks.contenders import Array
from benchmarks.harness import OURS, Row, bound, once, script
from benchmarks.quiet import WATCH, Figure
from benchmarks.workloads import normal
from tilewright import language as pl

HEAD = """
import sys, time
import numpy as np
from benchmarks import contenders
from benchmarks.workloads import find_workload
work = find_workload("softmax 1024²")
inputs, out = work.inputs(), np.empty((1024, 1024), np.float32)
{imports}
start = time.perf_counter()
work.contender({name!r}, inputs, out).run()
print(time.perf_counter() - start)
"""
SLOW = 1.0
IMPORTS = {
    OURS: "",
    "numba": "import numba",
    "jax": "import jax.numpy",
    "torch.compile": "import torch._dynamo, torch._inductor",
}


def first_call(fresh: Callable[[], Any], args: Sequence[Array], rounds: int = 5) -> Figure:
    """Median seconds of the first call of a kernel that `fresh` makes."""

    def take() -> float:
        kernel = fresh()
        return once(lambda: kernel(*args))

    take()
    return WATCH.median(take, rounds)


def in_fresh_processes(names: Iterable[str], rounds: int = 5) -> dict[str, float]:
    """Median seconds of the first softmax of a process that has imported a library, by name.

    What is installed has its bytecode: a process before them writes what is missing. Who takes
    seconds is asked once more only.
    """
    with tempfile.TemporaryDirectory() as bytecode:
        takes = {name: partial(_in_fresh_process, name, bytecode) for name in names}
        before = {name: take() for name, take in takes.items()}
        quick = {name: take for name, take in takes.items() if before[name] < SLOW}
        slow = {name: take() for name, take in takes.items() if name not in quick}
        return {**WATCH.medians(quick, rounds), **slow}


def _in_fresh_process(name: str, bytecode: str) -> float:
    code = HEAD.format(imports=IMPORTS[name], name=name)
    with tempfile.TemporaryDirectory() as empty:
        caches = {"TORCHINDUCTOR_CACHE_DIR": empty, "NUMBA_CACHE_DIR": empty}
        env = {**os.environ, **caches, "PYTHONPYCACHEPREFIX": bytecode}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        return float(script(code, env).split()[-1])


def rows() -> list[Row]:
    """Every figure."""
    has = {name: importlib.util.find_spec(name.split(".")[0]) is not None for name in IMPORTS}
    has["torch.compile"] &= any(map(shutil.which, ("c++", "g++", "clang++")))
    fresh = in_fresh_processes(name for name in IMPORTS if name == OURS or has[name])
    x, y, out = normal(*[(1024, 1024)] * 3)()
    text = Path(str(showcase_kernels.__file__)).read_text(encoding="utf-8")
    softmax = first_call(lambda: fresh_module(text).softmax, (x, out))
    matmul = first_call(lambda: kernels.matmul_to(pl.FP32), (x, y, out))
    return [
        bound("first softmax, warm process", softmax, 25e-3),
        bound("first whole matmul, warm process", matmul, 70e-3),
        Row("first softmax, fresh process", fresh),
    ]
