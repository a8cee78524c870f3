"""Collectives: every rank calls one with its part of a window, and each gets its result in place.

Sums and products run in order of rank, in FP32 for 16-bit floats, and round once. The signals of a
collective are as before afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import BF16, FP16, FP32, INT32, DType
from tilewright.errors import (
    ArgumentTypeMismatch,
    DTypeMismatch,
    ParserTypeError,
    RuntimeShapeMismatch,
    ShapeMismatch,
    UnsupportedFeatureError,
)
from tilewright.ir.core import Value
from tilewright.ir.enums import Effect, ReduceOp
from tilewright.ir.opdef import op
from tilewright.ir.types import Dim, DistributedTensorType, ShapedType, Type, render_dims
from tilewright.ops.adapt import require_value
from tilewright.ops.comm import require_enum, require_signal, require_window
from tilewright.ops.extents import constant_of, same_dim, same_dims
from tilewright.ops.participant import participant
from tilewright.ops.rules import require_equal_dtypes, require_rank, require_tensor
from tilewright.ops.sampling import fails, sample, tensor
from tilewright.ops.sampling import window as windowed
from tilewright.ops.words import Array

FLOATS = (FP32, FP16, BF16)
COMBINE: dict[ReduceOp, Any] = {
    ReduceOp.Sum: np.add,
    ReduceOp.Prod: np.multiply,
    ReduceOp.Max: np.maximum,
    ReduceOp.Min: np.minimum,
}
MODES = ("mesh", "ring")


def combined(parts: Sequence[Array], op: ReduceOp) -> Array:
    """The parts of all ranks combined in order of rank."""
    narrow = parts[0].dtype
    wide = np.dtype(np.float32) if narrow.itemsize < 4 else narrow
    total: Array = parts[0].astype(wide)
    for part in parts[1:]:
        total = COMBINE[op](total, part.astype(wide))
    return total.astype(narrow)


def of_all_ranks(window: Any) -> list[Array]:
    """Copies of every rank's part, once all of them are complete."""
    me = participant()
    me.barrier()
    parts = [np.array(me.peer(window, rank)) for rank in range(me.size)]
    me.barrier()
    return parts


def require_chunks(name: str, count: int) -> None:
    """Raises RuntimeShapeMismatch unless there is one chunk per rank."""
    ranks = participant().size
    if count != ranks:
        raise RuntimeShapeMismatch(f"{name}: {count} chunks for {ranks} ranks")


def require_float(name: str, type_: ShapedType) -> None:
    """Raises DTypeMismatch unless the elements are FP16, BF16 or FP32."""
    if type_.dtype not in FLOATS:
        raise DTypeMismatch(f"{name}: target holds {type_.dtype}", hint="FP32, FP16 or BF16")


def require_chunked(name: str, type_: ShapedType) -> None:
    """Raises ShapeMismatch for a target without an axis that counts ranks."""
    if type_.rank < 2:
        raise ShapeMismatch(f"{name}: target is {type_}; its first axis counts the ranks")


# ------------------------------------------------------------------------------------- reductions


@op("collective.allreduce", effect=Effect.COMM, tied={0: 0})
def allreduce(
    target: Value,
    signal: Value | None = None,
    *,
    op: ReduceOp = ReduceOp.Sum,
    mode: str = "mesh",
    core_num: int = 1,
) -> Value:
    """Every rank's `target` becomes the combination of all of them. `signal` is [ranks, core_num]
    in mode "mesh" and [2 * (ranks - 1), ranks] in mode "ring", which sums only."""
    ...


@allreduce.type_rule
def allreduce_type(
    target: Value, signal: Value | None, *, op: ReduceOp, mode: str, core_num: int
) -> Type:
    type_ = require_window("allreduce", "target", target)
    require_float("allreduce", type_)
    if mode not in MODES:
        raise ParserTypeError(f"allreduce: mode is {mode!r}", hint="use 'mesh' or 'ring'")
    if mode == "ring" and op is not ReduceOp.Sum:
        raise UnsupportedFeatureError(f"allreduce: mode 'ring' sums only, not {op.name}")
    if core_num < 1:
        raise ParserTypeError(f"allreduce: core_num is {core_num}, not positive")
    if signal is not None:
        _check_allreduce_signal(signal, mode, core_num)
    return type_


