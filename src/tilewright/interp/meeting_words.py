"""The loop-level words of participants as Python: signals, waits, other ranks' memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.interp import buffers
from tilewright.interp.emit import Emitter, handles
from tilewright.interp.support import NAMESPACE
from tilewright.ir.core import Operation
from tilewright.ir.enums import NotifyOp, WaitCmp
from tilewright.ops import meeting
from tilewright.ops.participant import participant


def signal(buffer: buffers.Buffer, indices: tuple[int, ...], number: Any, adds: bool) -> Any:
    """Changes a counter; what it held before."""
    part = buffer.array()
    before = part[indices]
    with np.errstate(over="ignore"):
        part[indices] = before + number if adds else number
    return before


def wait(
    buffer: buffers.Buffer,
    indices: tuple[int, ...],
    number: Any,
    shown: tuple[int, ...],
    equal: bool,
    what: str,
) -> None:
    """Blocks until a counter compares."""
    part = buffer.array()

    def ready() -> bool:
        return bool(part[indices] == number if equal else part[indices] >= number)

    participant().wait(ready, what.format(*map(int, (number, *shown))))


def peer(buffer: buffers.Buffer, rank: int) -> buffers.Buffer:
    """The same memory on another rank."""
    return buffers.as_buffer(participant().peer(buffer.array(), rank))


def gate() -> buffers.Buffer:
    """The counters of all ranks."""
    return buffers.as_buffer(participant().gate)


NAMESPACE.update({"signal": signal, "wait": wait, "peer": peer, "gate": gate})


@handles(meeting.signal)
def emit_signal(e: Emitter, op: Operation) -> None:
    """A counter, by a helper."""
    buffer, indices, number = op.operands
    args = [e.name(buffer), e.sequence(indices), e.name(number)]
    args.append(str(op.attrs["op"] is NotifyOp.AtomicAdd))
    e.text.line(f"{e.define(op.result)} = signal({', '.join(args)})")


@handles(meeting.wait)
def emit_wait(e: Emitter, op: Operation) -> None:
    """A wait, by a helper."""
    buffer, indices, number, shown = op.operands
    args = [e.name(buffer), e.sequence(indices), e.name(number), e.sequence(shown)]
    args += [str(op.attrs["cmp"] is WaitCmp.Eq), repr(op.attrs["what"])]
    e.text.line(f"wait({', '.join(args)})")


@handles(meeting.peer)
def emit_peer(e: Emitter, op: Operation) -> None:
    """A buffer, by a helper."""
    e.text.line(f"{e.define(op.result)} = peer({', '.join(map(e.name, op.operands))})")


@handles(meeting.gate)
def emit_gate(e: Emitter, op: Operation) -> None:
    """A buffer, by a helper."""
    e.text.line(f"{e.define(op.result)} = gate()")
