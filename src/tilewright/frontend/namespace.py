"""What the names around a function mean: one snapshot per request, closures laid over it."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any

from tilewright.frontend.surface import Word

_BUILTINS: Mapping[str, Any] = vars(builtins)


class Missing:
    """The value of a name that is bound to nothing: unknown, or an empty closure cell."""

    def __repr__(self) -> str:
        return "<missing>"


MISSING = Missing()


class Callee:
    """Base of what a body may call by name and only its own text defines: inline helpers."""


class Namespace:
    """Names a function inherits: closure, then enclosing locals, module globals, builtins.

    An empty closure cell hides a global of the same name. Reading never changes the namespace.
    `hints` say what to do about names that stand for nothing here.
    """

    __slots__ = ("_layers", "empty", "hints", "types")

    def __init__(
        self,
        *layers: Mapping[str, Any],
        empty: Iterable[str] = (),
        hints: Mapping[str, str] | None = None,
    ) -> None:
        self._layers = layers
        self.empty = frozenset(empty)
        self.hints = hints or {}
        self.types: dict[str, tuple[Any, set[str]]] = {}  # by text: a type, the names it mentions

    def lookup(self, name: str) -> Any:
        """The value of `name`, or `MISSING`."""
        if name in self.empty:
            return MISSING
        for layer in self._layers:
            if name in layer:
                return layer[name]
        return _BUILTINS.get(name, MISSING)

    def __contains__(self, name: str) -> bool:
        return self.lookup(name) is not MISSING

    def overlay(self, names: Mapping[str, Any]) -> Namespace:
        """This namespace with `names` in front."""
        return Namespace(names, *self._layers, empty=self.empty - names.keys(), hints=self.hints)

    def names(self) -> Iterator[str]:
        """Every name that has a value, builtins left out."""
        for layer in self._layers:
            yield from (name for name in layer if name not in self.empty)


def word_called(names: Namespace, node: ast.AST) -> str:
    """The last name of the word of the language that an expression calls, by whatever name it was
    imported; "" for anything but a call."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    found = names.lookup(node.func.id) if isinstance(node.func, ast.Name) else MISSING
    return found.path.rpartition(".")[2] if isinstance(found, Word) else ""


class Snapshot:
    """Copies of module globals, taken at most once per module for the time of one request."""

    def __init__(self) -> None:
        self._globals: dict[int, dict[str, Any]] = {}

    def globals_of(self, function: FunctionType) -> dict[str, Any]:
        """This request's copy of the function's module globals."""
        live = function.__globals__
        copy = self._globals.get(id(live))
        if copy is None:
            copy = self._globals[id(live)] = dict(live)
        return copy

    def namespace(
        self, function: Callable[..., Any], enclosing: Mapping[str, Any] | None = None
    ) -> Namespace:
        """The names that `function` sees; `enclosing` are locals of the functions around it."""
        assert isinstance(function, FunctionType)
        bound, empty = closure_of(function)
        return Namespace(bound, enclosing or {}, self.globals_of(function), empty=empty)


def closure_of(function: FunctionType) -> tuple[dict[str, Any], list[str]]:
    """The values of a function's closure cells, and the names of those that are still empty."""
    bound: dict[str, Any] = {}
    empty: list[str] = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            bound[name] = cell.cell_contents
        except ValueError:
            empty.append(name)
    return bound, empty