def _check_allreduce_signal(signal: Value, mode: str, core_num: int) -> None:
    require_signal("allreduce", "signal", signal)
    found = require_tensor("allreduce", "signal", signal)
    require_rank("allreduce", "signal", found, 2)
    if mode == "mesh" and same_dim(found.shape[1], core_num) is False:
        raise ShapeMismatch(
            f"allreduce: signal is {render_dims(found.shape)}; its second extent is core_num, "
            f"{core_num}"
        )


@allreduce.reference
def allreduce_numpy(target: Any, signal: Any, *, op: ReduceOp, mode: str, core_num: int) -> Array:
    if signal is not None:
        _check_signal_ranks(signal, mode)
    target[...] = combined(of_all_ranks(target), op)
    return target


def _check_signal_ranks(signal: Any, mode: str) -> None:
    ranks = participant().size
    axis, wanted = (0, ranks) if mode == "mesh" else (1, ranks)
    if signal.shape[axis] < wanted:
        raise RuntimeShapeMismatch(
            f"allreduce: signal {list(signal.shape)} of mode '{mode}' for {ranks} ranks"
        )


allreduce.samples(
    lambda: [
        sample(windowed(4, 8, dtype=FP32), windowed(1, 1)),
        sample(windowed(4, 8, dtype=FP16), windowed(1, 1)),
        sample(windowed(4, 8, dtype=FP32), None, op=ReduceOp.Max),
        fails(ArgumentTypeMismatch, tensor(4, 8), windowed(1, 1)),
        fails(DTypeMismatch, windowed(4, 8, dtype=FP32), windowed(1, 1, dtype=FP32)),
        fails(ShapeMismatch, windowed(4, 8, dtype=FP32), windowed(1, 2)),
        fails(
            UnsupportedFeatureError,
            windowed(4, 8, dtype=FP32),
            None,
            op=ReduceOp.Max,
            mode="ring",
        ),
        fails(ParserTypeError, windowed(4, 8, dtype=FP32), None, mode="tree"),
    ]
)


@op("collective.reduce_scatter", effect=Effect.COMM, tied={0: 0})
def reduce_scatter(target: Value, signal: Value, *, op: ReduceOp = ReduceOp.Sum) -> Value:
    """Chunk r of rank r's `target` [ranks, ...] becomes the sum of chunk r of all ranks; the other
    chunks keep what they hold."""
    ...


@reduce_scatter.type_rule
def reduce_scatter_type(target: Value, signal: Value, *, op: ReduceOp) -> Type:
    type_ = require_window("reduce_scatter", "target", target)
    require_float("reduce_scatter", type_)
    require_chunked("reduce_scatter", type_)
    require_signal("reduce_scatter", "signal", signal)
    if op is not ReduceOp.Sum:
        raise UnsupportedFeatureError(f"reduce_scatter: sums only, not {op.name}")
    return type_


@reduce_scatter.reference
def reduce_scatter_numpy(target: Any, signal: Any, *, op: ReduceOp) -> Array:
    require_chunks("reduce_scatter", len(target))
    mine = participant().rank
    target[mine] = combined([part[mine] for part in of_all_ranks(target)], op)
    return target


reduce_scatter.samples(
    lambda: [
        sample(windowed(1, 8, dtype=FP32), windowed(1, 1)),
        fails(
            UnsupportedFeatureError,
            windowed(1, 8, dtype=FP32),
            windowed(1, 1),
            op=ReduceOp.Max,
        ),
        fails(ShapeMismatch, windowed(8, dtype=FP32), windowed(1, 1)),
    ]
)


# -------------------------------------------------------------------------------------- exchanges


