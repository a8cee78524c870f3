"""Signals while compiled code runs: their handlers run meanwhile, and end it if they raise."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from moments import pressed
from tilewright import ir
from tilewright.runtime.native import missing_assumption

pytestmark = pytest.mark.skipif(bool(missing_assumption()), reason=missing_assumption())


class Enough(Exception):
    """What a handler raises."""


@pytest.fixture
def handle() -> Generator[Callable[[int, Callable[[], object]], None]]:
    """Handles a signal for the length of a test."""
    before: dict[int, Any] = {}

    def set_handler(number: int, do: Callable[[], object]) -> None:
        before[number] = signal.signal(number, lambda _number, _frame: do())

    yield set_handler
    for number, handler in before.items():
        signal.signal(number, handler)


Handle = Callable[[int, Callable[[], object]], None]
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1, signal.SIGHUP]


@pl.jit
def count(
    x: pl.Tensor[[64, 64], pl.FP32],
    n: pl.Scalar[pl.INT64],
    out: pl.Out[pl.Tensor[[64, 64], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [64, 64])
        for _ in pl.range(n):
            t = pl.add(t, 1.0)
        pl.store(t, [0, 0], out)
    return out


ROWS = 64


@pl.jit
def count_rows(
    x: pl.Tensor[[ROWS, 64], pl.FP32],
    n: pl.Scalar[pl.INT64],
    out: pl.Out[pl.Tensor[[ROWS, 64], pl.FP32]],
):
    for i in pl.parallel(ROWS):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [i, 0], [1, 64])
            for _ in pl.range(n):
                t = pl.add(t, 1.0)
            pl.store(t, [i, 0], out)
    return out


KERNELS = pytest.mark.parametrize("kernel", [count, count_rows], ids=["alone", "shared"])


def called(kernel: Any, steps: int) -> np.ndarray[Any, Any]:
    """What a kernel gives for zeros."""
    x, out = np.zeros((64, 64), np.float32), np.full((64, 64), -1.0, np.float32)
    kernel(x, steps, out)
    return out


def send(number: int, after: float) -> threading.Timer:
    """Sends a signal in a moment."""
    timer = threading.Timer(after, os.kill, (os.getpid(), number))
    timer.start()
    return timer


def steps_of(kernel: Any, seconds: float) -> int:
    """How many steps take a thread about so long."""
    steps = 1000
    called(kernel, steps)
    while True:
        start = time.thread_time()
        called(kernel, steps)
        if (took := time.thread_time() - start) > 0.02:
            return int(steps * seconds / took)
        steps *= 2


@KERNELS
@pytest.mark.parametrize("number", SIGNALS)
def test_a_kernel_goes_on_after_its_signals_are_handled(
    kernel: Any, number: int, handle: Handle
) -> None:
    steps = min(steps_of(kernel, 0.2), 1 << 24)  # whole numbers that FP32 counts
    is_running, handled, inner = False, list[bool](), list[float]()

    def do() -> None:
        handled.append(is_running)
        inner.append(called(kernel, 7).sum() + called(count, 3).sum())

    handle(number, do)
    called(kernel, 7)
    for _ in range(20):
        timers = [send(number, after) for after in (0.05, 0.1)]
        is_running = True
        out = called(kernel, steps)
        is_running = False
        for timer in timers:
            timer.join()
        assert (out == steps).all() and inner == [10 * 64 * 64] * len(handled)
        if any(handled):
            break
    assert any(handled)


@KERNELS
@pytest.mark.parametrize("number", SIGNALS)
def test_what_a_handler_raises_ends_a_kernel(kernel: Any, number: int, handle: Handle) -> None:
    def do() -> None:
        raise Enough

    called(kernel, 7)
    handle(number, do)
    with pytest.raises(Enough), pressed(number=number):
        called(kernel, 1 << 50)
    assert (called(kernel, 7) == 7).all()


def test_a_handler_that_a_handler_sets_stays(handle: Handle) -> None:
    def do() -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    called(count, 7)
    steps = steps_of(count, 0.5)
    handle(signal.SIGUSR1, do)
    with pressed(0.1, signal.SIGUSR1):
        called(count, steps)
    os.kill(os.getpid(), signal.SIGUSR1)
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN


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
    with pytest.raises(KeyboardInterrupt), pressed():
        kernel(x, out, 10**15)
