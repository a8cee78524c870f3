"""Importing, reading and lowering make many objects and no garbage.

Collecting meanwhile takes a fifth of the time of the first, and most of that of the others.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Generator[None]:
    """No garbage is collected for the duration, unless another thread asks for it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
