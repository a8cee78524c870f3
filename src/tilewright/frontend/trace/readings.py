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
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from threading import local
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, cast

import numpy as np

from tilewright.hashes import blake

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
_EMPTY: dict[Any, Any] = {}
_VIEWS: tuple[type, ...] = (type(_EMPTY.keys()), type(_EMPTY.values()), type(_EMPTY.items()))
_ITEMS: tuple[type, ...] = (list, tuple, set, frozenset, deque, *_VIEWS)
_MAPPINGS = (dict, MappingProxyType)
_CONTAINERS = (*_ITEMS, *_MAPPINGS, np.ndarray)
_PYTHON = os.path.dirname(os.__file__)
_WORD = re.compile(r"[A-Za-z_]\w*")
_INSTALLED = ("site-packages", "dist-packages")
_NO_DATA = frozenset({"logging"})
"""Libraries whose objects hold nothing that a kernel computes with."""
_LARGE = 4096
"""Bytes from which contents are remembered by their hash."""


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


class Unreadable:
    """Contents that cannot be looked at: they equal nothing, so that each call traces anew."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return False


class PythonSource(Source):
    """A Python function: its code and defaults, the globals it mentions, its cells."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.home = home_of(function)
        self.is_installed = is_installed(function.__code__.co_filename)

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


def is_installed(file: str) -> bool:
    """True for a file of an installed package."""
    return any(place in file for place in _INSTALLED)


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


@functools.cache
def is_foreign(home: str) -> bool:
    """True for packages that are not the author's: libraries, and what is installed."""
    file = getattr(sys.modules.get(home), "__file__", None) or ""
    return is_library(home) or is_installed(file)


@functools.lru_cache(maxsize=1024)
def has_foreign_methods(cls: type) -> bool:
    """True for classes of which code that is not the author's reads what it likes."""
    bases = (base for base in cls.__mro__ if base is not object)
    return any(is_foreign(home_of(base)) and home_of(base) not in _NO_DATA for base in bases)


ArrayReader = Callable[[Any], "np.ndarray[Any, Any]"]
_READERS: list[ArrayReader] = [np.asarray]


def install_array_reader(read: ArrayReader) -> None:
    """Called once by the room that knows how arrays of other libraries lie in memory."""
    _READERS[:] = [read]


def contents_of(value: Any) -> Any:
    """The elements of an array of another library, or of a buffer; None for what is neither."""
    try:
        kind = cast("type[Any]", type(value))
        if hasattr(kind, "__dlpack__") or hasattr(kind, "__array__"):
            array = _READERS[0](value)
            return array.shape, str(array.dtype), remembered(array.tobytes())
        return remembered(bytes(memoryview(value)))
    except TypeError:
        return None
    except Exception:  # whatever it is for which a library does not show elements
        return Unreadable()


def remembered(contents: bytes) -> bytes:
    """What tells contents from others: themselves, or their hash."""
    return contents if len(contents) < _LARGE else blake(contents).digest()


def is_container(value: object) -> bool:
    """True for what holds values that are read one by one."""
    return isinstance(value, _CONTAINERS)


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
        self._visited: dict[int, Any] = {}

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
        elif kind is np.ndarray and value.dtype != object:
            array = cast("np.ndarray[Any, Any]", value)
            contents = remembered(array.tobytes())
            self.leaves[path] = array.shape, str(array.dtype), contents
        elif kind is Unreadable:
            self.leaves[path] = value
        elif id(value) in self._visited:
            self.leaves[path] = Identity(value)
        else:
            self._visited[id(value)] = value
            self._add_object(path, value)

    def _add_object(self, path: Path, value: Any) -> None:
        parts = parts_of(cast("type[Any]", type(value)))
        if isinstance(value, _ITEMS):
            items = cast("Iterable[Any]", value)
            self.leaves[path] = type(items), len(cast("list[Any]", value))
            self._add_parts(path, enumerate(items))
        elif isinstance(value, _MAPPINGS):
            mapping = cast("Mapping[Any, Any]", value)
            self.leaves[path] = type(mapping), len(mapping)
            for place, (key, item) in enumerate(mapping.items()):
                self.add((*path, place, "key"), key)
                self.add((*path, place), item)
        elif isinstance(value, np.ndarray):
            self._add_array(path, cast("np.ndarray[Any, Any]", value))
        else:
            self.leaves[path] = Identity(value)
            if self.home is not None:
                self._note(value)
        self._add_parts(path, parts(self, value))

    def _add_array(self, path: Path, array: np.ndarray[Any, Any]) -> None:
        """An array of objects, or of a subclass, whose data are more than its elements."""
        self.leaves[path] = type(array), array.shape, str(array.dtype)
        is_plain = array.dtype != object
        held = remembered(array.tobytes()) if is_plain else array.ravel().tolist()
        self.add((*path, "contents"), held)

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


