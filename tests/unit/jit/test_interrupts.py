"""The interrupt key, while compiled code runs."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import ir
from tilewright.runtime.native import missing_assumption

pytestmark = pytest.mark.skipif(bool(missing_assumption()), reason=missing_assumption())


LOOPS = {
    "deep": "for a in pl.range(2):\n{i}for b in pl.range(2):\n"
    "{i} for c in pl.range(1000000000000):\n{i}  t = pl.add(t, 1.0)",
    "scalar": "for a in pl.range(1000000000000):\n{i}    s = s * 0.5 + 1.0",
    "counted by data": "for a in pl.range(n):\n{i}    t = pl.add(t, 1.0)",
    "scalar, counted by data": "for a in pl.range(n):\n{i}    s = s * 0.5 + 1.0",
    "shared": "for a in pl.range(n):\n{i}    for b in pl.range(n):\n{i}        s = s + 1.0",
}


@pytest.mark.parametrize("loops", LOOPS.values(), ids=LOOPS)
def test_the_interrupt_key_ends_every_loop_that_may_last(loops: str) -> None:
    indent = " " * 8
    program = pl.parse(
        "@pl.function\n"
        "def k(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]],\n"
        "      n: pl.Scalar[pl.INT64]):\n"
        "    with pl.at(level=pl.Level.CORE_GROUP):\n"
        "        t = pl.load(x, [0, 0], [4, 8])\n"
        "        s = pl.read(t, [0, 0])\n"
        f"        {loops.format(i=indent + ' ')}\n"
        "        pl.store(pl.add(t, s), [0, 0], out)\n"
        "    return out\n"
    )
    kernel = ir.compile(program)
    x, out = np.ones((4, 8), np.float32), np.zeros((4, 8), np.float32)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        kernel(x, out, 10**15)
    assert time.monotonic() - start < 20
