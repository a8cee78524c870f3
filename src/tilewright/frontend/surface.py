"""What `pl` and `pld` are made of: names of operations, and words that only the parser knows.

An `OpName` works wherever a builder is active: in a parsed body, and in a helper called while a
kernel is traced. Anywhere else it refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import EnumMeta
from inspect import Signature
from types import ModuleType
from typing import Any, cast

import tilewright.frontend as room
from tilewright.errors import InvalidOperationError
from tilewright.ir.enums import ForKind


class Word:
    """A name that means something only in the source of a kernel: `pl.range`, `pl.yield_`."""

    __slots__ = ("doc", "path")

    def __init__(self, path: str, doc: str) -> None:
        self.path = path
        self.doc = doc

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise InvalidOperationError(
            f"{self.path} can be used only in the body of a kernel",
            hint="Decorate the function with @pl.function, @pl.inline or @pl.jit.",
        )

    def __repr__(self) -> str:
        return self.path


class LoopWord(Word):
    """A word that heads a `for` loop."""

    __slots__ = ("kind",)

    def __init__(self, path: str, kind: ForKind, doc: str) -> None:
        super().__init__(path, doc)
        self.kind = kind


class ScopeWord(Word):
    """A word that heads a `with` statement."""

    __slots__ = ("kind",)

    def __init__(self, kind: str, doc: str) -> None:
        super().__init__(f"pl.{kind}", doc)
        self.kind = kind


class OpName:
    """A public name of operations; calling it emits the one that its arguments select."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return room.operations.call(self.path, args, kwargs)

    @property
    def __name__(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def __signature__(self) -> Signature:
        """How it is called, for `inspect.signature`; the first of several ways."""
        return room.operations.signature(self.path)

    @property
    def doc(self) -> str | None:
        """The documentation of the operation's page."""
        return room.operations.documentation(self.path)

    def __repr__(self) -> str:
        return self.path


class OpNamespace:
    """A dotted prefix of public names: `pl.tile`, `pl.loop`, `pl.op.memory`."""

    def __init__(self, path: str, extra: dict[str, Any] | None = None) -> None:
        self._path = path
        vars(self).update(extra or {})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = room.operations.find_name(f"{self._path}.{name}")
        if found is None:
            raise AttributeError(f"{self._path} has no {name}")
        setattr(self, name, found)
        return found

    def __dir__(self) -> Iterable[str]:
        return sorted({*vars(self), *room.operations.names_under(self._path)} - {"_path"})

    def __repr__(self) -> str:
        return f"<namespace {self._path}>"


def surface_path(base: Any) -> str | None:
    """The dotted path of a namespace of operations, or None for any other object."""
    if isinstance(base, OpNamespace):
        return repr(base).removeprefix("<namespace ").removesuffix(">")
    return getattr(base, "__surface__", None)


def is_language(owner: Any) -> bool:
    """True for `pl` and `pld`, their namespaces and enumerations, whose names never change."""
    if isinstance(owner, ModuleType):
        return hasattr(owner, "__surface__")
    return isinstance(owner, (OpName, OpNamespace, EnumMeta))


def member(owner: Any, name: str, missing: Any) -> Any:
    """What a name in `owner`, of the language, stands for, without importing the operations.

    What is not there already is taken for a name of operations: whether there are any, the parser
    finds out.
    """
    if isinstance(owner, EnumMeta):
        return getattr(owner, name, missing)
    if isinstance(owner, OpName):
        return OpName(f"{owner.path}.{name}")
    found = cast("dict[str, Any]", vars(owner))
    return found[name] if name in found else OpName(f"{surface_path(owner)}.{name}")


EXTRA_NAMES: dict[str, Callable[[], Iterable[str]]] = {}
"""What namespaces hold besides operations, for suggestions."""


def register_names(home: str, names: Callable[[], Iterable[str]]) -> None:
    """Let `home` suggest also these names when an unknown one is met."""
    EXTRA_NAMES[home] = names
