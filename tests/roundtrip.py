"""Every program that any test finishes is printed, parsed and compared: print -> parse is identity."""

from __future__ import annotations

import threading

from tilewright.frontend.text import parse_program
from tilewright.ir.builder import FINISH_HOOKS
from tilewright.ir.core import Program
from tilewright.ir.equal import find_difference


class _State(threading.local):
    busy = False


_STATE = _State()
checked = [0]


def check_roundtrip(program: Program) -> None:
    """Raises AssertionError, with the text, unless the text of `program` parses back to it."""
    if _STATE.busy:
        return
    _STATE.busy = True
    try:
        text = program.as_python()
        difference = find_difference(program, parse_program(text))
    finally:
        _STATE.busy = False
    checked[0] += 1
    assert difference is None, f"the printed program differs at {difference}\n{text}"


def install() -> None:
    """Makes every finished program pass `check_roundtrip`."""
    if check_roundtrip not in FINISH_HOOKS:
        FINISH_HOOKS.append(check_roundtrip)
