"""Why a request compiles, in words: which part of its key no earlier request had."""

from __future__ import annotations

from collections.abc import Collection

from tilewright.jit.cache import Key

_SHORT = 60


def explain_request(name: str, key: Key, known: Collection[Key], fresh: str) -> str:
    """What a request of kernel `name` does: reuse an object, or compile, and for what difference.

    `known` are the keys of the objects there are, oldest first; `fresh` says why the request is
    to be answered by none of them, "" when it may.
    """
    if fresh:
        return f"{name}: compiles afresh and keeps no object, because {fresh}"
    if key in known:
        return f"{name}: reuses the object that an equal request made"
    if not known:
        return f"{name}: compiles, because nothing has been compiled before"
    nearest = min(reversed([*known]), key=lambda other: len(other.differences(key)))
    changes = describe_changes(nearest, key)
    return f"{name}: compiles; what differs from the nearest earlier request:\n  " + "\n  ".join(
        changes
    )


def describe_changes(before: Key, after: Key) -> list[str]:
    """One line for each part that differs: its name, its text before and after."""
    return [
        f"{name}: {_short(old)} -> {_short(new)}" for name, old, new in before.differences(after)
    ]


def _short(text: str) -> str:
    if not text:
        return "nothing"
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"
