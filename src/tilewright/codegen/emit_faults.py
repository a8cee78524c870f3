"""Faults: a record for the run time, and out of the function."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from tilewright.abi import CTX, Fault
from tilewright.codegen.emitter import Emitter
from tilewright.codegen.text import Module, Text
from tilewright.ir.core import Operation


@contextmanager
def faulting(e: Emitter, condition: str) -> Generator[None]:
    """Instructions that run, and leave the function, if `condition` holds."""
    fault, go = e.text.label(), e.text.label()
    e.text.branch(condition, fault, go)
    e.text.start(fault)
    yield
    e.text.start(go)


def leave(e: Emitter, op: Operation, fault: Fault, values: Sequence[str], text: str = "") -> None:
    """Write the fault record, with up to four values, which `text` may speak of, and leave."""
    site = e.site(op)
    if text:
        e.shared.texts[site] = text
    e.module.require(FAULT_SYMBOL, write_fault_helper)
    numbers = ", ".join(f"i64 {value}" for value in values)
    e.text.do(f"call fastcc void {FAULT_SYMBOL}(ptr %ctx, i32 {int(fault)}, i32 {site}, {numbers})")
    e.text.do(f"ret i32 {int(fault)}")


def leave_unless_zero(e: Emitter, status: str) -> None:
    """Give a status other than zero to the caller."""
    with faulting(e, e.text.let(f"icmp ne i32 {status}, 0")):
        e.text.do(f"ret i32 {status}")


FAULT_SYMBOL = "@tilewright.fault"


def write_fault_helper(module: Module) -> str:
    """@(ctx, code, op, x0, x1, x2, x3): fill the fault record."""
    parameters = "ptr %ctx, i32 %code, i32 %op, i64 %x0, i64 %x1, i64 %x2, i64 %x3"
    text = Text(module, f"define internal fastcc void {FAULT_SYMBOL}({parameters}) #1")
    fields = [("i32", "%code", "fault_code", 0), ("i32", "%op", "fault_op", 0)]
    fields += [("i64", f"%x{k}", "fault_values", 8 * k) for k in range(4)]
    for kind, value, name, extra in fields:
        place = text.let(f"getelementptr i8, ptr %ctx, i64 {CTX[name].offset + extra}")
        text.do(f"store {kind} {value}, ptr {place}, align 4")
    text.do("ret void")
    return text.finish()
