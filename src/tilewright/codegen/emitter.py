"""Write one loop-level function as LLVM text: values, scopes, blocks of operations.

Handlers for operations live in the `emit_*` modules and register themselves in `HANDLERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from tilewright.abi import CTX, ExternalKernel
from tilewright.codegen.arena import Layout
from tilewright.codegen.formats import REGISTER_ELEMENT
from tilewright.codegen.index import Index, Num
from tilewright.codegen.operands import LANES, Buffer, Const, Linear, Operand, Uniform, Varying
from tilewright.codegen.repeats import Repeats
from tilewright.codegen.stagger import Run, in_turn, join_run, stagger
from tilewright.codegen.text import Text, type_text, vector_text
from tilewright.codegen.words import cast, register_type
from tilewright.dataclass import dataclass
from tilewright.errors import InternalError, TilewrightError
from tilewright.ir.affine import Expr, Symbol, fold
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.opdef import OpDef
from tilewright.ir.types import Dim, ScalarType
from tilewright.source import Span

Handler = Callable[["Emitter", Operation], None]
HANDLERS: dict[OpDef[..., Any], Handler] = {}


def emits(*opdefs: OpDef[..., Any]) -> Callable[[Handler], Handler]:
    """Registers how the operations of `opdefs` are written."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(opdefs, handler))
        return handler

    return register


@dataclass(slots=True)
class LaneState:
    """The lanes being written: `masks` has one entry per copy of 16, "" where all exist.

    `hoisted` are lines that go before the loop, `cache` what they define; names numbered up to
    `start` were made before it. `guarded` lanes are in a branch that perhaps none of them takes.
    `moved` are sums that are written as products. The last lines may be a `run`.
    """

    masks: list[str]
    start: int
    moved: frozenset[Operation] = frozenset()
    hoisted: list[str] = field(default_factory=list[str])
    cache: dict[Any, str] = field(default_factory=dict[Any, str])
    known: set[str] = field(default_factory=set[str])
    guarded: bool = False
    run: Run | None = None

    @property
    def copies(self) -> int:
        """How many vectors one iteration handles."""
        return len(self.masks)


@dataclass(slots=True)
class Shared:
    """What the functions of one kernel have in common.

    `epilogues` are the nests that follow products; `written` is what has been written with them.
    `ahead` says what loops over lanes fetch of the next row.
    Of the nests that are alike, `repeats` knows.
    """

    layout: Layout
    epilogues: Mapping[Operation, Any] = field(default_factory=dict[Operation, Any])
    written: set[Operation] = field(default_factory=set[Operation])
    repeats: Repeats = field(default_factory=lambda: Repeats(frozenset(), {}))
    sites: dict[int, Span] = field(default_factory=dict[int, Span])
    streamed: dict[Value, Num] = field(default_factory=dict[Value, Num])
    ahead: Mapping[Operation, Any] = field(default_factory=dict[Operation, Any])
    externals: dict[ExternalKernel, str] = field(default_factory=dict[ExternalKernel, str])
    texts: dict[int, str] = field(default_factory=dict[int, str])
    parallel: bool = False
    communicates: bool = False

    def external_symbol(self, kernel: ExternalKernel) -> str:
        """The symbol by which the object refers to a kernel in C++."""
        return self.externals.setdefault(kernel, f"tw_external_{len(self.externals)}")


