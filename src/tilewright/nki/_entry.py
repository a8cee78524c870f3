"""Entry points: decorators that make traced kernels, and functions that run them."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import field, fields
from pathlib import Path
from types import FunctionType
from typing import Any, cast, overload

import numpy as np

from tilewright.dataclass import dataclass
from tilewright.frontend.trace.kernel import Prepare
from tilewright.frontend.trace.options import CompileOpts
from tilewright.ir.core import Program
from tilewright.ir.stops import Stop
from tilewright.nki._kernel import TraceKernel
from tilewright.nki._launch import interpret, prepare
from tilewright.nki._profile import Profile, ProfiledLaunch, write_trace

MODES = ("auto", "jax", "torchxla", "baremetal", "benchmark", "simulation", "trace")
OPTION_NAMES = tuple(sorted({each.name for each in fields(CompileOpts)} - {"grid", "extra"}))
PERCENTILES = (0, 1, 10, 25, 50, 90, 99, 100)


@overload
def jit(func: None = None, mode: str = "auto", **kwargs: Any) -> Callable[[Any], TraceKernel]: ...
@overload
def jit(func: Callable[..., Any], mode: str = "auto", **kwargs: Any) -> TraceKernel: ...


def jit(func: Any = None, mode: str = "auto", **kwargs: Any) -> Any:
    """Makes a Python function, or a kernel made before, a traced kernel.

    Keywords that are options of a trace (`predicated_if`, `check_return_consistency`,
    `builtin_range`, `platform_target`, `kernel_return`, `enable_cache`) are taken as such; others
    are recorded.
    Raises ValueError for an unknown mode.
    """
    if mode not in MODES:
        raise ValueError(f"unknown mode {mode!r}; choose from {', '.join(MODES)}")
    if func is None:
        return functools.partial(make_kernel, options=kwargs, simulated=mode == "simulation")
    return make_kernel(func, kwargs, simulated=mode == "simulation")


def make_kernel(func: Any, options: dict[str, Any], *, simulated: bool = False) -> TraceKernel:
    """The traced kernel of a function, or of a kernel, under further options.

    A simulated kernel is run by the interpreter, which follows the same order of operations, and
    its outputs show which elements it leaves unwritten.
    """
    kernel = func if isinstance(func, TraceKernel) else None
    function = cast(FunctionType, func if kernel is None else kernel.function)
    if simulated:
        options = {**options, "checked": True}
    options = {**getattr(function, "nki_options", {}), **options}
    opts = with_keywords(CompileOpts() if kernel is None else kernel.opts, options)
    grid = () if kernel is None else kernel.grid
    return TraceKernel(function, opts, prepare=preparing(opts, simulated=simulated), grid=grid)


def preparing(opts: CompileOpts, *, simulated: bool = False) -> Prepare:
    """What makes traced programs ready to run, under the options of their trace."""
    if simulated:
        return interpret
    kept = opts.enable_cache
    return prepare if kept is None else functools.partial(prepare, enable_cache=kept)


def with_keywords(base: CompileOpts, given: dict[str, Any]) -> CompileOpts:
    """`base`, or the `opts` given, changed by the other keywords of a decorator."""
    given = dict(given)
    base = given.pop("opts", base)
    options = {name: getattr(base, name) for name in OPTION_NAMES}
    options.update({name: value for name, value in given.items() if name in OPTION_NAMES})
    extra = tuple((k, repr(v)) for k, v in sorted(given.items()) if k not in OPTION_NAMES)
    return CompileOpts(**options, extra=(*base.extra, *extra))


def trace_kernel(func: Any = None, **kwargs: Any) -> Any:
    """Makes a function a kernel that others call as part of their own trace."""
    return jit(func, "trace", **kwargs)


def simulate_kernel(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """Runs a kernel (decorated or not, with or without a grid) on numpy arrays, interpreted."""
    inner = kernel.kernel if isinstance(kernel, WrappedKernel) else kernel
    return make_kernel(inner, {}, simulated=True)(*args, **kwargs)


def simulate(kernel: Any) -> Callable[..., Any]:
    """A callable that runs a kernel on numpy arrays, interpreted; `simulate(kernel[2])(x)`."""
    return functools.partial(simulate_kernel, kernel)


def _as_kernel(given: Any) -> TraceKernel:
    return given if isinstance(given, TraceKernel) else make_kernel(given, {})


class WrappedKernel:
    """A kernel behind `baremetal`, `benchmark` or `profile`; made when it is first called."""

    def __init__(self, kernel: Any, **options: Any) -> None:
        self.wrapped = kernel
        self.options = options

    @property
    def kernel(self) -> TraceKernel:
        """The traced kernel inside."""
        return _as_kernel(self.wrapped)

    def __getitem__(self, grid: Any) -> WrappedKernel:
        return type(self)(self.kernel[grid], **self.options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the kernel."""
        return self.kernel(*args, **kwargs)


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
        """Runs the kernel `warmup` times, then `iters` times with a clock."""
        kernel, result = self.kernel, BenchmarkResult()
        for _ in range(self.options["warmup"]):
            kernel(*args, **kwargs)
        value: Any = None
        for _ in range(self.options["iters"]):
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
        for _ in range(max(1, self.options["profile_nth"])):
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
    is measured. A trace that Chrome reads is written to `save_trace_name` in `working_directory`,
    an absolute path; a call raises ValueError without one, and FileExistsError when the file exists
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
