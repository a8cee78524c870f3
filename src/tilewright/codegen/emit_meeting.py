"""Participants that run at the same time: crews, signals and waits, the memory of other ranks.

A wait looks at its counter for a while, offering its processor to others, and then asks the
communicator to be woken; a signal tells the communicator only if somebody is asleep.
"""

from __future__ import annotations

from functools import partial

from tilewright.abi import (
    COMM,
    CREWS,
    CTX,
    FAULT_VALUES,
    WAIT_VALUES,
    WINDOW,
    WINDOW_SIZE,
    Fault,
    WaitKind,
)
from tilewright.codegen.emit_faults import faulting, leave, leave_unless_zero
from tilewright.codegen.emit_memory import Address
from tilewright.codegen.emit_parallel import CellEmitter
from tilewright.codegen.emitter import Emitter, emits
from tilewright.codegen.index import Num
from tilewright.codegen.operands import Buffer, Uniform
from tilewright.codegen.text import Module, Text
from tilewright.ir.core import Operation
from tilewright.ir.enums import NotifyOp, WaitCmp
from tilewright.ir.types import BufferType
from tilewright.ops import meeting

LOOKS = 4096
LOOKS_BETWEEN_YIELDS = 64
WIDTHS = {"INT32": "i32", "INT64": "i64"}
TESTS = {WaitCmp.Eq: "eq", WaitCmp.Ge: "sge"}
WAKE, PEER = "@tilewright.wake", "@tilewright.peer"


def comm_field(text: Text, name: str) -> str:
    """A field of the communicator."""
    place = text.let(f"getelementptr i8, ptr %ctx, i64 {CTX['comm'].offset}")
    comm = text.let(f"load ptr, ptr {place}, align 8")
    field = COMM[name]
    at = text.let(f"getelementptr i8, ptr {comm}, i64 {field.offset}")
    return text.let(f"load {field.llvm}, ptr {at}, align 8")


# ---------------------------------------------------------------------- crews


def emit_crew(e: Emitter, op: Operation, start: Num, count: Num) -> None:
    """A loop whose iterations run at the same time, from `start` in steps of one."""
    cell = CellEmitter(e)
    cell.bind_scratch()
    with cell.text.loop("%begin", "%end", 1) as state:
        position = cell.index.add(cell.capture_num(start), state.counter)
        cell.dims.append({})
        cell.define(op.regions[0].params[0], Uniform(str(position)))
        cell.depth += 1
        cell.block(op.regions[0])
        cell.depth -= 1
        cell.dims.pop()
    symbol = cell.close("crew")
    env = cell.environment.store(e)
    run = comm_field(e.text, "together")
    crew = CREWS.index(dict(op.attrs["attrs"])["crew"])
    arguments = f"ptr %ctx, ptr {symbol}, ptr {env}, i64 {count}, i64 {crew}"
    e.shared.communicates = True
    leave_unless_zero(e, e.text.let(f"call i32 {run}({arguments})"))


# ---------------------------------------------------------------------- counters


@emits(meeting.signal)
def emit_signal(e: Emitter, op: Operation) -> None:
    """One atomic step, then a look at who sleeps."""
    value, indices, number = op.operands
    buffer = e.buffer(value)
    width = WIDTHS[buffer.dtype]
    step = "add" if op.attrs["op"] is NotifyOp.AtomicAdd else "xchg"
    place = Address(e, buffer, indices).place()
    given = e.scalar(number)
    before = e.text.let(f"atomicrmw {step} ptr {place}, {width} {given} seq_cst")
    e.define(op.result, Uniform(before))
    e.shared.communicates = True
    e.module.require(WAKE, write_wake)
    e.text.do(f"call fastcc void {WAKE}(ptr %ctx, ptr {place})")


def write_wake(module: Module) -> str:
    """@(ctx, word): wake those whose wait for it is over, if anybody is asleep."""
    text = Text(module, f"define internal fastcc void {WAKE}(ptr %ctx, ptr %word) #1")
    place = comm_field(text, "waiters")
    waiters = text.let(f"load atomic i32, ptr {place} seq_cst, align 4")
    with text.when(text.let(f"icmp ne i32 {waiters}, 0")):
        text.do(f"call void {comm_field(text, 'wake')}(ptr %ctx, ptr %word)")
    text.do("ret void")
    return text.finish()


@emits(meeting.wait)
def emit_wait(e: Emitter, op: Operation) -> None:
    """A look, then the helper."""
    value, indices, number, shown = op.operands
    buffer = e.buffer(value)
    width, test = WIDTHS[buffer.dtype], TESTS[op.attrs["cmp"]]
    place = Address(e, buffer, indices).place()
    site = e.site(op)
    e.shared.texts[site] = op.attrs["what"]
    e.shared.communicates = True
    symbol = f"@tilewright.wait.{width}.{test}"
    e.module.require(symbol, partial(write_wait, symbol=symbol, width=width, test=test))
    values = [str(e.num(each)) for each in shown]
    values += ["0"] * (WAIT_VALUES - len(values))
    last = "".join(f", i64 {each}" for each in values)
    arguments = f"ptr %ctx, ptr {place}, {width} {e.scalar(number)}, i32 {site}{last}"
    leave_unless_zero(e, e.text.let(f"call fastcc i32 {symbol}({arguments})"))


