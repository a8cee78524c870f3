"""Kernels in C++: their sources as parts of keys, the compiler, the libraries, their calls."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tilewright.external.sources import Sources, watched

if TYPE_CHECKING:
    from tilewright.external.calling import run as run
    from tilewright.external.library import address_of as address_of
    from tilewright.external.library import prepare as prepare

__all__ = ["Sources", "address_of", "prepare", "run", "watched"]

_HOMES = {"address_of": "library", "prepare": "library", "run": "calling"}


def __getattr__(name: str) -> Any:
    """What builds and calls libraries is imported when it is first named: few programs need it."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tilewright.external' has no attribute '{name}'")
    return getattr(importlib.import_module(f"tilewright.external.{home}"), name)
