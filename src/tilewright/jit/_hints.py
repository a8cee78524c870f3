"""What to do about an inherited name that has no form in the source of a kernel."""

from __future__ import annotations

import types
from enum import Enum
from typing import Any

from tilewright.frontend.annotations import DynVar
from tilewright.frontend.namespace import MISSING
from tilewright.frontend.suggestions import did_you_mean
from tilewright.jit import _specialize_values
from tilewright.jit._facts import is_callee
from tilewright.jit._graph import Member, Stranger
from tilewright.jit._source import Path, is_builtin
from tilewright.runtime.views import describe_value

_FOLDED = "numbers, strings, None, names of pl, and lists and tuples of these"


def find_hints(member: Member) -> dict[str, str]:
    """A hint for each name that a function inherits and that a kernel cannot use."""
    hints: dict[str, str] = {}
    for path in member.info.reads:
        if path[0] in hints or _is_usable(member, path):
            continue
        value = member.names.resolve(path[:1]).value
        hint = _unknown(member, path[0]) if value is MISSING else _unusable(path, value)
        if hint is not None:
            hints[path[0]] = hint
    return hints


def _is_usable(member: Member, path: Path) -> bool:
    """True when the path, or a name at its beginning, means something in the program."""
    prefixes = (path[:length] for length in range(len(path), 0, -1))
    return any(_stands_for_something(member, prefix) for prefix in prefixes)


def _stands_for_something(member: Member, path: Path) -> bool:
    resolution = member.resolutions.get(path)
    if path in member.helpers:
        return True
    if resolution is None or resolution.value is MISSING:
        return False
    value = resolution.value
    is_kept = isinstance(value, (DynVar, Stranger)) or is_callee(value)
    return is_kept or is_builtin(path, value) or _specialize_values.render_value(value) is not None


def _unknown(member: Member, name: str) -> str | None:
    known = (other for other in member.names.names.names() if not other.startswith("__"))
    return did_you_mean(name, known)


def _unusable(path: Path, value: Any) -> str:
    """Why a value cannot be used, and what would do."""
    name, *attributes = path
    if isinstance(value, types.FunctionType):
        return f"'{name}' is a Python function: decorate it with @pl.jit.inline to call it here."
    whole = ".".join(path)
    if Enum in getattr(value, "__mro__", type(value).__mro__):
        member = whole if whole.endswith(".value") else f"{whole}.value"
        return f"Members of '{name}' do not fold: give the value a name, {_short(path)} = {member}."
    what = f"'{name}' is {describe_value(value)}, which has no form in the source of a kernel"
    if attributes:
        return f"{what}: give what is used of it a name, {_short(path)} = {whole}."
    return f"{what}; {_FOLDED} have one."


def _short(path: Path) -> str:
    """A name for what stands at a path."""
    return next(part for part in reversed(path) if part != "value").upper()
