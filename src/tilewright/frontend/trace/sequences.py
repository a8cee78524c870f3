"""Sequences of anything, as the author may write them: typed once, here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast


def items_of(given: Any) -> tuple[Any, ...] | None:
    """The items of a tuple or list; None for anything else."""
    return tuple(cast("list[Any]", given)) if isinstance(given, (tuple, list)) else None


def as_items(given: Any) -> tuple[Any, ...]:
    """The items of a tuple or list; anything else alone."""
    items = items_of(given)
    return (given,) if items is None else items


def as_entries(given: Any) -> tuple[Any, ...]:
    """What stands between brackets: a tuple's items, or the one thing."""
    return cast("tuple[Any, ...]", given) if isinstance(given, tuple) else (given,)


def holds(found: Callable[[Any], bool], given: Any) -> bool:
    """True when `found` is true of a value, or of one in the tuples and dicts that it holds."""
    if isinstance(given, dict):
        return any(holds(found, each) for each in cast("dict[Any, Any]", given).values())
    if isinstance(given, tuple):
        return any(holds(found, each) for each in cast("tuple[Any, ...]", given))
    return found(given)


def rebuilt(like: tuple[Any, ...], items: Sequence[Any]) -> tuple[Any, ...]:
    """`items` as a tuple of the type of `like`: a named one keeps its names."""
    made = getattr(type(like), "_make", tuple)
    return made(items)
