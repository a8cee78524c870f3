"""Write transfers and collectives as what they do: parts of other ranks and loops over ranks.

Before::

    @pl.program
    class example:
        @pl.function
        def main(self, w: pl.InOut[pld.DistributedTensor[[4, 8], pl.FP32]],
                 x: pl.Tensor[[4, 8], pl.FP32]):
            w = pld.tensor.put(w, 1, x)

After::

    t = pl.op.comm.part(w, 1)
    pl.assemble(t, x, [0, 0])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.dtypes import FP32, INDEX, DType
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Operation, Program, Value
from tilewright.ir.enums import AtomicType, ForKind, ReduceOp
from tilewright.ir.opdef import OpDef
from tilewright.ir.rewrite import Cloner, map_functions, rewrite_function
from tilewright.ir.types import Shape, ShapedType
from tilewright.ops import (
    arith,
    collective,
    comm,
    control,
    elementwise,
    memory,
    rank_words,
    remote,
    shape,
)
from tilewright.ops.cast import cast
from tilewright.ops.meeting import require
from tilewright.passes.drop_carries import without_carries

Results = tuple[Value, ...]
Rule = Callable[..., Value | Results]
RULES: dict[OpDef[..., Any], Rule] = {}
COMBINE: dict[ReduceOp, OpDef[..., Any]] = {
    ReduceOp.Sum: elementwise.add,
    ReduceOp.Prod: elementwise.mul,
    ReduceOp.Max: elementwise.max_,
    ReduceOp.Min: elementwise.min_,
}


def expands(opdef: OpDef[..., Any]) -> Callable[[Rule], Rule]:
    """Registers what stands for the operations of `opdef`: it gives what they give."""

    def register(rule: Rule) -> Rule:
        RULES[opdef] = rule
        return rule

    return register


class Expander(Cloner):
    """A cloner that puts the rules' operations in the place of communication."""

    def clone(self, op: Operation) -> Operation:
        rule = RULES.get(op.opdef)
        if rule is None:
            return super().clone(op)
        self.builder.span = op.span
        given = rule(*self.operands(op), **op.attrs)
        results = given if isinstance(given, tuple) else (given,)
        for old, new in zip(op.results, results, strict=True):
            self.mapping[old] = new
        return op


def expand_communication(program: Program, entry: str) -> Program:
    """`program` with every transfer and collective written out.

    What a barrier wrote in a loop is handed on by it then, which is no carry of the loop.
    """
    if not any(op.opdef in RULES for op in program[entry].body.walk()):
        return program
    return map_functions(program, lambda f: without_carries(rewrite_function(f, Expander)))


# ---------------------------------------------------------------------------------------- in words


def number(value: int) -> Value:
    """An index."""
    return Builder.current().index(value)


def shape_of(x: Value) -> Shape:
    """Extents."""
    assert isinstance(x.type, ShapedType)
    return x.type.shape


def dtype_of(x: Value) -> DType:
    """Element type."""
    assert isinstance(x.type, ShapedType)
    return x.type.dtype


def zeros(x: Value) -> tuple[Value, ...]:
    """The origin of an array."""
    return (number(0),) * len(shape_of(x))


def rank_of(window: Value) -> Value:
    """Which rank this is."""
    return cast(comm.rank(comm.context(window)), dtype=INDEX)


def ranks_of(window: Value) -> Value:
    """How many ranks there are."""
    return cast(comm.nranks(comm.context(window)), dtype=INDEX)


def count_up(low: int, high: Value, inits: Results, body: Callable[..., Results]) -> Results:
    """A loop in order; `body` takes the index and what is carried."""
    builder = Builder.current()
    index = Value(number(0).type, "rank")
    carried = tuple(Value(init.type, init.name) for init in inits)
    block = Block((index, *carried))
    with builder.inside(block):
        control.yield_(body(index, *carried))
    attrs = {"kind": ForKind.Sequential, "combine": (), "stage": 0, "attrs": ()}
    operands = (number(low), high, number(1), inits)
    return builder.emit(control.for_, operands, attrs, (block,)).results


def written(
    target: Value, peer: Value, x: Value, offsets: Sequence[Value], atomic: AtomicType, valid: Any
) -> None:
    """Writes `x` into the part of `target` that a rank has."""
    is_atomic = atomic is not AtomicType.None_
    if is_atomic:
        rank_words.lock()
    place = rank_words.part(target, peer)
    memory.assemble(place, x, offsets, valid=valid, atomic=atomic)
    if is_atomic:
        rank_words.unlock()