class Emitter:
    """Writes one function. `values` says what each IR value is; `symbols` what extents are.

    `held` are buffers whose elements are in registers: those of the lanes being written.
    """

    def __init__(self, text: Text, shared: Shared) -> None:
        self.module = text.module
        self.shared = shared
        self.text = text
        self.index = Index(text)
        self.values: dict[Value, Operand | Buffer] = {}
        self.symbols: dict[Symbol, Num] = {}
        self.dims: list[dict[Expr, Num]] = [{}]
        self.lanes: LaneState | None = None
        self.held: dict[Value, tuple[str, ...]] = {}
        self.arena = ""
        self.depth = 0
        self.dynamic: dict[Operation, Num] = {}

    # ------------------------------------------------------------------ values

    def define(self, value: Value, operand: Operand | Buffer) -> None:
        """What `value` is; shapes that mention it will find it."""
        self.values[value] = operand
        if value.has_symbol and isinstance(operand, (Const, Uniform)):
            self.symbols[value.symbol] = self.as_num(operand, dtype_name(value))

    def lookup(self, value: Value) -> Operand | Buffer:
        """What `value` is."""
        return self.values[value]

    def operand(self, value: Value) -> Operand:
        """The scalar or vector that `value` is."""
        found = self.lookup(value)
        if isinstance(found, Buffer):
            raise InternalError(f"{value!r} is memory where a scalar is expected")
        return found

    def buffer(self, value: Value) -> Buffer:
        """The memory that `value` is."""
        found = self.lookup(value)
        if not isinstance(found, Buffer):
            raise InternalError(f"{value!r} is a scalar where memory is expected")
        return found

    def as_num(self, operand: Operand, dtype: str) -> Num:
        """A scalar integer as an i64 or a known number."""
        if isinstance(operand, Const):
            return int(operand.value)
        if isinstance(operand, Uniform):
            return cast(self.text, dtype, "INDEX", "rint", 1, operand.ref)
        raise InternalError("an index differs between lanes where it must not")

    def num(self, value: Value) -> Num:
        """An integer value that is the same in all lanes, as an i64."""
        return self.as_num(self.operand(value), dtype_name(value))

    def scalar(self, value: Value) -> str:
        """A value that is the same in all lanes, as a register."""
        operand = self.operand(value)
        if isinstance(operand, Const):
            return operand.text(1)
        if isinstance(operand, Uniform):
            return operand.ref
        raise InternalError(f"{value!r} differs between lanes where it must not")

    def is_uniform(self, value: Value) -> bool:
        """Whether `value` is the same in all lanes."""
        return isinstance(self.operand(value), (Const, Uniform))

    def vectors(self, value: Value) -> tuple[str, ...]:
        """`value` as one vector register per copy."""
        return self.as_vectors(self.operand(value), dtype_name(value))

    def as_vectors(self, operand: Operand, dtype: str) -> tuple[str, ...]:
        """An operand as one vector register per copy."""
        lanes = self.lane_state
        if isinstance(operand, Varying):
            return operand.refs
        if isinstance(operand, Const):
            return (operand.text(LANES),) * lanes.copies
        if isinstance(operand, Uniform):
            return (self.splat(operand.ref, REGISTER_ELEMENT[dtype]),) * lanes.copies
        return tuple(self.linear_vector(operand, u) for u in range(lanes.copies))

    @property
    def lane_state(self) -> LaneState:
        """The lanes loop being written."""
        if self.lanes is None:
            raise InternalError("a vector outside a lanes loop")
        return self.lanes

    def linear_vector(self, operand: Linear, copy: int) -> str:
        """The indices of one copy as a vector of i64."""
        start = self.index.add(operand.base, self.index.mul(operand.step, LANES * copy))
        kind = type_text("i64", LANES)
        if isinstance(operand.step, int):
            steps = vector_text([lane * operand.step for lane in range(LANES)], "i64")
        else:
            numbers = vector_text(range(LANES), "i64")
            steps = self.text.let(f"mul {kind} {numbers}, {self.splat(operand.step, 'i64')}")
        return self.text.let(f"add {kind} {self.splat(str(start), 'i64')}, {steps}")

    def splat(self, ref: str, element: str) -> str:
        """A scalar in every lane; written before the loop if it is known there."""
        if not ref.startswith("%"):
            return f"splat ({element} {ref})"
        if not self.is_hoistable(ref):
            return spread(self.text, ref, element)
        return self.hoist((ref, element), lambda: spread(self.text, ref, element))

    def hoist(self, key: Any, write: Callable[[], str]) -> str:
        """What `write` writes, before the lanes loop and once per `key`."""
        lanes = self.lane_state
        found = lanes.cache.get(key)
        if found is None:
            with self.hoisting():
                found = lanes.cache[key] = write()
            lanes.known.add(found)
        return found

    def each_copy(self, copies: Iterable[tuple[str, ...]], write: Callable[..., str]) -> Varying:
        """What `write` gives for the operands of each vector, in turn with its neighbours."""
        first, given = len(self.text.lines), tuple(copies)
        refs, alike = in_turn(self.text, given, write)
        if alike:
            lanes = self.lane_state
            lanes.run = join_run(lanes.run, self.text, first, len(given))
        return Varying(refs)

    def is_hoistable(self, ref: Num) -> bool:
        """Whether a scalar is known before the lanes loop begins."""
        lanes = self.lane_state
        if isinstance(ref, int) or ref in lanes.known:
            return True
        number = ref[len(self.text.prefix) + 1 :].partition(".")[0]
        return not number.isdecimal() or int(number) <= lanes.start

    @contextmanager
    def hoisting(self) -> Generator[None]:
        """What is written meanwhile goes before the lanes loop; it may not contain blocks."""
        lines, self.text.lines = self.text.lines, self.lane_state.hoisted
        yield
        self.text.lines = lines

    # ------------------------------------------------------------------ extents

    def dim(self, dim: Dim) -> Num:
        """An extent or stride as a number; written once per scope."""
        if isinstance(dim, int):
            return dim
        for known in self.dims:
            if dim in known:
                return known[dim]
        value = fold(dim, Extents(self))
        self.dims[-1][dim] = value
        return value

    def extent(self, symbol: Symbol) -> Num:
        """The value of an extent; InternalError where it has none."""
        found = self.symbols.get(symbol)
        if found is None:
            raise InternalError(f"the extent {symbol.name} has no value here")
        return found

    def find_extent(self, symbol: Symbol) -> Num | None:
        """The value of an extent, or None."""
        try:
            return self.extent(symbol)
        except InternalError:
            return None

    def scratch(self, op: Operation) -> Num:
        """Where in the arena an operation has its scratch."""
        return self.dynamic[op] if op in self.dynamic else self.shared.layout.offsets.get(op, 0)

    def succeed(self) -> None:
        """End the function well; what was stored past the caches is made visible first."""
        if self.shared.streamed and self.module.isa.is_x86:
            self.text.do("call void @llvm.x86.sse.sfence()")
        self.text.do("ret i32 0")

    def brought_num(self, num: Num) -> Num:
        """A number of the kernel's entry, in this function."""
        return num

    def bind_scratch(self) -> None:
        """The arena and the cancel word, from the context."""
        self.arena = self.load_context("arena")
        self.load_context("cancel", "%cancel")

    def load_context(self, name: str, ref: str = "") -> str:
        """One field of the context."""
        place = self.index.place("%ctx", CTX[name].offset, "i8")
        load = f"load {CTX[name].llvm}, ptr {place}, align 8"
        if not ref:
            return self.text.let(load)
        self.text.do(f"{ref} = {load}")
        return ref

    def all_dims(self, dims: Sequence[Dim]) -> tuple[Num, ...]:
        """`dim` of each."""
        return tuple(map(self.dim, dims))

    # ------------------------------------------------------------------ operations

    def block(self, block: Block) -> Operation:
        """Writes the operations of a block except its terminator, which it gives back."""
        self.dims.append({})
        for op in block.ops:
            if op.opdef.terminator:
                self.dims.pop()
                self.end_run()
                return op
            if op not in self.shared.written:
                self.operation(op)
        raise InternalError("a block has no terminator")

    def end_run(self) -> None:
        """Stagger the lines of vectors that took turns: others may be put between them."""
        if self.lanes is not None:
            stagger(self.lanes.run, self.text)
            self.lanes.run = None

    def operation(self, op: Operation) -> None:
        """Writes one operation."""
        handler = HANDLERS.get(op.opdef)
        if handler is None:
            raise InternalError(f"{op.opdef.name} reached code generation")
        try:
            handler(self, op)
        except TilewrightError as error:
            error.locate(op.span)
            raise

    def site(self, op: Operation) -> int:
        """The number under which the run time finds the author's line of `op`."""
        number = len(self.shared.sites) + 1
        if op.span is None:
            return 0
        self.shared.sites[number] = op.span
        return number


