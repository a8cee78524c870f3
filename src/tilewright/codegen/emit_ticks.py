"""Clocks inside a kernel, for profiles."""

from __future__ import annotations

from tilewright.codegen.emitter import Emitter, emits
from tilewright.ir.core import Operation
from tilewright.ops import loop


@emits(loop.tick)
def emit_tick(e: Emitter, op: Operation) -> None:
    """The cycles since the last tick, added to an entry of the table."""
    text = e.text
    table = e.buffer(op.operands[0]).pointer
    now = text.let("call i64 @llvm.readcyclecounter()")
    last = text.let(f"load i64, ptr {table}, align 8")
    text.do(f"store i64 {now}, ptr {table}, align 8")
    place = e.index.place(table, op.attrs["slot"], "i64")
    before = text.let(f"load i64, ptr {place}, align 8")
    spent = text.let(f"sub i64 {now}, {last}")
    text.do(f"store i64 {text.let(f'add i64 {before}, {spent}')}, ptr {place}, align 8")
