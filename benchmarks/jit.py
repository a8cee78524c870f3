"""What calling and compiling cost: warm calls, look-ups of the careful path, first calls, restarts.

    python -m benchmarks jit

Warm calls go through the public objects, with every guard in place: dtypes, shapes, strides,
writability, the names that a kernel refers to, contexts, the environment.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilewright.language as pl
from benchmarks.compile_time import first_call, fresh_module, front_end
from benchmarks.harness import OURS, Row, Run, bound, interleave, once
from benchmarks.quiet import WATCH, Figure
from benchmarks.traced import add as traced_add

SHAPE = (4, 16)
SCALE = 1.0
UNROLLED = 64


@pl.jit
def add(
    x: pl.Tensor[[4, 16], pl.FP32],
    y: pl.Tensor[[4, 16], pl.FP32],
    out: pl.Out[pl.Tensor[[4, 16], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        y_tile = pl.mul(pl.load(y, [0, 0], [4, 16]), SCALE)
        pl.store(pl.add(pl.load(x, [0, 0], [4, 16]), y_tile), [0, 0], out)
    return out


ROWS = pl.dynamic("ROWS")


@pl.jit
def add_rows(
    x: pl.Tensor[[ROWS, 16], pl.FP32],
    y: pl.Tensor[[ROWS, 16], pl.FP32],
    out: pl.Out[pl.Tensor[[ROWS, 16], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(ROWS):
            pl.store(pl.add(pl.load(x, [i, 0], [1, 16]), pl.load(y, [i, 0], [1, 16])), [i, 0], out)
    return out


# ---- warm calls ----------------------------------------------------------------------------------


def warm_rows() -> list[Row]:
    """The same small addition called in every way, beside numpy's, torch's and numba's."""
    x, y, out = (np.ones(SHAPE, np.float32) for _ in range(3))
    numba = numba_add()
    in_place: dict[str, Run] = {
        "tilewright": lambda: add(x, y, out),
        "np.add(out=)": lambda: np.add(x, y, out=out),
    }
    if numba is not None:
        in_place["numba"] = lambda: numba(x, y, out)
    made: dict[str, Run] = {"tilewright": lambda: add(x, y), "np.add": lambda: np.add(x, y)}
    traced: dict[str, Run] = {**made, "tilewright": lambda: traced_add[2](x, y)}
    dynamic: dict[str, Run] = {**in_place, "tilewright": lambda: add_rows(x, y, out)}
    return [
        called("warm call, 3 arrays", in_place, 150e-9),
        called("warm call, dynamic extent", dynamic, 150e-9),
        called("warm call, output allocated", made, 600e-9),
        called("warm call, traced[2](x, y)", traced, 600e-9),
        *torch_rows(),
    ]


def torch_rows() -> list[Row]:
    """Torch tensors in, torch tensors out."""
    if importlib.util.find_spec("torch") is None:
        return []
    import torch

    x, y, out = (torch.ones(SHAPE) for _ in range(3))
    in_place: dict[str, Run] = {
        "tilewright": lambda: add(x, y, out),
        "torch.add(out=)": lambda: torch.add(x, y, out=out),
    }
    made: dict[str, Run] = {"tilewright": lambda: add(x, y), "torch.add": lambda: torch.add(x, y)}
    seconds = interleave(made)
    return [
        called("warm call, 3 tensors", in_place, 400e-9),
        Row("warm call, tensor allocated", seconds, {"torch.add": 1.0}),
    ]


def numba_add() -> Callable[..., Any] | None:
    """The addition as numba compiles it; None where numba is missing."""
    if importlib.util.find_spec("numba") is None:
        return None
    import numba

    @numba.njit
    def add(x: Any, y: Any, out: Any) -> None:
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = x[i, j] + y[i, j]

    return add


def called(name: str, contenders: dict[str, Run], limit: float) -> Row:
    """A row with a limit and its peers, without what calling a lambda costs."""
    empty: Run = lambda: None  # noqa: E731
    seconds = interleave({**contenders, "nothing": empty})
    overhead = seconds.pop("nothing")
    seconds = {who: max(took - overhead, 1e-10) for who, took in seconds.items()}
    return Row(name, {**seconds, "limit": limit}, {"limit": 1.0})


# ---- the careful path ----------------------------------------------------------------------------


def lookup_rows() -> list[Row]:
    """Finding the compiled object of a request in Python: options, names, arguments, key."""
    x = np.ones(SHAPE, np.float32)
    config = pl_config()
    seconds = interleave(
        {
            "by arguments": lambda: add.compile(x, x, x),
            "by annotations": lambda: add.compile(),
            "with a config": lambda: add.compile(x, x, x, config=config),
        }
    )
    return [bound(f"look-up {how}", took, 60e-6) for how, took in seconds.items()]


def pl_config() -> Any:
    """A configuration that asks for nothing special."""
    from tilewright.runtime import RunConfig

    return RunConfig()


