"""Devices as `pypto.runtime` names them: one chip, which is this process, and its memory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from tilewright.dataclass import dataclass
from tilewright.dist import DistributedWorker
from tilewright.errors import InvalidOperationError
from tilewright.external.compiler import INCLUDE
from tilewright.jit import CompiledProgram
from tilewright.runtime import RunConfig


class ChipWorker(DistributedWorker):
    """A chip that stays: `with ChipWorker(platform="a2a3sim") as w: w.run(compiled, *arrays)`.

    `platform` and `device_id` select one of one. Memory of the chip is memory of this process.
    """

    def __init__(self, platform: str | None = None, device_id: int = 0, **options: Any) -> None:
        RunConfig(platform=platform)  # raises ValueError for one that nobody knows
        super().__init__(_refuse_call, ranks=1)
        self.platform = platform
        self.device_id = device_id
        self.options = options


def _refuse_call(*args: Any) -> Any:
    raise InvalidOperationError(
        "a ChipWorker has no program of its own", hint="Call worker.run(compiled, *arrays)."
    )


class DeviceTensor:
    """Memory of the device, which is memory of this process: `DeviceTensor(array)` is `array`."""

    def __new__(cls, array: Any, *_: Any, **__: Any) -> Any:
        return array


class StackedDeviceTensor:
    """One part per rank along a new first axis, as one array: `StackedDeviceTensor(parts)`."""

    def __new__(cls, parts: Sequence[Any]) -> Any:
        return np.stack([np.asarray(part) for part in parts])


@dataclass(frozen=True)
class BenchmarkResult:
    """Microseconds of each measured call, in order."""

    samples_us: tuple[float, ...]

    @property
    def mean_us(self) -> float:
        """The mean."""
        return statistics.fmean(self.samples_us)

    @property
    def median_us(self) -> float:
        """The median."""
        return statistics.median(self.samples_us)

    @property
    def min_us(self) -> float:
        """The shortest."""
        return min(self.samples_us)

    @property
    def max_us(self) -> float:
        """The longest."""
        return max(self.samples_us)

    def __str__(self) -> str:
        return (
            f"{len(self.samples_us)} calls: median {self.median_us:.1f} us, "
            f"mean {self.mean_us:.1f} us, {self.min_us:.1f} to {self.max_us:.1f} us"
        )


def benchmark(
    program: Any,
    *args: Any,
    warmup: int = 3,
    rounds: int = 20,
    platform: str | None = None,
    device_id: int = 0,
) -> BenchmarkResult:
    """Calls a kernel, compiled program or output directory again and again, and times it.

    `args` are its arguments, one by one or as one list. `platform` and `device_id` name a device,
    of which there is one. Raises ValueError unless `rounds` is positive.
    """
    del platform, device_id
    if rounds < 1:
        raise ValueError(f"rounds={rounds}: at least one call is measured")
    called = CompiledProgram.from_dir(program) if isinstance(program, (str, Path)) else program
    is_listed = len(args) == 1 and isinstance(args[0], Sequence)
    given: Sequence[Any] = cast("Sequence[Any]", args[0]) if is_listed else args
    for _ in range(warmup):
        called(*given)
    samples: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        called(*given)
        samples.append((time.perf_counter_ns() - start) / 1e3)
    return BenchmarkResult(tuple(samples))


def pto_isa_include_dir() -> str:
    """The folder of the header that C++ kernels include here; a vendor's headers are not in it."""
    return str(INCLUDE)
