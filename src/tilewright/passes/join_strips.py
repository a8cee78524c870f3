"""Neighbouring strips of columns that are worked on from top to bottom become one wider strip.

A narrow strip visits a few elements of each row and then the next row, which memory does not
foresee. Nothing is computed otherwise: a wider strip does what its parts would have done.

Before::

    @pl.program
    class example:
        @pl.function
        def main(
            self,
            x: pl.Buffer[[64, 256], pl.FP32],
            out: pl.Out[pl.Buffer[[256], pl.FP32]],
        ):
            for j in pl.parallel(0, 256, 32):
                total = pl.loop.alloc(shape=[32], dtype=pl.FP32)
                for c in pl.loop.lanes(32):
                    pl.loop.store(total, [c], 0.0)
                for r in pl.range(64):
                    for c in pl.loop.lanes(32):
                        old = pl.loop.load(total, [c])
                        pl.loop.store(total, [c], old + pl.loop.load(x, [r, j + c]))
                for c in pl.loop.lanes(32):
                    pl.loop.store(out, [j + c], pl.loop.load(total, [c]))

After::

    for j in pl.parallel(0, 256, 128):
        total = pl.loop.alloc(shape=[128], dtype=pl.FP32)
        for c in pl.loop.lanes(128):
            pl.loop.store(total, [c], 0.0)
        for r in pl.range(64):
            for c_1 in pl.loop.lanes(128):
                old = pl.loop.load(total, [c_1])
                s = pl.loop.load(x, [r, j + c_1])
                pl.loop.store(total, [c_1], old + s)
        for c_2 in pl.loop.lanes(128):
            s_1 = j + c_2
            s_2 = pl.loop.load(total, [c_2])
            pl.loop.store(out, [s_1], s_2)
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

from tilewright.dataclass import dataclass
from tilewright.dtypes import INDEX
from tilewright.ir.affine import Expr, Symbol, as_expr, coefficient, symbols
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Operation, Program, Value
from tilewright.ir.enums import ForKind
from tilewright.ir.rewrite import Cloner, map_functions
from tilewright.ir.types import BufferType, Dim, ScalarType
from tilewright.ops import control, loop
from tilewright.ops.extents import expr_of
from tilewright.ops.touches import counts, indices_of, is_pure
from tilewright.passes.loops import exact_trip, rewritten

STRIP_BYTES = 16384
"""Memory foresees no more of a row than its page, so that each strip waits where its part of a row
begins: 2048×8192 numbers are summed by columns in 2.5 ms, and by strips half as wide in 2.9."""

SCRATCH_BYTES = 1 << 17
LEAST_STRIPS = 2
"""Strips that are left for threads to share."""

KINDS = (ForKind.Sequential, ForKind.Parallel, ForKind.Lanes)


@dataclass(frozen=True, slots=True)
class Strips:
    """A loop over strips, how wide one is, how many of them become one, and its scratch."""

    loop: Operation
    width: int
    many: int
    scratch: dict[Value, int]

    def widened(self, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
        """The shape of scratch for several strips."""
        return (*shape[:axis], shape[axis] * self.many, *shape[axis + 1 :])


def join_strips(program: Program, entry: str) -> Program:
    """The loop-level `program` with strips joined."""
    return map_functions(program, joined)


def joined(function: Function) -> Function:
    """A copy of `function` with strips joined; itself where there are none."""
    loops = [op for op in function.body.walk() if op.opdef is control.for_]
    found = [find_strips(op) for op in loops if is_strided(op)]
    strips = {each.loop: each for each in found if each is not None}
    return rewritten(function, partial(StripJoiner, strips=strips)) if strips else function


# ---------------------------------------------------------------------- what can be joined


def is_strided(op: Operation) -> bool:
    """True for a parallel loop that rows are visited in."""
    if op.attrs["kind"] is not ForKind.Parallel or op.operands[3]:
        return False
    body = op.regions[0].ops
    return any(each.opdef is control.for_ and has_rows(each) for each in body)


def has_rows(op: Operation) -> bool:
    """True for a loop around a loop over lanes."""
    inner = [each for each in op.regions[0].ops if each.opdef is control.for_]
    return any(each.attrs["kind"] is ForKind.Lanes for each in inner)


def find_strips(op: Operation) -> Strips | None:
    """The strips of a loop, if several may be one."""
    low, high, step = map(expr_of, op.operands[:3])
    trip = exact_trip(low, high, step)
    if not isinstance(trip, int):
        return None
    reader = StripReader(op, step.const)
    if not reader.reads(op.regions[0], None):
        return None
    most = min(STRIP_BYTES // reader.element_bytes // step.const, trip // LEAST_STRIPS)
    most = min(most, SCRATCH_BYTES // max(1, sum(map(size_of, reader.scratch))))
    many = next((k for k in range(most, 1, -1) if trip % k == 0), 1)
    return Strips(op, step.const, many, reader.scratch) if many > 1 else None


def size_of(scratch: Value) -> int:
    """The bytes of an allocation."""
    op = scratch.op
    assert op is not None
    return prod(op.attrs["shape"]) * op.attrs["dtype"].nbytes


class StripReader:
    """Goes through the body of a loop over strips.

    `scratch` says which axis of each allocation runs along the strip.
    """

    def __init__(self, op: Operation, width: int) -> None:
        self.strip: Symbol = op.regions[0].params[0].symbol
        self.width = width
        self.scratch: dict[Value, int] = {}
        self.own: set[Value] = set()
        self.element_bytes = 1

    def reads(self, block: Block, lane: Symbol | None) -> bool:
        """True when everything in a block does the same for all strips at once."""
        return all(self.allows(op, lane) for op in block.ops)

    def allows(self, op: Operation, lane: Symbol | None) -> bool:
        """True when an operation does the same for all strips at once."""
        if op.opdef is control.for_:
            return self.allows_loop(op, lane)
        if op.opdef in (loop.load, loop.store):
            return lane is not None and self.allows_access(op, lane)
        if op.opdef is loop.alloc:
            self.own.add(op.result)
            return lane is None and all(isinstance(extent, int) for extent in op.attrs["shape"])
        if op.opdef.terminator:
            return True
        return is_pure(op) and self.is_index(op, lane)

    def allows_loop(self, op: Operation, lane: Symbol | None) -> bool:
        """True for loops over the lanes of a strip, and loops around them."""
        if lane is not None or op.operands[3] or op.attrs["kind"] not in KINDS:
            return False
        if any(self.strip in symbols(expr_of(end)) for end in op.operands[:3]):
            return False
        if op.attrs["kind"] is not ForKind.Lanes:
            return self.reads(op.regions[0], None)
        return counts(op, self.width) and self.reads(op.regions[0], op.regions[0].params[0].symbol)

    def is_index(self, op: Operation, lane: Symbol | None) -> bool:
        """True for an index, and for what does not depend on the place in the strip."""
        if all(value.type == ScalarType(INDEX) for value in op.results):
            return True
        given = [value for value in op.inputs if is_integer(value)]
        return not any({self.strip, lane}.intersection(symbols(expr_of(v))) for v in given)

    def allows_access(self, op: Operation, lane: Symbol) -> bool:
        """True where the next strip has the elements that follow, or all strips the same one."""
        buffer: Value = op.operands[0]
        type_ = buffer.type
        assert isinstance(type_, BufferType)
        where = indices_of(op)
        self.element_bytes = max(self.element_bytes, type_.dtype.nbytes)
        along = [k for k, index in enumerate(where) if lane in symbols(index)]
        if any(self.strip in symbols(index) for k, index in enumerate(where) if k not in along):
            return False
        if not along:
            return op.opdef is loop.load and buffer not in self.own
        if len(along) > 1 or type_.strides[along[0]] != 1:
            return False
        (axis,) = along
        if buffer not in self.own:
            return self.follows(where[axis], lane)
        whole = type_.shape[axis] == self.width and where[axis] == as_expr(lane)
        return whole and self.scratch.setdefault(buffer, axis) == axis

    def follows(self, index: Expr, lane: Symbol) -> bool:
        """True when the index moves with the strips as it does with the lanes."""
        return coefficient(index, lane) == 1 and coefficient(index, self.strip) == 1


def is_integer(value: Value) -> bool:
    """True for integer scalars."""
    return isinstance(value.type, ScalarType) and value.type.dtype.is_int()


# ---------------------------------------------------------------------- rewriting


class StripJoiner(Cloner):
    """Copies a function with strips joined."""

    def __init__(self, builder: Builder, *, strips: dict[Operation, Strips]) -> None:
        super().__init__(builder, fresh_symbols=True)
        self.strips = strips
        self.current: Strips | None = None

    def clone(self, op: Operation) -> Operation:
        found, around = self.strips.get(op), self.current
        if found is not None:
            self.current = found
            low, high = map(self.value, op.operands[:2])
            step = self.builder.index(found.width * found.many)
            new = self.loop(op, (low, high, step), op.regions[0].params[0].symbol.hi)
            self.current = around
            return new
        if around is not None and op.opdef is loop.alloc and op.result in around.scratch:
            shape = around.widened(op.attrs["shape"], around.scratch[op.result])
            attrs: dict[str, Any] = {**op.attrs, "shape": shape}
            self.bind(op.result, loop.alloc(**attrs))
            return op
        if around is not None and op.attrs.get("kind") is ForKind.Lanes:
            width = around.width * around.many
            ends = (*self.operands(op)[:1], self.builder.index(width), *self.operands(op)[2:3])
            return self.loop(op, ends, as_expr(width - 1))
        return super().clone(op)

    def loop(self, op: Operation, ends: tuple[Value, ...], last: Dim | None) -> Operation:
        """A loop like `op` with other ends; `last` is the greatest value of its counter."""
        index = op.regions[0].params[0]
        counter = Value(index.type, index.name)
        counter.bind_symbol(Symbol(index.name, 0, last))
        self.mapping[index] = counter
        self.symbols[index.symbol] = as_expr(counter.symbol)
        region = Block((counter,))
        with self.builder.inside(region):
            self.body(op.regions[0])
        return self.builder.emit(op.opdef, (*ends, ()), op.attrs, (region,), span=op.span)
