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


@contextmanager
def importing() -> Generator[None]:
    """No garbage is collected, and what is there at the end counts as old: it is there to stay.

    Otherwise the next collection would look at all that was imported, and find nothing.
    """
    with without_collections():
        yield
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()  # to where the oldest objects are
