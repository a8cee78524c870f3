"""The base of every author error: a message, where it happened, what would help."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from tilewright.dataclass import dataclass
from tilewright.errors.location import Location
from tilewright.errors.rendering import Note, render_lines

_Self = TypeVar("_Self", bound="TilewrightError")


class TilewrightError(Exception):
    """Something the author wrote, or passed, that Tilewright refuses.

    Bad::

        kernel(x)          # anything refused by a class below

    Good::

        try:
            kernel(x)
        except tilewright.errors.TilewrightError as error:
            print(error)   # message, place, help
    """

    code: str = "TW000"
    is_listed = True
    remedy: str | None = None
    """What helps against every error of the class, unless one says better."""

    message: str
    span: Location | None
    hint: str | None
    notes: list[Note]
    call_chain: list[Location]
    also: list[TilewrightError]
    source_lines: Sequence[str] | None
    reference: str | None

    def __init__(
        self,
        message: str,
        span: Location | None = None,
        hint: str | None = None,
        note: str | None = None,
        source_lines: Sequence[str] | None = None,
        *,
        notes: Iterable[Note] = (),
        call_chain: Iterable[Location] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint or self.remedy
        self.notes = [*([(note, None)] if note else []), *notes]
        self.call_chain = list(call_chain)
        self.also = []
        self.source_lines = source_lines
        self.reference = None

    @property
    def note(self) -> str | None:
        """The text of the first note."""
        return self.notes[0][0] if self.notes else None

    @property
    def help(self) -> str | None:
        """What to do about it (another name of `hint`)."""
        return self.hint

    def locate(self: _Self, span: Location | None) -> _Self:
        """Give the error a place unless it has one already; returns the error, to be raised."""
        if self.span is None:
            self.span = span
        return self

    def with_note(self: _Self, text: str, span: Location | None = None) -> _Self:
        """Add a note, with the place it speaks of if there is one; returns the error."""
        self.notes.append((text, span))
        return self

    def companions(self) -> Sequence[TilewrightError]:
        """Independent errors of the same function, reported with this one."""
        return self.also

    def calls(self) -> list[Location]:
        """The call sites that led here, innermost first: given ones, then parents of the span."""
        if self.call_chain or self.span is None:
            return self.call_chain
        return list(_parents(self.span))

    def __str__(self) -> str:
        return "\n".join(render_lines(self))


def _parents(span: Location) -> Iterable[Location]:
    parent = span.parent
    while parent is not None:
        yield parent
        parent = parent.parent


@dataclass(frozen=True)
class Explanation:
    """One page of the error reference."""

    code: str
    name: str
    cause: str
    bad: str
    good: str


_SECTION = r"^(Bad|Good)::\n\n((?:[ \t]+.*\n|\n)*)"


def explain_text(code: str, name: str, doc: str) -> Explanation:
    """Read a page written as a docstring: the cause, then `Bad::` and `Good::` blocks."""
    text = inspect.cleandoc(doc) + "\n"
    found = re.findall(_SECTION, text, re.MULTILINE)
    sections = {title: textwrap.dedent(body).strip() for title, body in found}
    cause = re.sub(_SECTION, "", text, flags=re.MULTILINE).strip()
    return Explanation(code, name, cause, sections.get("Bad", ""), sections.get("Good", ""))


def explain(error: type[TilewrightError]) -> Explanation:
    """The page of one error class: code, name, cause, and a bad and a good kernel ("": none)."""
    return explain_text(error.code, error.__name__, error.__doc__ or "")


def catalogue() -> list[type[TilewrightError]]:
    """Every error class there is, by code."""
    listed = (cls for cls in _subclasses(TilewrightError) if cls.is_listed)
    return sorted(listed, key=lambda cls: cls.code)


def _subclasses(cls: type[TilewrightError]) -> set[type[TilewrightError]]:
    return {cls}.union(*(_subclasses(sub) for sub in cls.__subclasses__()))


@dataclass(frozen=True)
class ErrorPage:
    """A named error that is data: `raise page(tensor="t", shape=(4,))` fills in its message.

    `exception` is the class raised, `message` a `str.format` template, `doc` a text in the form
    that `explain_text` reads. The raised error carries the page's `code` and
    `reference`, where to read more, which ends its text.
    """

    code: str
    exception: type[TilewrightError]
    message: str
    doc: str
    hint: str | None = None
    reference: str | None = None

    def __call__(self, *, span: Location | None = None, **fields: Any) -> TilewrightError:
        error = self.exception(self.message.format(**fields), span, self.hint)
        error.code, error.reference = self.code, self.reference
        return error

    def explain(self) -> Explanation:
        """The page of the error reference."""
        return explain_text(self.code, self.code, self.doc)
