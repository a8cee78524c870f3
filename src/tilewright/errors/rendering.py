"""How an error looks: message, place, source with carets, help, notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from tilewright.errors.location import Location, SnippetRow

Note = tuple[str, "Location | None"]

_RED, _BLUE, _RESET = "\x1b[1;31m", "\x1b[1;34m", "\x1b[0m"
_SHORT = 50


class Renderable(Protocol):
    """An error, as far as its looks go."""

    code: str
    message: str
    span: Location | None
    hint: str | None
    notes: list[Note]
    source_lines: Sequence[str] | None
    reference: str | None

    def calls(self) -> list[Location]: ...
    def companions(self) -> Sequence[Renderable]: ...


def render(error: Renderable, *, color: bool = False) -> str:
    """The whole text of an error with its heading and companions."""
    paint = _Paint(color)
    return paint.red("Error") + ": " + "\n".join(_lines(error, paint))


def render_lines(error: Renderable) -> Iterator[str]:
    """The lines of `str(error)`: as `render`, without heading and colour."""
    return _lines(error, _Paint(False))


class _Paint:
    def __init__(self, color: bool) -> None:
        self.color = color

    def red(self, text: str) -> str:
        return f"{_RED}{text}{_RESET}" if self.color else text

    def blue(self, text: str) -> str:
        return f"{_BLUE}{text}{_RESET}" if self.color else text


def _lines(error: Renderable, paint: _Paint) -> Iterator[str]:
    yield error.message
    width = 4
    if error.span is not None:
        label = error.message if len(error.message) < _SHORT else ""
        rows = error.span.snippet(label, 2, error.source_lines)
        width = _gutter(rows)
        yield from _block(error.span, rows, width, paint)
    yield from _remarks(error, width, paint)
    for other in error.companions():
        yield ""
        yield render(other, color=paint.color)


def _remarks(error: Renderable, width: int, paint: _Paint) -> Iterator[str]:
    pad = " " * (width - 1) + paint.blue("=")
    if error.hint:
        yield f"{pad} help: {error.hint}"
    for text, span in error.notes:
        yield f"{pad} note: {text}"
        if span is not None:
            yield from _aside(span, error.source_lines, paint)
    for site in error.calls():
        yield f"{pad} note: called from here"
        yield from _aside(site, None, paint)
    if error.reference:
        yield f"{pad} note: {error.reference}"
    elif not error.hint:
        yield f"{pad} note: `tilewright explain {error.code}` shows a kernel that raises this"


def _aside(span: Location, lines: Sequence[str] | None, paint: _Paint) -> Iterator[str]:
    rows = span.snippet("", 0, lines)
    yield from _block(span, rows, _gutter(rows), paint)


def _gutter(rows: list[SnippetRow]) -> int:
    return max(2, *(len(str(number or 0)) for number, _ in rows)) + 2 if rows else 4


def _block(span: Location, rows: list[SnippetRow], width: int, paint: _Paint) -> Iterator[str]:
    yield f"{' ' * (width - 2)}{paint.blue('-->')} {span.file}:{span.line}:{span.col}"
    if not rows:
        return
    bar = paint.blue("|")
    blank = f"{' ' * width} {bar}"
    yield blank
    for number, text in rows:
        if number is None:
            yield f"{blank} {paint.red(text)}"
        else:
            yield f"{number:>{width}} {bar} {text}".rstrip()
    yield blank
