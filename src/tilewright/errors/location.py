"""What an error needs to know of a place in the author's file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

SnippetRow = tuple["int | None", str]
"""One displayed line: (line number, text), or (None, carets)."""


class Location(Protocol):
    """A place (`tilewright.source.Span` is one): 1-based line and character column."""

    @property
    def file(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def col(self) -> int: ...
    @property
    def parent(self) -> Location | None: ...

    def snippet(
        self, label: str, context: int, lines: Sequence[str] | None
    ) -> list[SnippetRow]: ...
