"""Ranks and windows: symmetric memory that ranks share, its context, and signals in it.

A notify releases what its rank has written before it; a wait that it satisfies acquires that. A
window is one memory: every version of it shows what is there now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tilewright.dtypes import FP32, INDEX, INT32, INT64, DType
from tilewright.errors import (
    ArgumentTypeMismatch,
    DTypeMismatch,
    ParserTypeError,
    RankMismatch,
    ShapeMismatch,
)
from tilewright.ir.core import Value
from tilewright.ir.enums import Effect, NotifyOp, WaitCmp
from tilewright.ir.opdef import op, spelled
from tilewright.ir.types import (
    CommCtxType,
    DistributedTensorType,
    PtrType,
    ScalarType,
    Shape,
    Type,
    render_dims,
)
from tilewright.ops.adapt import as_dtype, as_index, as_scalar, as_shape, require_value
from tilewright.ops.extents import as_dims
from tilewright.ops.participant import participant
from tilewright.ops.regions import point, require_inside
from tilewright.ops.rules import (
    require_kind,
    require_length,
    require_scalar,
    require_static,
    require_tensor,
)
from tilewright.ops.sampling import fails, index, indices, sample, scalar, tensor
from tilewright.ops.sampling import window as windowed
from tilewright.ops.words import Array


def require_window(name: str, argument: str, value: Value) -> DistributedTensorType:
    """The type of a tensor that other ranks can reach; raises ArgumentTypeMismatch."""
    return require_kind(name, argument, value, DistributedTensorType, "a window of every rank")


def require_peer(name: str, peer: Value) -> None:
    """Raises ArgumentTypeMismatch unless `peer` is an integer scalar."""
    if not require_scalar(name, "peer", peer).dtype.is_int():
        raise ArgumentTypeMismatch(f"{name}: peer is {peer.type}, not the number of a rank")


def require_signal(name: str, argument: str, value: Value) -> None:
    """Raises ArgumentTypeMismatch, DTypeMismatch unless `value` is a tensor of INT32 signals."""
    type_ = require_tensor(name, argument, value)
    if type_.dtype is not INT32:
        raise DTypeMismatch(f"{name}: {argument} is {type_}; signals are pl.INT32")


@op("comm.world_size", effect=Effect.READ)
def world_size() -> Value:
    """How many ranks the program runs on, as INT64."""
    ...


@world_size.type_rule
def world_size_type() -> Type:
    return ScalarType(INT64)


@world_size.reference
def world_size_numpy() -> Any:
    return np.int64(participant().size)


world_size.samples(lambda: [sample()])


@op("comm.alloc_window", effect=Effect.COMM)
def alloc_window(*, nbytes: int, name: str = "") -> Value:
    """`nbytes` zeroed bytes at the same address of every rank."""
    ...


@alloc_window.type_rule
def alloc_window_type(*, nbytes: int, name: str) -> Type:
    if nbytes <= 0:
        raise ShapeMismatch(f"alloc_window_buffer: the size {nbytes} is not positive")
    return PtrType()


@alloc_window.reference
def alloc_window_numpy(*, nbytes: int, name: str) -> Any:
    return participant().allocate(nbytes, name)


@op("comm.window", effect=Effect.COMM)
def window(buf: Value, *, shape: Shape, dtype: DType) -> Value:
    """The window buffer `buf` as a distributed tensor, from its first byte."""
    ...


@window.type_rule
def window_type(buf: Value, *, shape: Shape, dtype: DType) -> Type:
    if not isinstance(buf.type, PtrType):
        raise ArgumentTypeMismatch(f"window: buf is {buf.type}, not a window buffer")
    size = buf.op.attrs.get("nbytes") if buf.op is not None else None
    if isinstance(size, int) and all(isinstance(extent, int) for extent in shape):
        needed = prod(map(int, shape)) * dtype.nbytes
        if needed > size:
            raise ShapeMismatch(
                f"window: {render_dims(shape)} of {dtype} takes {needed} bytes, more than {size}",
                hint="the size of a window buffer counts bytes",
            )
    return DistributedTensorType(shape, dtype)


@window.reference
def window_numpy(buf: Any, *, shape: tuple[int, ...], dtype: DType) -> Any:
    size = prod(shape) * dtype.numpy.itemsize
    return buf[:size].view(dtype.numpy).reshape(shape)


@op("comm.context", effect=Effect.READ)
def context(window: Value) -> Value:
    """The communication context of a window."""
    ...


@context.type_rule
def context_type(window: Value) -> Type:
    require_window("get_comm_ctx", "dist_tensor", window)
    return CommCtxType()


@context.reference
def context_numpy(window: Any) -> Any:
    return window


def require_context(name: str, ctx: Value) -> None:
    """Raises ArgumentTypeMismatch unless `ctx` is a communication context."""
    if not isinstance(ctx.type, CommCtxType):
        raise ArgumentTypeMismatch(
            f"{name}: ctx is {ctx.type}, not a communication context",
            hint="get it with pld.get_comm_ctx(window)",
        )


@op("comm.rank", effect=Effect.READ)
def rank(ctx: Value) -> Value:
    """The rank that runs this, as INT32."""
    ...


@rank.type_rule
def rank_type(ctx: Value) -> Type:
    require_context("rank", ctx)
    return ScalarType(INT32)


@rank.reference
def rank_numpy(ctx: Any) -> Any:
    return np.int32(participant().rank)


@op("comm.nranks", effect=Effect.READ)
def nranks(ctx: Value) -> Value:
    """How many ranks share the window of a context, as INT32."""
    ...


@nranks.type_rule
def nranks_type(ctx: Value) -> Type:
    require_context("nranks", ctx)
    return ScalarType(INT32)


@nranks.reference
def nranks_numpy(ctx: Any) -> Any:
    return np.int32(participant().size)


def require_slot(name: str, signal: Value, offsets: Sequence[Value], number: Value) -> Type:
    """The type of a window of signals, one slot of which is compared with or set to a number."""
    type_ = require_window(name, "the signal", signal)
    require_signal(name, "the signal", signal)
    require_length(name, "offsets", offsets, type_.rank)
    require_inside(name, type_.shape, as_dims(offsets), (1,) * type_.rank)
    if number.type != ScalarType(INT32):
        raise DTypeMismatch(f"{name}: the number is {number.type}, not pl.INT32")
    return type_


@op("comm.notify", effect=Effect.COMM, tied={0: 0})
def notify(
    target: Value, peer: Value, offsets: Sequence[Value], value: Value, *, op: NotifyOp
) -> Value:
    """Sets, or adds to, slot `offsets` of the part of `target` that rank `peer` has."""
    ...


@notify.type_rule
def notify_type(
    target: Value, peer: Value, offsets: Sequence[Value], value: Value, *, op: NotifyOp
) -> Type:
    require_peer("notify", peer)
    return require_slot("notify", target, offsets, value)


@notify.reference
def notify_numpy(target: Any, peer: Any, offsets: Any, value: Any, *, op: NotifyOp) -> Array:
    part = participant().peer(target, int(peer))
    with np.errstate(over="ignore"):
        at = point(offsets, part.shape)
        part[at] = value if op is NotifyOp.Set else part[at] + value
    return target


notify.samples(
    lambda: [
        sample(windowed(4, 1), index(0), indices(2, 0), scalar(5, INT32), op=NotifyOp.Set),
        sample(windowed(4), index(0), indices(3), scalar(5, INT32), op=NotifyOp.AtomicAdd),
        fails(
            DTypeMismatch,
            windowed(4, dtype=FP32),
            index(0),
            indices(0),
            scalar(5, INT32),
            op=NotifyOp.Set,
        ),
        fails(
            ArgumentTypeMismatch,
            tensor(4, dtype=INT32),
            index(0),
            indices(0),
            scalar(5, INT32),
            op=NotifyOp.Set,
        ),
        fails(ShapeMismatch, windowed(4), index(0), indices(4), scalar(5, INT32), op=NotifyOp.Set),
        fails(
            RankMismatch, windowed(4), index(0), indices(0, 0), scalar(5, INT32), op=NotifyOp.Set
        ),
    ]
)


@op("comm.wait", effect=Effect.COMM, tied={0: 0})
def wait(signal: Value, offsets: Sequence[Value], expected: Value, *, cmp: WaitCmp) -> Value:
    """`signal` once its local slot `offsets` equals, or is at least, `expected`; waits for that."""
    ...


@wait.type_rule
def wait_type(signal: Value, offsets: Sequence[Value], expected: Value, *, cmp: WaitCmp) -> Type:
    return require_slot("wait", signal, offsets, expected)


@wait.reference
def wait_numpy(signal: Any, offsets: Any, expected: Any, *, cmp: WaitCmp) -> Array:
    participant().wait(*condition(signal, offsets, expected, cmp))
    return signal


def condition(
    signal: Any, offsets: Any, expected: Any, cmp: WaitCmp
) -> tuple[Callable[[], bool], str]:
    """Whether a slot satisfies a comparison, and what that is called."""
    at = point(offsets, signal.shape)
    sign = "==" if cmp is WaitCmp.Eq else ">="

    def ready() -> bool:
        return bool(signal[at] == expected if cmp is WaitCmp.Eq else signal[at] >= expected)

    return ready, f"signal {list(map(int, offsets))} {sign} {int(expected)}"


wait.samples(
    lambda: [
        sample(windowed(2), indices(1), scalar(0, INT32), cmp=WaitCmp.Ge),
        sample(windowed(2), indices(0), scalar(0, INT32), cmp=WaitCmp.Eq),
        fails(DTypeMismatch, windowed(2), indices(0), scalar(0, INDEX), cmp=WaitCmp.Eq),
    ]
)


@op("comm.defer_wait", effect=Effect.COMM, tied={0: 0})
def defer_wait(signal: Value, offsets: Sequence[Value], expected: Value, *, cmp: WaitCmp) -> Value:
    """Lets the function's task be done only when the local slot is at least `expected`."""
    ...


