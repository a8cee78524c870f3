"""Host code inside a function: Python that runs on the host, kept as text."""

from __future__ import annotations

from typing import Any

from tilewright.errors import UnsupportedOnTarget
from tilewright.ir.core import Operation
from tilewright.ir.enums import Effect
from tilewright.ir.opdef import op
from tilewright.ir.types import Type


@op("host.python", effect=Effect.COMM)
def python(*, body: str | None, types: tuple[Type, ...] = ()) -> Any:
    """The Python statements `body` of a host callback; None when they come from elsewhere.

    The results, of these types, are what the function returns beyond its outputs.
    """
    ...


@python.type_rule
def python_type(*, body: str | None, types: tuple[Type, ...]) -> tuple[Type, ...]:
    del body
    return types


@python.reference
def python_numpy(*, body: str | None, types: tuple[Type, ...]) -> Any:
    del types
    raise UnsupportedOnTarget(
        "its body is '...': it is a host callback, or declared only",
        hint="pass a callback in callbacks=, or write the function in the language",
    )


@python.prints
def print_python(operation: Operation, out: Any) -> None:
    """The statements as written; `...` for none."""
    for line in (operation.attrs["body"] or "...").splitlines():
        out.line(line)
