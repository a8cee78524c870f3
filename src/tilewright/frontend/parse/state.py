"""What reading a function keeps track of, shared with the helpers that it expands."""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import field
from typing import Any, Protocol

from tilewright.dataclass import dataclass
from tilewright.errors import (
    ParserSyntaxError,
    TilewrightError,
)
from tilewright.frontend.parse.versions import Versions
from tilewright.frontend.surface import Word
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Operation, Value
from tilewright.ir.enums import FunctionType
from tilewright.source import Span

MAX_NESTING = 80
"""Blocks in blocks. Python reads a printed program of no more than a hundred levels."""


class Silenced(Exception):
    """A use of something whose error has been reported already."""


@dataclass(frozen=True)
class Poison:
    """The binding of a name that must not be used; `reason` None: reported already."""

    reason: Callable[[Span], TilewrightError] | None = None


@dataclass
class Yield:
    """The `pl.yield_` that ended a region: names on its left side, values on its right."""

    names: list[str]
    values: list[Any]
    node: ast.stmt


@dataclass
class Blocks:
    """A loop over blocks or lanes that is being read: its word, index and count."""

    word: Word
    index: Value | None
    count: Value
    options: dict[str, Any] = field(default_factory=dict[str, Any])


class Callees(Protocol):
    """The functions that a body may call."""

    def method(self, name: str) -> Function | None:
        """The function `self.name` of the program, or None."""
        ...

    def use(self, function: Function) -> None:
        """Notes a call of a function defined elsewhere; raises on a clash of names."""
        ...

    def method_names(self) -> Iterable[str]:
        """Names of the program's functions."""
        ...


@dataclass
class State:
    """What an inlined helper shares with the function it is expanded in."""

    builder: Builder
    callees: Callees
    versions: Versions = field(default_factory=Versions)
    errors: list[TilewrightError] = field(default_factory=list[TilewrightError])
    params: tuple[Value, ...] = ()
    is_text: bool = False
    auto_scope: bool = False
    kind: FunctionType = FunctionType.Opaque
    depth: int = 0
    placements: list[tuple[Any, Any]] = field(default_factory=list[tuple[Any, Any]])
    blocks: list[Blocks] = field(default_factory=list["Blocks"])
    put_back: set[Operation] = field(default_factory=set[Operation])
    implied: set[Operation] = field(default_factory=set[Operation])
    unwritten: set[Value] | None = None
    has_deferred: bool = False
    said: list[str] = field(default_factory=list[str])
    nesting: int = 0

    def say(self) -> None:
        """Prints what pl.static_print was given."""
        while self.said:
            print(self.said.pop(0))

    def defer(self, part: Value, new: Value) -> None:
        """Leaves it to a text to say where the contents of a part are written back."""
        assert self.unwritten is not None
        self.has_deferred = True
        self.unwritten.discard(part)
        self.unwritten.add(new)

    @contextmanager
    def nested(self, span: Span | None) -> Generator[None]:
        """While a block inside others is read; raises ParserSyntaxError for one of too many."""
        if self.nesting >= MAX_NESTING:
            raise ParserSyntaxError(
                f"More than {MAX_NESTING} blocks stand in each other",
                span,
                "Write a helper for the inner ones, or select values with pl.sel.",
            )
        self.nesting += 1
        try:
            yield
        finally:
            self.nesting -= 1
