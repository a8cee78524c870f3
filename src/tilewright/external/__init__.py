"""Kernels in C++: their sources as parts of keys, the compiler, the libraries, their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.external.sources import Sources, watched
from tilewright.late import late

if TYPE_CHECKING:
    from tilewright.external.calling import run as run
    from tilewright.external.library import address_of as address_of
    from tilewright.external.library import prepare as prepare

__all__ = ["Sources", "address_of", "prepare", "run", "watched"]

__getattr__, __dir__ = late(__name__, __all__, ("calling", "library"))
