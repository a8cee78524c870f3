"""What a trace read, as names that the native entry compares by identity before each launch."""

from __future__ import annotations

import dis
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, cast

import numpy as np

from tilewright.frontend.trace.ambient import IN_FLIGHT
from tilewright.frontend.trace.guards import Guard as TraceGuard
from tilewright.runtime.variants import Guard

_PLAIN = (int, float, complex, str, bytes, bool, type(None), type, CodeType, np.generic)
_FIXED = (*_PLAIN, FunctionType, BuiltinFunctionType)
_LIBRARIES = ("tilewright", "numpy", "math", "builtins")
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
        found = [g for function in guard.functions for g in _of_function(function, guard.names)]
    except Unwatchable:
        return None
    unique = {(id(g.container), g.key): g for g in found}
    return (NOT_TRACING, *unique.values())


def _of_function(function: FunctionType, names: Iterable[str]) -> Iterator[Guard]:
    around = function.__globals__
    for name in global_names(function.__code__):
        if name not in around:
            yield Guard(around, name, None, missing=True)
            continue
        yield Guard(around, name, around[name])
        yield from _inside(around[name], names)
    for cell in function.__closure__ or ():
        try:
            held = cell.cell_contents
        except ValueError:
            raise Unwatchable from None
        yield Guard(cell, None, held)
        yield from _inside(held, names)


def _inside(value: Any, names: Iterable[str]) -> Iterator[Guard]:
    """Guards of what the kernel may read of a value, which is refused if that cannot be watched."""
    if not isinstance(value, ModuleType):
        require_fixed(value)
    elif value.__name__.partition(".")[0] not in _LIBRARIES:
        space = vars(value)
        for name in names:
            if name in space:
                if not isinstance(space[name], ModuleType):
                    require_fixed(space[name])
                yield Guard(space, name, space[name])


def require_fixed(value: Any) -> None:
    """Raises Unwatchable unless a value stays what it is as long as it is the same object."""
    if isinstance(value, (tuple, frozenset)):
        for item in cast("Iterable[Any]", value):
            require_fixed(item)
    elif not isinstance(value, _FIXED) and not _is_ours(value):
        raise Unwatchable


def _is_ours(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in ("tilewright", "numpy") and not isinstance(
        value, np.ndarray
    )


@lru_cache(maxsize=1024)
def global_names(code: CodeType) -> tuple[str, ...]:
    """The global names that a code object and those nested in it load."""
    loads = (each for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL")
    names = [str(each.argval) for each in loads]
    for const in code.co_consts:
        if isinstance(const, CodeType):
            names.extend(global_names(const))
    return tuple(dict.fromkeys(names))
