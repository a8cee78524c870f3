"""Places in the author's files: spans, source lines, snippets with carets."""

from __future__ import annotations

import ast
import io
import linecache
import unicodedata
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

SnippetRow = tuple["int | None", str]
Located = ast.stmt | ast.expr | ast.arg | ast.keyword | ast.alias
"""AST nodes that have a position."""

_TAB = "    "
_REMEMBERED = 256
_texts: OrderedDict[str, list[str]] = OrderedDict()


class Span(NamedTuple):
    """A range of an author's file; lines and character columns count from 1, the end is exclusive.

    `parent` is the call site that led here (an inlined helper's caller), or None.
    """

    file: str
    line: int
    col: int
    end_line: int
    end_col: int
    parent: Span | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col}"

    def called_from(self, parent: Span | None) -> Span:
        """The same place, reached through another call site."""
        return self._replace(parent=parent)

    def snippet(
        self, label: str = "", context: int = 2, lines: Sequence[str] | None = None
    ) -> list[SnippetRow]:
        """The line with `context` lines on each side and a row of carets; [] without source."""
        text = source_lines(self.file) if lines is None else lines
        if not 0 < self.line <= len(text):
            return []
        first, last = max(1, self.line - context), min(len(text), self.line + context)
        rows: list[SnippetRow] = [(n, _shown(text[n - 1])) for n in range(first, last + 1)]
        carets = f"{self._carets(text[self.line - 1])} {label}".rstrip()
        rows.insert(self.line - first + 1, (None, carets))
        return rows

    def _carets(self, line: str) -> str:
        line = line.rstrip("\r\n")
        end = self.end_col - 1 if self.end_line == self.line else len(line)
        before, token = line[: self.col - 1], line[self.col - 1 : end]
        return " " * display_width(before) + "^" * max(1, display_width(token))


_SHOWN = {ord("\t"): _TAB} | dict.fromkeys((*range(9), *range(10, 32), *range(127, 160)), " ")
"""What a terminal would obey is shown as a space."""


def _shown(line: str) -> str:
    return line.rstrip("\r\n").translate(_SHOWN)


def display_width(text: str) -> int:
    """Terminal cells that `text` takes: tabs count 4, wide characters 2, combining marks 0."""
    return len(text) if text.isascii() and "\t" not in text else sum(map(_cells, text))


def _cells(char: str) -> int:
    if char == "\t":
        return len(_TAB)
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


class TextName(str):
    """The name of a text that is in no file, with its lines: other texts may have the same name."""

    __slots__ = ("lines",)

    lines: list[str]


def remember(file: str, text: str) -> TextName:
    """Keeps the lines of a text that is in no file, so that snippets can show it; gives its name.

    A span with that name shows this text, one with the plain `file` the last text of that name.
    """
    name = TextName(file)
    _texts[file] = name.lines = split_lines(text)
    _texts.move_to_end(file)
    while len(_texts) > _REMEMBERED:
        _texts.popitem(last=False)
    return name


def split_lines(text: str) -> list[str]:
    """The lines of a text as Python counts them: a form feed, for instance, ends none."""
    return [line.removesuffix("\n") for line in io.StringIO(text, newline=None)]


def source_lines(file: str) -> Sequence[str]:
    """The lines of a file or remembered text; [] when there are none."""
    if isinstance(file, TextName):
        return file.lines
    return _texts.get(file) or linecache.getlines(file)


class SourceText:
    """A parsed text and where it stands: maps the positions of its AST to spans.

    `first_line` is the file's line at which line 1 of the text stands, and `indent` the number of
    characters of indentation that were taken off each line before parsing.
    """

    __slots__ = ("_ascii", "_lines", "_text", "file", "first_line", "indent")

    def __init__(self, file: str, text: str, *, first_line: int = 1, indent: int = 0) -> None:
        self.file = file
        self.first_line = first_line
        self.indent = indent
        self._ascii = text.isascii()
        self._text = text
        self._lines: list[str] | None = None

    @property
    def lines(self) -> list[str]:
        """The lines of the text."""
        if self._lines is None:
            self._lines = split_lines(self._text)
        return self._lines

    def segment(self, node: ast.expr) -> str | None:
        """The text of an expression that stands on one line; None for any other."""
        if not self._ascii or node.end_lineno != node.lineno or node.lineno > len(self.lines):
            return None
        return self.lines[node.lineno - 1][node.col_offset : node.end_col_offset]

    def span(self, node: Located, parent: Span | None = None) -> Span:
        """The range of `node`, which must be of this text."""
        line, offset = node.lineno, node.col_offset
        end_line, end_offset = node.end_lineno or line, node.end_col_offset or offset
        shift, indent = self.first_line - 1, self.indent + 1
        if self._ascii:
            col, end_col = offset + indent, end_offset + indent
        else:
            col, end_col = self.column(line, offset), self.column(end_line, end_offset)
        return Span(self.file, line + shift, col, end_line + shift, end_col, parent)

    def column(self, line: int, offset: int) -> int:
        """1-based character column in the file of a UTF-8 byte offset in this text."""
        if self._ascii or not 0 < line <= len(self.lines):
            return offset + 1 + self.indent
        raw = self.lines[line - 1].encode()[:offset]
        return len(raw.decode(errors="replace")) + 1 + self.indent


def join(spans: Iterable[Span]) -> Span | None:
    """The smallest span of one file that covers all of `spans`."""
    ordered = sorted(spans, key=lambda span: (span.line, span.col))
    if not ordered:
        return None
    last = max(ordered, key=lambda span: (span.end_line, span.end_col))
    return ordered[0]._replace(end_line=last.end_line, end_col=last.end_col)
