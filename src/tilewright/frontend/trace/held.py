"""The tensors that a value of Python holds, as a helper may return them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from types import SimpleNamespace
from typing import Any, cast

from tilewright.frontend.trace.readings import home_of, is_foreign
from tilewright.frontend.trace.tensors import nki_tensor


def tensors_in(value: Any, seen: set[int] | None = None) -> Iterator[nki_tensor]:
    """The tensors in a value, in its items, and in the attributes of the author's objects."""
    seen = set() if seen is None else seen
    if isinstance(value, nki_tensor):
        yield value
    elif id(value) not in seen:
        seen.add(id(value))
        for part in _parts_of(value):
            yield from tensors_in(part, seen)


def _parts_of(value: Any) -> Iterable[Any]:
    """What a container or an object of the author holds."""
    if isinstance(value, (tuple, list, set, frozenset)):
        return cast("tuple[Any, ...]", value)
    if isinstance(value, dict):
        return cast("dict[Any, Any]", value).values()
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in fields(value)]
    kind = cast("type[Any]", type(value))
    if kind is SimpleNamespace or not is_foreign(home_of(kind)):
        return getattr(value, "__dict__", {}).values()
    return ()
