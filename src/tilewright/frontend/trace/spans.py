"""Where the traced author is now: frames of rewritten code, read as spans of the author's file."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import islice
from types import CodeType, FrameType
from typing import Any, TypeVar, cast

from tilewright.source import SourceText, Span

MOST_CALLS = 16
"""Call sites that a place remembers, so that a recursion which never ends can be shown."""
HAS_COLUMNS = sys.version_info >= (3, 11)
_F = TypeVar("_F", bound=Callable[..., Any])


class AuthorCode:
    """Code that the rewriter made, with the author's expression of each instruction."""

    def __init__(self, code: CodeType, source: SourceText) -> None:
        self.code = code
        self.source = source
        self.spans: dict[int, Span] = {}

    def span_at(self, place: int) -> Span:
        """The expression at an instruction of this code."""
        found = self.spans.get(place)
        if found is None:
            found = self.spans[place] = self._span(place)
        return found

    @cached_property
    def _positions(self) -> list[Any]:
        """(line, last line, column, end column) of each instruction; columns where Python has them.

        All at once: asking a frame for its line reads the table of the code from the start.
        """
        if HAS_COLUMNS:
            return list(cast(Any, self.code).co_positions())
        lines = self.code.co_lines()
        return [(n, n, None, None) for start, end, n in lines for _ in range(start, end, 2)]

    def _span(self, place: int) -> Span:
        file, shift = self.source.file, self.source.first_line - 1
        start, end, col, end_col = self._positions[place // 2]
        if None not in (start, end, col, end_col):
            first, last = self.source.column(start, col), self.source.column(end, end_col)
            return Span(file, start + shift, first, end + shift, last)
        line = (start or 1) + shift
        return Span(file, line, 1, line + 1, 1)


_AUTHORS: dict[int, AuthorCode] = {}
"""All code that the rewriter made, by identity: the hash of a code object reads all of it."""
_STARTS: set[int] = set()


def starts_trace(function: _F) -> _F:
    """Marks the function that runs kernels: no frame below it is part of the trace."""
    _STARTS.add(id(function.__code__))
    return function


def register_code(code: CodeType, source: SourceText) -> None:
    """Makes frames of `code`, and of the functions nested in it, known as the author's."""
    _AUTHORS[id(code)] = AuthorCode(code, source)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            register_code(const, source)


def is_rewritten(code: CodeType) -> bool:
    """True when `code` was made by the rewriter."""
    return id(code) in _AUTHORS


def current_span() -> Span | None:
    """The author's expression that runs now, with the call sites that led to it as parents."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    return _chained(_author_spans(frame))


def _chained(spans: Iterable[Span]) -> Span | None:
    """The first of `spans`, called from the next, and so on."""
    chain: Span | None = None
    for span in reversed(list(islice(spans, MOST_CALLS))):
        chain = span if chain is None else span.called_from(chain)
    return chain


def _author_spans(frame: FrameType | None) -> Iterator[Span]:
    while frame is not None:
        code = frame.f_code
        author = _AUTHORS.get(id(code))
        if author is not None:
            yield author.span_at(frame.f_lasti)
        elif id(code) in _STARTS:
            return
        frame = frame.f_back


def raised_at(error: BaseException) -> Span | None:
    """The author's expression that an exception came from, with the call sites that led to it."""
    trace, spans = error.__traceback__, list[Span]()
    while trace is not None:
        author = _AUTHORS.get(id(trace.tb_frame.f_code))
        if author is not None:
            spans.append(author.span_at(trace.tb_lasti))
        trace = trace.tb_next
    return _chained(reversed(spans))


def author_frame() -> FrameType | None:
    """The innermost frame of rewritten code."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and id(frame.f_code) not in _AUTHORS:
        frame = frame.f_back
    return frame


def warn_author(message: str, category: type[Warning]) -> None:
    """Warns at the author's line."""
    frame = author_frame()
    file, line = ("<kernel>", 1) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
    warnings.warn_explicit(message, category, file, line)
