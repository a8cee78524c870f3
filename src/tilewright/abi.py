"""Kernel ABI v1, as data: how parameters, context, faults and side tables look in memory.

    i32 kernel(const u64 *args, Ctx *ctx)

`args` holds one 64-bit word per slot of the signature, in this order:

1. a pointer to the first element of each tensor, in parameter order (implicit outputs included);
2. the value of each symbol (dynamic extent), in order of first appearance;
3. for each tensor whose layout is not `contiguous`, in parameter order: its strides, in elements;
4. each scalar, in parameter order (`encode_scalar` says how).

Pointers are aligned to the element and no further. Two tensors overlap only where the manifest
allows it. The kernel returns `Fault.OK` or the fault code it also wrote. Offsets are those here.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, field
from enum import IntEnum, IntFlag
from functools import cached_property
from typing import Any, Literal

import numpy as np

from tilewright.dataclass import dataclass
from tilewright.dtypes import DType
from tilewright.source import Span, source_lines

VERSION = 1

Direction = Literal["in", "out", "inout"]
Layout = Literal["contiguous", "rows", "strided"]


# ---- extents -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Extent:
    """`floor((constant + sum(coefficient * symbol)) / divisor)`: one dimension of a tensor."""

    constant: int = 0
    terms: tuple[tuple[str, int], ...] = ()
    divisor: int = 1

    @property
    def is_static(self) -> bool:
        """True when no symbol occurs."""
        return not self.terms

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of the symbols that occur."""
        return tuple(name for name, _ in self.terms)

    def evaluate(self, symbols: Mapping[str, int]) -> int:
        """The extent for these symbol values; raises KeyError for one that is missing."""
        if not self.terms:
            return self.constant // self.divisor
        total = self.constant + sum(scale * symbols[name] for name, scale in self.terms)
        return total // self.divisor

    def solve(self, value: int) -> int | None:
        """The value of the only symbol that makes the extent `value`, if there is exactly one."""
        if not self.is_solvable:
            return None
        scale = self.terms[0][1]
        quotient, rest = divmod(value - self.constant, scale)
        return quotient if rest == 0 and quotient >= 0 else None

    @property
    def is_solvable(self) -> bool:
        """True when one symbol occurs and nothing is rounded: the extent determines it."""
        return len(self.terms) == 1 and self.divisor == 1

    def __str__(self) -> str:
        parts = [name if scale == 1 else f"{scale}*{name}" for name, scale in self.terms]
        if self.constant or not parts:
            parts.append(str(self.constant))
        text = " + ".join(parts).replace("+ -", "- ")
        return text if self.divisor == 1 else f"({text}) // {self.divisor}"


def as_extent(value: int | str | Extent) -> Extent:
    """An extent from an int (static), a symbol name, or itself."""
    if isinstance(value, Extent):
        return value
    if isinstance(value, str):
        return Extent(0, ((value, 1),))
    return Extent(int(value))


# ---- parameters ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TensorParam:
    """A tensor parameter; an `implicit` one is allocated by the runtime, not passed by the caller.

    `layout`: `contiguous` (row-major, no strides passed), `rows` (strides passed, the last one is 1
    whenever that axis is longer than 1) or `strided` (any strides, passed).
    `zeroed` asks for an implicit output filled with zeros.
    """

    name: str
    dtype: DType
    shape: tuple[Extent, ...]
    direction: Direction = "in"
    layout: Layout = "contiguous"
    implicit: bool = False
    zeroed: bool = False

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def is_written(self) -> bool:
        """True for Out and InOut."""
        return self.direction != "in"

    @property
    def passes_strides(self) -> bool:
        """True when the kernel takes one stride slot per dimension."""
        return self.layout != "contiguous"


@dataclass(frozen=True)
class ScalarParam:
    """A scalar parameter, passed by value."""

    name: str
    dtype: DType


Param = TensorParam | ScalarParam


def tensor(
    name: str,
    dtype: DType,
    shape: Sequence[int | str | Extent],
    direction: Direction = "in",
    *,
    layout: Layout = "contiguous",
    implicit: bool = False,
    zeroed: bool = False,
) -> TensorParam:
    """A tensor parameter whose shape entries may be ints, symbol names or extents."""
    extents = tuple(as_extent(entry) for entry in shape)
    return TensorParam(name, dtype, extents, direction, layout, implicit, zeroed)


# ---- signature -----------------------------------------------------------------------------------

SlotKind = Literal["pointer", "symbol", "stride", "scalar"]