def require_apart(name: str, source: Value, target: Value) -> None:
    """Raises ArgumentTypeMismatch when input and target are one buffer."""
    if source is target or (_buffer(source) is not None and _buffer(source) is _buffer(target)):
        raise ArgumentTypeMismatch(f"{name}: input and target are the same buffer")


def _buffer(value: Value) -> Value | None:
    op = value.op
    return op.operands[0] if op is not None and op.name == "comm.window" else None


@op("collective.allgather", effect=Effect.COMM, tied={0: 1})
def allgather(local_data: Value, target: Value, signal: Value) -> Value:
    """Every rank's `target` holds the `local_data` of all ranks in order: stacked, or joined along
    the first axis."""
    ...


@allgather.type_rule
def allgather_type(local_data: Value, target: Value, signal: Value) -> Type:
    local = require_tensor("allgather", "local_data", local_data)
    type_ = require_window("allgather", "target", target)
    require_signal("allgather", "signal", signal)
    require_apart("allgather", local_data, target)
    require_equal_dtypes("allgather", local, type_)
    if not _holds_copies(type_, local):
        raise ShapeMismatch(
            f"allgather: target is {render_dims(type_.shape)}, which is not "
            f"{render_dims(local.shape)} once per rank"
        )
    return type_


def _holds_copies(target: ShapedType, local: ShapedType) -> bool:
    if target.rank == local.rank + 1:
        return same_dims(target.shape[1:], local.shape)
    return target.rank == local.rank and same_dims(target.shape[1:], local.shape[1:])


@allgather.reference
def allgather_numpy(local_data: Any, target: Any, signal: Any) -> Array:
    me = participant()
    if target.size != local_data.size * me.size:
        raise RuntimeShapeMismatch(
            f"allgather: target {list(target.shape)} for {me.size} times {list(local_data.shape)}"
        )
    _send(target, [local_data] * me.size)
    return target


def _send(target: Any, chunks: Sequence[Array]) -> None:
    """Chunk r becomes this rank's chunk of rank r's `target`."""
    me = participant()
    me.barrier()
    for rank, chunk in enumerate(chunks):
        room = me.peer(target, rank).reshape((me.size, *chunk.shape))
        room[me.rank] = chunk
    me.barrier()


allgather.samples(
    lambda: [
        sample(tensor(4, 8, dtype=FP32), windowed(1, 4, 8, dtype=FP32), windowed(1, 1)),
        sample(tensor(4, 8, dtype=FP32), windowed(4, 8, dtype=FP32), windowed(1, 1)),
        fails(
            ShapeMismatch,
            tensor(4, 8, dtype=FP32),
            windowed(1, 4, 7, dtype=FP32),
            windowed(1, 1),
        ),
    ]
)


@op("collective.all_to_all", effect=Effect.COMM, tied={0: 1})
def all_to_all(input: Value, target: Value, signal: Value) -> Value:
    """Chunk s of rank r's `target` [ranks, ...] is chunk r of rank s's `input` [ranks, ...]."""
    ...


@all_to_all.type_rule
def all_to_all_type(input: Value, target: Value, signal: Value) -> Type:
    return exchanged_type("all_to_all", input, target, signal)


def exchanged_type(name: str, source: Value, target: Value, signal: Value) -> DistributedTensorType:
    """Checks an exchange of chunks; the type of its target."""
    given = require_tensor(name, "input", source)
    type_ = require_window(name, "target", target)
    require_signal(name, "signal", signal)
    require_apart(name, source, target)
    require_equal_dtypes(name, given, type_)
    require_chunked(name, type_)
    if not same_dims(given.shape, type_.shape):
        shapes = f"{render_dims(given.shape)} and {render_dims(type_.shape)}"
        raise ShapeMismatch(f"{name}: input and target have shapes {shapes}")
    return type_


@all_to_all.reference
def all_to_all_numpy(input: Any, target: Any, signal: Any) -> Array:
    require_chunks("all_to_all", len(input))
    _send(target, list(input))
    return target


