"""Errors that nobody caught, on a terminal."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import TextIO

from tilewright.errors.base import TilewrightError
from tilewright.errors.rendering import render


def wants_color(stream: TextIO) -> bool:
    """Colour only on a terminal, unless NO_COLOR or FORCE_COLOR says otherwise."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def excepthook(
    kind: type[BaseException], value: BaseException, trace: TracebackType | None
) -> None:
    """Print an author error without our own frames; anything else as Python does."""
    if isinstance(value, TilewrightError):
        print(render(value, color=wants_color(sys.stderr)), file=sys.stderr)
    else:
        sys.__excepthook__(kind, value, trace)


def install_excepthook() -> None:
    """Let uncaught author errors print as `render` shows them."""
    sys.excepthook = excepthook
