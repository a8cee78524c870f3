"""Values as source text: the one rendering that folds names into programs and enters cache keys."""

from __future__ import annotations

import ast
import math
from enum import Enum
from functools import cache
from types import ModuleType
from typing import Any, cast

import numpy as np

from tilewright.dtypes import DType
from tilewright.frontend.annotations import DynVar
from tilewright.frontend.surface import OpName, OpNamespace, Word, surface_path
from tilewright.frontend.vocabulary import DISTRIBUTED_ENUMS, ENUMS, PL, PLD, late_path
from tilewright.ir.types import Type


def render_value(value: Any) -> str | None:
    """Text that evaluates to `value` where only `pl` and `pld` are known; None without one.

    The text is typed: `1`, `1.0` and `True` differ, and so do `0.0` and `-0.0`.
    """
    if value is None or isinstance(value, (bool, str)):
        return repr(value)
    if isinstance(value, Enum):
        return _render_enum(value)
    if isinstance(value, (int, np.integer)):
        return repr(int(cast(Any, value)))
    if isinstance(value, (float, np.floating)):
        return _render_float(float(cast(Any, value)))
    if isinstance(value, (list, tuple)):
        return _render_items(value)  # pyright: ignore[reportUnknownArgumentType]
    return _render_name(value)


def _render_float(value: float) -> str:
    if math.isnan(value):
        return "float('nan')"
    return repr(value) if math.isfinite(value) else ("1e999" if value > 0 else "-1e999")


def _render_items(items: list[Any] | tuple[Any, ...]) -> str | None:
    parts = [render_value(item) for item in items]
    if any(part is None for part in parts):
        return None
    body = ", ".join(part for part in parts if part is not None)
    if isinstance(items, list):
        return f"[{body}]"
    return f"({body},)" if len(parts) == 1 else f"({body})"


def _render_enum(value: Enum) -> str | None:
    home = _enum_homes().get(type(value))
    return f"{home}.{value.name}" if home else None


@cache
def _enum_homes() -> dict[type, str]:
    homes = {cls: f"pld.{name}" for name, cls in DISTRIBUTED_ENUMS.items()}
    return homes | {cls: f"pl.{name}" for name, cls in ENUMS.items() if name != "Mem"}


def _render_name(value: Any) -> str | None:
    if isinstance(value, DynVar):
        return None
    if isinstance(value, DType):
        return f"pl.{value.name}"
    if isinstance(value, (Word, OpName)):
        return value.path
    if isinstance(value, (OpNamespace, ModuleType)):
        return surface_path(value)
    if isinstance(value, Type):
        return value.as_python()
    return _word_names().get(id(value)) or late_path(value) or _render_hint(value)


@cache
def _word_names() -> dict[int, str]:
    """Names of what `pl` and `pld` hold, by identity; those objects live as long as the process."""
    words = {id(item): f"pld.{name}" for name, item in PLD.items() if _is_named(item)}
    return words | {id(item): f"pl.{name}" for name, item in PL.items() if _is_named(item)}


def _is_named(item: Any) -> bool:
    return callable(item) or isinstance(item, type)


def _render_hint(value: Any) -> str | None:
    is_hint = type(value).__module__ == "tilewright.ir.hints"
    return value.as_python() if is_hint else None


def expression_of(text: str, at: ast.expr) -> ast.expr:
    """Rendered text as an expression that stands where `at` stands."""
    made = _parse(text)
    for node in ast.walk(made):
        if isinstance(node, ast.expr):
            ast.copy_location(node, at)
    return made


def _parse(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