all_to_all.samples(
    lambda: [
        sample(tensor(1, 8, dtype=FP32), windowed(1, 8, dtype=FP32), windowed(1, 1)),
        fails(ShapeMismatch, tensor(1, 8, dtype=FP32), windowed(1, 7, dtype=FP32), windowed(1, 1)),
        fails(
            ArgumentTypeMismatch,
            windowed(1, 8, dtype=FP32),
            tensor(1, 8, dtype=FP32),
            windowed(1, 1),
        ),
    ]
)


@op("collective.all_to_all_v", effect=Effect.COMM, tied={0: 1, 1: 4})
def all_to_all_v(
    input: Value, target: Value, signal: Value, send_counts: Value, recv_counts: Value
) -> tuple[Value, Value]:
    """`all_to_all` of the first `send_counts[s]` rows of each chunk s; rank r's `recv_counts[s]`
    becomes how many rows came from rank s. Other rows of `target` keep what they hold."""
    ...


@all_to_all_v.type_rule
def all_to_all_v_type(
    input: Value, target: Value, signal: Value, send_counts: Value, recv_counts: Value
) -> tuple[Type, Type]:
    type_ = exchanged_type("all_to_all_v", input, target, signal)
    received = require_window("all_to_all_v", "recv_counts", recv_counts)
    for argument, value in (("send_counts", send_counts), ("recv_counts", recv_counts)):
        require_signal("all_to_all_v", argument, value)
        found = require_tensor("all_to_all_v", argument, value)
        if not _counts_ranks(found, type_.shape[0]):
            raise ShapeMismatch(
                f"all_to_all_v: {argument} is {render_dims(found.shape)}, not one number per rank"
            )
    return type_, received


def _counts_ranks(type_: ShapedType, ranks: Dim) -> bool:
    wide = [extent for extent in type_.shape if extent != 1] or [1]
    return len(wide) == 1 and same_dim(wide[0], ranks) is not False


@all_to_all_v.reference
def all_to_all_v_numpy(
    input: Any, target: Any, signal: Any, send_counts: Any, recv_counts: Any
) -> tuple[Array, Array]:
    require_chunks("all_to_all_v", len(input))
    me = participant()
    counts = send_counts.reshape(-1)
    me.barrier()
    for rank, count in enumerate(map(int, counts)):
        if not 0 <= count <= input.shape[1]:
            raise RuntimeShapeMismatch(
                f"all_to_all_v: {count} rows of a chunk of {input.shape[1]} for rank {rank}"
            )
        me.peer(target, rank)[me.rank, :count] = input[rank, :count]
        me.peer(recv_counts, rank).reshape(-1)[me.rank] = count
    me.barrier()
    return target, recv_counts


def _threes(shape: tuple[int, ...], dtype: DType, seed: int) -> Array:
    return np.full(shape, 3, dtype.numpy)


all_to_all_v.samples(
    lambda: [
        sample(
            tensor(1, 4, 8, dtype=FP32),
            windowed(1, 4, 8, dtype=FP32),
            windowed(1, 1),
            tensor(1, dtype=INT32, make=_threes),
            windowed(1),
        ),
        fails(
            ShapeMismatch,
            tensor(1, 4, 8, dtype=FP32),
            windowed(1, 4, 8, dtype=FP32),
            windowed(1, 1),
            tensor(2, 2, dtype=INT32, make=_threes),
            windowed(1),
        ),
    ]
)


@op("collective.broadcast", effect=Effect.COMM, tied={0: 0})
def broadcast(target: Value, signal: Value, *, root: int) -> Value:
    """Every rank's `target` becomes that of rank `root`."""
    ...


@broadcast.type_rule
def broadcast_type(target: Value, signal: Value, *, root: int) -> Type:
    require_signal("broadcast", "signal", signal)
    if root < 0:
        raise ParserTypeError(f"broadcast: root is {root}, not the number of a rank")
    return require_window("broadcast", "target", target)


