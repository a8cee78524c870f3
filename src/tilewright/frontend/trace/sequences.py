"""Sequences of anything, as the author may write them: typed once, here."""

from __future__ import annotations

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