def window_of(x: Value, offsets: Sequence[Value] | None, extents: Shape | None) -> Value:
    """A region of an array; all of it by default."""
    if extents is None:
        return x
    return shape.slice_(x, offsets or zeros(x), shape=extents)


def chunk(x: Value, which: Value, rows: Value | None = None) -> Value:
    """Row `which` of an array, or one of its rows' rows, with every axis kept."""
    lead = [which] if rows is None else [which, rows]
    extents = (*[1] * len(lead), *shape_of(x)[len(lead) :])
    offsets = (*lead, *zeros(x)[len(lead) :])
    return shape.slice_(x, offsets, shape=extents)


def at(x: Value, *lead: Value) -> tuple[Value, ...]:
    """The offsets of a row."""
    return (*lead, *zeros(x)[len(lead) :])


def require_ranks(name: str, window: Value, count: Any) -> None:
    """A fault unless there is one chunk per rank."""
    ranks, chunks = ranks_of(window), Builder.current().as_entry(count)
    what = name + ": {0} chunks for {1} ranks"
    require(arith.eq(chunks, ranks), (chunks, ranks), what=what)


# --------------------------------------------------------------------------------------- transfers


@expands(remote.put)
def expand_put(
    dst: Value,
    peer: Value,
    src: Value,
    dst_offsets: Sequence[Value] | None,
    src_offsets: Sequence[Value] | None,
    *,
    shape: Shape | None,
    atomic: AtomicType,
    **hints: Any,
) -> Value:
    """A write into the other rank's part."""
    x = window_of(src, src_offsets, shape)
    written(dst, peer, x, dst_offsets or zeros(dst), atomic, None)
    return dst


@expands(remote.get)
def expand_get(
    dst: Value,
    peer: Value,
    src: Value,
    dst_offsets: Sequence[Value] | None,
    src_offsets: Sequence[Value] | None,
    *,
    shape: Shape | None,
    **hints: Any,
) -> Value:
    """A write of what the other rank's part holds."""
    x = window_of(rank_words.part(src, peer), src_offsets, shape)
    return memory.assemble(dst, x, dst_offsets or zeros(dst))


@expands(remote.remote_load)
def expand_load(
    target: Value,
    peer: Value,
    offsets: Sequence[Value],
    valid_shape: Sequence[Value] | None,
    *,
    shape: Shape,
) -> Value:
    """A load from the other rank's part."""
    return memory.load(rank_words.part(target, peer), offsets, valid_shape, shapes=shape)


@expands(remote.remote_store)
def expand_store(
    src: Value,
    target: Value,
    peer: Value,
    offsets: Sequence[Value],
    *,
    valid: Shape | None,
    atomic: AtomicType,
) -> Value:
    """A store into the other rank's part."""
    written(target, peer, src, offsets, atomic, valid)
    return target


# ------------------------------------------------------------------------------------- collectives


@expands(collective.barrier)
def expand_barrier(signal: Value) -> Value:
    """Everybody meets."""
    rank_words.meet()
    return signal


def combined(target: Value, op: ReduceOp, pick: Callable[[Value], Value]) -> Value:
    """What `pick` gives of the parts of all ranks, combined in order of rank."""
    narrow = dtype_of(target)
    wide = FP32 if narrow.nbytes < 4 else narrow

    def widened(rank: Value) -> Value:
        x = pick(rank_words.part(target, rank))
        return x if narrow is wide else elementwise.cast(x, dtype=wide)

    def more(rank: Value, total: Value) -> Results:
        return (COMBINE[op](total, widened(rank)),)

    first = widened(number(0))
    start = shape.reshape(first, shape=shape_of(first)) if narrow is wide else first
    (total,) = count_up(1, ranks_of(target), (start,), more)
    return total if narrow is wide else elementwise.cast(total, dtype=narrow)


@expands(collective.allreduce)
def expand_allreduce(
    target: Value, signal: Value | None, *, op: ReduceOp, mode: str, core_num: int
) -> Value:
    """The parts of all ranks combined; nobody overwrites its own before all have read it."""
    if signal is not None:
        ranks = ranks_of(target)
        axis = 0 if mode == "mesh" else 1
        extent = memory.dim(signal, axis=axis)
        what = (
            f"allreduce: signal with extent {{0}} on axis {axis} of mode '{mode}' for {{1}} ranks"
        )
        require(arith.ge(extent, ranks), (extent, ranks), what=what)
    rank_words.meet()
    total = combined(target, op, lambda x: x)
    rank_words.meet()
    return memory.assemble(target, total, zeros(target))


