"""What went wrong in an author's file that we execute for him."""

from __future__ import annotations

import os
import sys
import traceback
from types import TracebackType

from tilewright.errors.base import TilewrightError
from tilewright.errors.rendering import render
from tilewright.errors.terminal import wants_color


def text_for_author(error: Exception) -> str:
    """What went wrong in a file that runpy executed, without the frames that led to it."""
    if isinstance(error, TilewrightError):
        return render(error, color=wants_color(sys.stderr))
    trace, inside = error.__traceback__, False
    while trace is not None and (not inside or _is_runpy(trace)):
        inside = inside or _is_runpy(trace)
        trace = trace.tb_next
    if not inside:
        trace = error.__traceback__
    return "".join(traceback.format_exception(type(error), error, trace)).rstrip()


def _is_runpy(trace: TracebackType) -> bool:
    return "runpy" in os.path.basename(trace.tb_frame.f_code.co_filename)
