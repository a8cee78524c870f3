"""The entry stub: the native function Python calls instead of our Python code.

One stub serves every kernel: it reads what to check from the records of `records.py`. It knows the
common case only (exact numpy arrays and torch tensors, native numbers, no keywords); anything else,
and everything that deserves an error, goes to the instance's Python method `call_slowly`.
"""

from __future__ import annotations

from tilewright.abi import CTX, Fault
from tilewright.runtime.assembler import Function, Module, Variable, Word
from tilewright.runtime.entry_outputs import Outputs, evaluate_extent, floor_divide, write_ignore
from tilewright.runtime.entry_pool import write_pool
from tilewright.runtime.entry_run import process_word, write_run
from tilewright.runtime.records import (
    CTX_BUSY,
    DIM,
    DIM_SIZE,
    DLPACK_CPU,
    DLTENSOR,
    DLTENSOR_WORDS,
    EXCHANGE,
    EXCHANGE_TYPES,
    FLOAT_VALUE,
    GUARD,
    GUARD_SIZE,
    INSTANCE,
    LIST,
    MAX_PARAMS,
    MAX_WORDS,
    NDARRAY,
    NPY_WRITEABLE,
    ONE_SLOT,
    PAIR,
    PAIR_SIZE,
    PARAM,
    PARAM_SIZE,
    VARIANT,
    WORK,
    WORK_SCALE,
    WORK_SIZE,
    DimOperation,
    GuardKind,
    Kind,
)

# What trying a variant gives, when not an object.
NO_MATCH, SLOW, FAILED = 0, 1, 2

_OFFSET_BIT_OFF = (1 << 63) - 1
_ANY_ROOM = (1 << 63) - 1


def stub_text() -> str:
    """The whole stub as LLVM text."""
    module = Module()
    write_ignore(module)
    _write_entry(module, _Attempt(module, write_run(module)).write())
    write_pool(module)
    return module.text()


# ---- entry ---------------------------------------------------------------------------------------


def _write_entry(module: Module, attempt: Function) -> None:
    """vectorcall(self, args, nargsf, kwnames)"""
    f = module.function("tilewright_entry", 4)
    instance, arguments, counted, names = f.parameters
    slow = f.label("slow")
    table = f.load(instance, INSTANCE["table"])
    f.require((names == 0) & (table != 0), slow)
    count = counted & _OFFSET_BIT_OFF
    with f.loop(f.load(table)) as i:
        variant = f.load(table + (i << 3), 8)
        outcome = f.call_function(attempt, variant, arguments, count)
        with f.when(outcome != NO_MATCH):
            with f.when(outcome == FAILED):
                f.ret(0)
            f.require(outcome != SLOW, slow)
            f.ret(outcome)
    f.place(slow)
    _call_method(f, instance, "name_call_slowly", arguments, counted, names)


def _call_method(
    f: Function, target: Word, name: str, arguments: Word, count: Word | int, names: Word | int
) -> None:
    """Return target.<name>(*arguments)."""
    method = f.call("PyObject_GetAttr", target, process_word(f, name))
    with f.when(method == 0):
        f.ret(0)
    result = f.call("PyObject_Vectorcall", method, arguments, count, names)
    f.call("Py_DecRef", method, result="void")
    f.ret(result)


# ---- one variant ---------------------------------------------------------------------------------