@broadcast.reference
def broadcast_numpy(target: Any, signal: Any, *, root: int) -> Array:
    if root >= participant().size:
        raise RuntimeShapeMismatch(f"broadcast: root {root} of {participant().size} ranks")
    target[...] = of_all_ranks(target)[root]
    return target


broadcast.samples(
    lambda: [
        sample(windowed(4, 8, dtype=FP32), windowed(1, 1), root=0),
        fails(ParserTypeError, windowed(4, 8, dtype=FP32), windowed(1, 1), root=-1),
    ]
)


@op("collective.barrier", effect=Effect.COMM, tied={0: 0})
def barrier(signal: Value) -> Value:
    """Waits until every rank is here."""
    ...


@barrier.type_rule
def barrier_type(signal: Value) -> Type:
    require_signal("barrier", "signal", signal)
    return require_window("barrier", "signal", signal)


@barrier.reference
def barrier_numpy(signal: Any) -> Array:
    participant().barrier()
    return signal


barrier.samples(
    lambda: [sample(windowed(1, 1)), fails(ArgumentTypeMismatch, tensor(1, dtype=INT32))]
)


# ------------------------------------------------------------------------------------------ names


def _windows(name: str, **given: Any) -> list[Value]:
    return [require_value(name, argument, value) for argument, value in given.items()]


@allreduce.spelling("pld.tensor.allreduce", "pld.allreduce")
def allreduce_spelling(
    target: Any,
    signal: Any = None,
    *,
    op: ReduceOp = ReduceOp.Sum,
    mode: str = "mesh",
    core_num: int = 1,
) -> Value:
    """The targets of all ranks combined, in place on each; a HOST may leave the signal out."""
    (value,) = _windows("allreduce", target=target)
    op = require_enum("allreduce", "op", op, ReduceOp)
    return allreduce(value, signal, op=op, mode=mode, core_num=core_num)


@reduce_scatter.spelling("pld.tensor.reduce_scatter", "pld.reduce_scatter")
def reduce_scatter_spelling(target: Any, signal: Any, *, op: ReduceOp = ReduceOp.Sum) -> Value:
    """Each rank gets, in its own chunk, the sum of that chunk of all ranks."""
    return reduce_scatter(*_windows("reduce_scatter", target=target, signal=signal), op=op)


@allgather.spelling("pld.tensor.allgather", "pld.allgather")
def allgather_spelling(local_data: Any, target: Any, signal: Any) -> Value:
    """Each rank gets the data of all ranks, in order."""
    return allgather(*_windows("allgather", local_data=local_data, target=target, signal=signal))


@all_to_all.spelling("pld.tensor.all_to_all", "pld.all_to_all")
def all_to_all_spelling(input: Any, target: Any, signal: Any) -> Value:
    """Each rank sends chunk s of its input to rank s."""
    return all_to_all(*_windows("all_to_all", input=input, target=target, signal=signal))


@all_to_all_v.spelling("pld.tensor.all_to_all_v", "pld.all_to_all_v")
def all_to_all_v_spelling(
    input: Any, target: Any, signal: Any, send_counts: Any, recv_counts: Any
) -> tuple[Value, Value]:
    """Each rank sends the first `send_counts[s]` rows of chunk s to rank s."""
    values = _windows(
        "all_to_all_v",
        input=input,
        target=target,
        signal=signal,
        send_counts=send_counts,
        recv_counts=recv_counts,
    )
    return all_to_all_v(*values)


@broadcast.spelling("pld.tensor.broadcast", "pld.broadcast")
def broadcast_spelling(target: Any, signal: Any, *, root: Any) -> Value:
    """The target of rank `root` on all ranks."""
    known = constant_of(root) if isinstance(root, Value) else root
    if not isinstance(known, int):
        raise ParserTypeError("broadcast: root is not a constant")
    return broadcast(*_windows("broadcast", target=target, signal=signal), root=known)


@barrier.spelling("pld.tensor.barrier", "pld.barrier")
def barrier_spelling(signal: Any) -> Value:
    """A barrier of all ranks."""
    return barrier(*_windows("barrier", signal=signal))
