"""One request's view of names: a snapshot taken once, and guards that say when it has changed."""

from __future__ import annotations

import builtins
import gc
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from types import FunctionType, ModuleType
from typing import Any, cast

from tilewright.dataclass import dataclass
from tilewright.frontend.namespace import MISSING, Namespace, Snapshot
from tilewright.frontend.surface import is_language, member
from tilewright.runtime.variants import Guard, dict_version

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
        space = cast("dict[Any, Any]", guard.container)
        if guard.key is None:
            return dict_version(space) == guard.expected
        found = space.get(guard.key, MISSING)
    elif isinstance(guard.container, list):
        return _list_holds(cast("list[Any]", guard.container), guard)
    else:
        found = cell_value(guard.container)
    return found is (MISSING if guard.missing else guard.expected)


def _list_holds(items: list[Any], guard: Guard) -> bool:
    if guard.key is None:
        return len(items) == guard.expected
    assert isinstance(guard.key, int)
    return guard.key < len(items) and items[guard.key] is guard.expected


def contents(value: Any) -> Iterator[Guard]:
    """Guards of what a constant contains that may change while it stays the same object."""
    if isinstance(value, list):
        items = cast("list[Any]", value)
        yield Guard(items, None, len(items))
        yield from (Guard(items, index, item) for index, item in enumerate(items))
    if isinstance(value, (list, tuple)):
        for item in cast("Iterable[Any]", value):
            yield from contents(item)


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
                value = member(value, attribute, MISSING)
            elif isinstance(value, (ModuleType, type)):
                value = self._member(resolution, value, attribute)
            else:
                return Resolution(MISSING)
        resolution.value = value
        if resolution.guards is not None:
            resolution.guards.extend(contents(value))
        return resolution

    def _member(self, resolution: Resolution, owner: Any, attribute: str) -> Any:
        found = getattr(owner, attribute, MISSING)
        guards = attribute_guards(owner, attribute, found)
        if guards is None or resolution.guards is None:
            resolution.guards = None
        else:
            resolution.guards.extend(guards)
        return found

    def _guards(self, name: str, value: Any) -> list[Guard]:
        is_missing = value is MISSING
        if name in self._cells:
            return [Guard(self._cells[name], None, value, is_missing)]
        live = self.function.__globals__
        if name in live:
            return [Guard(live, name, value, is_missing)]
        return [Guard(live, name, None, missing=True)]


def attribute_guards(owner: ModuleType | type, name: str, found: Any) -> list[Guard] | None:
    """What holds as long as an attribute is `found`: absent from the first spaces, in the next one.

    None for what no namespace holds: computed attributes, classes of another metaclass.
    """
    guards: list[Guard] = []
    for space in _spaces(owner):
        if name in space:
            guard = Guard(space, name, found)
            return [*guards, guard] if holds(guard) else None
        guards.append(Guard(space, name, None, missing=True))
    return None


def _spaces(owner: ModuleType | type) -> list[dict[str, Any]]:
    """The namespaces that are asked for an attribute, in order."""
    if isinstance(owner, ModuleType):
        return [vars(owner)]
    if type(owner) is not type:
        return []
    behind: Any = [gc.get_referents(vars(base)) for base in owner.__mro__]  # vars() is a proxy
    is_known = all(len(found) == 1 and isinstance(found[0], dict) for found in behind)
    return [space for (space,) in behind] if is_known else []


def is_builtin(path: Path, value: Any) -> bool:
    """True when a name means the builtin of that name."""
    return len(path) == 1 and getattr(builtins, path[0], MISSING) is value


def merged(guards: Iterable[Guard]) -> tuple[Guard, ...]:
    """Guards without repetitions."""
    unique = {(id(g.container), g.key): g for g in guards}
    return tuple(unique.values())
