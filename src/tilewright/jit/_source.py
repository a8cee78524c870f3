"""One request's view of names: a snapshot taken once, and guards that say when it has changed."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import EnumMeta
from types import FunctionType, ModuleType
from typing import Any, cast

from tilewright.frontend.namespace import MISSING, Namespace, Snapshot
from tilewright.frontend.surface import OpNamespace
from tilewright.runtime.variants import Guard

Path = tuple[str, ...]
"""A name and the attributes read from it: `("config", "BLOCK")`."""


@dataclass
class Resolution:
    """What a path means, and the guards under which it does; None when nothing can guard it."""

    value: Any
    guards: list[Guard] | None = field(default_factory=list[Guard])

    def is_current(self) -> bool:
        """True while every guarded name means the same object."""
        return self.guards is not None and all(map(holds, self.guards))


def holds(guard: Guard) -> bool:
    """True when a guarded name still means the expected object."""
    found: Any
    if isinstance(guard.container, dict):
        found = cast("dict[Any, Any]", guard.container).get(guard.key, MISSING)
    else:
        found = cell_value(guard.container)
    return found is (MISSING if guard.missing else guard.expected)


def cell_value(cell: Any) -> Any:
    """What a closure cell holds; MISSING when it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


class RequestNamespace:
    """Names of every function of one request; module globals are copied once each."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()

    def of(self, function: FunctionType, enclosing: Mapping[str, Any]) -> FunctionNames:
        """The names that one function sees, from this request's snapshot."""
        return FunctionNames(function, self.snapshot.namespace(function, enclosing))


class FunctionNames:
    """The names one function sees, and what guards them."""

    def __init__(self, function: FunctionType, names: Namespace) -> None:
        self.function = function
        self.names = names
        self._cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))

    def resolve(self, path: Path) -> Resolution:
        """What a path means now; MISSING when its first name means nothing."""
        name, *attributes = path
        value = self.names.lookup(name)
        resolution = Resolution(value, self._guards(name, value))
        for attribute in attributes:
            if is_language(value):
                value = getattr(value, attribute, MISSING)
            elif isinstance(value, (ModuleType, type)):
                value = self._member(resolution, value, attribute)
            else:
                return Resolution(MISSING)
        resolution.value = value
        return resolution

    def _member(self, resolution: Resolution, owner: Any, attribute: str) -> Any:
        found = getattr(owner, attribute, MISSING)
        space: object = owner.__dict__
        guard = Guard(space, attribute, found)
        if not isinstance(space, dict) or not holds(guard):
            resolution.guards = None
        elif resolution.guards is not None:
            resolution.guards.append(guard)
        return found

    def _guards(self, name: str, value: Any) -> list[Guard]:
        is_missing = value is MISSING
        if name in self._cells:
            return [Guard(self._cells[name], None, value, is_missing)]
        live = self.function.__globals__
        if name in live:
            return [Guard(live, name, value, is_missing)]
        return [Guard(live, name, None, missing=True)]


def is_language(owner: Any) -> bool:
    """True for `pl` and `pld`, their namespaces and enumerations, whose names never change."""
    if isinstance(owner, ModuleType):
        return hasattr(owner, "__surface__")
    return isinstance(owner, (OpNamespace, EnumMeta))


def is_builtin(path: Path, value: Any) -> bool:
    """True when a name means the builtin of that name."""
    return len(path) == 1 and getattr(builtins, path[0], MISSING) is value


def merged(guards: Iterable[Guard]) -> tuple[Guard, ...]:
    """Guards without repetitions."""
    unique = {(id(g.container), g.key): g for g in guards}
    return tuple(unique.values())
