"""What functions can read from around them, place by place, as values that compare.

Nothing of the author is called: objects are compared by identity, and by those of their attributes
that the functions mention by name.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, cast

import numpy as np

Path = tuple[Any, ...]
LIBRARIES = frozenset({"tilewright", "numpy", "math", "builtins"})
"""Modules whose contents do not change."""
REFLECTION = frozenset(
    {"getattr", "hasattr", "attrgetter", "vars", "__dict__", "asdict", "astuple", "fields"}
)
"""Names by which a function reads attributes that it does not mention: then all are read."""
EVALUATION = frozenset({"globals", "eval", "exec", "locals"})
"""Names by which a function reads globals that its strings mention."""
INDIRECT = REFLECTION | EVALUATION
_PLAIN = (int, complex, str, bytes, bool, type(None), CodeType)
_ITEMS = (list, tuple, set, frozenset, deque)
_PYTHON = os.path.dirname(os.__file__)
_WORD = re.compile(r"[A-Za-z_]\w*")
_INSTALLED = ("site-packages", "dist-packages")
_DUNDERS = ("__init__", "__new__", "__call__", "__post_init__")


class Source:
    """Something that runs in a trace and reads names around it.

    `key` tells it from others, `home` is the package of its author, `mentioned` the names of
    globals and attributes in its text.
    """

    home: str = ""
    is_installed: bool = False

    @property
    def key(self) -> Any:
        """What tells it from others."""
        return Identity(self)

    @property
    def mentioned(self) -> tuple[str, ...]:
        """The names in its text."""
        raise NotImplementedError

    def readings(self) -> Iterable[tuple[Any, Any]]:
        """The values around it, by place."""
        raise NotImplementedError


class Identity:
    """An object compared by identity, and kept alive so that its identity stays its own."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


class PythonSource(Source):
    """A Python function: its code and defaults, the globals it mentions, its cells."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.home = home_of(function)
        file = function.__code__.co_filename
        self.is_installed = any(place in file for place in _INSTALLED)

    @property
    def key(self) -> FunctionType:
        """The function."""
        return self.function

    @property
    def mentioned(self) -> tuple[str, ...]:
        """The names in its code."""
        return mentioned_names(self.function.__code__)

    def readings(self) -> Iterator[tuple[Any, Any]]:
        """What it reads, by place."""
        function = self.function
        yield "__code__", function.__code__
        yield "__defaults__", function.__defaults__
        yield "__kwdefaults__", function.__kwdefaults__
        around = function.__globals__
        for name in self.mentioned:
            if name in around:
                yield name, around[name]
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            try:
                yield ("cell", name), cell.cell_contents
            except ValueError:
                yield ("cell", name), Identity(cell)


def as_source(given: object) -> Source | None:
    """A function, or what says itself what it reads; None for all else."""
    if isinstance(given, FunctionType):
        return None if is_library(home_of(given)) else PythonSource(given)
    return given if isinstance(given, Source) else None


def mentioned_by(sources: Iterable[Source]) -> frozenset[str]:
    """The names that any of `sources` mentions."""
    return frozenset(name for source in sources for name in source.mentioned)


@functools.lru_cache(maxsize=1024)
def mentioned_names(code: CodeType) -> tuple[str, ...]:
    """The global and attribute names in a code object and those nested in it."""
    names = list(code.co_names)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            names.extend(mentioned_names(const))
        elif isinstance(const, str) and not INDIRECT.isdisjoint(code.co_names):
            names.extend(_WORD.findall(const))
    return tuple(dict.fromkeys(names))


def home_of(given: FunctionType | type) -> str:
    """The package that a function or class is from."""
    return _package(str(given.__module__))


@functools.cache
def _package(module: str) -> str:
    return module.partition(".")[0]


@functools.cache
def is_library(home: str) -> bool:
    """True for packages whose objects stay what they are: ours, numpy, Python's own."""
    if home in LIBRARIES:
        return True
    file = getattr(sys.modules.get(home), "__file__", None)
    return home in sys.stdlib_module_names and (file is None or file.startswith(_PYTHON))


