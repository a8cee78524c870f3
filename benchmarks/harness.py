"""How everything here is measured: interleaved rounds in one process, medians, ratios.

A workload is a set of contenders that do the same thing. Each round times every one of them once
(repeating short ones until a round is long enough to read), so that a slow phase of the machine
hits all alike; what was timed in one counts only where there is nothing else (`quiet`).
`clean_environment()` restarts the process without the variables that slow numpy's BLAS down, on one
thread, and with real-time scheduling where the system permits it. A contender that needs another
environment lives in a child process and is timed there (`server`).
"""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from benchmarks.quiet import TOLERANCE, WATCH, reference_of

Run = Callable[[], object]
ROOT = Path(__file__).parents[1]
READABLE = 200e-6
WARM = 5e-3
OURS = "tilewright"
BLAS_VARIABLES = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
ONE_THREAD_JAX = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


class Remote(Protocol):
    """A contender that times itself somewhere else."""

    def sample(self, repeats: int) -> float:
        """Seconds per call over `repeats` calls."""
        ...


@dataclass
class Row:
    """One workload: median seconds per call by contender, and what is asked of the ratios.

    `bars[peer]` is how many times faster than `peer` ours must be. Among the contenders, `limit` is
    a number to stay under and `floor` what the machine needs at least. `unit` is s or MB. `wrong`
    has the errors of results that are not what they should be, `failed` what ended the attempt.
    `reference` is the slowest beside its figures; `slowdown` is that over the best of the run.
    """

    name: str
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    bars: dict[str, float] = field(default_factory=dict[str, float])
    suite: str = ""
    unit: str = "s"
    wrong: dict[str, float] = field(default_factory=dict[str, float])
    failed: str = ""
    reference: float = 0.0
    slowdown: float = 1.0

    def __post_init__(self) -> None:
        self.reference = max(self.reference, *map(reference_of, self.seconds.values()), 0.0)

    def judge(self, best: float) -> None:
        """Says how disturbed it was, now that the best reference of the run is known."""
        self.slowdown = max(1.0, self.reference / best)

    @property
    def is_disturbed(self) -> bool:
        """Whether the machine was not quiet while this was measured."""
        return self.slowdown > TOLERANCE

    def ratio(self, peer: str) -> float:
        """How many times faster than the peer (above 1 is faster)."""
        return self.seconds[peer] / self.seconds[OURS]

    def missed(self) -> dict[str, float]:
        """The bars that are not reached, of the contenders that took part."""
        return {
            peer: bar
            for peer, bar in self.bars.items()
            if peer in self.seconds and self.ratio(peer) < bar
        }


def bound(name: str, value: float, limit: float, unit: str = "s") -> Row:
    """A row that is asked to stay under a limit."""
    return Row(name, {OURS: value, "limit": limit}, {"limit": 1.0}, unit=unit)


def interleave(
    contenders: Mapping[str, Run | Remote], *, seconds: float = 1.0, rounds: int = 7
) -> dict[str, float]:
    """Median seconds per call of each contender, measured round by round for about `seconds`."""
    takes = {name: partial(_sample, run, _repeats(run)) for name, run in contenders.items()}
    gc.collect()
    gc.disable()
    try:
        return dict[str, float](WATCH.medians(takes, rounds, seconds))
    finally:
        gc.enable()


def once(run: Run) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _repeats(run: Run | Remote) -> int:
    _sample(run, 1)
    return max(1, int(READABLE / max(_sample(run, 1), 1e-9)))


def _sample(run: Run | Remote, repeats: int) -> float:
    return sample(run, repeats) if callable(run) else run.sample(repeats)


def sample(run: Run, repeats: int) -> float:
    """Seconds per call; short calls find their own data in the caches, as in a loop."""
    first = once(run)
    if repeats == 1 and first > WARM:
        return first
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - start) / repeats


def environment(threads: int = 1, **more: str) -> dict[str, str]:
    """The variables of a process that measures."""
    env = {k: v for k, v in os.environ.items() if k not in BLAS_VARIABLES}
    env |= dict.fromkeys(THREAD_VARIABLES, str(threads))
    env |= {"TILEWRIGHT_BENCH_CLEAN": "1", "OMP_WAIT_POLICY": "passive"}
    env |= {"TILEWRIGHT_NUM_THREADS": str(threads), "XLA_FLAGS": ONE_THREAD_JAX}
    return env | more


def script(text: str, env: Mapping[str, str] | None = None) -> str:
    """What a fresh process that runs `text` prints; it can import the benchmarks."""
    return subprocess.check_output([sys.executable, "-c", text], env=env, cwd=ROOT, text=True)


def clean_environment() -> None:
    """Restarts this program under a clean environment unless it runs under one already."""
    if os.environ.get("TILEWRIGHT_BENCH_CLEAN"):
        return
    command = [*_scheduling(), sys.executable, *sys.orig_argv[1:]]
    sys.exit(subprocess.call(command, env=environment()))


def _scheduling() -> list[str]:
    """Real-time scheduling on the first core, where permitted."""
    prefix: list[str] = []
    if shutil.which("chrt") and not subprocess.call(["chrt", "-r", "1", "true"], stderr=-3):
        prefix += ["chrt", "-r", "1"]
    if shutil.which("taskset"):
        prefix += ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    return prefix


def shown(value: float, unit: str = "s") -> str:
    """A value with a readable unit."""
    if unit != "s":
        return f"{value:.3g} {unit}"
    for name, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {name}"
    return f"{value / 1e-9:.3g} ns"