@dataclass(frozen=True)
class Slot:
    """One word of `args`: what it holds, of which parameter (or symbol), along which axis."""

    kind: SlotKind
    name: str
    axis: int = -1


@dataclass(frozen=True)
class Signature:
    """The parameters of a kernel and what a call gives back.

    `returns` are indices into `params`; `returns_tuple` wraps even a single one. Without `returns`
    a call gives None. A symbol with the name of a scalar parameter is what is passed for that.
    Raises ValueError when nothing that the caller passes determines a symbol.
    """

    params: tuple[Param, ...]
    returns: tuple[int, ...] = ()
    returns_tuple: bool = False

    def __post_init__(self) -> None:
        known = {*self.bindings, *self.given_symbols}
        unbound = [symbol for symbol in self.symbols if symbol not in known]
        if unbound:
            raise ValueError(f"no argument determines {', '.join(unbound)}")

    @cached_property
    def tensors(self) -> tuple[TensorParam, ...]:
        """The tensor parameters, implicit outputs included."""
        return tuple(p for p in self.params if isinstance(p, TensorParam))

    @cached_property
    def scalars(self) -> tuple[ScalarParam, ...]:
        """The scalar parameters."""
        return tuple(p for p in self.params if isinstance(p, ScalarParam))

    @cached_property
    def explicit(self) -> tuple[Param, ...]:
        """The parameters a caller passes, in order."""
        return tuple(p for p in self.params if not (isinstance(p, TensorParam) and p.implicit))

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """Every symbol, in order of first appearance."""
        names = (name for p in self.tensors for e in p.shape for name in e.symbols)
        return tuple(dict.fromkeys(names))

    @cached_property
    def given_symbols(self) -> tuple[str, ...]:
        """The symbols that are scalar parameters."""
        scalars = {param.name for param in self.scalars}
        return tuple(symbol for symbol in self.symbols if symbol in scalars)

    @cached_property
    def bindings(self) -> Mapping[str, tuple[int, int]]:
        """Symbol -> (parameter index, axis) of the dimension its value is solved from."""
        found: dict[str, tuple[int, int]] = {}
        for position, axis, extent in self._passed_extents():
            if extent.is_solvable and extent.symbols[0] not in self.given_symbols:
                found.setdefault(extent.symbols[0], (position, axis))
        return found

    def _passed_extents(self) -> Iterator[tuple[int, int, Extent]]:
        for position, param in enumerate(self.params):
            if isinstance(param, TensorParam) and not param.implicit:
                for axis, extent in enumerate(param.shape):
                    yield position, axis, extent

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """The words of `args`, in order."""
        strided = [p for p in self.tensors if p.passes_strides]
        return (
            *(Slot("pointer", p.name) for p in self.tensors),
            *(Slot("symbol", name) for name in self.symbols),
            *(Slot("stride", p.name, i) for p in strided for i in range(p.rank)),
            *(Slot("scalar", p.name) for p in self.scalars),
        )

    @cached_property
    def _slot_index(self) -> Mapping[Slot, int]:
        return {slot: index for index, slot in enumerate(self.slots)}

    def pointer_slot(self, name: str) -> int:
        """Index of the pointer of tensor `name`."""
        return self._slot_index[Slot("pointer", name)]

    def symbol_slot(self, name: str) -> int:
        """Index of the value of symbol `name`."""
        return self._slot_index[Slot("symbol", name)]

    def stride_slot(self, name: str, axis: int) -> int:
        """Index of a stride (in elements) of tensor `name`; KeyError when it is not passed."""
        return self._slot_index[Slot("stride", name, axis)]

    def scalar_slot(self, name: str) -> int:
        """Index of scalar `name`."""
        return self._slot_index[Slot("scalar", name)]

    def to_json(self) -> dict[str, Any]:
        """Plain lists, strings and ints."""
        return {
            "params": [_param_to_json(p) for p in self.params],
            "returns": list(self.returns),
            "returns_tuple": self.returns_tuple,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Signature:
        """The inverse of `to_json`."""
        params = tuple(_param_from_json(p) for p in data["params"])
        return Signature(params, tuple(data["returns"]), bool(data["returns_tuple"]))


def _param_to_json(param: Param) -> dict[str, Any]:
    if isinstance(param, ScalarParam):
        return {"kind": "scalar", "name": param.name, "dtype": param.dtype.name}
    return {
        "kind": "tensor",
        "name": param.name,
        "dtype": param.dtype.name,
        "shape": [[e.constant, [list(t) for t in e.terms], e.divisor] for e in param.shape],
        "direction": param.direction,
        "layout": param.layout,
        "implicit": param.implicit,
        "zeroed": param.zeroed,
    }


def _param_from_json(data: Mapping[str, Any]) -> Param:
    dtype = DType.from_name(data["dtype"])
    if data["kind"] == "scalar":
        return ScalarParam(data["name"], dtype)
    shape = tuple(Extent(c, tuple((n, k) for n, k in terms), d) for c, terms, d in data["shape"])
    return TensorParam(
        data["name"], dtype, shape, data["direction"], data["layout"], data["implicit"],
        data["zeroed"],
    )  # fmt: skip


def encode_scalar(value: int | float | bool, dtype: DType) -> int:
    """The slot of a scalar: ints sign-extended, floats as their own bits in the low bytes.

    A float beyond the range of the type becomes infinite. Raises OverflowError for an integer
    beyond the range of an integer type, or of every float.
    """
    if dtype.is_float():
        with np.errstate(over="ignore"):
            bits = dtype.numpy.type(value).tobytes()
        return int.from_bytes(bits, "little")
    if dtype.kind == "bool":
        return int(bool(value))
    number = int(value)
    low, high = integer_range(dtype)
    if not low <= number <= high:
        raise OverflowError(f"{number} is not in [{low}, {high}]")
    return number & 0xFFFF_FFFF_FFFF_FFFF


def integer_range(dtype: DType) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    if dtype.is_signed_int() or dtype.kind == "task":
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1


# ---- context -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CtxField:
    """Where one field of the context is: offset and size in bytes, and its LLVM type."""

    offset: int
    size: int
    llvm: str


CTX: Mapping[str, CtxField] = {
    # the cells [grid_begin, grid_end) of the kernel's outermost grid that this call runs
    "grid_begin": CtxField(0, 8, "i64"),
    "grid_end": CtxField(8, 8, "i64"),
    # scratch, 64-byte aligned; a kernel that needs more returns ARENA_TOO_SMALL before it writes
    "arena": CtxField(16, 8, "ptr"),
    "arena_bytes": CtxField(24, 8, "i64"),
    # written by the kernel before it returns a non-zero status
    "fault_code": CtxField(32, 4, "i32"),
    "fault_op": CtxField(36, 4, "i32"),
    "fault_values": CtxField(40, 32, "[4 x i64]"),
    # i32, polled (monotonic) once per grid cell; non-zero means: ask `attend`
    "cancel": CtxField(72, 8, "ptr"),
    # PrintRing below, or null: print nothing
    "print_ring": CtxField(80, 8, "ptr"),
    # COMM below, where the manifest says that the kernel communicates
    "comm": CtxField(88, 8, "ptr"),
    # i32 (*)(Ctx *, i32 (*body)(void *env, Ctx *, i64 begin, i64 end), void *env, i64 n), or null
    "parallel": CtxField(96, 8, "ptr"),
    # which participant this is: 0 is the calling thread
    "worker": CtxField(104, 8, "i64"),
    # private to the runtime
    "pool": CtxField(112, 8, "ptr"),
    "flags": CtxField(120, 8, "i64"),
    # i32 (*)(Ctx *): asked where the cancel word is not zero: 0 to go on, or what to return
    "attend": CtxField(128, 8, "ptr"),
}
CTX_SIZE = 136

# The communicator of one rank: what its participants need to run together and to reach others.
COMM: Mapping[str, CtxField] = {
    # i32: how many sleep
    "waiters": CtxField(0, 8, "ptr"),
    # i32 (*)(Ctx *, void *word, i64 number, i32 WaitKind, i32 op, i64 shown[WAIT_VALUES]...): sleep
    # until the word compares; another status than 0 says that it never will
    "wait": CtxField(8, 8, "ptr"),
    # void (*)(Ctx *, void *word): wake those whose wait for that word is over
    "wake": CtxField(16, 8, "ptr"),
    # i32 (*)(Ctx *, body, void *env, i64 n, i64 crew): `body`, as of `parallel`, on a thread for
    # each of [0, n), all at the same time, called as CREWS[crew] says
    "together": CtxField(24, 8, "ptr"),
    "rank": CtxField(32, 8, "i64"),
    "ranks": CtxField(40, 8, "i64"),
    # counters that all ranks share
    "gate": CtxField(48, 8, "ptr"),
    # WINDOW records
    "windows": CtxField(56, 8, "ptr"),
    "window_count": CtxField(64, 8, "i64"),
}
COMM_SIZE = 72
GATE_BYTES = 192

# A window: where the part of rank 0 begins, where that of the last ends, how far two are apart.
WINDOW = {"begin": 0, "end": 8, "stride": 16}
WINDOW_SIZE = 24

CREWS = ("block", "lane", "side")
"""What those that run together are: blocks, vector lanes, or the cube core and vector lanes."""


class WaitKind(IntFlag):
    """How a wait compares its word: at least or, with EQUAL, equal; 32 bits or, WIDE, 64."""

    EQUAL = 1
    WIDE = 2


ARENA_ALIGNMENT = 64
FAULT_VALUES, WAIT_VALUES = 4, 2

# Print ring: u64 count of records ever begun (atomic add), u64 capacity, then `capacity` records
# {u64 op id, u64 values[PRINT_VALUES]}. Record number >= capacity is dropped, but counted.
PRINT_HEADER = 16
PRINT_VALUES = 7
PRINT_RECORD = 8 * (1 + PRINT_VALUES)


class Fault(IntEnum):
    """Status of a kernel; those below 16 are between kernel and runtime, the others are errors."""

    OK = 0
    ARENA_TOO_SMALL = 1  # values[0]: bytes needed; nothing was written; the runtime retries
    CANCELLED = 2
    INDEX_OUT_OF_BOUNDS = 16  # values: index, lower bound, upper bound (exclusive), axis
    DIVISION_BY_ZERO = 17
    SHAPE_MISMATCH = 18  # values: given, expected
    ASSERTION = 19
    DEADLOCK = 20
    RING_OVERFLOW = 21
    EXTERNAL_STATUS = 22  # values[0]: what a kernel in C++ returned
    EXTERNAL_EXCEPTION = 23
    NO_SUCH_RANK = 24  # values: given, how many there are
    NOT_AS_REQUIRED = 25  # values: those that the manifest's text for the op speaks of
    ZERO_STEP, NO_MEMORY = 26, 33  # values of the second: bytes
    NO_OTHER_SIDE, SIDES_PUSH, SIDES_POP, SIDES_EVENT, SIDES_MEET, TILE_MISMATCH = range(27, 33)


def fault_name(status: int) -> str:
    """The name of a status of a kernel; empty for one that nobody knows."""
    return Fault(status).name if status in set(Fault) else ""


# ---- kernels in C++ ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExternalKernel:
    """Function `function` of the C++ file `source`; `params` are the C++ types of its parameters.

    `contents` is the digest of what it was built from, `library` the key of what was built, `cube`
    the other side of a mixed kernel, `shares` the parameters of each side, empty for all.
    """

    function: str
    source: str
    params: tuple[str, ...]
    include_dirs: tuple[str, ...] = ()
    contents: str = ""
    library: str = ""
    cube: ExternalKernel | None = None
    shares: tuple[tuple[int, ...], ...] = ()

    @staticmethod
    def from_json(data: Sequence[Any]) -> ExternalKernel:
        """The inverse of `dataclasses.astuple`."""
        function, source, params, folders, *built, cube, shares = data
        built += cube and ExternalKernel.from_json(cube), tuple([tuple(each) for each in shares])
        return ExternalKernel(function, source, tuple(params), tuple(folders), *built)


# ---- side tables ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Site:
    """Where the author wrote an operation, as a `Span`, and the text of its first line then."""

    file: str
    line: int
    col: int
    end_line: int
    end_col: int
    text: str = ""

    @property
    def span(self) -> Span:
        """The place, as errors take it."""
        return Span(self.file, self.line, self.col, self.end_line, self.end_col)

    def lines(self) -> list[str] | None:
        """Lines to show instead of the file's, when its line is no longer the one compiled."""
        current = source_lines(self.file)
        unchanged = self.line <= len(current) and current[self.line - 1].rstrip() == self.text
        return None if unchanged or not self.text else [""] * (self.line - 1) + [self.text]

    @staticmethod
    def of(span: Span) -> Site:
        """The site of a span, with the text its file has now."""
        lines = source_lines(span.file)
        text = lines[span.line - 1].rstrip() if 0 < span.line <= len(lines) else ""
        return Site(span.file, span.line, span.col, span.end_line, span.end_col, text)


UNBOUNDED = math.inf


@dataclass(frozen=True)
class Manifest:
    """What the runtime needs to know about an object beside its signature.

    `symbol` is the kernel's name in the object; `sites` maps op ids to the author's lines; `prints`
    maps op ids to (`str.format` template, dtype names); `safe_overlaps` lists pairs of tensor names
    that may be the very same memory; `work` estimates the serial run time as a sum of
    (nanoseconds, symbols to multiply them with), UNBOUNDED nanoseconds when nobody knows;
    `grid` is the number of cells of the outermost grid; `arena_bytes` a first guess; `parallel` is
    true when the kernel may call the context's `parallel`; `externals` are the kernels in C++ that
    it calls, by symbol; `communicates` says that it uses the context's `comm`, and `texts` maps op
    ids to what is waited for, or required, there.
    """

    name: str = "kernel"
    symbol: str = "kernel"
    sites: Mapping[int, Site] = field(default_factory=dict[int, Site])
    prints: Mapping[int, tuple[str, tuple[str, ...]]] = field(
        default_factory=dict[int, tuple[str, tuple[str, ...]]]
    )
    safe_overlaps: frozenset[tuple[str, str]] = frozenset()
    work: tuple[tuple[float, tuple[str, ...]], ...] = ((UNBOUNDED, ()),)
    grid: Extent = Extent(1)
    arena_bytes: int = 0
    parallel: bool = False
    externals: Mapping[str, ExternalKernel] = field(default_factory=dict[str, ExternalKernel])
    communicates: bool = False
    texts: Mapping[int, str] = field(default_factory=dict[int, str])

    def allows_overlap(self, first: str, second: str) -> bool:
        """True when these two tensors may be the same memory."""
        return bool({(first, second), (second, first)} & self.safe_overlaps)

    def estimate_ns(self, symbols: Mapping[str, int]) -> float:
        """The serial run time expected for these extents."""
        return sum(
            ns * math.prod(symbols[name] for name in names) if names else ns
            for ns, names in self.work
        )

    def to_json(self) -> dict[str, Any]:
        """Plain lists, strings and numbers; an unbounded estimate becomes -1."""
        return {
            "name": self.name,
            "symbol": self.symbol,
            "sites": [[op, *astuple(s)] for op, s in self.sites.items()],
            "prints": [[op, text, list(kinds)] for op, (text, kinds) in self.prints.items()],
            "safe_overlaps": sorted(list(pair) for pair in self.safe_overlaps),
            "work": [[-1 if math.isinf(ns) else ns, list(names)] for ns, names in self.work],
            "grid": [self.grid.constant, [list(t) for t in self.grid.terms], self.grid.divisor],
            "arena_bytes": self.arena_bytes,
            "parallel": self.parallel,
            "communicates": self.communicates,
            "texts": list(self.texts.items()),
            "externals": {symbol: astuple(kernel) for symbol, kernel in self.externals.items()},
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Manifest:
        """The inverse of `to_json`."""
        constant, terms, divisor = data["grid"]
        return Manifest(
            name=data["name"],
            symbol=data["symbol"],
            sites={op: Site(*rest) for op, *rest in data["sites"]},
            prints={op: (text, tuple(kinds)) for op, text, kinds in data["prints"]},
            safe_overlaps=overlap_pairs(data["safe_overlaps"]),
            work=tuple((UNBOUNDED if ns < 0 else ns, tuple(names)) for ns, names in data["work"]),
            grid=Extent(constant, tuple((n, k) for n, k in terms), divisor),
            arena_bytes=data["arena_bytes"],
            parallel=data["parallel"],
            communicates=data["communicates"],
            texts=dict(data["texts"]),
            externals={s: ExternalKernel.from_json(k) for s, k in data["externals"].items()},
        )


def overlap_pairs(pairs: Iterable[Iterable[str]]) -> frozenset[tuple[str, str]]:
    """Pairs of tensor names, from any nested iterable."""
    return frozenset((first, second) for first, second in pairs)


def decode_scalar(bits: int, dtype: DType) -> Any:
    """The Python value of a slot or print word written with `encode_scalar`'s convention."""
    if dtype.kind == "bool":
        return bool(bits & 1)
    raw = struct.pack("<Q", bits & 0xFFFF_FFFF_FFFF_FFFF)
    if dtype.is_float():
        return float(np.frombuffer(raw, dtype.numpy, count=1)[0])
    mask = bits & ((1 << dtype.bits) - 1)
    low, _ = integer_range(dtype)
    return mask - (1 << dtype.bits) if low < 0 and mask >> (dtype.bits - 1) else mask
