"""Where the traced author is now: frames of rewritten code, read as spans of the author's file."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any, cast

from tilewright.source import SourceText, Span

_TEXTS: dict[CodeType, SourceText] = {}
"""The text of every code object that the rewriter made."""

HAS_COLUMNS = sys.version_info >= (3, 11)


def register_code(code: CodeType, source: SourceText) -> None:
    """Makes frames of `code`, and of the functions nested in it, known as the author's."""
    _TEXTS[code] = source
    for const in code.co_consts:
        if isinstance(const, CodeType):
            register_code(const, source)


def is_rewritten(code: CodeType) -> bool:
    """True when `code` was made by the rewriter."""
    return code in _TEXTS


def current_span() -> Span | None:
    """The author's expression that runs now, with the call sites that led to it as parents."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    spans = [span for span in _author_spans(frame) if span is not None]
    return _chained(spans)


def _chained(spans: Iterable[Span]) -> Span | None:
    chain: Span | None = None
    for span in reversed(list(spans)):
        chain = span.called_from(chain)
    return chain


def _author_spans(frame: FrameType | None) -> Iterator[Span | None]:
    while frame is not None:
        source = _TEXTS.get(frame.f_code)
        if source is not None:
            yield _frame_span(frame.f_code, frame.f_lasti, frame.f_lineno, source)
        frame = frame.f_back


@lru_cache(maxsize=1 << 14)
def _frame_span(code: CodeType, lasti: int, line: int, source: SourceText) -> Span | None:
    shift = source.first_line - 1
    if HAS_COLUMNS:
        positions: list[Any] = list(cast(Any, code).co_positions())
        start, end, col, end_col = positions[lasti // 2]
        if start is not None and end is not None and col is not None and end_col is not None:
            return Span(
                source.file,
                start + shift,
                source.column(start, col),
                end + shift,
                source.column(end, end_col),
            )
    return Span(source.file, line + shift, 1, line + shift + 1, 1)


def author_frame() -> FrameType | None:
    """The innermost frame of rewritten code."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_code not in _TEXTS:
        frame = frame.f_back
    return frame


def warn_author(message: str, category: type[Warning]) -> None:
    """Warns at the author's line."""
    frame = author_frame()
    file, line = ("<kernel>", 1) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
    warnings.warn_explicit(message, category, file, line)