def write_wait(module: Module, symbol: str, width: str, test: str) -> str:
    """@(ctx, word, number, site, shown...): 0 once the word compares, else why it never will."""
    shown = "".join(f", i64 %shown{k}" for k in range(WAIT_VALUES))
    parameters = f"ptr %ctx, ptr %word, {width} %number, i32 %site{shown}"
    text = Text(module, f"define internal fastcc i32 {symbol}({parameters}) #1")
    module.require("@sched_yield", lambda _: "declare i32 @sched_yield()\n")
    done = text.label()
    with text.loop(0, LOOKS, 1, runs=True) as state:
        found = text.let(f"load atomic {width}, ptr %word acquire, align {int(width[1:]) // 8}")
        again = text.label()
        text.branch(text.let(f"icmp {test} {width} {found}, %number"), done, again)
        text.start(again)
        if module.isa.is_x86:
            text.do("call void @llvm.x86.sse2.pause()")
        turn = text.let(f"and i64 {state.counter}, {LOOKS_BETWEEN_YIELDS - 1}")
        with text.when(text.let(f"icmp eq i64 {turn}, {LOOKS_BETWEEN_YIELDS - 1}")):
            text.let("call i32 @sched_yield()")
    kind = (WaitKind.EQUAL if test == "eq" else 0) | (WaitKind.WIDE if width == "i64" else 0)
    number = "%number" if width == "i64" else text.let("sext i32 %number to i64")
    ask = comm_field(text, "wait")
    arguments = f"ptr %ctx, ptr %word, i64 {number}, i32 {int(kind)}, i32 %site{shown}"
    status = text.let(f"call i32 {ask}({arguments})")
    text.do("fence acquire")
    text.do(f"ret i32 {status}")
    text.start(done)
    text.do("ret i32 0")
    return text.finish()


@emits(meeting.require)
def emit_require(e: Emitter, op: Operation) -> None:
    """A fault unless a condition holds."""
    condition, values = op.operands
    holds = e.scalar(condition)
    numbers = [str(e.num(value)) for value in values]
    with faulting(e, e.text.let(f"xor i1 {holds}, true")):
        numbers += ["0"] * (FAULT_VALUES - len(numbers))
        leave(e, op, Fault.NOT_AS_REQUIRED, numbers, op.attrs["what"])


# ---------------------------------------------------------------------- ranks


@emits(meeting.rank)
def emit_rank(e: Emitter, op: Operation) -> None:
    """From the communicator."""
    e.shared.communicates = True
    e.define(op.result, Uniform(comm_field(e.text, "rank")))


@emits(meeting.ranks)
def emit_ranks(e: Emitter, op: Operation) -> None:
    """From the communicator."""
    e.shared.communicates = True
    e.define(op.result, Uniform(comm_field(e.text, "ranks")))


@emits(meeting.gate)
def emit_gate(e: Emitter, op: Operation) -> None:
    """From the communicator."""
    e.shared.communicates = True
    kind = op.result.type
    assert isinstance(kind, BufferType)
    pointer = comm_field(e.text, "gate")
    shape, strides = e.all_dims(kind.shape), e.all_dims(kind.strides)
    e.define(op.result, Buffer(pointer, kind.dtype.name, shape, strides))


@emits(meeting.peer)
def emit_peer(e: Emitter, op: Operation) -> None:
    """The pointer moved to the part of the other rank; a fault where there is none."""
    value, rank = op.operands
    buffer, number = e.buffer(value), e.num(rank)
    e.shared.communicates = True
    e.module.require(PEER, write_peer)
    pointer = e.text.let(f"call fastcc ptr {PEER}(ptr %ctx, ptr {buffer.pointer}, i64 {number})")
    with faulting(e, e.text.let(f"icmp eq ptr {pointer}, null")):
        ranks = comm_field(e.text, "ranks")
        leave(e, op, Fault.NO_SUCH_RANK, (str(number), ranks, "0", "0"))
    e.define(op.result, Buffer(pointer, buffer.dtype, buffer.shape, buffer.strides))


def write_peer(module: Module) -> str:
    """@(ctx, pointer, rank): the same place in the window of another rank, or null."""
    text = Text(module, f"define internal fastcc ptr {PEER}(ptr %ctx, ptr %pointer, i64 %rank) #1")
    ranks, mine = comm_field(text, "ranks"), comm_field(text, "rank")
    none, own, found = text.label(), text.label(), text.label()
    known, other = text.label(), text.label()
    text.branch(text.let(f"icmp ult i64 %rank, {ranks}"), known, none)
    text.start(known)
    text.branch(text.let(f"icmp eq i64 %rank, {mine}"), own, other)
    text.start(other)
    address = text.let("ptrtoint ptr %pointer to i64")
    windows, count = comm_field(text, "windows"), comm_field(text, "window_count")
    with text.loop(0, count, 1) as state:
        offset = text.let(f"mul i64 {state.counter}, {WINDOW_SIZE}")
        entry = text.let(f"getelementptr i8, ptr {windows}, i64 {offset}")
        low, high, stride = (load_word(text, entry, WINDOW[name]) for name in WINDOW)
        after = text.let(f"icmp uge i64 {address}, {low}")
        before = text.let(f"icmp ult i64 {address}, {high}")
        next_one = text.label()
        text.branch(text.let(f"and i1 {after}, {before}"), found, next_one)
        text.start(next_one)
    text.jump(none)
    text.start(found)
    distance = text.let(f"mul i64 {text.let(f'sub i64 %rank, {mine}')}, {stride}")
    text.do(f"ret ptr {text.let(f'getelementptr i8, ptr %pointer, i64 {distance}')}")
    text.start(own)
    text.do("ret ptr %pointer")
    text.start(none)
    text.do("ret ptr null")
    return text.finish()


def load_word(text: Text, pointer: str, offset: int) -> str:
    """A word of a record."""
    place = text.let(f"getelementptr i8, ptr {pointer}, i64 {offset}")
    return text.let(f"load i64, ptr {place}, align 8")
