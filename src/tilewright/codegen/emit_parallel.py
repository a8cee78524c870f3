"""Parallel loops: the body as a function of its own, run by all threads where it is long enough."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from tilewright.abi import CTX
from tilewright.codegen.emit_faults import leave_unless_zero
from tilewright.codegen.emitter import Emitter, dtype_name
from tilewright.codegen.formats import REGISTER_ELEMENT
from tilewright.codegen.index import Num
from tilewright.codegen.operands import Buffer, Const, Operand, Uniform
from tilewright.codegen.text import NAMELESS, Text
from tilewright.codegen.work import Work, estimate_loop
from tilewright.errors import InternalError
from tilewright.ir.affine import Symbol
from tilewright.ir.core import Operation, Value
from tilewright.ir.enums import ForKind

PARALLEL = (ForKind.Parallel, ForKind.Spmd)
WORTHWHILE_NS = 30_000
FRACTION = 1024
UNKNOWN_EXTENT = 64


def is_outlined(e: Emitter, op: Operation) -> bool:
    """Whether a loop becomes a function that other threads may run."""
    if op.attrs["kind"] not in PARALLEL or op.operands[3] or e.lanes is not None:
        return False
    return not isinstance(e, CellEmitter) and is_long(estimate_loop(op))


def is_long(work: Work) -> bool:
    """Whether the work is enough to share, or may be."""
    known = sum(value for symbols, value in work.items() if not symbols)
    return known >= WORTHWHILE_NS or any(symbols for symbols in work)


class Environment:
    """Registers of an enclosing function, which inner functions find in memory, by slot."""

    def __init__(self) -> None:
        self.slots: dict[tuple[Hashable, str, str], int] = {}

    def slot(self, key: Hashable, element: str, ref: str) -> int:
        """Where a register of this type is: a place for each `key`, whatever its register."""
        return self.slots.setdefault((key, element, ref), len(self.slots))

    def store(self, e: Emitter) -> str:
        """Writes all of them, in memory of the frame of the function that `e` writes."""
        env = e.text.fresh()
        e.text.entry.append(f"{env} = alloca i64, i64 {max(1, len(self.slots))}, align 8")
        for (_, element, ref), slot in self.slots.items():
            place = e.index.place(env, slot, "i64")
            if element == "i1":
                element, ref = "i8", e.text.let(f"zext i1 {ref} to i8")
            e.text.do(f"store {element} {ref}, ptr {place}, align 8")
        return env


class CellEmitter(Emitter):
    """Writes the function of a parallel loop; what it needs from outside comes in `%env`."""

    parameters = "ptr %env, ptr %ctx, i64 %begin, i64 %end"

    def __init__(
        self, outer: Emitter, text: Text | None = None, environment: Environment | None = None
    ) -> None:
        header = f"define internal i32 {NAMELESS}({self.parameters}) #0"
        super().__init__(text or Text(outer.module, header), outer.shared)
        self.outer = outer
        self.environment = environment or Environment()
        self.taken: dict[Hashable, str] = {}
        self.names: set[str] = set()
        self.loads: list[str] = []
        self.depth = outer.depth
        self.slot = len(self.text.lines)
        self.text.do("")

    def capture(self, ref: str, element: str) -> str:
        """A register of the enclosing function, passed through the environment."""
        return self.take(ref, ref, element)

    def take(self, key: Hashable, ref: str, element: str) -> str:
        """What `ref` is outside, passed through the environment once per `key`."""
        found = self.taken.get(key)
        if found is None:
            found, place = self.text.fresh(), self.text.fresh()
            slot = self.environment.slot(key, element, ref)
            self.loads.append(f"{place} = getelementptr i64, ptr %env, i64 {slot}")
            self.loads.append(f"{found} = load {element}, ptr {place}, align 8")
            self.taken[key] = found
            self.names.add(found)
        return found

    def is_hoistable(self, ref: Num) -> bool:
        """Whether a scalar is known before the lanes loop begins; what was captured always is."""
        return ref in self.names or super().is_hoistable(ref)

    def operation(self, op: Operation) -> None:
        """Writes an operation; constants that differ in its look-alikes come from outside."""
        constants = [
            (value, self.lookup(value)) for value in self.shared.repeats.shifts.get(op, ())
        ]
        for value, operand in constants:
            assert isinstance(operand, Const)
            self.values[value] = Uniform(self.take((op, value), str(operand.value), "i64"))
        super().operation(op)
        self.values.update(constants)

    def capture_num(self, num: Num) -> Num:
        """An index of the enclosing function."""
        return num if isinstance(num, int) else self.capture(num, "i64")

    def brought_num(self, num: Num) -> Num:
        """A number of the kernel's entry, in this function; it comes through those around it."""
        return self.capture_num(self.outer.brought_num(num))

    def lookup(self, value: Value) -> Operand | Buffer:
        """What `value` is, here or outside."""
        found = self.values.get(value)
        if found is None:
            found = self.values[value] = self.brought(value, self.outer.lookup(value))
        return found

    def brought(self, value: Value, operand: Operand | Buffer) -> Operand | Buffer:
        """Something of the enclosing function as it is here."""
        if isinstance(operand, Const):
            return operand
        if isinstance(operand, Uniform):
            return Uniform(self.capture(operand.ref, REGISTER_ELEMENT[dtype_name(value)]))
        if isinstance(operand, Buffer):
            return Buffer(
                self.capture(operand.pointer, "ptr"),
                operand.dtype,
                tuple(map(self.capture_num, operand.shape)),
                tuple(map(self.capture_num, operand.strides)),
            )
        raise InternalError("a parallel loop stands in a lanes loop")

    def extent(self, symbol: Symbol) -> Num:
        """The value of an extent, here or outside."""
        found = self.symbols.get(symbol)
        if found is None:
            found = self.symbols[symbol] = self.capture_num(self.outer.extent(symbol))
        return found

    def scratch(self, op: Operation) -> Num:
        """Where in the arena an operation has its scratch."""
        return self.take(op, str(self.outer.scratch(op)), "i64")

    def bring(self) -> None:
        """The captures go where this emitter began."""
        self.text.lines[self.slot] = "\n".join(self.loads)

    def close(self, name: str) -> str:
        """End the function. Gives its symbol, which starts `name`."""
        self.succeed()
        self.bring()
        return self.module.share(self.text, name)


