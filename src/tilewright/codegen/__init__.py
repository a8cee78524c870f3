"""Loop IR to LLVM text to object bytes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.codegen import kernel as kernel


def __getattr__(name: str) -> Any:
    """`kernel` is imported when it is first named: what is compiled already does without."""
    if name == "kernel":
        return importlib.import_module("tilewright.codegen.kernel")
    raise AttributeError(f"module 'tilewright.codegen' has no attribute '{name}'")
