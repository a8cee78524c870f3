"""Loads, stores, views and scratch: scalar, contiguous vectors, splats, gathers and scatters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.codegen.emitter import Emitter, dtype_name, emits, spread
from tilewright.codegen.formats import MEMORY_ELEMENT, REGISTER_ELEMENT
from tilewright.codegen.index import Num
from tilewright.codegen.lent import emit_lent
from tilewright.codegen.operands import LANES, Buffer, Const, Linear, Operand, Uniform, Varying
from tilewright.codegen.text import ELEMENT_BYTES, NONTEMPORAL, type_text
from tilewright.codegen.words import cast, constant, register_type
from tilewright.ir.core import Operation, Value
from tilewright.ir.types import BufferType
from tilewright.ops import loop
from tilewright.ops.touches import root_of

SUFFIX = {"float": "f32", "double": "f64"}
MASK = f"<{LANES} x i1>"


@emits(loop.alloc)
def emit_alloc(e: Emitter, op: Operation) -> None:
    """A place in the arena, or memory that is lent."""
    kind = op.result.type
    assert isinstance(kind, BufferType)
    if op in e.shared.layout.lent:
        pointer = emit_lent(e, op)
    else:
        pointer = e.index.place(e.arena, e.scratch(op), "i8")
    shape, strides = e.all_dims(kind.shape), e.all_dims(kind.strides)
    e.define(op.result, Buffer(pointer, kind.dtype.name, shape, strides))


@emits(loop.view)
def emit_view(e: Emitter, op: Operation) -> None:
    """A pointer into a buffer, with its own extents and strides."""
    value, offsets = op.operands
    base = e.buffer(value)
    total: Num = 0
    for offset, stride in zip(offsets, base.strides, strict=True):
        total = e.index.add(total, e.index.mul(e.num(offset), stride))
    pointer = e.index.place(base.pointer, total, MEMORY_ELEMENT[base.dtype])
    kind = op.result.type
    assert isinstance(kind, BufferType)
    shape, strides = e.all_dims(kind.shape), e.all_dims(kind.strides)
    e.define(op.result, Buffer(pointer, kind.dtype.name, shape, strides))


@emits(loop.extent)
def emit_extent(e: Emitter, op: Operation) -> None:
    """An extent that was computed with the buffer."""
    axis: int = op.attrs["axis"]
    extent = e.buffer(op.operands[0]).shape[axis]
    operand = Const(extent, "INDEX") if isinstance(extent, int) else Uniform(extent)
    e.define(op.result, operand)


# ---------------------------------------------------------------------- addresses


class Address:
    """Where the elements of one access are: `fixed` for all lanes plus what varies.

    `kind` is "scalar" (one element), "lanes" (consecutive elements) or "spread" (an offset each).
    """

    def __init__(self, e: Emitter, buffer: Buffer, indices: Sequence[Value]) -> None:
        self.e = e
        self.element = MEMORY_ELEMENT[buffer.dtype]
        operands = [e.operand(value) for value in indices]
        self.varying: list[tuple[Operand, str, Num]] = []
        self.step: Num = 0
        outer: Num = 0
        self.inner: Num = 0
        for operand, value, stride in zip(operands, indices, buffer.strides, strict=True):
            if isinstance(operand, Varying):
                self.varying.append((operand, dtype_name(value), stride))
            elif isinstance(operand, Linear):
                self.inner = e.index.add(self.inner, e.index.mul(operand.base, stride))
                self.step = e.index.add(self.step, e.index.mul(operand.step, stride))
            else:
                part = self._scaled(e.as_num(operand, dtype_name(value)), stride)
                if e.lanes is None or (self._is_known(part) and self._is_known(outer)):
                    outer = self._sum(outer, part)
                else:
                    self.inner = e.index.add(self.inner, part)
        self.base = self._base(buffer.pointer, outer)
        self.start = ""

    def _is_known(self, num: Num) -> bool:
        return self.e.is_hoistable(num)

    def _scaled(self, num: Num, stride: Num) -> Num:
        """num * stride, before the lanes loop if both are known there."""
        e = self.e
        if e.lanes is None or (isinstance(num, int) and isinstance(stride, int)):
            return e.index.mul(num, stride)
        if not (self._is_known(num) and self._is_known(stride)):
            return e.index.mul(num, stride)
        return self._hoisted(("mul", num, stride), lambda: e.index.mul(num, stride))

    def _sum(self, x: Num, y: Num) -> Num:
        if self.e.lanes is None or (isinstance(x, int) and isinstance(y, int)) or 0 in (x, y):
            return self.e.index.add(x, y)
        return self._hoisted(("add", x, y), lambda: self.e.index.add(x, y))

    def _hoisted(self, key: tuple[str, Num, Num], write: Callable[[], Num]) -> Num:
        if 0 in key or (key[0] == "mul" and 1 in key):
            return write()
        return self.e.hoist(key, lambda: str(write()))

    def _base(self, pointer: str, outer: Num) -> str:
        e = self.e
        if e.lanes is None or not (self._is_known(outer) and self._is_known(pointer)):
            return e.index.place(pointer, outer, self.element)
        if outer == 0:
            return pointer
        key = ("place", pointer, outer, self.element)
        return e.hoist(key, lambda: e.index.place(pointer, outer, self.element))

    @property
    def kind(self) -> str:
        """How the lanes differ."""
        if self.varying:
            return "spread"
        if self.step == 0:
            return "scalar"
        return "lanes" if self.step == 1 else "spread"

    def place(self, copy: int = 0) -> str:
        """The pointer of a scalar access, or of the first lane of one copy."""
        if not self.start:
            self.start = self.e.index.place(self.base, self.inner, self.element)
        return self.e.index.place(self.start, LANES * copy, self.element)

    def pointers(self) -> tuple[str, ...]:
        """One vector of pointers per copy."""
        e, text = self.e, self.e.text
        start = self.place()
        kind = type_text("i64", LANES)
        totals: list[str] = []
        for copy in range(e.lane_state.copies):
            total = ""
            if self.step != 0:
                total = e.linear_vector(Linear(0, self.step), copy)
            for operand, dtype, stride in self.varying:
                part = self._offsets(operand, dtype, stride, copy)
                total = text.let(f"add {kind} {total}, {part}") if total else part
            totals.append(total)
        return tuple(
            text.let(f"getelementptr {self.element}, ptr {start}, {kind} {total}")
            for total in totals
        )

    def _offsets(self, operand: Operand, dtype: str, stride: Num, copy: int) -> str:
        """One vector of index * stride."""
        e, kind = self.e, type_text("i64", LANES)
        ref = cast(e.text, dtype, "INDEX", "rint", LANES, e.as_vectors(operand, dtype)[copy])
        if stride == 1:
            return ref
        return e.text.let(f"mul {kind} {ref}, {e.splat(str(stride), 'i64')}")


# ---------------------------------------------------------------------- load and store


@emits(loop.load)
def emit_load(e: Emitter, op: Operation) -> None:
    """One element, or one per lane; zero where the mask does not hold."""
    value, indices, mask = op.operands
    buffer = e.buffer(value)
    if value in e.held:
        e.define(op.result, Varying(load_held(e, buffer.dtype, e.held[value], mask)))
        return
    address = Address(e, buffer, indices)
    if address.kind == "scalar" and loads_once(e, mask):
        e.define(op.result, Uniform(load_scalar(e, buffer.dtype, address, mask)))
        return
    masks = combined_masks(e, mask)
    if address.kind == "scalar":
        refs = load_repeated(e, buffer.dtype, address, masks)
    elif address.kind == "lanes":
        refs = tuple(
            load_lanes(e, buffer.dtype, address.place(copy), mask_ref)
            for copy, mask_ref in enumerate(masks)
        )
    else:
        refs = tuple(
            gather(e, buffer.dtype, pointers, mask_ref)
            for pointers, mask_ref in zip(address.pointers(), masks, strict=True)
        )
    e.define(op.result, Varying(refs))


def load_held(e: Emitter, dtype: str, held: tuple[str, ...], mask: Value | None) -> tuple[str, ...]:
    """Elements that are in registers already."""
    if mask is None:
        return held
    kind, zero = register_type(dtype, LANES), constant(0, dtype, LANES)
    return tuple(
        e.text.let(f"select {MASK} {holds}, {kind} {ref}, {kind} {zero}")
        for ref, holds in zip(held, e.vectors(mask), strict=True)
    )


def loads_once(e: Emitter, mask: Value | None) -> bool:
    """Whether an element that all lanes share is read whatever the lanes do."""
    if e.lanes is not None and e.lanes.guarded:
        return False
    return mask is None or e.is_uniform(mask)


def combined_masks(e: Emitter, mask: Value | None) -> list[str]:
    """The mask of an access and that of the lanes, per copy; "" where there is none."""
    around = e.lane_state.masks
    if mask is None:
        return list(around)
    return [both(e, a, m) for a, m in zip(around, e.vectors(mask), strict=True)]


def both(e: Emitter, a: str, b: str) -> str:
    """The conjunction of two masks, either of which may be absent."""
    if not a or not b:
        return a or b
    return e.text.let(f"and {MASK} {a}, {b}")


def load_scalar(e: Emitter, dtype: str, address: Address, mask: Value | None) -> str:
    """One element; where the mask does not hold, zero, read from nowhere."""
    text, element = e.text, MEMORY_ELEMENT[dtype]
    place = address.place()
    if mask is None:
        return from_memory(e, dtype, text.let(load_text(element, 1, place)), 1)
    holds = e.scalar(mask)
    place = text.let(f"select i1 {holds}, ptr {place}, ptr %ctx")
    value = from_memory(e, dtype, text.let(load_text(element, 1, place)), 1)
    kind = register_type(dtype, 1)
    return text.let(f"select i1 {holds}, {kind} {value}, {kind} {constant(0, dtype, 1)}")


def load_repeated(e: Emitter, dtype: str, address: Address, masks: list[str]) -> tuple[str, ...]:
    """One element for the lanes whose mask holds; read only if there is one."""
    text = e.text
    refs: list[str] = []
    kind = register_type(dtype, LANES)
    for mask in masks:
        some = (
            text.let(f"call i1 @llvm.vector.reduce.or.v{LANES}i1({MASK} {mask})")
            if mask
            else "true"
        )
        place = text.let(f"select i1 {some}, ptr {address.place()}, ptr %ctx")
        value = from_memory(e, dtype, text.let(load_text(MEMORY_ELEMENT[dtype], 1, place)), 1)
        vector = spread(text, value, REGISTER_ELEMENT[dtype])
        zero = constant(0, dtype, LANES)
        refs.append(
            text.let(f"select {MASK} {mask}, {kind} {vector}, {kind} {zero}") if mask else vector
        )
    return tuple(refs)


def load_text(element: str, lanes: int, place: str) -> str:
    """A plain load instruction."""
    return f"load {type_text(element, lanes)}, ptr {place}, align {ELEMENT_BYTES[element]}"


def load_lanes(e: Emitter, dtype: str, place: str, mask: str) -> str:
    """Sixteen consecutive elements."""
    text, element = e.text, MEMORY_ELEMENT[dtype]
    if not mask:
        return from_memory(e, dtype, text.let(load_text(element, LANES, place)), LANES)
    kind = type_text(element, LANES)
    suffix = f"v{LANES}{SUFFIX.get(element, element)}.p0"
    arguments = f"ptr align {ELEMENT_BYTES[element]} {place}, {MASK} {mask}, {kind} zeroinitializer"
    loaded = text.let(f"call {kind} @llvm.masked.load.{suffix}({arguments})")
    return from_memory(e, dtype, loaded, LANES)


def gather(e: Emitter, dtype: str, pointers: str, mask: str) -> str:
    """Sixteen elements from anywhere."""
    element = MEMORY_ELEMENT[dtype]
    kind = type_text(element, LANES)
    suffix = f"v{LANES}{SUFFIX.get(element, element)}.v{LANES}p0"
    where = mask or "splat (i1 true)"
    size = ELEMENT_BYTES[element]
    arguments = f"<{LANES} x ptr> align {size} {pointers}, {MASK} {where}, {kind} zeroinitializer"
    loaded = e.text.let(f"call {kind} @llvm.masked.gather.{suffix}({arguments})")
    return from_memory(e, dtype, loaded, LANES)


def from_memory(e: Emitter, dtype: str, ref: str, lanes: int) -> str:
    """A loaded element as a register: BOOL is a byte in memory."""
    if dtype != "BOOL":
        return ref
    return e.text.let(f"trunc {type_text('i8', lanes)} {ref} to {type_text('i1', lanes)}")


def to_memory(e: Emitter, dtype: str, ref: str, lanes: int) -> str:
    """A register as it is stored."""
    if dtype != "BOOL":
        return ref
    return e.text.let(f"zext {type_text('i1', lanes)} {ref} to {type_text('i8', lanes)}")


@emits(loop.store)
def emit_store(e: Emitter, op: Operation) -> None:
    """Write one element, or one per lane, where the mask holds."""
    target, indices, value, mask = op.operands
    buffer = e.buffer(target)
    address = Address(e, buffer, indices)
    if e.lanes is None:
        store_scalar(e, buffer.dtype, address, e.scalar(value), mask)
        return
    stored = [to_memory(e, buffer.dtype, ref, LANES) for ref in e.vectors(value)]
    masks = combined_masks(e, mask)
    streamed = e.shared.streamed.get(root_of(target))
    if streamed is not None and address.kind == "lanes" and not any(masks):
        store_past_caches(e, buffer.dtype, address, stored, e.brought_num(streamed))
        return
    if address.kind == "lanes":
        for copy, (ref, mask_ref) in enumerate(zip(stored, masks, strict=True)):
            store_lanes(e, buffer.dtype, address.place(copy), ref, mask_ref)
        return
    if address.kind == "scalar":
        pointers = repeated_pointer(e, address.place())
    else:
        pointers = address.pointers()
    for refs in zip(pointers, stored, masks, strict=True):
        scatter(e, buffer.dtype, *refs)


def repeated_pointer(e: Emitter, place: str) -> tuple[str, ...]:
    """The same pointer in every lane: the last lane that stores wins, as in a loop."""
    kind = f"<{LANES} x ptr>"
    first = e.text.let(f"insertelement {kind} poison, ptr {place}, i64 0")
    ref = e.text.let(
        f"shufflevector {kind} {first}, {kind} poison, <{LANES} x i32> zeroinitializer"
    )
    return (ref,) * e.lane_state.copies


def store_scalar(e: Emitter, dtype: str, address: Address, ref: str, mask: Value | None) -> None:
    """Write one element."""
    element = MEMORY_ELEMENT[dtype]
    ref = to_memory(e, dtype, ref, 1)
    store = f"store {element} {ref}, ptr {address.place()}, align {ELEMENT_BYTES[element]}"
    if mask is None:
        e.text.do(store)
        return
    with e.text.when(e.scalar(mask)):
        e.text.do(store)


def store_past_caches(
    e: Emitter, dtype: str, address: Address, stored: list[str], mask: Num
) -> None:
    """Consecutive vectors of a large output; past the caches where the masked address is zero."""
    text, element = e.text, MEMORY_ELEMENT[dtype]
    kind, size = type_text(element, LANES), LANES * ELEMENT_BYTES[element]
    places = [address.place(copy) for copy in range(len(stored))]
    number = text.let(f"ptrtoint ptr {places[0]} to i64")
    rest = text.let(f"and i64 {number}, {mask}")
    past, usual, after = text.label(), text.label(), text.label()
    text.branch(text.let(f"icmp eq i64 {rest}, 0"), past, usual)
    text.start(past)
    for place, ref in zip(places, stored, strict=True):
        text.do(f"store {kind} {ref}, ptr {place}, align {size}, {NONTEMPORAL}")
    text.jump(after)
    text.start(usual)
    for place, ref in zip(places, stored, strict=True):
        store_lanes(e, dtype, place, ref, "")
    text.jump(after)
    text.start(after)


def store_lanes(e: Emitter, dtype: str, place: str, ref: str, mask: str) -> None:
    """Write sixteen consecutive elements."""
    element = MEMORY_ELEMENT[dtype]
    kind, size = type_text(element, LANES), ELEMENT_BYTES[element]
    if not mask:
        e.text.do(f"store {kind} {ref}, ptr {place}, align {size}")
        return
    lane = only_lane(mask)
    if lane is not None:
        one = e.text.let(f"extractelement {kind} {ref}, i64 {lane}")
        e.text.do(f"store {element} {one}, ptr {place_of(e, element, place, lane)}, align {size}")
        return
    if size < 4 and not mask.startswith("<"):
        mask = unforeseen(e, mask)
    suffix = f"v{LANES}{SUFFIX.get(element, element)}.p0"
    arguments = f"{kind} {ref}, ptr align {size} {place}, {MASK} {mask}"
    e.text.do(f"call void @llvm.masked.store.{suffix}({arguments})")


def only_lane(mask: str) -> int | None:
    """The one lane of a constant mask, if it has just one.

    LLVM 22 makes a masked store of truncated integers that keeps one lane as wide as the lane was
    before truncation, so that it overwrites its neighbours; such a store has to be a scalar one.
    """
    lanes = mask.strip("<>").split(", ")
    return lanes.index("i1 true") if mask.startswith("<") and lanes.count("i1 true") == 1 else None


def unforeseen(e: Emitter, mask: str) -> str:
    """`mask`, such that LLVM cannot find out that it keeps just one lane (see `only_lane`)."""

    def write() -> str:
        return spread(e.text, e.text.let("icmp ne ptr %ctx, null"), "i1")

    return e.text.let(f"and {MASK} {mask}, {e.hoist('unforeseen', write)}")


def place_of(e: Emitter, element: str, place: str, lane: int) -> str:
    """The address of one lane of sixteen consecutive elements."""
    return e.text.let(f"getelementptr {element}, ptr {place}, i64 {lane}") if lane else place


def scatter(e: Emitter, dtype: str, pointers: str, ref: str, mask: str) -> None:
    """Write sixteen elements anywhere, in lane order."""
    element = MEMORY_ELEMENT[dtype]
    kind, size = type_text(element, LANES), ELEMENT_BYTES[element]
    suffix = f"v{LANES}{SUFFIX.get(element, element)}.v{LANES}p0"
    where = mask or "splat (i1 true)"
    arguments = f"{kind} {ref}, <{LANES} x ptr> align {size} {pointers}, {MASK} {where}"
    e.text.do(f"call void @llvm.masked.scatter.{suffix}({arguments})")


@emits(loop.copy)
def emit_copy(e: Emitter, op: Operation) -> None:
    """All elements: one move of bytes where both sides are dense, else row by row."""
    target, source = (e.buffer(value) for value in op.operands)
    copy_axes(e, target.pointer, source.pointer, target, source, 0)


def copy_axes(e: Emitter, to: str, origin: str, target: Buffer, source: Buffer, axis: int) -> None:
    """The elements of the axes from `axis` on."""
    element = MEMORY_ELEMENT[target.dtype]
    count = dense_count(e, target, source, axis)
    if count is not None:
        size = e.index.mul(count, ELEMENT_BYTES[element])
        copy_bytes(e, to, origin, size)
        return
    with e.index.steps(0, target.shape[axis], 1) as i:
        inner_to = e.index.place(to, e.index.mul(i, target.strides[axis]), element)
        inner_from = e.index.place(origin, e.index.mul(i, source.strides[axis]), element)
        if axis + 1 < len(target.shape):
            copy_axes(e, inner_to, inner_from, target, source, axis + 1)
        else:
            value = e.text.let(load_text(element, 1, inner_from))
            size = ELEMENT_BYTES[element]
            e.text.do(f"store {element} {value}, ptr {inner_to}, align {size}")


def dense_count(e: Emitter, target: Buffer, source: Buffer, axis: int) -> Num | None:
    """The number of elements from `axis` on if they are consecutive on both sides."""
    count: Num = 1
    for k in range(len(target.shape) - 1, axis - 1, -1):
        for buffer in (target, source):
            if buffer.strides[k] != count and target.shape[k] != 1:
                return None
        count = e.index.mul(count, target.shape[k])
        if not isinstance(count, int) and k > axis:
            return None
    return count


def copy_bytes(e: Emitter, to: str, origin: str, size: Num) -> None:
    """Move bytes: 64 at a time, then the rest."""
    text, index = e.text, e.index
    whole = index.round_down(size, 64)
    if whole != 0:
        with index.steps(0, whole, 64) as i:
            value = text.let(f"load <64 x i8>, ptr {index.place(origin, i, 'i8')}, align 1")
            text.do(f"store <64 x i8> {value}, ptr {index.place(to, i, 'i8')}, align 1")
    if whole == size:
        return
    with index.steps(whole, size, 1) as i:
        value = text.let(f"load i8, ptr {index.place(origin, i, 'i8')}, align 1")
        text.do(f"store i8 {value}, ptr {index.place(to, i, 'i8')}, align 1")
