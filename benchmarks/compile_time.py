"""Kernels of any length as fresh modules, and what the import costs."""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.harness import Row, bound, script

WORDS = ("add", "mul", "maximum", "sub")
_NUMBER = itertools.count()


def source(ops: int, decorator: str = "pl.jit") -> str:
    """A kernel of `ops` elementwise ops on [64, 256] tiles."""
    params = ", ".join(f"{name}: pl.Tensor[[64, 256], pl.FP32]" for name in "xy")
    body = [
        "import tilewright.language as pl",
        f"@{decorator}",
        f"def chain({params}, out: pl.Out[pl.Tensor[[64, 256], pl.FP32]]):",
        "    with pl.at(level=pl.Level.CORE_GROUP):",
        "        a = pl.load(x, [0, 0], [64, 256])",
        "        b = pl.load(y, [0, 0], [64, 256])",
    ]
    body += [f"        a = pl.{WORDS[i % 4]}(a, b)" for i in range(ops - 3)]
    return "\n".join([*body, "        pl.store(a, [0, 0], out)", "    return out", ""])


def fresh_module(text: str) -> ModuleType:
    """`text` as a new module with a file, as an author's would be."""
    name = f"bench_kernel_{next(_NUMBER)}"
    path = Path(tempfile.mkdtemp()) / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    exec(compile(text, str(path), "exec"), vars(module))
    return module


def of_fresh_kernels(ops: int, run: Callable[..., object]) -> float:
    """Seconds that `run(kernel, *args)` takes in a warm process, median of seven."""
    x, out = np.ones((64, 256), np.float32), np.empty((64, 256), np.float32)
    times: list[float] = []
    for _ in range(8):
        kernel: Any = fresh_module(source(ops)).chain
        start = time.perf_counter()
        run(kernel, x, x, out)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def first_call(ops: int) -> float:
    """Seconds of the first call of a fresh kernel."""
    return of_fresh_kernels(ops, lambda kernel, *args: kernel(*args))


def front_end(ops: int) -> float:
    """Seconds of the first call until there is a program: capture, reading, typing."""
    return of_fresh_kernels(ops, lambda kernel, *args: kernel.specialize(*args))


def import_time() -> tuple[float, float]:
    """Seconds to import numpy, and tilewright after it, medians over fresh processes."""
    code = (
        "import time; a = time.perf_counter(); import numpy; b = time.perf_counter();"
        "import tilewright; print(b - a, time.perf_counter() - b)"
    )
    pairs = [tuple(map(float, script(code).split())) for _ in range(7)]
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)


def rows() -> list[Row]:
    """Every figure."""
    numpy_import, ours = import_time()
    row = bound("import tilewright beyond numpy", ours, 50e-3)
    row.seconds["import numpy"] = numpy_import
    return [row]
