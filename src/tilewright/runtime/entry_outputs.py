"""The part of the stub that makes what a call returns: new arrays, and the result itself."""

from __future__ import annotations

from tilewright.runtime.assembler import Function, Label, Module, Word
from tilewright.runtime.entry_run import process_word
from tilewright.runtime.records import (
    DIM,
    DIM_SIZE,
    DLPACK_CPU,
    DLTENSOR,
    DLTENSOR_WORDS,
    EXCHANGE,
    LARGE_RESULT,
    MANAGED_TENSOR,
    MAX_RANK,
    NDARRAY,
    PARAM,
    PARAM_SIZE,
    VARIANT,
    DimOperation,
    Kind,
)


class Outputs:
    """The implicit outputs of one call; `made` holds an object for each parameter."""

    def __init__(self, f: Function, variant: Word, words: Word, made: Word) -> None:
        self.f = f
        self.variant = variant
        self.words = words
        self.made = made
        self.dims = f.array(MAX_RANK)

    def of(self, name: str) -> Word:
        """A word of the variant."""
        return self.f.load(self.variant, VARIANT[name])

    def allocate(self, table: Word, slow: Label, failed: Label) -> None:
        """Make them: tensors through the exchange `table` of the arguments, else numpy arrays."""
        f, params = self.f, self.of("params")
        with f.loop(self.of("param_count")) as i:
            kind = f.load(params + i * PARAM_SIZE, PARAM["kind"])
            with f.when(kind == Kind.IMPLICIT):
                f.store(self.made + (i << 3), 0)
        with f.loop(self.of("param_count")) as i:
            param = params + i * PARAM_SIZE
            with f.when(f.load(param, PARAM["kind"]) == Kind.IMPLICIT):
                self.make(param, self.made + (i << 3), table, (slow, failed))

    def make(self, param: Word, place: Word, table: Word, labels: tuple[Label, Label]) -> None:
        """One output: the object, its pointer, zeros if it asks for them."""
        f, (slow, failed) = self.f, labels
        count, data = self.read_extents(param), f.variable(0)
        plain, ready = f.label("plain"), f.label("ready")
        f.require(table != 0, plain)
        tensor, start = self.new_tensor(param, table, slow)
        f.store(place, tensor)
        data.set(start)
        f.jump(ready)
        f.place(plain)
        f.require((count << f.load(param, PARAM["shift"])) < LARGE_RESULT, slow)
        array = self.new_array(param)
        f.require(array != 0, failed)
        f.store(place, array)
        data.set(f.load(array, NDARRAY["data"]))
        f.place(ready)
        f.store(self.words + (f.load(param, PARAM["slot"]) << 3), data.get())
        with f.when(f.load(param, PARAM["zeroed"]) != 0):
            f.call("memset", data.get(), 0, count << f.load(param, PARAM["shift"]))

    def read_extents(self, param: Word) -> Word:
        """Fill `dims`; the number of elements."""
        f, records, count = self.f, self.f.load(param, PARAM["dims"]), self.f.variable(1)
        with f.loop(f.load(param, PARAM["ndim"])) as axis:
            record = records + axis * DIM_SIZE
            extent = f.variable(f.load(record, DIM["constant"]))
            with f.when(f.load(record, DIM["operation"]) != DimOperation.STATIC):
                word = self.words + (f.load(record, DIM["slot"]) << 3)
                extent.set(evaluate_extent(f, record, word))
            f.store(self.dims + (axis << 3), extent.get())
            count.set(count.get() * extent.get())
        return count.get()

    def new_array(self, param: Word) -> Word:
        """A numpy array of shape `dims`, or 0 with an error set."""
        f, descr = self.f, self.f.load(param, PARAM["descr"])
        f.call("Py_IncRef", descr, result="void")
        make, kind = process_word(f, "new_from_descr"), process_word(f, "ndarray_type")
        return f.call_pointer(
            make, kind, descr, f.load(param, PARAM["ndim"]), self.dims, 0, 0, 0, 0
        )

    def new_tensor(self, param: Word, table: Word, slow: Label) -> tuple[Word, Word]:
        """A tensor of shape `dims` and its first element, by the producer's own allocator."""
        f, prototype, place = self.f, self.f.array(DLTENSOR_WORDS), self.f.array(1)
        for offset in range(0, 8 * DLTENSOR_WORDS, 8):
            f.store(prototype, 0, offset)
        f.store(prototype, DLPACK_CPU, DLTENSOR["device"], 4)
        f.store(prototype, f.load(param, PARAM["ndim"]), DLTENSOR["ndim"], 4)
        f.store(prototype, f.load(param, PARAM["dlpack_type"]), DLTENSOR["type"], 4)
        f.store(prototype, self.dims, DLTENSOR["shape"])
        f.require(f.load(param, PARAM["dlpack_type"]) > 0, slow)
        allocate = f.load(table, EXCHANGE["allocate"])
        ignore = f.address_of(f.module.find("tilewright_ignore"))
        f.require(f.call_pointer(allocate, prototype, place, 0, ignore, result="i32") == 0, slow)
        managed = f.load(place)
        start = f.load(managed, MANAGED_TENSOR["tensor"] + DLTENSOR["data"])
        start = start + f.load(managed, MANAGED_TENSOR["tensor"] + DLTENSOR["offset"])
        wrap = f.load(table, EXCHANGE["wrap"])
        with f.when(f.call_pointer(wrap, managed, place, result="i32") != 0):
            f.call("PyErr_Clear", result="void")
            f.call_pointer(f.load(managed, MANAGED_TENSOR["deleter"]), managed, result="void")
            f.jump(slow)
        return f.load(place), start

    def drop(self) -> None:
        """Release them."""
        f, params = self.f, self.of("params")
        with f.loop(self.of("param_count")) as i:
            kind = f.load(params + i * PARAM_SIZE, PARAM["kind"])
            with f.when(kind == Kind.IMPLICIT):
                f.call("Py_DecRef", f.load(self.made + (i << 3)), result="void")

    def result(self) -> Word:
        """What the call gives; 0 with an error set when there is no memory for it."""
        f, given = self.f, self.f.variable(0)
        count, returns = self.of("return_count"), self.of("returns")
        several, done = f.label("several"), f.label("given")
        f.require((count <= 1) & (self.of("returns_tuple") == 0), several)
        given.set(process_word(f, "none"))
        with f.when(count == 1):
            given.set(f.load(self.made + (f.load(returns) << 3)))
        f.call("Py_IncRef", given.get(), result="void")
        f.jump(done)
        f.place(several)
        made = f.call("PyTuple_New", count)
        given.set(made)
        with f.when(made != 0), f.loop(count) as i:
            item = f.load(self.made + (f.load(returns + (i << 3)) << 3))
            f.call("Py_IncRef", item, result="void")
            f.call("PyTuple_SetItem", made, i, item, result="i32")
        f.place(done)
        self.drop()
        return given.get()


def write_ignore(module: Module) -> None:
    """ignore(context, kind, message): an allocator's complaint; the slow way says it better."""
    module.function("tilewright_ignore", 3, result="void").ret()


def evaluate_extent(f: Function, record: Word, word: Word) -> Word:
    """The value of an affine extent record whose symbol is in `word`."""
    scaled = f.load(word) * f.load(record, DIM["scale"])
    return floor_divide(f, scaled + f.load(record, DIM["constant"]), f.load(record, DIM["divisor"]))


def floor_divide(f: Function, value: Word, divisor: Word) -> Word:
    """value // divisor, for a positive divisor."""
    quotient = value // divisor
    below = f.emit(f"icmp slt i64 {value.name}, {(quotient * divisor).name}")
    return quotient + Word(f, f.emit(f"sext i1 {below} to i64"))