@expands(collective.reduce_scatter)
def expand_reduce_scatter(target: Value, signal: Value, *, op: ReduceOp) -> Value:
    """This rank's chunk of the parts of all, combined."""
    mine = rank_of(target)
    require_ranks("reduce_scatter", target, memory.dim(target, axis=0))
    rank_words.meet()
    total = combined(target, op, lambda x: chunk(x, mine))
    rank_words.meet()
    return memory.assemble(target, total, at(target, mine))


def sent(target: Value, pick: Callable[[Value], Value], place: Callable[[Value], Any]) -> Value:
    """What `pick` gives for each rank, written where `place` says for this one."""
    offsets = place(rank_of(target))

    def send(rank: Value) -> Results:
        written(target, rank, pick(rank), offsets, AtomicType.None_, None)
        return ()

    rank_words.meet()
    count_up(0, ranks_of(target), (), send)
    rank_words.meet()
    return target


@expands(collective.allgather)
def expand_allgather(local_data: Value, target: Value, signal: Value) -> Value:
    """This rank's data, written to every rank."""
    extents = shape_of(local_data)
    is_stacked = len(shape_of(target)) == len(extents) + 1
    rows = number(1) if is_stacked else memory.dim(local_data, axis=0)
    given, wanted = memory.dim(target, axis=0), arith.mul(rows, ranks_of(target))
    what = "allgather: a target of {0} rows for {1} of all ranks"
    require(arith.eq(given, wanted), (given, wanted), what=what)
    x = shape.reshape(local_data, shape=(1, *extents)) if is_stacked else local_data
    return sent(target, lambda _: x, lambda mine: at(target, arith.mul(mine, rows)))


@expands(collective.all_to_all)
def expand_all_to_all(input: Value, target: Value, signal: Value) -> Value:
    """A chunk for each rank."""
    require_ranks("all_to_all", target, memory.dim(input, axis=0))
    return sent(target, lambda rank: chunk(input, rank), lambda mine: at(target, mine))


@expands(collective.all_to_all_v)
def expand_all_to_all_v(
    input: Value, target: Value, signal: Value, send_counts: Value, recv_counts: Value
) -> Results:
    """As many rows of a chunk for each rank as is said, and how many these are."""
    mine, room = rank_of(target), memory.dim(input, axis=1)
    require_ranks("all_to_all_v", target, memory.dim(input, axis=0))

    def send(rank: Value) -> Results:
        count = memory.read(send_counts, counter(send_counts, rank))
        rows = cast(count, dtype=INDEX)
        fits = arith.and_(arith.ge(rows, number(0)), arith.le(rows, room))
        what = "all_to_all_v: {0} rows of a chunk of {1} for rank {2}"
        require(fits, (rows, room, rank), what=what)

        def one(row: Value) -> Results:
            x = chunk(input, rank, row)
            written(target, rank, x, at(target, mine, row), AtomicType.None_, None)
            return ()

        count_up(0, rows, (), one)
        place = rank_words.part(recv_counts, rank)
        memory.write(place, counter(recv_counts, mine), count)
        return ()

    rank_words.meet()
    count_up(0, ranks_of(target), (), send)
    rank_words.meet()
    return target, recv_counts


def counter(x: Value, which: Value) -> tuple[Value, ...]:
    """The indices of the number for one rank, along the one axis that counts ranks."""
    extents = shape_of(x)
    wide = next((k for k, extent in enumerate(extents) if extent != 1), len(extents) - 1)
    return tuple(which if k == wide else number(0) for k in range(len(extents)))


@expands(collective.broadcast)
def expand_broadcast(target: Value, signal: Value, *, root: int) -> Value:
    """What the root has, once all have read it."""
    ranks = ranks_of(target)
    what = f"broadcast: root {root} of {{0}} ranks"
    require(arith.gt(ranks, number(root)), (ranks,), what=what)
    rank_words.meet()
    x = shape.reshape(rank_words.part(target, number(root)), shape=shape_of(target))
    rank_words.meet()
    return memory.assemble(target, x, zeros(target))
