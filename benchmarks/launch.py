"""What a warm call costs: the same small addition through every way to start it, in one run.

    chrt -r 1 taskset -c 0 python benchmarks/launch.py      (or without chrt and taskset)

Nanoseconds per call, best of interleaved rounds, and the ratio to `np.add(x, y, out)` in that run.
"""

from __future__ import annotations

import importlib.util
import timeit
from typing import Any

import numpy as np

from tilewright.abi import Manifest, Signature, tensor
from tilewright.dtypes import FP32
from tilewright.runtime.launch import Executable
from tilewright.runtime.load import compile_text
from tilewright.runtime.native import missing_assumption
from tilewright.runtime.stub import Launcher
from tilewright.runtime.variants import Guard, Variant

ROUNDS, LOOPS = 15, 20_000
SHAPE = (4, 16)

# out = x + y for 64 floats; when the rows are dynamic, word 3 is their number, and is not read.
ADD = """
define i32 @kernel(ptr %args, ptr %ctx) {
  %y.at = getelementptr i64, ptr %args, i64 1
  %out.at = getelementptr i64, ptr %args, i64 2
  %x = load ptr, ptr %args
  %y = load ptr, ptr %y.at
  %out = load ptr, ptr %out.at
  %u = load <64 x float>, ptr %x, align 4
  %v = load <64 x float>, ptr %y, align 4
  %w = fadd <64 x float> %u, %v
  store <64 x float> %w, ptr %out, align 4
  ret i32 0
}
"""


class Kernel(Launcher):
    """What a driver makes: guarded variants, and one more per grid."""

    def __init__(self, executable: Executable, guards: tuple[Guard, ...]) -> None:
        self.executable = executable
        self.set_variants([Variant(executable.code, guards)])
        self.grids: dict[object, Launcher] = {}

    def __getitem__(self, grid: object) -> Launcher:
        found = self.grids.get(grid)
        return self if found is None else found

    def call_slowly(self, *args: Any, **kwargs: Any) -> Any:
        return self.executable.call_slowly(*args, **kwargs)


def make(rows: int | str, *, implicit: bool = False, ns: float = 20.0) -> Executable:
    """The addition as an executable."""
    shape = (rows, 16)
    params = (
        tensor("x", FP32, shape),
        tensor("y", FP32, shape),
        tensor("out", FP32, shape, "out", implicit=implicit),
    )
    signature = Signature(params, (2,) if implicit else ())
    manifest = Manifest(name="add", work=((ns, ()),))
    return Executable.from_object(compile_text(ADD), signature, manifest)


def contenders() -> dict[str, tuple[str, dict[str, Any]]]:
    """Name -> (statement, its names)."""
    x, y, out = (np.ones(SHAPE, np.float32) for _ in range(3))
    names: dict[str, Any] = {"x": x, "y": y, "out": out, "np": np}
    marks = {f"name{i}": object() for i in range(3)}
    guards = tuple(Guard(marks, key, value) for key, value in marks.items())
    names |= {
        "static": make(4),
        "guarded": Kernel(make(4), guards),
        "dynamic": make("M"),
        "unlocked": make(4, ns=5_000),
        "long": make(4, ns=1e9),
        "returning": make(4, implicit=True),
        "gridded": Kernel(make(4, implicit=True), guards),
        "empty": lambda x, y, out: None,
    }
    statements = {
        "empty Python function": "empty(x, y, out)",
        "np.add(x, y, out)": "np.add(x, y, out)",
        "np.add(x, y)": "np.add(x, y)",
        "kernel(x, y, out)": "static(x, y, out)",
        "  with 3 guarded globals": "guarded(x, y, out)",
        "  with a dynamic extent": "dynamic(x, y, out)",
        "  releasing the GIL": "unlocked(x, y, out)",
        "  listening to Ctrl-C": "long(x, y, out)",
        "kernel(x, y) -> out": "returning(x, y)",
        "kernel[grid](x, y) -> out": "gridded[1](x, y)",
        "checked in Python": "static.run_checked((x, y, out))",
    }
    found = {name: (text, names) for name, text in statements.items()}
    return found | torch_contenders() | numba_contenders(names)


def torch_contenders() -> dict[str, tuple[str, dict[str, Any]]]:
    """The same with torch tensors."""
    if importlib.util.find_spec("torch") is None:
        return {}
    import torch

    x, y, out = (torch.ones(SHAPE) for _ in range(3))
    names = {"x": x, "y": y, "out": out, "static": make(4), "torch": torch}
    names["returning"] = make(4, implicit=True)
    return {
        "kernel(x, y, out), torch": ("static(x, y, out)", names),
        "kernel(x, y) -> out, torch": ("returning(x, y)", names),
        "torch.add(x, y)": ("torch.add(x, y)", names),
        "torch.add(x, y, out=out)": ("torch.add(x, y, out=out)", names),
    }


def numba_contenders(names: dict[str, Any]) -> dict[str, tuple[str, dict[str, Any]]]:
    """The same through numba's dispatcher."""
    if importlib.util.find_spec("numba") is None:
        return {}
    import numba

    @numba.njit
    def add(x: Any, y: Any, out: Any) -> None:
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = x[i, j] + y[i, j]

    return {"numba(x, y, out)": ("add(x, y, out)", {**names, "add": add})}


def measure() -> dict[str, float]:
    """Name -> nanoseconds per call."""
    timers = {
        name: timeit.Timer(statement, globals=names)
        for name, (statement, names) in contenders().items()
    }
    best = dict.fromkeys(timers, float("inf"))
    for timer in timers.values():
        timer.timeit(10)
    for _ in range(ROUNDS):
        for name, timer in timers.items():
            loops = LOOPS // 20 if "Python" in name and "empty" not in name else LOOPS
            best[name] = min(best[name], timer.timeit(loops) / loops * 1e9)
    return best


def main() -> None:
    """Print the table."""
    reason = missing_assumption()
    print(f"entry stub: {'not used: ' + reason if reason else 'used'}")
    found = measure()
    base = found["np.add(x, y, out)"]
    for name, ns in found.items():
        print(f"{name:28} {ns:8.0f} ns   {base / ns:6.2f} x np.add")


if __name__ == "__main__":
    main()