def _function(readings: Readings, value: FunctionType) -> Iterator[tuple[Any, Any]]:
    if vars(value):
        yield from readings.chosen(vars(value))
    if keeps_values(value):
        yield from enumerate(value.__closure__ or ())


def keeps_values(value: FunctionType) -> bool:
    """True for a function of a library that keeps something for the author."""
    return value.__closure__ is not None and is_foreign(home_of(value))


def _method(readings: Readings, value: MethodType) -> Iterable[tuple[str, Any]]:
    return ("__self__", value.__self__), ("__func__", value.__func__)


def _partial(readings: Readings, value: Any) -> Iterable[tuple[str, Any]]:
    return ("func", value.func), ("args", value.args), ("keywords", value.keywords)


def _property(readings: Readings, value: property) -> Iterable[tuple[str, Any]]:
    return (("fget", value.fget),)


def _wrapped(readings: Readings, value: Any) -> Iterable[tuple[str, Any]]:
    return (("__func__", value.__func__),)


def _cell(readings: Readings, value: Any) -> Iterable[tuple[str, Any]]:
    try:
        return (("cell_contents", value.cell_contents),)
    except ValueError:
        return ()


def _reference(readings: Readings, value: Any) -> Iterable[tuple[str, Any]]:
    return (("referent", value()),)


def _variable(readings: Readings, value: ContextVar[Any]) -> Iterable[tuple[str, Any]]:
    return (("value", value.get(None)),)


def _thread_local(readings: Readings, value: local) -> Iterable[tuple[str, Any]]:
    return readings.chosen(vars(value))


def _cached(readings: Readings, value: Any) -> Iterable[tuple[str, Any]]:
    return (("func", value.func),)


def _module(readings: Readings, value: ModuleType) -> Iterable[tuple[str, Any]]:
    home, space = value.__name__.partition(".")[0], vars(value)
    if home == "tilewright":
        return ()
    mentioned = ((name, space[name]) for name in readings.names.intersection(space))
    return mentioned if not is_library(home) else (e for e in mentioned if is_variable(e[1]))


def is_variable(value: Any) -> bool:
    """True for what may change in a module of a library: no function, class or module."""
    return not callable(value) and not isinstance(value, ModuleType)


def _class(readings: Readings, value: type) -> Iterator[tuple[str, Any]]:
    for base in value.__mro__:
        home = home_of(base)
        if is_library(home):
            continue
        for name, entry in vars(base).items():
            is_special = name.startswith("__") and isinstance(entry, FunctionType)
            is_special = is_special and not is_foreign(home)
            read = is_special or name in readings.names
            if read and not isinstance(entry, MemberDescriptorType):
                yield f"{base.__qualname__}.{name}", entry
    if not is_library(home_of(type(value))):
        yield "__class__", type(value)


def _attributes(readings: Readings, value: Any) -> Iterator[tuple[str, Any]]:
    """What can be read of an object: its own attributes, slots included, and its class."""
    cls = cast("type[Any]", type(value))
    if home_of(cls) == "tilewright":
        return
    if has_foreign_methods(cls) and not is_container(value):
        yield "contents", contents_of(value)
    try:
        own = cast("dict[str, Any]", object.__getattribute__(value, "__dict__"))
        yield from own.items() if has_foreign_methods(cls) else readings.chosen(own)
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


PartsOf = Callable[[Readings, Any], Iterable[tuple[Any, Any]]]
_PARTS: tuple[tuple[Any, PartsOf], ...] = (
    (FunctionType, _function),
    ((BuiltinFunctionType, Identity), _nothing),
    (MethodType, _method),
    (functools.partial, _partial),
    (property, _property),
    ((staticmethod, classmethod), _wrapped),
    (CellType, _cell),
    (weakref.ref, _reference),
    (ContextVar, _variable),
    (local, _thread_local),
    (functools.cached_property, _cached),
    (ModuleType, _module),
    (type, _class),
)


@functools.lru_cache(maxsize=1024)
def parts_of(kind: type) -> PartsOf:
    """What gives the parts of an object of a type."""
    return next((parts for kinds, parts in _PARTS if issubclass(kind, kinds)), _attributes)