# ---- first calls ---------------------------------------------------------------------------------


def attention_source(steps: int) -> str:
    """Flash attention of one block of queries, its loop over keys unrolled."""
    return f"""
import tilewright.language as pl

@pl.jit
def attention(
    q: pl.Tensor[[64, 64], pl.FP32],
    k: pl.Tensor[[{64 * steps}, 64], pl.FP32],
    v: pl.Tensor[[{64 * steps}, 64], pl.FP32],
    out: pl.Out[pl.Tensor[[64, 64], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        query = pl.load(q, [0, 0], [64, 64])
        top = pl.full([64, 1], dtype=pl.FP32, value=-1e30)
        total = pl.full([64, 1], dtype=pl.FP32, value=0.0)
        acc = pl.full([64, 64], dtype=pl.FP32, value=0.0)
        for j in pl.unroll({steps}):
            score = pl.matmul(query, pl.load(k, [64 * j, 0], [64, 64]), b_trans=True)
            highest = pl.maximum(top, pl.row_max(score))
            p = pl.exp(pl.row_expand_sub(score, highest))
            shrink = pl.exp(pl.sub(top, highest))
            total = pl.add(pl.mul(total, shrink), pl.row_sum(p))
            value = pl.load(v, [64 * j, 0], [64, 64])
            acc = pl.matmul_acc(pl.row_expand_mul(acc, shrink), p, value)
            top = highest
        pl.store(pl.row_expand_div(acc, total), [0, 0], out)
    return out
"""


def unrolled_attention() -> Figure:
    """Seconds to compile 64 iterations of flash attention, median of three."""

    def take() -> float:
        kernel: Any = fresh_module(attention_source(UNROLLED)).attention
        return once(kernel.compile)

    return WATCH.median(take, 3)


# ---- a fresh process -----------------------------------------------------------------------------

SCRIPT = """
import sys, time
import numpy as np
import tilewright
start = time.perf_counter()
import tilewright.language as pl

@pl.jit
def add(x: pl.Tensor[[4, 16], pl.FP32], out: pl.Out[pl.Tensor[[4, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.add(pl.load(x, [0, 0], [4, 16]), 1.0), [0, 0], out)
    return out

x, out = np.ones((4, 16), np.float32), np.empty((4, 16), np.float32)
add(x, out)
"""
TRACED_SCRIPT = """
import sys, time
import numpy as np
import tilewright
start = time.perf_counter()
from tilewright import nki
import tilewright.nki.language as nl

@nki.jit
def add(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=nl.load(x) + 1.0)
    return out

out = add(np.ones((4, 16), np.float32))
"""
END = """
spent = time.perf_counter() - start
assert (out == 2).all()
print(spent, "llvmlite" in sys.modules, tilewright.cache_stats().ready_hits)
"""


def restarted(text: str) -> tuple[float, Figure, bool]:
    """Seconds from the end of the import to the end of the first call, in fresh processes.

    Cold (nothing on disk), and warm, a median of fifteen; and whether a warm one imported LLVM.
    """
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory) / "script.py"
        script.write_text(text + END, encoding="utf-8")
        places = {
            "TILEWRIGHT_CACHE_DIR": f"{directory}/kernels",
            "XDG_CACHE_HOME": directory,
            "PYTHONPYCACHEPREFIX": f"{directory}/bytecode",
        }
        env = {**os.environ, "TILEWRIGHT_CACHE": "1", **places}
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed has its bytecode

        imported: list[bool] = []

        def run(expected_hits: int) -> float:
            command = [sys.executable, str(script)]
            spent, llvm, hits = subprocess.check_output(command, env=env, text=True).split()
            assert int(hits) == expected_hits
            imported.append(llvm == "True")
            return float(spent)

        cold = run(0)
        run(1)
        imported.clear()
        return cold, WATCH.median(lambda: run(1), 15), any(imported)


def restart_rows() -> list[Row]:
    """Fresh processes whose kernels are on disk; a traced one is traced again, to know its key."""
    name = "fresh process, warm disk"
    traced = restart_row(f"{name}, traced", TRACED_SCRIPT, 80e-3)
    return [restart_row(name, SCRIPT, 40e-3), traced]


def restart_row(name: str, text: str, limit: float | None = None) -> Row:
    """One kernel, under a limit where there is one."""
    cold, warm, has_llvm = restarted(text)
    name += " (imports llvmlite)" * has_llvm
    row = Row(name, {OURS: warm}) if limit is None else bound(name, warm, limit)
    row.seconds["cold disk"] = cold
    return row


def rows() -> list[Row]:
    """Every figure."""
    return [
        *warm_rows(),
        *lookup_rows(),
        bound("first call, 30 ops, warm process", first_call(30), 15e-3),
        bound("front end of a first call, 30 ops", front_end(30), 10e-3),
        bound("64 unrolled attention steps", unrolled_attention(), 1.0),
        *restart_rows(),
    ]