@defer_wait.type_rule
def defer_wait_type(
    signal: Value, offsets: Sequence[Value], expected: Value, *, cmp: WaitCmp
) -> Type:
    if cmp is not WaitCmp.Ge:
        raise ParserTypeError("defer_wait: cmp must be pld.WaitCmp.Ge")
    return require_slot("defer_wait", signal, offsets, expected)


@defer_wait.reference
def defer_wait_numpy(signal: Any, offsets: Any, expected: Any, *, cmp: WaitCmp) -> Array:
    participant().defer(*condition(signal, offsets, expected, cmp))
    return signal


defer_wait.samples(
    lambda: [
        sample(windowed(2), indices(1), scalar(0, INT32), cmp=WaitCmp.Ge),
        fails(ParserTypeError, windowed(2), indices(0), scalar(0, INT32), cmp=WaitCmp.Eq),
    ]
)


# ------------------------------------------------------------------------------------------ names


def as_peer(name: str, given: Any) -> Value:
    """The number of a rank as an operand."""
    return given if isinstance(given, Value) else as_scalar(name, "peer", given, INDEX)


@world_size.spelling("pld.world_size", "pld.system.world_size")
def world_size_spelling() -> Value:
    """The number of ranks, as INT64; for HOST functions."""
    return world_size()


