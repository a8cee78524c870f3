"""Scratch whose size only run time knows where it is made: lent by the C library.

Each function has a slot for each such buffer, which holds the memory of the last one that was made
there, and how much it is. The next one is given the same memory where that is enough, and the
function gives it back wherever it ends.
"""

from __future__ import annotations

from tilewright.abi import FAULT_VALUES, Fault
from tilewright.codegen.arena import ALIGNMENT, Layout
from tilewright.codegen.emit_faults import faulting, leave
from tilewright.codegen.emitter import Emitter
from tilewright.codegen.index import Num
from tilewright.codegen.text import Module, Text
from tilewright.ir.affine import symbols
from tilewright.ir.core import Operation

LEND, TAKE_BACK = "@tilewright.lend", "@free"


def keep_known(e: Emitter, layout: Layout) -> None:
    """Leaves in `dynamic` what has a size that `e` knows now; the others are lent."""
    for op in layout.dynamic:
        dims = (symbol for extent in op.attrs["shape"] for symbol in symbols(extent))
        if any(e.find_extent(symbol) is None for symbol in dims):
            layout.lent.append(op)
    layout.dynamic = [op for op in layout.dynamic if op not in layout.lent]


def byte_count(e: Emitter, op: Operation) -> Num:
    """The bytes of a buffer, a whole number of lines."""
    count: Num = op.attrs["dtype"].nbytes
    for extent in op.attrs["shape"]:
        count = e.index.room(count, e.dim(extent))
    return e.index.round_down(e.index.add(count, ALIGNMENT - 1), ALIGNMENT)


def emit_lent(e: Emitter, op: Operation) -> str:
    """The memory of a buffer; a fault where there is none."""
    slot = e.text.fresh()
    e.text.entry.append(f"{slot} = alloca {{ ptr, i64 }}, align 8")
    e.text.entry.append(f"store {{ ptr, i64 }} zeroinitializer, ptr {slot}, align 8")
    e.text.owned.append(slot)
    e.module.require(TAKE_BACK, lambda _: f"declare void {TAKE_BACK}(ptr)\n")
    e.module.require(LEND, write_lend)
    size = str(e.index.maximum(byte_count(e, op), ALIGNMENT))
    memory = e.text.let(f"call fastcc ptr {LEND}(ptr {slot}, i64 {size})")
    with faulting(e, e.text.let(f"icmp eq ptr {memory}, null")):
        leave(e, op, Fault.NO_MEMORY, (size, *["0"] * (FAULT_VALUES - 1)))
    return memory


def write_lend(module: Module) -> str:
    """@(slot, bytes): memory of at least so many bytes, which are whole lines; null for none."""
    module.require("@aligned_alloc", lambda _: "declare ptr @aligned_alloc(i64, i64)\n")
    text = Text(module, f"define internal fastcc ptr {LEND}(ptr %slot, i64 %bytes) #1")
    room = text.let("getelementptr i8, ptr %slot, i64 8")
    held = text.let("load ptr, ptr %slot, align 8")
    given = text.let(f"load i64, ptr {room}, align 8")
    fresh, enough = text.label(), text.label()
    text.branch(text.let(f"icmp ult i64 {given}, %bytes"), fresh, enough)
    text.start(fresh)
    text.do(f"call void {TAKE_BACK}(ptr {held})")
    memory = text.let(f"call ptr @aligned_alloc(i64 {ALIGNMENT}, i64 %bytes)")
    text.do(f"store ptr {memory}, ptr %slot, align 8")
    text.do(f"store i64 %bytes, ptr {room}, align 8")
    text.do(f"ret ptr {memory}")
    text.start(enough)
    text.do(f"ret ptr {held}")
    return text.finish()
