"""Ranks and windows: `import tilewright.language.distributed as pld`."""

from __future__ import annotations

from typing import Any

import tilewright.frontend as _frontend
from tilewright.frontend.vocabulary import PLD as _PLD

__surface__ = "pld"

globals().update(_PLD)


def __getattr__(name: str) -> Any:
    if name == "__all__":
        found = sorted({*_PLD, *_frontend.operations.names_under("pld")})
    else:
        found = None if name.startswith("__") else _frontend.operations.find_name(f"pld.{name}")
    if found is None:
        raise AttributeError(f"module 'tilewright.language.distributed' has no attribute '{name}'")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_frontend.operations.names_under("pld")})
