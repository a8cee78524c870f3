"""Every program that a test finishes is printed, parsed and compared: print, parse, identity."""

from __future__ import annotations

import threading

from tilewright.frontend.text import parse_program
from tilewright.ir.builder import FINISH_HOOKS
from tilewright.ir.core import Program
from tilewright.ir.equal import find_difference
from tilewright.ir.opdef import OPS
from tilewright.ir.reading import says_more
from tilewright.ir.types import IndexType
from tilewright.ops import control


class _State(threading.local):
    busy = False


_STATE = _State()


def check_roundtrip(program: Program) -> None:
    """Raises AssertionError, with the text, unless the text of `program` parses back to it."""
    if _STATE.busy or not _is_spellable(program):
        return
    _STATE.busy = True
    try:
        text = program.as_python()
        again = parse_program(text)
        if says_more(program, again):
            return
        difference = find_difference(program, again)
    finally:
        _STATE.busy = False
    assert difference is None, f"the printed program differs at {difference}\n{text}"


def _is_spellable(program: Program) -> bool:
    """False for hand-made programs with unregistered ops or loop variables other than INDEX."""
    return all(
        op.opdef.name in OPS
        and (op.opdef is not control.for_ or op.regions[0].params[0].type == IndexType)
        for function in program.functions.values()
        for op in function.body.walk()
    )


def install() -> None:
    """Makes every finished program pass `check_roundtrip`."""
    if check_roundtrip not in FINISH_HOOKS:
        FINISH_HOOKS.append(check_roundtrip)
