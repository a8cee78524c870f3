"""How everything here is measured: interleaved rounds in one process, medians, ratios.

A workload is a set of callables that do the same thing. Each round times every one of them once
(repeating short ones until a round is long enough to read), so that a slow phase of the machine
hits all alike. `clean_environment()` restarts the process without the variables that slow numpy's
BLAS down, on one thread, and with real-time scheduling where the system permits it.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

Run = Callable[[], object]
READABLE = 200e-6
BLAS_VARIABLES = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass
class Row:
    """One workload: median seconds per call by contender, and the bound on the ratio."""

    name: str
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    ours: str = "tilewright"
    peer: str = "numpy"
    at_least: float | None = None

    @property
    def ratio(self) -> float:
        """How many times faster than the peer (above 1 is faster)."""
        return self.seconds[self.peer] / self.seconds[self.ours]

    @property
    def holds(self) -> bool:
        """True when the stated bound is met, or there is none."""
        return self.at_least is None or self.ratio >= self.at_least


def interleave(
    contenders: Mapping[str, Run], *, seconds: float = 1.5, rounds: int = 9
) -> dict[str, float]:
    """Median seconds per call of each contender, measured round by round for about `seconds`."""
    repeats = {name: _repeats(run) for name, run in contenders.items()}
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        while len(next(iter(samples.values()))) < rounds or time.perf_counter() - start < seconds:
            for name, run in contenders.items():
                samples[name].append(_time(run, repeats[name]))
    finally:
        gc.enable()
    return {name: statistics.median(times) for name, times in samples.items()}


def _repeats(run: Run) -> int:
    run()
    once = _time(run, 1)
    return max(1, int(READABLE / max(once, 1e-9)))


def _time(run: Run, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - start) / repeats


def clean_environment(threads: int = 1) -> None:
    """Restarts this program under a clean environment unless it runs under one already."""
    if os.environ.get("TILEWRIGHT_BENCH_CLEAN"):
        return
    env = {k: v for k, v in os.environ.items() if k not in BLAS_VARIABLES}
    env.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    env.update(TILEWRIGHT_BENCH_CLEAN="1", OMP_WAIT_POLICY="passive")
    env["TILEWRIGHT_NUM_THREADS"] = str(threads)
    command = [*_scheduling(threads), sys.executable, *sys.orig_argv[1:]]
    sys.exit(subprocess.call(command, env=env))


def _scheduling(threads: int) -> list[str]:
    """Real-time scheduling on the first cores, where permitted."""
    prefix: list[str] = []
    if (
        shutil.which("chrt")
        and subprocess.call(["chrt", "-r", "1", "true"], stderr=subprocess.DEVNULL) == 0
    ):
        prefix += ["chrt", "-r", "1"]
    if shutil.which("taskset"):
        prefix += ["taskset", "-c", ",".join(map(str, range(threads)))]
    return prefix


def report(rows: list[Row], title: str) -> bool:
    """Prints a table of the rows; True when every stated bound is met."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    for column in ("workload", "ours", "peer", "ratio", "at least", ""):
        table.add_column(column, justify="left" if column in ("workload", "") else "right")
    for row in rows:
        bound = "" if row.at_least is None else f"{row.at_least:g}"
        peer = f"{row.peer} {shown(row.seconds[row.peer])}"
        mark = "" if row.at_least is None else "ok" if row.holds else "short"
        table.add_row(row.name, shown(row.seconds[row.ours]), peer, f"{row.ratio:.2f}", bound, mark)
    Console(width=110).print(table)
    return all(row.holds for row in rows)


def shown(seconds: float) -> str:
    """Seconds with a readable unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def save(rows: list[Row], path: Path) -> None:
    """Writes the rows as JSON."""
    path.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
