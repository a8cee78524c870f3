"""Host code inside a function: Python that runs on the host, kept as text."""

from __future__ import annotations

from typing import Any

from tilewright.errors import UnsupportedOnTarget
from tilewright.ir.core import Operation
from tilewright.ir.enums import Effect
from tilewright.ir.opdef import op


@op("host.python", effect=Effect.COMM)
def python(*, body: str | None) -> None:
    """The Python statements `body` of a host callback; None when they come from elsewhere."""


@python.type_rule
def python_type(*, body: str | None) -> None:
    del body


@python.reference
def python_numpy(*, body: str | None) -> Any:
    raise UnsupportedOnTarget(
        "a host callback is supplied when the program runs", hint="pass it in callbacks="
    )


@python.prints
def print_python(operation: Operation, out: Any) -> None:
    """The statements as written; `...` for none."""
    for line in (operation.attrs["body"] or "...").splitlines():
        out.line(line)
