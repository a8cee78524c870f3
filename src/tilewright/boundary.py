"""Where an author's error leaves Tilewright: it shows the author's frames alone, or its place."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import ParamSpec, TypeVar

from tilewright.errors import InternalError, ParserError, TilewrightError, excepthook
from tilewright.settings import BACKTRACE

P = ParamSpec("P")
R = TypeVar("R")


def public_entry(function: Callable[P, R]) -> Callable[P, R]:
    """A function that authors call: frames of ours are cut from the errors that leave by it.

    What the error says has the place and the calls that led there. A defect of ours
    (`InternalError`, or any exception that is not in the catalogue) keeps every frame, and so does
    everything where TILEWRIGHT_BACKTRACE is 1.
    """

    @functools.wraps(function)
    def entered(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TilewrightError as error:
            if isinstance(error, InternalError) or BACKTRACE.read():
                raise
            shown = _authors_part(error.__traceback__)
            # TILEWRIGHT_BACKTRACE=1 shows every frame
            raise error.with_traceback(shown) from error.__cause__

    return entered


def _authors_part(traceback: TracebackType | None) -> TracebackType | None:
    """The frames of other files than ours, as a chain of their own."""
    kept: TracebackType | None = None
    for each in reversed([each for each in _chain(traceback) if not _is_ours(each.tb_frame)]):
        kept = TracebackType(kept, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return kept


def _chain(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _is_ours(frame: FrameType) -> bool:
    """True in this package, in what dataclasses write for it, and in decorators of the library."""
    module = str(frame.f_globals.get("__name__"))
    return module.partition(".")[0] in ("tilewright", "contextlib", "functools")


def deprecate(message: str) -> None:
    """A DeprecationWarning where an author's code has called us."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    level = 2
    while frame is not None and _is_ours(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, DeprecationWarning, stacklevel=level)


def show_parser_errors() -> None:
    """Let uncaught errors of the parsed style that have a place print as `render` shows them, with
    nothing but that place; not where somebody else has a hook."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _parser_errors_alone


def _parser_errors_alone(
    kind: type[BaseException], value: BaseException, trace: TracebackType | None
) -> None:
    if isinstance(value, ParserError) and value.span is not None and not BACKTRACE.read():
        excepthook(kind, value, trace)
    else:
        sys.__excepthook__(kind, value, trace)
