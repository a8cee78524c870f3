"""Kernels of any length as fresh modules, and what the import costs."""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.harness import OURS, Row, once, script
from benchmarks.quiet import WATCH, Figure

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


def of_fresh_kernels(ops: int, run: Callable[..., object]) -> Figure:
    """Seconds that `run(kernel, *args)` takes in a warm process, median of seven."""
    x, out = np.ones((64, 256), np.float32), np.empty((64, 256), np.float32)

    def fresh() -> float:
        kernel: Any = fresh_module(source(ops)).chain
        return once(lambda: run(kernel, x, x, out))

    fresh()
    return WATCH.median(fresh, 7)


def first_call(ops: int) -> Figure:
    """Seconds of the first call of a fresh kernel."""
    return of_fresh_kernels(ops, lambda kernel, *args: kernel(*args))


def front_end(ops: int) -> Figure:
    """Seconds of the first call until there is a program: capture, reading, typing."""
    return of_fresh_kernels(ops, lambda kernel, *args: kernel.specialize(*args))


IMPORTS = {
    "numpy": "import time; start = time.perf_counter(); import numpy",
    "tilewright": "import numpy, time; start = time.perf_counter(); import tilewright",
}
"""What is imported first, and what is timed after `start`."""


def import_times() -> dict[str, Figure]:
    """Seconds to import numpy, and tilewright after it, in fresh processes; medians of seven."""

    def importing(code: str) -> float:
        return float(script(f"{code}; print(time.perf_counter() - start)"))

    return WATCH.medians({name: partial(importing, code) for name, code in IMPORTS.items()}, 7)


def rows() -> list[Row]:
    """Every figure."""
    took = import_times()
    seconds = {OURS: took["tilewright"], "import numpy": took["numpy"], "limit": 50e-3}
    return [Row("import tilewright beyond numpy", seconds, {"limit": 1.0})]
