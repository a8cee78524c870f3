"""A Python text in the making: lines that know which operation they came from."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from types import CodeType
from typing import Any

from tilewright.ir.core import Operation


class Text:
    """Lines of one Python function, a pool of the constants they mention, fresh names."""

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.lines: list[str] = []
        self.origins: list[Operation | None] = []
        self.pool: dict[str, Any] = {}
        self.origin: Operation | None = None
        self._depth = 0
        self._names = 0

    def line(self, text: str) -> None:
        """Adds one line at the current depth."""
        self.lines.append("    " * self._depth + text)
        self.origins.append(self.origin)

    @contextmanager
    def indented(self, header: str) -> Generator[None]:
        """`header`, then what is added for the duration as its suite."""
        self.line(header)
        self._depth += 1
        yield
        self.line("pass")
        self._depth -= 1

    def fresh(self, prefix: str = "v") -> str:
        """A name that nothing else has."""
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, value: Any, prefix: str = "k") -> str:
        """The name under which the text may mention `value`."""
        name = self.fresh(prefix)
        self.pool[name] = value
        return name

    def compile(self) -> CodeType:
        """The compiled module that defines the function."""
        return compile("\n".join(self.lines) + "\n", self.filename, "exec")
