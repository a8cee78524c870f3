"""Words mode: compiled scalar words in place of references that are only bounded by ULPs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.interp.emit import EVALUATORS, Mode
from tilewright.ir.core import Operation
from tilewright.ir.opdef import OPS
from tilewright.ops.words import dtype_of


def compiled_word(mode: Mode, op: Operation) -> Callable[..., Any] | None:
    """The compiled word of a scalar or elementwise op that is not exact."""
    if mode.words is None or not op.opdef.ulp:
        return None
    word = "arith." + op.opdef.name.partition(".")[2]
    if word not in OPS:
        return None
    return mode.words.word(word, dtype_of(op.operands[0]))


EVALUATORS.append(compiled_word)