class Extents:
    """Affine expressions as index arithmetic (see ir/affine/fold.py)."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.index = emitter.index

    def const(self, value: int) -> Num:
        return value

    def symbol(self, symbol: Symbol) -> Num:
        return self.emitter.extent(symbol)

    def add(self, a: Num, b: Num) -> Num:
        return self.index.add(a, b)

    def sub(self, a: Num, b: Num) -> Num:
        return self.index.sub(a, b)

    def mul(self, a: Num, b: Num) -> Num:
        return self.index.mul(a, b)

    def floordiv(self, a: Num, b: Num) -> Num:
        return self.index.floordiv(a, b)

    def mod(self, a: Num, b: Num) -> Num:
        return self.index.mod(a, b)

    def minimum(self, a: Num, b: Num) -> Num:
        return self.index.minimum(a, b)

    def maximum(self, a: Num, b: Num) -> Num:
        return self.index.maximum(a, b)


def dtype_name(value: Value) -> str:
    """The name of the dtype of a scalar value."""
    if not isinstance(value.type, ScalarType):
        raise InternalError(f"{value!r} is not a scalar")
    return value.type.dtype.name


def spread(text: Text, ref: str, element: str) -> str:
    """A scalar register in every lane."""
    kind = type_text(element, LANES)
    first = text.let(f"insertelement {kind} poison, {element} {ref}, i64 0")
    return text.let(f"shufflevector {kind} {first}, {kind} poison, <{LANES} x i32> zeroinitializer")


def vector_type(value: Value) -> str:
    """The LLVM type of one copy of a varying value."""
    return register_type(dtype_name(value), LANES)
