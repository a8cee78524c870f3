"""What a trace read, as names that the native entry compares by identity before each launch."""

from __future__ import annotations

import dis
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, cast

import numpy as np

from tilewright.frontend.trace.ambient import IN_FLIGHT
from tilewright.frontend.trace.guards import Guard as TraceGuard
from tilewright.frontend.trace.readings import (
    EVALUATION,
    PythonSource,
    home_of,
    is_library,
    is_variable,
    keeps_values,
)
from tilewright.runtime.variants import FUNCTION_PARTS, Guard

_PLAIN = (int, float, complex, str, bytes, bool, type(None), CodeType, np.generic)
NOT_TRACING = Guard(IN_FLIGHT, "trace", False)
"""While something is traced, calls are looked at: they may be part of the trace."""


class Unwatchable(Exception):
    """The trace read a value that may change while it stays the same object."""


def watched(guard: TraceGuard) -> tuple[Guard, ...] | None:
    """Names whose objects, while they are the same, are all that a trace depends on.

    None when there are no such names: the trace read a list, an array, an attribute of an object.
    """
    try:
        for constant in guard.constants:
            require_fixed(constant)
        found = [each for source in guard.sources for each in _of_source(source, guard)]
    except Unwatchable:
        return None
    unique = {(id(g.container), g.key): g for g in found}
    return (NOT_TRACING, *unique.values())


def _of_source(source: Any, guard: TraceGuard) -> Iterator[Guard]:
    if isinstance(source, PythonSource):
        return _of_function(source, guard)
    return _of_values(source.readings(), guard)


def _of_values(values: Iterable[tuple[Any, Any]], guard: TraceGuard) -> Iterator[Guard]:
    """Guards inside of values that are themselves for good what they are."""
    for _, value in values:
        yield from _inside(value, guard.names)


def _of_function(source: PythonSource, guard: TraceGuard) -> Iterator[Guard]:
    function = source.function
    for part in FUNCTION_PARTS:
        held = getattr(function, part)
        yield Guard(function, part, held, missing=held is None)
    require_fixed(function.__defaults__)
    yield from _entries(function.__kwdefaults__ or {}, function.__kwdefaults__ or {})
    if not EVALUATION.isdisjoint(source.mentioned):
        raise Unwatchable
    around = function.__globals__
    for name in global_names(function.__code__):
        if (source.key, name) in guard.written:
            continue
        if name not in around:
            yield Guard(around, name, None, missing=True)
            continue
        yield Guard(around, name, around[name])
        yield from _inside(around[name], guard.names)
    yield from _cells(source, guard)


def _cells(source: PythonSource, guard: TraceGuard) -> Iterator[Guard]:
    function = source.function
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        if (source.key, ("cell", name)) in guard.written:
            continue
        try:
            held = cell.cell_contents
        except ValueError:
            raise Unwatchable from None
        yield Guard(cell, None, held)
        yield from _inside(held, guard.names)


def _entries(space: Mapping[str, Any], names: Iterable[str]) -> Iterator[Guard]:
    """Guards of the entries of a namespace that `names` mention."""
    for name in names:
        if name in space:
            if not isinstance(space[name], ModuleType):
                require_fixed(space[name])
            yield Guard(space, name, space[name])


def _inside(value: Any, names: Iterable[str]) -> Iterator[Guard]:
    """Guards of what the kernel may read of a value, which is refused if that cannot be watched."""
    if isinstance(value, FunctionType):
        if keeps_values(value):
            raise Unwatchable
        if value.__dict__:
            yield from _entries(value.__dict__, names)
    elif not isinstance(value, ModuleType):
        require_fixed(value)
    else:
        yield from _entries(vars(value), _read_of(value, names))


def _read_of(module: ModuleType, names: Iterable[str]) -> Iterable[str]:
    """Which of `names` may change in a module: of a library, those of its variables."""
    home, space = module.__name__.partition(".")[0], vars(module)
    if home == "tilewright":
        return ()
    return [n for n in names if n in space and (not is_library(home) or is_variable(space[n]))]


def require_fixed(value: Any) -> None:
    """Raises Unwatchable unless a value stays what it is as long as it is the same object."""
    if isinstance(value, (tuple, frozenset)):
        for item in cast("Iterable[Any]", value):
            require_fixed(item)
    elif isinstance(value, type):
        if not is_library(home_of(value)):
            raise Unwatchable
    elif isinstance(value, FunctionType):
        if value.__dict__ or keeps_values(value):
            raise Unwatchable
    elif not isinstance(value, (*_PLAIN, BuiltinFunctionType)) and not _is_ours(value):
        raise Unwatchable


def _is_ours(value: Any) -> bool:
    home = type(value).__module__.partition(".")[0]
    return home == "tilewright" or isinstance(value, (np.dtype, np.ufunc))


@lru_cache(maxsize=1024)
def global_names(code: CodeType) -> tuple[str, ...]:
    """The global names that a code object and those nested in it load."""
    loads = (each for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL")
    names = [str(each.argval) for each in loads]
    for const in code.co_consts:
        if isinstance(const, CodeType):
            names.extend(global_names(const))
    return tuple(dict.fromkeys(names))