def alloc_window_buffer(size: Any, *, dtype: Any = None, name: str = "") -> Value:
    """A window buffer of `size` bytes, or of a shape of elements of `dtype`, zero at first."""
    sizes = require_static("alloc_window_buffer", "size", as_shape(as_index(size)))
    if isinstance(size, (list, tuple)) and dtype is None:
        raise ParserTypeError(
            "alloc_window_buffer: a shape needs dtype=", hint="or give the size in bytes"
        )
    width = 1 if dtype is None else as_dtype(dtype).nbytes
    return alloc_window(nbytes=prod(sizes) * width, name=name)


spelled(
    alloc_window,
    "pld.alloc_window_buffer",
    "pld.tensor.alloc_window_buffer",
    render=lambda operation: {"size": operation.attrs["nbytes"], "name": operation.attrs["name"]},
)(alloc_window_buffer)


@window.spelling("pld.window", "pld.tensor.window")
def window_spelling(buf: Any, shape: Sequence[Any], *, dtype: Any) -> Value:
    """A window buffer as a distributed tensor of `shape` and `dtype`."""
    return window(require_value("window", "buf", buf), shape=as_shape(shape), dtype=as_dtype(dtype))


def get_comm_ctx(dist_tensor: Any) -> Value:
    """The communication context of a window."""
    return context(require_value("get_comm_ctx", "dist_tensor", dist_tensor))


spelled(
    context,
    "pld.get_comm_ctx",
    "pld.system.get_comm_ctx",
    render=lambda operation: {"dist_tensor": operation.operands[0]},
)(get_comm_ctx)


@rank.spelling("pld.rank", "pld.system.rank")
def rank_spelling(ctx: Any) -> Value:
    """The rank that runs this, as INT32."""
    return rank(require_value("rank", "ctx", ctx))


@nranks.spelling("pld.nranks", "pld.system.nranks")
def nranks_spelling(ctx: Any) -> Value:
    """How many ranks share the window of a context, as INT32."""
    return nranks(require_value("nranks", "ctx", ctx))


def require_enum(name: str, argument: str, given: Any, kind: Any) -> Any:
    """`given` if it is a member of `kind`; raises ParserTypeError."""
    if not isinstance(given, kind):
        names = ", ".join(f"pld.{kind.__name__}.{member.name}" for member in kind)
        raise ParserTypeError(f"{name}: {argument} is {given!r}", hint=f"use one of {names}")
    return given


@notify.spelling("pld.system.notify", "pld.notify")
def notify_spelling(target: Any, peer: Any, offsets: Any, value: Any, *, op: NotifyOp) -> Value:
    """Sets, or adds to, a slot of the signals that rank `peer` has."""
    return notify(
        require_value("notify", "target", target),
        as_peer("notify", peer),
        as_index(offsets),
        as_scalar("notify", "value", value, INT32),
        op=require_enum("notify", "op", op, NotifyOp),
    )


@wait.spelling("pld.system.wait", "pld.wait")
def wait_spelling(signal: Any, offsets: Any, expected: Any, *, cmp: WaitCmp) -> Value:
    """Waits until the local slot equals (Eq), or is at least (Ge), `expected`."""
    return wait(
        require_value("wait", "signal", signal),
        as_index(offsets),
        as_scalar("wait", "expected", expected, INT32),
        cmp=require_enum("wait", "cmp", cmp, WaitCmp),
    )


@defer_wait.spelling("pld.system.defer_wait", "pld.defer_wait")
def defer_wait_spelling(signal: Any, offsets: Any, expected: Any, *, cmp: WaitCmp) -> Value:
    """Makes the task complete only when the local slot is at least `expected`."""
    return defer_wait(
        require_value("defer_wait", "signal", signal),
        as_index(offsets),
        as_scalar("defer_wait", "expected", expected, INT32),
        cmp=require_enum("defer_wait", "cmp", cmp, WaitCmp),
    )
