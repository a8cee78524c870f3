"""Two threads: how much faster they are than one, and what starting them costs.

The two-threaded contenders live in a child process; what the columns show there is at two threads.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import numpy as np

from benchmarks.harness import OURS, Remote, Row, Run, bound, environment, interleave, script
from benchmarks.quiet import WATCH
from benchmarks.server import Server, use_all_processors
from benchmarks.workloads import find_workload
from tilewright.abi import CTX, Manifest, Signature, tensor
from tilewright.codegen.machine import compile_text, host_target
from tilewright.dtypes import FP32
from tilewright.runtime.launch import Executable

BARS = {
    "matmul 1024×1024×1024": 1.8,
    "matmul 2048×2048×2048": 1.8,
    "softmax 1024²": 1.6,
    "softmax 2048²": 1.6,
    "softmax 4096²": 1.6,
    "attention (8,512,64)": 1.7,
    "attention (8,1024,64)": 1.7,
}
"""Workload -> how much faster two threads have to be than one."""
PEERS = ("numpy", "torch")

EMPTY = f"""
define internal i32 @body(ptr %env, ptr %ctx, i64 %begin, i64 %end) {{
  ret i32 0
}}
define i32 @kernel(ptr %args, ptr %ctx) {{
  %at = getelementptr i8, ptr %ctx, i64 {CTX["parallel"].offset}
  %parallel = load ptr, ptr %at
  %none = icmp eq ptr %parallel, null
  br i1 %none, label %alone, label %together
alone:
  ret i32 1
together:
  %r = call i32 %parallel(ptr %ctx, ptr @body, ptr %args, i64 2)
  ret i32 %r
}}
"""
"""Two iterations that do nothing, shared between the threads; status 1 where there is one."""


def empty_launch() -> Run:
    """A call of `EMPTY` with one array."""
    manifest = Manifest(name="empty", work=((1e3, ()),), parallel=True)
    signature = Signature((tensor("x", FP32, (16,)),), ())
    kernel = Executable.from_object(compile_text(EMPTY, host_target()), signature, manifest)
    x = np.zeros(16, np.float32)
    return lambda: kernel(x)


def hot_launch() -> float:
    """Seconds of an empty parallel launch while the other thread still looks for work."""
    use_all_processors()
    return interleave({OURS: empty_launch()})[OURS]


def scaling(name: str, bar: float, two: Server) -> Row:
    """A workload on two threads beside itself on one."""
    work = find_workload(name)
    inputs = work.inputs()
    alone = work.ours(inputs, np.empty(work.exact(inputs).shape, work.dtype)).run
    runs: dict[str, Run | Remote] = {OURS: two.contender(name, OURS), "one thread": alone}
    runs |= {peer: two.contender(name, peer) for peer in PEERS if find_spec(peer)}
    return Row(f"{name}, 2 threads", interleave(runs), {"one thread": bar})


def rows() -> list[Row]:
    """Every figure; none where this machine has one processor only."""
    if (os.cpu_count() or 1) < 2:
        return []
    with Server(2, OPENBLAS_THREAD_TIMEOUT="4") as two:
        found = [scaling(name, bar, two) for name, bar in BARS.items()]
    code = "from benchmarks.scaling import hot_launch; print(hot_launch())"
    hot = WATCH.median(lambda: float(script(code, environment(2))), 1)
    return [*found, bound("parallel launch of two empty iterations, hot", hot, 2e-6)]
