"""Comments of the author's source on printed statements, read from it when a function is printed.

A comment on a line of its own goes before the next statement, one after code goes behind the
statement on that line; one whose statement prints as nothing goes before the next.
"""

from __future__ import annotations

import tokenize
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tilewright.ir.core import BodyText, Operation


class Comment(NamedTuple):
    """The line of the file that a comment is on, its text, and whether code precedes it there."""

    line: int
    text: str
    is_trailing: bool


class Comments:
    """The comments of one function that have not been printed yet, in order."""

    def __init__(self, body: BodyText | None) -> None:
        self.file = "" if body is None else body.source.file
        self.pending = [] if body is None else list(find_comments(body))

    def take_leading(self, op: Operation) -> list[str]:
        """What goes before the statement of `op`."""
        if not self._concerns(op):
            return []
        start, end = lines_of(op)
        return self._take(lambda c: c.line < start or (c.line <= end and not c.is_trailing))

    def take_trailing(self, op: Operation) -> list[str]:
        """What goes behind the statement of `op`, once what goes before it has been taken."""
        if not self._concerns(op):
            return []
        _, end = lines_of(op)
        return self._take(lambda c: c.line <= end)

    def _concerns(self, op: Operation) -> bool:
        span = op.span
        return (
            bool(self.pending) and span is not None and not span.parent and span.file == self.file
        )

    def _take(self, wanted: Callable[[Comment], bool]) -> list[str]:
        taken = [comment.text for comment in self.pending if wanted(comment)]
        self.pending = [comment for comment in self.pending if not wanted(comment)]
        return taken


def lines_of(op: Operation) -> tuple[int, int]:
    """The first and the last line of a statement; of one with a body, those of its header."""
    assert op.span is not None
    return op.span.line, op.span.line if op.regions else op.span.end_line


def find_comments(body: BodyText) -> Iterator[Comment]:
    """The comments between the signature of a function and its last statement."""
    lines = body.source.lines[body.first - 1 : body.last]
    if not any("#" in line for line in lines):
        return
    shift = body.first - 1 + body.source.first_line - 1
    given = iter([f"{line}\n" for line in lines])
    try:
        for token in tokenize.generate_tokens(lambda: next(given, "")):
            if token.type == tokenize.COMMENT:
                line, column = token.start
                is_trailing = bool(token.line[:column].strip())
                yield Comment(line + shift, token.string, is_trailing)
    except (tokenize.TokenError, IndentationError):
        return  # an expression that ends outside the function: what was found counts
