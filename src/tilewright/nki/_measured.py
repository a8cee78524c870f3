"""Decorators that run kernels by themselves and measure them."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.dataclass import dataclass
from tilewright.ir.core import Program
from tilewright.ir.stops import Stop
from tilewright.nki._clocked import ProfiledLaunch
from tilewright.nki._contents import Contents
from tilewright.nki._entry import WrappedKernel
from tilewright.nki._kernel import TraceKernel
from tilewright.nki._profile import Profile, write_trace

PERCENTILES = (0, 1, 10, 25, 50, 90, 99, 100)


@dataclass
class Latency:
    """Measured times of one launch, in microseconds."""

    samples: list[float] = field(default_factory=list[float])

    def get_latency_percentile(self, percentile: int) -> float:
        """The time below which `percentile` percent of the launches were."""
        return float(np.percentile(self.samples, percentile))


@dataclass
class BenchmarkResult:
    """What `benchmark` measured."""

    nc_latency: Latency = field(default_factory=Latency)


class BenchmarkedKernel(WrappedKernel):
    """A kernel whose launches are timed; the numbers are in `benchmark_result`."""

    benchmark_result: BenchmarkResult | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the kernel `warmup` times, then `iters` times with a clock.

        Each launch is the first to update its arguments, as far as it knows.
        """
        kernel, result = self.kernel, BenchmarkResult()
        contents = Contents(kernel.updated_arrays(*args, **kwargs))
        for _ in range(self.options["warmup"]):
            contents.restore()
            kernel(*args, **kwargs)
        value: Any = None
        for _ in range(self.options["iters"]):
            contents.restore()
            start = time.perf_counter()
            value = kernel(*args, **kwargs)
            result.nc_latency.samples.append((time.perf_counter() - start) * 1e6)
        self.benchmark_result = result
        return value


class ProfiledKernel(WrappedKernel):
    """A kernel whose launches are timed inside; the numbers are in `profile_result`."""

    profile_result: Profile | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the kernel `profile_nth` times, and keeps what the last launch spent its time on."""
        directory = self.options["working_directory"]
        if directory is None or not Path(directory).is_absolute():
            raise ValueError(f"profile needs an absolute working_directory, not {directory!r}")
        launches: list[ProfiledLaunch] = []

        def timed(program: Program, stops: Sequence[Stop]) -> ProfiledLaunch:
            launches.append(ProfiledLaunch(program))
            return launches[-1]

        inner = self.kernel
        kernel = TraceKernel(inner.function, inner.opts, prepare=timed, grid=inner.grid)
        value: Any = None
        contents = Contents(inner.updated_arrays(*args, **kwargs))
        for _ in range(max(1, self.options["profile_nth"])):
            contents.restore()
            value = kernel(*args, **kwargs)
        self.profile_result = launches[-1].profile
        assert self.profile_result is not None
        name, overwrite = self.options["save_trace_name"], self.options["overwrite"]
        write_trace(self.profile_result, directory, name, overwrite)
        return value


def baremetal(kernel: Any = None, **kwargs: Any) -> Any:
    """Makes a kernel that runs by itself, outside a framework; here that is any kernel.

    Raises ValueError for an `artifacts_dir` that is not empty; nothing is written to it.
    """
    directory = kwargs.get("artifacts_dir")
    if directory is not None and Path(directory).is_dir() and any(Path(directory).iterdir()):
        raise ValueError(f"baremetal needs an empty artifacts_dir, and {directory!r} is not")
    return _wrapping(WrappedKernel, kernel, kwargs)


def benchmark(kernel: Any = None, warmup: int = 10, iters: int = 100, **kwargs: Any) -> Any:
    """Makes a kernel whose calls fill `benchmark_result` with latency percentiles."""
    return _wrapping(BenchmarkedKernel, kernel, {**kwargs, "warmup": warmup, "iters": iters})


def profile(
    func: Any = None,
    working_directory: str | None = None,
    save_neff_name: str = "file.neff",
    save_trace_name: str = "profile.ntff",
    overwrite: bool = False,
    profile_nth: int = 1,
    **kwargs: Any,
) -> Any:
    """Makes a kernel whose calls are timed inside, by the author's lines.

    The numbers of the last call are in `profile_result`; the `profile_nth` launch is the one that
    is measured. Loops that threads would share run on one thread where they hold several things to
    time. A trace that Chrome reads is written to `save_trace_name` in `working_directory`, an
    absolute path; a call raises ValueError without one, and FileExistsError when the file exists
    and `overwrite` is false.
    """
    options = {
        **kwargs,
        "working_directory": working_directory,
        "save_neff_name": save_neff_name,
        "save_trace_name": save_trace_name,
        "overwrite": overwrite,
        "profile_nth": profile_nth,
    }
    return _wrapping(ProfiledKernel, func, options)


def _wrapping(cls: type[WrappedKernel], kernel: Any, options: dict[str, Any]) -> Any:
    if kernel is None:
        return functools.partial(cls, **options)
    return cls(kernel, **options)
