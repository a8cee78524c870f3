"""Ranks and windows: `import tilewright.language.distributed as pld`."""

from __future__ import annotations

from typing import Any

from tilewright import ops as _ops
from tilewright.frontend.surface import find_name as _find_name
from tilewright.frontend.surface import names_under as _names_under
from tilewright.frontend.vocabulary import PLD as _PLD

__surface__ = "pld"
_REGISTERED = _ops.__all__

globals().update(_PLD)


def __getattr__(name: str) -> Any:
    found = None if name.startswith("__") else _find_name(f"pld.{name}")
    if found is None:
        raise AttributeError(f"module 'tilewright.language.distributed' has no attribute '{name}'")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_names_under("pld")})


__all__ = [*_PLD]  # pyright: ignore[reportUnsupportedDunderAll]
