"""Checked mode: what a program may not rely on is made to show."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from tilewright.interp.buffers import fill_with_poison
from tilewright.interp.emit import EVALUATORS, Mode
from tilewright.ir.core import Operation
from tilewright.ops import memory

UNINITIALISED = (memory.create,)


def poisoned_memory(mode: Mode, op: Operation) -> Callable[..., Any] | None:
    """Fresh memory full of poison instead of zeros."""
    reference = op.opdef.evaluate
    if not mode.poisons or op.opdef not in UNINITIALISED or reference is None:
        return None

    @wraps(reference)
    def create(**attrs: Any) -> Any:
        array = reference(**attrs)
        fill_with_poison(array)
        return array

    return create


EVALUATORS.append(poisoned_memory)
