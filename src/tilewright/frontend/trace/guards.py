"""What a trace read from around its functions, so that a change of it forces a new trace."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, cast

import numpy as np

from tilewright.dataclass import dataclass

DEPTH = 4
_PLAIN = (int, float, complex, str, bytes, bool, type(None), type, CodeType)


@dataclass(frozen=True)
class Guard:
    """The values of the names that the traced functions mention, and of the constants they got."""

    functions: tuple[FunctionType, ...]
    constants: tuple[Any, ...]
    names: tuple[str, ...]
    seen: Any

    @staticmethod
    def of(functions: Iterable[FunctionType], constants: Iterable[Any] = ()) -> Guard:
        """What `functions` mention now, and what they can read of `constants`."""
        kept, given = tuple(dict.fromkeys(functions)), tuple(constants)
        every = (name for function in kept for name in mentioned_names(function.__code__))
        names = tuple(dict.fromkeys(every))
        return Guard(kept, given, names, snapshot(kept, given, names))

    def holds(self) -> bool:
        """True while every mentioned name still means the same."""
        return snapshot(self.functions, self.constants, self.names) == self.seen


def snapshot(
    functions: Iterable[FunctionType], constants: Iterable[Any], names: tuple[str, ...]
) -> list[Any]:
    """The frozen values of the globals and cells of `functions`, and of `constants`."""
    seen = [each for function in functions for each in _mentioned(function, names)]
    return [*seen, *(frozen(constant, names) for constant in constants)]


def _mentioned(function: FunctionType, names: tuple[str, ...]) -> Iterator[Any]:
    around = function.__globals__
    for name in mentioned_names(function.__code__):
        if name in around:
            yield frozen(around[name], names)
    for cell in function.__closure__ or ():
        try:
            yield frozen(cell.cell_contents, names)
        except ValueError:
            yield None


@functools.lru_cache(maxsize=1024)
def mentioned_names(code: CodeType) -> tuple[str, ...]:
    """The global and attribute names in a code object and those nested in it."""
    names = list(code.co_names)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            names.extend(mentioned_names(const))
    return tuple(dict.fromkeys(names))


def frozen(value: Any, names: tuple[str, ...], depth: int = DEPTH) -> Any:
    """A value that compares equal while `value` is the same, as far as a kernel can tell."""
    if isinstance(value, _PLAIN):
        return type(value), repr(value) if isinstance(value, float) else value
    if isinstance(value, (FunctionType, BuiltinFunctionType)):
        return Identity(value)
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return array.shape, str(array.dtype), array.tobytes()
    if depth == 0:
        return Identity(value)
    if isinstance(value, ModuleType):
        return _frozen_module(value, names)
    if isinstance(value, (list, tuple, set, frozenset)):
        items = cast("Iterable[Any]", value)
        return type(items), [frozen(item, names, depth - 1) for item in items]
    if isinstance(value, dict):
        mapping = cast("Mapping[Any, Any]", value)
        return [(key, frozen(item, names, depth - 1)) for key, item in mapping.items()]
    return Identity(value), _frozen_attributes(value, names, depth)


def _frozen_module(module: ModuleType, names: tuple[str, ...]) -> Any:
    if module.__name__.partition(".")[0] in ("tilewright", "numpy", "math"):
        return Identity(module)
    inside = vars(module)
    return Identity(module), [(n, frozen(inside[n], names, 1)) for n in names if n in inside]


def _frozen_attributes(value: Any, names: tuple[str, ...], depth: int) -> Any:
    if str(type(value).__module__).startswith("tilewright"):
        return None
    attributes = getattr(value, "__dict__", {})
    return [(n, frozen(attributes[n], names, depth - 1)) for n in names if n in attributes]


class Identity:
    """An object compared by identity, and kept alive so that its identity stays its own."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)
