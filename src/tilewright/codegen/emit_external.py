"""Kernels in C++: the description of each argument, the call, and what it returned."""

from __future__ import annotations

from tilewright.abi import CTX, Fault
from tilewright.codegen.emit_control import faulting
from tilewright.codegen.emitter import Emitter, dtype_name, emits
from tilewright.codegen.formats import INT_FORMATS, REGISTER_ELEMENT
from tilewright.codegen.index import Num
from tilewright.codegen.operands import Buffer
from tilewright.ir.core import Operation, Value
from tilewright.ops import external

FLOAT_BITS = {"float": "i32", "double": "i64"}


@emits(external.on_buffers)
def emit_external(e: Emitter, op: Operation) -> None:
    """The call; a fault of the kernel is one of ours, at the line of the call."""
    values = [value for value, _ in external.arguments(op)]
    words: list[Num] = [word(e, value) for value in values]
    args = frame(e, [*words, *external.around(op)])
    symbol = e.shared.external_symbol(external.external_kernel(op))
    e.module.require(symbol, lambda module: f"declare i32 @{symbol}(ptr, ptr)")
    status = e.text.let(f"call i32 @{symbol}(ptr {args}, ptr %ctx)")
    with faulting(e, e.text.let(f"icmp ne i32 {status}, {int(Fault.OK)}")):
        place = e.index.place("%ctx", CTX["fault_op"].offset, "i8")
        e.text.do(f"store i32 {e.site(op)}, ptr {place}, align 4")
        e.text.do(f"ret i32 {status}")


def word(e: Emitter, value: Value) -> Num:
    """One argument: the address of a description, or a scalar."""
    found = e.lookup(value)
    if isinstance(found, Buffer):
        rank = len(found.shape)
        extents = frame(e, [*found.shape, *found.strides])
        strides = e.index.place(extents, rank, "i64")
        header = [address(e, pointer) for pointer in (found.pointer, extents, strides)]
        return address(e, frame(e, [*header, rank]))
    return scalar_word(e, value)


def scalar_word(e: Emitter, value: Value) -> Num:
    """A scalar as `abi.encode_scalar` has it."""
    dtype, ref = dtype_name(value), e.scalar(value)
    element = REGISTER_ELEMENT[dtype]
    if element in FLOAT_BITS:
        ref = e.text.let(f"bitcast {element} {ref} to {FLOAT_BITS[element]}")
        element = FLOAT_BITS[element]
    if element == "i64":
        return ref
    extend = "sext" if dtype in INT_FORMATS and INT_FORMATS[dtype].signed else "zext"
    return e.text.let(f"{extend} {element} {ref} to i64")


def address(e: Emitter, pointer: str) -> str:
    """A pointer as a number."""
    return e.text.let(f"ptrtoint ptr {pointer} to i64")


def frame(e: Emitter, words: list[Num]) -> str:
    """Words in memory of the function's frame."""
    memory = e.text.fresh()
    e.text.entry.append(f"{memory} = alloca [{max(1, len(words))} x i64], align 8")
    for index, number in enumerate(words):
        place = e.index.place(memory, index, "i64")
        e.text.do(f"store i64 {number}, ptr {place}, align 8")
    return memory
