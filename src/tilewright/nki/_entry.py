"""Entry points: decorators that make traced kernels, and functions that run them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, cast, overload

from tilewright import settings
from tilewright.errors.nki import NKITypeError
from tilewright.frontend.trace.grid import as_grid
from tilewright.frontend.trace.kernel import Prepare
from tilewright.frontend.trace.options import CompileOpts
from tilewright.nki._kernel import TraceKernel
from tilewright.nki._launch import interpret, prepare
from tilewright.nki._options import with_keywords

MODES = ("auto", "jax", "torchxla", "baremetal", "benchmark", "simulation", "trace")


@overload
def jit(func: None = None, mode: str = "auto", **kwargs: Any) -> Callable[[Any], TraceKernel]: ...
@overload
def jit(func: Callable[..., Any], mode: str = "auto", **kwargs: Any) -> TraceKernel: ...


def jit(func: Any = None, mode: str = "auto", **kwargs: Any) -> Any:
    """Makes a Python function, or a kernel made before, a traced kernel.

    Keywords that are options of a trace (`predicated_if`, `check_return_consistency`,
    `builtin_range`, `platform_target`, `kernel_return`, `enable_cache`) are taken as such; others
    are recorded. `TILEWRIGHT_SIMULATOR=1` makes every kernel a simulated one, and
    `TILEWRIGHT_PLATFORM_TARGET` is the target of each.
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
    if isinstance(func, staticmethod):
        inner = cast("staticmethod[..., Any]", func).__func__
        return cast(TraceKernel, staticmethod(make_kernel(inner, options, simulated=simulated)))
    func = func.kernel if isinstance(func, WrappedKernel) else func
    kernel = func if isinstance(func, TraceKernel) else None
    function = require_function(func) if kernel is None else kernel.function
    if simulated:
        options = {**options, "checked": True}
    options = {**getattr(function, "nki_options", {}), **options}
    opts = with_keywords(CompileOpts() if kernel is None else kernel.opts, options)
    grid = () if kernel is None else kernel.grid
    grid = as_grid(options["grid"]) if options.get("grid") else grid
    return TraceKernel(function, opts, prepare=preparing(opts, simulated=simulated), grid=grid)


def require_function(func: Any) -> FunctionType:
    """A function whose body can be traced; raises NKITypeError for anything else."""
    if not isinstance(func, FunctionType):
        raise NKITypeError(
            f"a kernel is made of a Python function, not of {func!r}",
            hint="Define a function that calls it, and decorate that.",
        )
    if inspect.isgeneratorfunction(func) or inspect.iscoroutinefunction(func):
        kind = "a generator" if inspect.isgeneratorfunction(func) else "a coroutine"
        raise NKITypeError(
            f"a kernel is made of a function that returns tensors; '{func.__name__}' is {kind}",
            hint="Write `return`, and no `yield` and no `async`; helpers may be generators.",
        )
    return func


def preparing(opts: CompileOpts, *, simulated: bool = False) -> Prepare:
    """What makes traced programs ready to run, under the options of their trace."""
    if simulated or settings.SIMULATOR.read():
        return interpret
    kept = opts.enable_cache
    return prepare if kept is None else functools.partial(prepare, enable_cache=kept)


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