class _Attempt:
    """The function that tries one variant: attempt(variant, arguments, count)."""

    def __init__(self, module: Module, run: Function) -> None:
        self.run = run
        self.f = module.function("tilewright_attempt", 3, exported=False)
        self.variant, self.arguments, self.count = self.f.parameters
        self.miss = self.f.label("miss")
        self.words = self.f.array(MAX_WORDS + 1)
        self.lows = self.f.array(MAX_PARAMS)
        self.highs = self.f.array(MAX_PARAMS)
        self.made = self.f.array(MAX_PARAMS)  # objects, by parameter: borrowed, or new if implicit
        self.is_foreign = self.f.variable(0)
        self.tables = self.f.variable(0)  # exchange table of the tensors, if there are any
        self.outputs = Outputs(self.f, self.variant, self.words, self.made)

    def of(self, name: str) -> Word:
        """A word of the variant."""
        return self.f.load(self.variant, VARIANT[name])

    def write(self) -> Function:
        """Everything, in order."""
        f = self.f
        f.require(self.count == self.of("arguments"), self.miss)
        epoch = self.of("epoch")
        f.require((epoch == 0) | (epoch == process_word(f, "epoch")), self.miss)
        self.check_guards()
        f.store(self.words, 1, 8 * ONE_SLOT)
        self.read_arguments()
        self.check_overlaps()
        context = self.prepare_context()
        failed, slow = f.label("failed"), f.label("slow")
        self.outputs.allocate(self.tables.get(), slow, failed)
        self.call_kernel(context)
        f.place(self.miss)
        f.ret(NO_MATCH)
        f.place(slow)
        self.outputs.drop()
        f.ret(SLOW)
        f.place(failed)
        self.outputs.drop()
        f.ret(FAILED)
        return f

    def check_guards(self) -> None:
        """Every guarded name still means the same object."""
        f, guards = self.f, self.of("guards")
        with f.loop(self.of("guard_count")) as i:
            guard = guards + i * GUARD_SIZE
            container, found = f.load(guard, GUARD["container"]), f.variable(0)
            ready, in_memory, here = f.label("ready"), f.label("memory"), f.label("here")
            kind, key = f.load(guard, GUARD["kind"]), f.load(guard, GUARD["key"])
            f.require(kind == GuardKind.DICT, in_memory)
            found.set(f.call("PyDict_GetItemWithError", container, key))
            f.jump(ready)
            f.place(in_memory)
            found.set(container)
            f.require(kind == GuardKind.ITEM, here)
            found.set(f.load(container, LIST["items"]))
            f.jump(here)
            f.place(here)
            found.set(f.load(found.get() + key))
            f.place(ready)
            f.require(found.get() == f.load(guard, GUARD["expected"]), self.miss)

    # -- arguments

    def read_arguments(self) -> None:
        """Check every argument and write its words."""
        f, params = self.f, self.of("params")
        position = f.variable(0)
        with f.loop(self.of("param_count")) as i:
            param = params + i * PARAM_SIZE
            kind = f.load(param, PARAM["kind"])
            done = f.label("done")
            with f.when(kind != Kind.IMPLICIT):
                at = position.get()
                position.set(at + 1)
                value = f.load(self.arguments + (at << 3))
                f.store(self.made + (i << 3), value)
                scalar = f.label("scalar")
                f.require(kind == Kind.TENSOR, scalar)
                self.read_tensor(param, value, i)
                f.jump(done)
                f.place(scalar)
                self.read_scalar(param, kind, value)
            f.place(done)

    def read_scalar(self, param: Word, kind: Word, value: Word) -> None:
        """An exact int, float or bool."""
        f = self.f
        kind_of, word, done = f.load(value, INSTANCE["type"]), f.variable(0), f.label("encoded")
        with f.when(kind == Kind.INTEGER):
            f.require(kind_of == process_word(f, "long_type"), self.miss)
            overflow = f.array(1)
            number = f.call("PyLong_AsLongLongAndOverflow", value, overflow)
            low, high = f.load(param, PARAM["low"]), f.load(param, PARAM["high"])
            fits = (number >= low) & (number <= high) & (f.load(overflow, size=4) == 0)
            f.require(fits, self.miss)
            word.set(number)
            f.jump(done)
        with f.when(kind == Kind.BOOL):
            is_true = value == process_word(f, "true")
            f.require(is_true | (value == process_word(f, "false")), self.miss)
            with f.when(is_true):
                word.set(1)
            f.jump(done)
        f.require(kind_of == process_word(f, "float_type"), self.miss)
        bits = f.load(value, FLOAT_VALUE)
        word.set(bits)
        with f.when(kind == Kind.FLOAT32):
            word.set(_narrow(f, bits))
        f.place(done)
        f.store(self.words + (f.load(param, PARAM["slot"]) << 3), word.get())

    def read_tensor(self, param: Word, value: Word, index: Word) -> None:
        """An exact numpy array, or a tensor of a registered type through DLPack."""
        f = self.f
        foreign, ready = f.label("foreign"), f.label("ready")
        data, dims, strides, unit = (f.variable(0) for _ in range(4))
        f.require(f.load(value, INSTANCE["type"]) == process_word(f, "ndarray_type"), foreign)
        wanted = f.load(param, PARAM["flags"])
        same = f.load(value, NDARRAY["descr"]) == f.load(param, PARAM["descr"])
        same = same & ((f.load(value, NDARRAY["flags"], 4) & wanted) == wanted)
        same = same & (f.load(value, NDARRAY["ndim"], 4) == f.load(param, PARAM["ndim"]))
        f.require(same, self.miss)
        data.set(f.load(value, NDARRAY["data"]))
        dims.set(f.load(value, NDARRAY["dims"]))
        strides.set(f.load(value, NDARRAY["strides"]))
        unit.set(f.load(param, PARAM["shift"]))
        self.is_foreign.set(0)
        f.jump(ready)
        f.place(foreign)
        self.read_foreign(param, value, (data, dims, strides))
        f.place(ready)
        f.store(self.words + (f.load(param, PARAM["slot"]) << 3), data.get())
        count = self.read_dims(param, dims.get())
        self.read_strides(param, index, (data, dims, strides, unit), count)

    def read_foreign(
        self, param: Word, value: Word, places: tuple[Variable, Variable, Variable]
    ) -> None:
        """A tensor whose type exports itself through DLPack's C exchange functions."""
        f, (data, dims, strides) = self.f, places
        table, found = f.variable(0), f.label("found")
        kind = f.load(value, INSTANCE["type"])
        for i in range(EXCHANGE_TYPES):
            with f.when(kind == process_word(f, f"exchange_type_{i}")):
                table.set(process_word(f, f"exchange_table_{i}"))
                f.jump(found)
        f.jump(self.miss)
        f.place(found)
        self.is_foreign.set(1)
        self.tables.set(table.get())
        self.refuse_gradient(value)
        view = f.array(DLTENSOR_WORDS)
        export = f.load(table.get(), EXCHANGE["read"])
        with f.when(f.call_pointer(export, value, view, result="i32") != 0):
            f.call("PyErr_Clear", result="void")
            f.jump(self.miss)
        same = f.load(view, DLTENSOR["device"], 4) == DLPACK_CPU
        same = same & (f.load(view, DLTENSOR["ndim"], 4) == f.load(param, PARAM["ndim"]))
        same = same & (f.load(view, DLTENSOR["type"], 4) == f.load(param, PARAM["dlpack_type"]))
        start = f.load(view, DLTENSOR["data"]) + f.load(view, DLTENSOR["offset"])
        size = f.constant(1) << f.load(param, PARAM["shift"])
        f.require(same & ((start & (size - 1)) == 0), self.miss)
        f.require(f.load(view, DLTENSOR["strides"]) != 0, self.miss)
        data.set(start)
        dims.set(f.load(view, DLTENSOR["shape"]))
        strides.set(f.load(view, DLTENSOR["strides"]))

    def refuse_gradient(self, value: Word) -> None:
        """A tensor that requires a gradient is for the slow path to refuse."""
        f = self.f
        answer = f.call("PyObject_GetAttr", value, process_word(f, "name_requires_grad"))
        with f.when(answer == 0):
            f.call("PyErr_Clear", result="void")
            f.jump(self.miss)
        f.call("Py_DecRef", answer, result="void")
        f.require(answer == process_word(f, "false"), self.miss)

    def read_dims(self, param: Word, dims: Word) -> Word:
        """Check the extents, learn symbols from them; the number of elements."""
        f, records, count = self.f, self.f.load(param, PARAM["dims"]), self.f.variable(1)
        with f.loop(f.load(param, PARAM["ndim"])) as axis:
            record, extent = records + axis * DIM_SIZE, f.load(dims + (axis << 3))
            count.set(count.get() * extent)
            operation, done = f.load(record, DIM["operation"]), f.label("done")
            constant = f.load(record, DIM["constant"])
            with f.when(operation == DimOperation.STATIC):
                f.require(extent == constant, self.miss)
                f.jump(done)
            word = self.words + (f.load(record, DIM["slot"]) << 3)
            with f.when(operation == DimOperation.BIND):
                f.store(word, extent)
                f.jump(done)
            with f.when(operation == DimOperation.CHECK):
                f.require(extent == f.load(word), self.miss)
                f.jump(done)
            with f.when(operation == DimOperation.BIND_AFFINE):
                self.solve(record, word, extent)
                f.jump(done)
            f.require(extent == evaluate_extent(f, record, word), self.miss)
            f.place(done)
        return count.get()

    def solve(self, record: Word, word: Word, extent: Word) -> None:
        f, scale = self.f, self.f.load(record, DIM["scale"])
        rest = extent - f.load(record, DIM["constant"])
        quotient = rest // scale
        f.require((quotient >= 0) & (quotient * scale == rest), self.miss)
        f.store(word, quotient)

    def read_strides(
        self,
        param: Word,
        index: Word,
        places: tuple[Variable, Variable, Variable, Variable],
        count: Word,
    ) -> None:
        """Check the layout, pass strides, and note which bytes the tensor occupies."""
        f, (data, dims, strides, unit) = self.f, places
        slot, shift = f.load(param, PARAM["strides_slot"]), f.load(param, PARAM["shift"])
        reach = f.variable(count << shift)
        below = f.variable(0)
        is_strided, done = f.label("strided"), f.label("spanned")
        with f.when(self.is_foreign.get() != 0):
            self.require_contiguous(param, dims.get(), strides.get())
        f.require(slot < 0, is_strided)
        f.jump(done)
        f.place(is_strided)
        reach.set(f.constant(1) << shift)
        room = f.variable(_ANY_ROOM)
        with f.loop(f.load(param, PARAM["ndim"])) as axis:
            stride, extent = f.load(strides.get() + (axis << 3)), f.load(dims.get() + (axis << 3))
            elements = self.to_elements(stride, unit.get())
            f.store(self.words + ((slot + axis) << 3), elements)
            step = (elements * (extent - 1)) << shift
            with f.when(step < 0):
                below.set(below.get() + step)
            with f.when(step > 0):
                reach.set(reach.get() + step)
            self.require_rows(param, axis, elements, extent)
            self.require_apart(param, room, elements, extent)
        with f.when(count == 0):
            reach.set(0)
            below.set(0)
        f.place(done)
        f.store(self.lows + (index << 3), data.get() + below.get())
        f.store(self.highs + (index << 3), data.get() + reach.get())

    def to_elements(self, stride: Word, unit: Word) -> Word:
        """A stride in elements; `unit` is the log2 of the bytes it counts."""
        f = self.f
        elements = _arithmetic_shift(f, stride, unit)
        f.require((elements << unit) == stride, self.miss)
        return elements

    def require_rows(self, param: Word, axis: Word, elements: Word, extent: Word) -> None:
        f = self.f
        is_last = (axis + 1) == f.load(param, PARAM["ndim"])
        with f.when(is_last & (f.load(param, PARAM["last_stride_is_one"]) != 0)):
            f.require((elements == 1) | (extent <= 1), self.miss)

    def require_apart(self, param: Word, room: Variable, elements: Word, extent: Word) -> None:
        """What is written has no element twice: each axis fits into a step of the one before it.

        Other orders of the axes are for the slow path to judge.
        """
        f, size = self.f, self.f.variable(elements)
        with f.when(elements < 0):
            size.set(f.constant(0) - elements)
        is_written = (f.load(param, PARAM["flags"]) & NPY_WRITEABLE) != 0
        with f.when((extent > 1) & is_written):
            f.require((elements != 0) & (size.get() * extent <= room.get()), self.miss)
            room.set(size.get())

    def require_contiguous(self, param: Word, dims: Word, strides: Word) -> None:
        """Row-major with at least two elements, for strides in elements.

        That also keeps torch's lazily negated tensors out: their values are not their bytes, they
        are the imaginary parts of conjugates, and so they have gaps.
        """
        f, expected = self.f, self.f.variable(1)
        ndim = f.load(param, PARAM["ndim"])
        with f.loop(ndim) as back:
            at = ((ndim - 1) - back) << 3
            extent = f.load(dims + at)
            with f.when(extent != 1):
                f.require(f.load(strides + at) == expected.get(), self.miss)
            expected.set(expected.get() * extent)
        f.require(expected.get() > 1, self.miss)

    def check_overlaps(self) -> None:
        """Outputs have memory of their own, or are exactly a tensor they may be."""
        f, pairs = self.f, self.of("pairs")
        with f.loop(self.of("pair_count")) as i:
            pair = pairs + i * PAIR_SIZE
            first, second = f.load(pair, PAIR["first"]) << 3, f.load(pair, PAIR["second"]) << 3
            low, high = f.load(self.lows + first), f.load(self.highs + first)
            other_low, other_high = f.load(self.lows + second), f.load(self.highs + second)
            apart = (high <= other_low) | (other_high <= low)
            apart = apart | (high == low) | (other_high == other_low)
            same = (low == other_low) & (high == other_high)
            same = same & (f.load(pair, PAIR["same_is_fine"]) != 0)
            f.require(apart | same, self.miss)

    # -- running

    def prepare_context(self) -> Word:
        """The thread's context, with the grid and enough arena; else the slow way makes it so."""
        f, slow, ready = self.f, self.f.label("slow"), self.f.label("ready")
        context = f.call("PyThread_tss_get", process_word(f, "thread_key"))
        f.require(context != 0, slow)
        f.require((f.load(context, CTX["flags"].offset) & CTX_BUSY) == 0, slow)
        enough = f.load(context, CTX["arena_bytes"].offset) >= self.of("arena_bytes")
        f.branch(enough, ready, slow)
        f.place(slow)
        f.ret(SLOW)
        f.place(ready)
        return context

    def store_grid(self, context: Word) -> None:
        """The number of programs, once nothing but the kernel runs in the context."""
        f, cells = self.f, self.f.variable(self.of("grid_constant"))
        symbol = self.of("grid_symbol")
        with f.when(symbol >= 0):
            value = f.load(self.words + (symbol << 3)) * self.of("grid_scale")
            total = value + self.of("grid_constant")
            cells.set(floor_divide(f, total, self.of("grid_divisor")))
        f.store(context, cells.get(), CTX["grid_end"].offset)

    def call_kernel(self, context: Word) -> None:
        """Run, then turn the status into a result."""
        f, owner = self.f, self.of("owner")
        f.call("Py_IncRef", owner, result="void")
        self.store_grid(context)
        work = self.estimate()
        status = f.call_function(self.run, self.of("kernel"), self.words, context, work)
        with f.when(status != Fault.OK):
            retry = f.label("retry")
            f.require(status != Fault.ARENA_TOO_SMALL, retry)
            self.report(owner, status)
            self.outputs.drop()
            f.call("Py_DecRef", owner, result="void")
            f.ret(FAILED)
            f.place(retry)
            self.outputs.drop()
            f.call("Py_DecRef", owner, result="void")
            f.ret(SLOW)
        result = self.outputs.result()
        f.call("Py_DecRef", owner, result="void")
        with f.when(result == 0):
            f.ret(FAILED)
        f.ret(result)

    def estimate(self) -> Word:
        """Nanoseconds the kernel is expected to take."""
        f, terms, total = self.f, self.of("work"), self.f.variable(0)
        with f.loop(self.of("work_count")) as i:
            term = terms + i * WORK_SIZE
            part = f.load(term, WORK["scaled_ns"])
            for name in ("first", "second", "third"):
                part = part * f.load(self.words + (f.load(term, WORK[name]) << 3))
            total.set(total.get() + part)
        return total.get() // WORK_SCALE

    def report(self, owner: Word, status: Word) -> None:
        """Raise what the status stands for; negative: the error is already set."""
        f = self.f
        with f.when(status > 0):
            argument, number = f.array(1), f.call("PyLong_FromLongLong", status)
            method = f.call("PyObject_GetAttr", owner, process_word(f, "name_report_status"))
            with f.when((method != 0) & (number != 0)):
                f.store(argument, number)
                nothing = f.call("PyObject_Vectorcall", method, argument, 1, 0)
                f.call("Py_DecRef", nothing, result="void")
            f.call("Py_DecRef", method, result="void")
            f.call("Py_DecRef", number, result="void")


def _narrow(f: Function, bits: Word) -> Word:
    """The bits of a double as the bits of a float."""
    wide = f.emit(f"bitcast i64 {bits.name} to double")
    narrow = f.emit(f"fptrunc double {wide} to float")
    raw = f.emit(f"bitcast float {narrow} to i32")
    return Word(f, f.emit(f"zext i32 {raw} to i64"))


def _arithmetic_shift(f: Function, value: Word, amount: Word) -> Word:
    return Word(f, f.emit(f"ashr i64 {value.name}, {amount.name}"))
