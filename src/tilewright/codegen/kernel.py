"""One loop-level function and its signature to the LLVM text of a kernel (ABI v1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import prod

from tilewright.abi import CTX, ExternalKernel, Fault, Param, ScalarParam, Signature, TensorParam
from tilewright.codegen import (
    emit_control,
    emit_external,
    emit_meeting,
    emit_memory,
    emit_scalars,
    emit_ticks,
)
from tilewright.codegen.ahead import fetched_ahead
from tilewright.codegen.arena import Layout, assign_offsets
from tilewright.codegen.emit_matmul import matmul_scratch
from tilewright.codegen.emit_parallel import UNKNOWN_EXTENT
from tilewright.codegen.emitter import Emitter, Shared
from tilewright.codegen.epilogue import find_epilogues
from tilewright.codegen.formats import REGISTER_ELEMENT
from tilewright.codegen.index import Num
from tilewright.codegen.lent import byte_count, keep_known
from tilewright.codegen.machine import compile_text
from tilewright.codegen.operands import Buffer, Uniform
from tilewright.codegen.repeats import find_repeats
from tilewright.codegen.streaming import alignment_mask, streamed_buffers
from tilewright.codegen.text import Module, Text
from tilewright.codegen.work import Work, estimate_call
from tilewright.dataclass import dataclass
from tilewright.errors import InternalError
from tilewright.ir.affine import Expr, FloorDiv, Symbol, as_expr
from tilewright.ir.core import Function, Operation, Value
from tilewright.ir.types import BufferType, Dim
from tilewright.ops import loop
from tilewright.source import Span
from tilewright.target import Isa, Target

REGISTERED = (emit_control, emit_external, emit_meeting, emit_memory, emit_scalars, emit_ticks)
"""Modules that say how operations are written."""

SYMBOL = "kernel"
"""What the function is called in its object."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel as text, which begins with a plan of its scratch memory.

    `sites` maps the op ids of faults to the author's lines.
    `arena_bytes` is the scratch it needs, apart from buffers whose extents only run time knows;
    `work` the run time as (nanoseconds, extents to multiply them with); `parallel` says that it may
    call the context's `parallel`; `externals` are the kernels in C++ behind its undefined symbols;
    `communicates` that it uses the context's `comm`, and `texts` says what for, by op id.
    """

    text: str
    symbol: str
    arena_bytes: int
    sites: dict[int, Span]
    work: tuple[tuple[float, tuple[str, ...]], ...] = ()
    parallel: bool = False
    externals: Mapping[str, ExternalKernel] = field(default_factory=dict[str, ExternalKernel])
    communicates: bool = False
    texts: Mapping[int, str] = field(default_factory=dict[int, str])

    def compile(self, target: Target) -> bytes:
        """Its object file."""
        return compile_text(self.text, target)


def emit_kernel(function: Function, signature: Signature, target: Target) -> Kernel:
    """The kernel of a loop-level function whose parameters are those of `signature`, in order."""
    isa = target.instructions
    epilogues = find_epilogues(function.body)
    until = {product: epilogue.nest for product, epilogue in epilogues.items()}
    layout = assign_offsets(function.body, lambda op: scratch_bytes(op, isa), until)
    shared = Shared(
        layout,
        epilogues,
        repeats=find_repeats(function.body),
        ahead=fetched_ahead(function.body),
    )
    module = Module(isa)
    header = f"define i32 @{SYMBOL}(ptr %args, ptr %ctx) #0"
    emitter = Emitter(Text(module, header), shared)
    writer = KernelWriter(emitter, function, signature)
    writer.write()
    module.add(emitter.text)
    work = named_work(estimate_call(function.body), writer.names)
    externals = {name: kernel for kernel, name in shared.externals.items()}
    return Kernel(
        layout.plan() + module.finish(),
        SYMBOL,
        layout.size,
        shared.sites,
        work,
        shared.parallel,
        externals,
        shared.communicates,
        shared.texts,
    )


def named_work(
    work: Work, known: Mapping[Symbol, str]
) -> tuple[tuple[float, tuple[str, ...]], ...]:
    """Work by the names that the signature has for symbols; others count as a constant."""
    terms: list[tuple[float, tuple[str, ...]]] = []
    for found, value in work.items():
        names = tuple(known[s] for s in found if s in known)
        terms.append((value * UNKNOWN_EXTENT ** (len(found) - len(names)), names))
    return tuple(terms)


def scratch_bytes(op: Operation, isa: Isa) -> int | None:
    """The bytes of the arena that an operation takes; None if only run time knows."""
    if op.opdef is loop.matmul:
        return matmul_scratch(op, isa)
    if op.opdef is not loop.alloc:
        return 0
    shape = op.attrs["shape"]
    known = [extent for extent in shape if isinstance(extent, int)]
    if len(known) < len(shape):
        return None
    return prod(known) * op.attrs["dtype"].nbytes


class KernelWriter:
    """Writes the entry: arguments, extents, the arena, then the body."""

    def __init__(self, e: Emitter, function: Function, signature: Signature) -> None:
        self.e, self.function, self.signature = e, function, signature
        if len(function.params) != len(signature.params):
            raise InternalError(f"{function.name} and its signature differ in their parameters")
        self.pairs = list(zip(function.params, signature.params))
        self.names = symbol_names(self.pairs)

    def write(self) -> None:
        """The whole function."""
        self.bind_symbols()
        for value, param in self.pairs:
            if isinstance(param, ScalarParam):
                self.bind_scalar(value, param)
        for value, param in self.pairs:
            if isinstance(param, TensorParam):
                self.bind_tensor(value, param)
        self.bind_context()
        for value in streamed_buffers(self.function):
            self.e.shared.streamed[value] = alignment_mask(self.e, value)
        self.e.block(self.function.body)
        self.e.succeed()

    def load_slot(self, slot: int, kind: str) -> str:
        """One word of `args`, or its low bytes."""
        place = self.e.index.place("%args", slot, "i64")
        return self.e.text.let(f"load {kind}, ptr {place}, align 8")

    def bind_symbols(self) -> None:
        """The extents that the caller passes."""
        for symbol, name in self.names.items():
            self.e.symbols[symbol] = self.load_slot(self.signature.symbol_slot(name), "i64")

    def bind_scalar(self, value: Value, param: ScalarParam) -> None:
        """A scalar parameter."""
        slot = self.signature.scalar_slot(param.name)
        element = REGISTER_ELEMENT[param.dtype.name]
        ref = self.load_slot(slot, "i8" if element == "i1" else element)
        if element == "i1":
            ref = self.e.text.let(f"trunc i8 {ref} to i1")
        self.e.define(value, Uniform(ref))

    def bind_tensor(self, value: Value, param: TensorParam) -> None:
        """A tensor parameter; its strides are passed where its layout says so."""
        kind = value.type
        assert isinstance(kind, BufferType)
        pointer = self.load_slot(self.signature.pointer_slot(param.name), "ptr")
        shape = self.e.all_dims(kind.shape)
        if param.passes_strides:
            strides = self.passed_strides(kind, param)
        else:
            strides = self.e.all_dims(kind.strides)
        self.e.define(value, Buffer(pointer, kind.dtype.name, shape, strides))

    def passed_strides(self, kind: BufferType, param: TensorParam) -> tuple[Num, ...]:
        """The strides of one tensor as the caller passes them; 1 for the last of `rows`."""
        strides: list[Num] = []
        for axis, dim in enumerate(kind.strides):
            last = axis == kind.rank - 1
            if last and param.layout == "rows":
                strides.append(1)
            else:
                strides.append(self.load_slot(self.signature.stride_slot(param.name, axis), "i64"))
                self.bind_stride(dim, strides[-1])
        return tuple(strides)

    def bind_stride(self, dim: Dim, ref: Num) -> None:
        """A stride that is a symbol of the type has its value from the caller."""
        if isinstance(dim, Expr):
            (symbol, *others) = dim.terms or (None,)
            if isinstance(symbol, Symbol) and not others and dim == symbol + 0:
                self.e.symbols.setdefault(symbol, ref)

    def bind_context(self) -> None:
        """The arena, checked for size, and the cancel word."""
        e = self.e
        e.bind_scratch()
        keep_known(e, e.shared.layout)
        needed = self.dynamic_offsets(e.shared.layout)
        if needed == 0:
            return
        given = e.load_context("arena_bytes")
        small, enough = e.text.label(), e.text.label()
        e.text.branch(e.text.let(f"icmp ult i64 {given}, {needed}"), small, enough)
        e.text.start(small)
        place = e.index.place("%ctx", CTX["fault_values"].offset, "i8")
        e.text.do(f"store i64 {needed}, ptr {place}, align 8")
        e.text.do(f"ret i32 {int(Fault.ARENA_TOO_SMALL)}")
        e.text.start(enough)

    def dynamic_offsets(self, layout: Layout) -> Num:
        """Places after the fixed part for scratch of run-time size; gives the bytes of all."""
        total: Num = layout.size
        for op in layout.dynamic:
            self.e.dynamic[op] = total
            total = self.e.index.add(total, byte_count(self.e, op))
        return total


def symbol_names(pairs: Sequence[tuple[Value, Param]]) -> dict[Symbol, str]:
    """What the signature calls the symbols in the shapes of the parameters, term by term.

    Labels do not tell: two dimensions may have the same one.
    """
    names: dict[Symbol, str] = {}
    for value, param in pairs:
        if isinstance(value.type, BufferType) and isinstance(param, TensorParam):
            for dim, extent in zip(value.type.shape, param.shape):
                names.update(zip(_summands(dim), extent.symbols))
    return names


def _summands(dim: Dim) -> list[Symbol]:
    """The symbols of an extent, or of the numerator that it is, in the order of its terms."""
    atoms = [] if isinstance(dim, int) else [*dim.terms]
    if len(atoms) == 1 and isinstance(atoms[0], FloorDiv):
        atoms = [*as_expr(atoms[0].numerator).terms]
    return [atom for atom in atoms if isinstance(atom, Symbol)]
