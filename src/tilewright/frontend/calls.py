"""Which calls of a traced body become operations, which run in Python, which are traced in place.

The gates are one ordered list, and the order is the contract.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, cast

from tilewright.ir.core import Function

if TYPE_CHECKING:
    from tilewright.frontend.trace.context import TraceContext

dont_trace_attr = "__nki_dont_trace__"
ENGINE = __name__.partition(".")[0]
ENGINE_FILES = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
"""Functions of this package never are the author's, whatever else a module is called."""

Gate = Callable[["TraceContext", Callable[..., Any]], bool]
Route = Callable[..., Any]


def dont_trace(func: Any = None) -> Any:
    """Decorator to mark a function as not being traced by NKI."""

    def wrapper(func_: Any) -> Any:
        setattr(func_, dont_trace_attr, True)
        return func_

    return wrapper if func is None else wrapper(func)


class KernelBase:
    """What gate 3 recognizes; `TraceKernel` is its only subclass."""


# ---------------------------------------------------------------------------- the gates


def is_nki_op(ctx: TraceContext, func: Callable[..., Any]) -> bool:
    """Gate 1: a language function; the attribute's presence counts, not its value."""
    return hasattr(func, "nki_func")


def is_marked(ctx: TraceContext, func: Callable[..., Any]) -> bool:
    """Gate 2: marked with `dont_trace`."""
    return bool(getattr(func, dont_trace_attr, False))


def is_kernel(ctx: TraceContext, func: Callable[..., Any]) -> bool:
    """Gate 3: a traced kernel."""
    return isinstance(func, KernelBase)


def is_library(ctx: TraceContext, func: Callable[..., Any]) -> bool:
    """Gate 4: a plain function or builtin that an excluded module defines."""
    plain = inspect.isfunction(func) or inspect.isbuiltin(func)
    return plain and _is_defined_in(func, ctx.exclude_modules)


def has_no_source(ctx: TraceContext, func: Callable[..., Any]) -> bool:
    """Nothing to trace: no Python code behind the call, or the engine's own."""
    plain = python_function(func)
    return plain is None or _is_engine(plain)


def _is_defined_in(func: Callable[..., Any], modules: Iterable[ModuleType]) -> bool:
    module = inspect.getmodule(func)
    if module is None:
        return False
    given = module.__name__.split(".")
    for excluded in modules:
        wanted = excluded.__name__.split(".")
        if given[: len(wanted)] == wanted:
            return True
    return False


def _is_engine(plain: FunctionType) -> bool:
    """True for what our files define, and for the methods that are written for our classes."""
    file = plain.__code__.co_filename
    is_ours = file.startswith((ENGINE_FILES, "<"))
    return is_ours and str(plain.__module__).partition(".")[0] == ENGINE


def python_function(func: Callable[..., Any]) -> FunctionType | None:
    """The Python function behind a callable, or None: classes and C code have none."""
    if isinstance(func, FunctionType):
        return func
    if isinstance(func, MethodType):
        return python_function(func.__func__)
    if isinstance(func, type):
        return None
    call = inspect.getattr_static(type(func), "__call__", None)
    return call if isinstance(call, FunctionType) else None


# ---------------------------------------------------------------------------- the routes


def emit(ctx: TraceContext, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """To the semantic builder."""
    return ctx.sema.dispatch(func, *args, **kwargs)


def run(ctx: TraceContext, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """In the host interpreter; what the author's function reads there selects the trace too."""
    ctx.watch.enter(python_function(func))
    return func(*args, **kwargs)


def recurse(ctx: TraceContext, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The nested kernel's body, in the same trace."""
    return ctx.call_kernel(func, args, kwargs)


GATES: tuple[tuple[Gate, Route], ...] = (
    (is_nki_op, emit),
    (is_marked, run),
    (is_kernel, recurse),
    (is_library, run),
    (has_no_source, run),
)


def call(ctx: TraceContext, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """One call of the body: the first gate that opens decides, else it is traced in place."""
    for is_open, route in GATES:
        if is_open(ctx, func):
            return route(ctx, func, args, kwargs)
    return inline_function(ctx, func, args, kwargs)


def unwrapped(
    ctx: TraceContext, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A call of a `functools.partial` as a call of what it holds.

    A function of the parsed style is no Python; the engine copies its operations into the trace.
    """
    while isinstance(func, functools.partial) and not is_marked(ctx, cast(Any, func)):
        held: Any = cast("functools.partial[Any]", func)
        args = (*held.args, *args)
        kwargs = {**held.keywords, **kwargs}
        func = held.func
    if isinstance(func, Function):
        return ctx.call_function, (func, args, kwargs), {}
    return cast(Any, func), args, kwargs


def inline_function(ctx: TraceContext, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Traces the body of a helper under its own scope, and checks what it returns."""
    plain = python_function(func)
    assert plain is not None
    if isinstance(func, MethodType):
        args = (func.__self__, *args)
    elif not isinstance(func, FunctionType):
        args = (func, *args)
    result = ctx.inlined(plain, args, kwargs)
    if ctx.opts.check_return_consistency:
        require_consistent(ctx, args, kwargs, result)
    return result


def require_consistent(ctx: TraceContext, args: Any, kwargs: Any, result: Any) -> None:
    """nki data may flow through a helper, and never originate in one that received none."""

    def has_nki_data(values: Iterable[Any]) -> bool:
        return any(ctx.is_nki_data(value) for value in values)

    assert has_nki_data((*args, *kwargs.values())) or not ctx.is_nki_data(result), (
        "function without nki data as input should not return nki data"
    )