def run_cells(
    e: Emitter, count: Num, work: Work, write: Callable[[CellEmitter, Num], None]
) -> None:
    """Iterations [0, count), each by `write`, by this thread or by all."""

    def write_each(cell: CellEmitter, begin: Num, end: Num) -> None:
        with cell.text.loop(begin, end, 1) as state:
            write(cell, state.counter)

    run_ranges(e, count, work, write_each)


def run_ranges(
    e: Emitter, count: Num, work: Work, write: Callable[[CellEmitter, Num, Num], None]
) -> None:
    """Iterations [0, count), as ranges by `write`: one by this thread or several by all."""
    cell = CellEmitter(e)
    cell.bind_scratch()
    write(cell, "%begin", "%end")
    symbol = cell.close("cells")
    env = cell.environment.store(e)
    status = choose_runner(e, symbol, env, count, work)
    leave_unless_zero(e, status)


class NestEmitter(CellEmitter):
    """Writes the function of a nest."""

    parameters = "ptr %env, ptr %ctx"


def call_nest(e: Emitter, write: Callable[[CellEmitter], None]) -> None:
    """What `write` writes as a function, and its call."""
    nest = NestEmitter(e)
    nest.bind_scratch()
    write(nest)
    symbol = nest.close("nest")
    env = nest.environment.store(e)
    leave_unless_zero(e, e.text.let(f"call i32 {symbol}(ptr {env}, ptr %ctx)"))


def choose_runner(e: Emitter, symbol: str, env: str, count: Num, work: Work) -> str:
    """The status of the loop: through the context's `parallel` if there is one and it pays."""
    text = e.text
    e.shared.parallel = True
    place = e.index.place("%ctx", CTX["parallel"].offset, "i8")
    runner = text.let(f"load ptr, ptr {place}, align 8")
    shared = text.let(f"icmp ne ptr {runner}, null")
    shared = text.let(f"and i1 {shared}, {is_worthwhile(e, work)}")
    many, alone, after = text.label(), text.label(), text.label()
    text.branch(shared, many, alone)
    text.start(many)
    arguments = f"ptr %ctx, ptr {symbol}, ptr {env}, i64 {count}"
    first = text.let(f"call i32 {runner}({arguments})")
    text.jump(after)
    text.start(alone)
    second = text.let(f"call i32 {symbol}(ptr {env}, ptr %ctx, i64 0, i64 {count})")
    text.jump(after)
    text.start(after)
    return text.let(f"phi i32 [{first}, %{many}], [{second}, %{alone}]")


def is_worthwhile(e: Emitter, work: Work) -> str:
    """An i1: whether the estimated time is worth waking other threads."""
    if sum(value for symbols, value in work.items() if not symbols) >= WORTHWHILE_NS:
        return "true"
    total: Num = 0
    for symbols, value in work.items():
        part: Num = min(int(value * FRACTION), 1 << 40)
        for symbol in symbols:
            known = e.find_extent(symbol)
            part = e.index.mul(part, UNKNOWN_EXTENT if known is None else known)
        total = e.index.add(total, part)
    if isinstance(total, int):
        return "true" if total >= WORTHWHILE_NS * FRACTION else "false"
    return e.text.let(f"icmp sge i64 {total}, {WORTHWHILE_NS * FRACTION}")