class Readings:
    """Collects what can be read: a leaf for each place, and the author's functions on the way.

    `home` is the author's package, None where functions are not asked for; places below one of
    `ignored` are left out.
    """

    def __init__(
        self, names: frozenset[str], home: str | None, ignored: frozenset[Path] = frozenset()
    ) -> None:
        self.names = names
        self.every = not REFLECTION.isdisjoint(names)
        self.home = home
        self.ignored = ignored
        self.leaves: dict[Path, Any] = {}
        self.found: list[Source] = []
        self._open: set[int] = set()

    def add_source(self, source: Source) -> None:
        """All that a function reads."""
        for place, value in source.readings():
            self.add((source.key, place), value)

    def add(self, path: Path, value: Any) -> None:
        """A value, and what can be read of it."""
        if path in self.ignored:
            return
        kind = cast("type[Any]", type(value))
        if kind in _PLAIN:
            self.leaves[path] = kind, value
        elif kind is float or isinstance(value, np.generic):
            self.leaves[path] = kind, repr(cast(Any, value))
        elif isinstance(value, np.ndarray):
            array = cast("np.ndarray[Any, Any]", value)
            self.leaves[path] = array.shape, str(array.dtype), array.tobytes()
        elif id(value) in self._open:
            self.leaves[path] = Identity(value)
        else:
            self._open.add(id(value))
            self._add_object(path, value)
            self._open.discard(id(value))

    def _add_object(self, path: Path, value: Any) -> None:
        if isinstance(value, _ITEMS):
            items = cast("Iterable[Any]", value)
            self.leaves[path] = type(items), len(cast("list[Any]", value))
            self._add_parts(path, enumerate(items))
        elif isinstance(value, dict):
            mapping = cast("Mapping[Any, Any]", value)
            self.leaves[path] = type(mapping), len(mapping)
            for place, (key, item) in enumerate(mapping.items()):
                self.add((*path, place, "key"), key)
                self.add((*path, place), item)
        else:
            self.leaves[path] = Identity(value)
            if self.home is not None:
                self._note(value)
        parts = next((read for kind, read in _PARTS if isinstance(value, kind)), _attributes)
        self._add_parts(path, parts(self, value))

    def _add_parts(self, path: Path, parts: Iterable[tuple[Any, Any]]) -> None:
        for place, part in parts:
            self.add((*path, place), part)

    def _note(self, value: Any) -> None:
        """Remembers a function of the author, which may run as part of the trace."""
        source = as_source(value)
        if source is not None and (source.home == self.home or not source.is_installed):
            self.found.append(source)

    def chosen(self, space: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """The entries of a namespace that can be read."""
        wanted = list(space) if self.every else self.names.intersection(space)
        return ((name, space[name]) for name in wanted)


# ---------------------------------------------------------------------------- parts of objects


def _nothing(readings: Readings, value: Any) -> Iterable[tuple[str, Any]]:
    return ()


def _function(readings: Readings, value: FunctionType) -> Iterable[tuple[str, Any]]:
    return readings.chosen(vars(value)) if vars(value) else ()


def _method(readings: Readings, value: MethodType) -> Iterable[tuple[str, Any]]:
    return ("__self__", value.__self__), ("__func__", value.__func__)


def _partial(readings: Readings, value: Any) -> Iterable[tuple[str, Any]]:
    return ("func", value.func), ("args", value.args), ("keywords", value.keywords)


def _property(readings: Readings, value: property) -> Iterable[tuple[str, Any]]:
    return (("fget", value.fget),)


def _wrapped(readings: Readings, value: Any) -> Iterable[tuple[str, Any]]:
    return (("__func__", value.__func__),)


def _cached(readings: Readings, value: Any) -> Iterable[tuple[str, Any]]:
    return (("func", value.func),)


def _module(readings: Readings, value: ModuleType) -> Iterable[tuple[str, Any]]:
    if is_library(value.__name__.partition(".")[0]):
        return ()
    space = vars(value)
    return ((name, space[name]) for name in readings.names.intersection(space))


def _class(readings: Readings, value: type) -> Iterator[tuple[str, Any]]:
    for base in value.__mro__:
        if is_library(home_of(base)):
            continue
        space = vars(base)
        for name in (*readings.names.intersection(space), *_DUNDERS):
            if name in space and not isinstance(space[name], MemberDescriptorType):
                yield f"{base.__qualname__}.{name}", space[name]


def _attributes(readings: Readings, value: Any) -> Iterator[tuple[str, Any]]:
    """What can be read of an object: its own attributes, slots included, and its class."""
    cls = cast("type[Any]", type(value))
    if home_of(cls) == "tilewright":
        return
    try:
        own = cast("dict[str, Any]", object.__getattribute__(value, "__dict__"))
        yield from readings.chosen(own)
    except AttributeError:
        pass
    if is_library(home_of(cls)):
        return
    yield from _slots(readings, value, cls)
    yield "__class__", cls
    inner = inspect.getattr_static(value, "__wrapped__", None)
    if isinstance(inner, FunctionType):
        yield "__wrapped__", inner


def _slots(readings: Readings, value: Any, cls: type) -> Iterator[tuple[str, Any]]:
    for base in cls.__mro__:
        for name, entry in vars(base).items():
            if isinstance(entry, MemberDescriptorType) and (
                readings.every or name in readings.names
            ):
                try:
                    yield name, entry.__get__(value, cls)
                except AttributeError:
                    continue


_PARTS: tuple[tuple[Any, Callable[[Readings, Any], Iterable[tuple[str, Any]]]], ...] = (
    (FunctionType, _function),
    ((BuiltinFunctionType, Identity), _nothing),
    (MethodType, _method),
    (functools.partial, _partial),
    (property, _property),
    ((staticmethod, classmethod), _wrapped),
    (functools.cached_property, _cached),
    (ModuleType, _module),
    (type, _class),
)
