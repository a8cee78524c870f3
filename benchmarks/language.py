"""What reading, printing and checking programs cost, and how that grows with their length."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.compile_time import fresh_module, source
from benchmarks.harness import Row, bound, once, script
from benchmarks.quiet import WATCH, Figure
from tilewright import language as pl
from tilewright.frontend.text import parse_program
from tilewright.ir.core import Program
from tilewright.ir.verifier import verify
from tilewright.passes import pipeline

SMALL, LARGE = 1_000, 20_000
LINEAR = 1.2

PEAK = "/proc/self/status"
"""Where Linux says the peak of this program; what getrusage says may be its parent's."""

MEMORY = """
def peak():
    return int(open({where!r}).read().split("VmHWM:")[1].split()[0])
import numpy
before = peak()
from benchmarks.language import program_of
program_of({ops})
print((peak() - before) / 1024)
"""


def timed(run: Callable[[Any], object], prepare: Callable[[], Any] = lambda: None) -> Figure:
    """Median seconds of `run(prepare())`; what is garbage before it is none of its business."""

    def take() -> float:
        given = prepare()
        gc.collect()
        return once(lambda: run(given))

    return WATCH.median(take, 3)


def program_of(statements: int) -> Program:
    """A function of so many statements, read from its source."""
    return read(plain_function(statements))


def plain_function(statements: int) -> Any:
    """The Python function, not decorated."""
    return fresh_module(source(statements, "pl.function").replace("@pl.function", "")).chain


def read(function: Any) -> Program:
    """The verified program of a function."""
    return verify(Program("P", {"chain": pl.function(function)}))


def timed_on_sources(run: Callable[[Any], object], statements: int) -> Figure:
    """Median seconds of a call on a function whose file has not been read yet."""
    return timed(run, lambda: plain_function(statements))


def before_llvm(ops: int) -> Figure:
    """Seconds from the source of a straight-line function to its loop IR."""
    return timed_on_sources(lambda function: pipeline.lower(read(function), "chain"), ops)


def memory_rows(ops: int) -> list[Row]:
    """Megabytes that reading a program of `ops` operations takes beyond numpy; Linux tells."""
    if not Path(PEAK).exists():
        return []
    code = MEMORY.format(where=PEAK, ops=ops)
    taken = float(script(code))
    return [bound(f"peak memory of {ops:,} ops beyond numpy", taken, 200, "MB")]


def growing(name: str, seconds: Callable[[int], Figure], limit: float) -> list[Row]:
    """A limit per statement at both sizes, and on how much more one costs at the larger."""
    small, large = seconds(SMALL) / SMALL, seconds(LARGE) / LARGE
    return [
        bound(f"{name}, a statement of {SMALL:,}", small, limit),
        bound(f"{name}, a statement of {LARGE:,}", large, limit),
        bound(f"{name}, growth to {LARGE:,}", large, LINEAR * small),
    ]


def rows() -> list[Row]:
    """Every figure; no large program is alive while others are made: collections would walk it."""
    parsed = {n: timed_on_sources(read, n) for n in (SMALL, LARGE)}
    lowered = {n: before_llvm(n) / n for n in (500, 5_000)}
    programs = {n: program_of(n) for n in parsed}
    text = programs[SMALL].as_python()
    printed = {n: timed(lambda _, n=n: programs[n].as_python()) for n in programs}
    reparsed = timed(lambda _: verify(parse_program(text)))
    return [
        *growing("parse and verify", parsed.__getitem__, 40e-6),
        *growing("print", printed.__getitem__, 15e-6),
        bound("printed text within 1.5 of the source", reparsed, 1.5 * parsed[SMALL]),
        bound("before LLVM, an op of 500", lowered[500], 60e-6),
        bound("before LLVM, an op of 5,000", lowered[5_000], 60e-6),
        bound("before LLVM, growth to 5,000", lowered[5_000], LINEAR * lowered[500]),
        *memory_rows(LARGE),
    ]
