"""What moves between ranks: put and get of regions, remote load and store of tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import FP32, INT32
from tilewright.errors import ArgumentTypeMismatch, DTypeMismatch, ShapeMismatch
from tilewright.ir.core import Operation, Value
from tilewright.ir.enums import AtomicType, Effect, MemorySpace
from tilewright.ir.opdef import op, op_arguments, spelled
from tilewright.ir.types import Shape, ShapedType, Type, render_dims
from tilewright.ops.adapt import as_shape, never, require_value
from tilewright.ops.comm import as_peer, require_peer, require_window
from tilewright.ops.extents import as_dims, same_dims
from tilewright.ops.memory import load_numpy, write_window, written_window
from tilewright.ops.participant import participant
from tilewright.ops.pl_memory import from_accumulator, valid_attr
from tilewright.ops.regions import region, require_inside
from tilewright.ops.regions import require_window as require_part
from tilewright.ops.rules import (
    Offsets,
    require_length,
    require_shaped,
    require_static,
    require_tensor,
    require_tile,
    tile_type,
)
from tilewright.ops.sampling import fails, index, indices, sample, tensor, tile
from tilewright.ops.sampling import window as windowed
from tilewright.ops.words import Array


@op("comm.put", effect=Effect.COMM, tied={0: 0})
def put(
    dst: Value,
    peer: Value,
    src: Value,
    dst_offsets: Offsets | None = None,
    src_offsets: Offsets | None = None,
    *,
    shape: Shape | None = None,
    atomic: AtomicType = AtomicType.None_,
    chunk_rows: int = 0,
    chunk_cols: int = 0,
    pipeline: bool = False,
) -> Value:
    """Writes the region of `src` at `src_offsets`, of extents `shape`, into the part of `dst` that
    rank `peer` has, at `dst_offsets`. By default the whole tensors; chunks are hints."""
    ...


def moved_region(
    name: str,
    dst: ShapedType,
    src: ShapedType,
    to: Offsets | None,
    since: Offsets | None,
    shape: Shape | None,
) -> None:
    """Checks the two windows of a transfer; raises the errors that they deserve."""
    if dst.dtype is not src.dtype:
        raise DTypeMismatch(f"{name}: dst holds {dst.dtype} and src {src.dtype}")
    if shape is None:
        if to is not None or since is not None:
            raise ShapeMismatch(f"{name}: offsets need shape=", hint="How much is moved?")
        if not same_dims(dst.shape, src.shape):
            shapes = f"{render_dims(dst.shape)} and {render_dims(src.shape)}"
            raise ShapeMismatch(f"{name}: dst and src have shapes {shapes}")
        return
    for argument, type_, offsets in (("dst", dst, to), ("src", src, since)):
        require_length(name, f"shape for {argument}", shape, type_.rank)
        starts = as_dims(offsets) if offsets is not None else (0,) * type_.rank
        require_length(name, f"{argument}_offsets", starts, type_.rank)
        require_inside(name, type_.shape, starts, shape)


@put.type_rule
def put_type(
    dst: Value,
    peer: Value,
    src: Value,
    dst_offsets: Offsets,
    src_offsets: Offsets,
    *,
    shape: Shape | None,
    atomic: AtomicType,
    chunk_rows: int,
    chunk_cols: int,
    pipeline: bool,
) -> Type:
    require_peer("put", peer)
    type_, source = require_window("put", "dst", dst), require_tensor("put", "src", src)
    moved_region("put", type_, source, dst_offsets, src_offsets, shape)
    return type_


def transfer(target: Any, source: Any, to: Any, since: Any, shape: Any, atomic: AtomicType) -> None:
    """Writes a region of `source` into `target`."""
    extents = source.shape if shape is None else shape
    start = (0,) * target.ndim if to is None else to
    begin = (0,) * source.ndim if since is None else since
    given = np.array(source[region(begin, extents, source.shape)])
    write_window(given, start, target, None, atomic)


@put.reference
def put_numpy(
    dst: Any,
    peer: Any,
    src: Any,
    dst_offsets: Any,
    src_offsets: Any,
    *,
    shape: Any,
    atomic: AtomicType,
    chunk_rows: int,
    chunk_cols: int,
    pipeline: bool,
) -> Array:
    transfer(participant().peer(dst, int(peer)), src, dst_offsets, src_offsets, shape, atomic)
    return dst


def _offsets(given: Any) -> list[Any] | None:
    return None if given is None else list(given)


def _extents(given: Any) -> Shape | None:
    return None if given is None else as_shape(given)


def _ends(
    name: str, dst: Any, peer: Any, src: Any, to: Any, since: Any
) -> tuple[Value, Value, Value, list[Any] | None, list[Any] | None]:
    """The operands of a transfer, as values."""
    target, source = require_value(name, "dst", dst), require_value(name, "src", src)
    return target, as_peer(name, peer), source, _offsets(to), _offsets(since)


def put_tensor(
    dst: Any,
    peer: Any,
    src: Any,
    dst_offsets: Any = None,
    src_offsets: Any = None,
    shape: Any = None,
    *,
    atomic: AtomicType = AtomicType.None_,
    chunk_rows: int = 0,
    chunk_cols: int = 0,
    pipeline: bool = False,
) -> Value:
    """Writes `src` (or a region of it) into the part of `dst` that rank `peer` has."""
    return put(
        *_ends("put", dst, peer, src, dst_offsets, src_offsets),
        shape=_extents(shape),
        atomic=atomic,
        chunk_rows=chunk_rows,
        chunk_cols=chunk_cols,
        pipeline=pipeline,
    )


def put_tile(
    dst: Any,
    peer: Any,
    src: Any,
    stage: Any,
    stage2: Any = None,
    dst_offsets: Any = None,
    src_offsets: Any = None,
    shape: Any = None,
    *,
    atomic: AtomicType = AtomicType.None_,
) -> Value:
    """`pld.tensor.put` with its staging tiles given; they hold nothing afterwards."""
    require_stages("put", src, stage, stage2)
    return put_tensor(dst, peer, src, dst_offsets, src_offsets, shape, atomic=atomic)


def require_stages(name: str, moved: Any, *stages: Any) -> None:
    """Raises the error that staging tiles deserve."""
    dtype = require_tensor(name, "src", require_value(name, "src", moved)).dtype
    for stage in stages:
        if stage is not None:
            type_ = require_tile(name, "stage", require_value(name, "stage", stage))
            if type_.dtype is not dtype:
                raise DTypeMismatch(f"{name}: stage holds {type_.dtype}, not {dtype}")


spelled(put, "pld.tensor.put", "pld.put")(put_tensor)
spelled(put, "pld.tile.put", render=never)(put_tile)


@op("comm.get", effect=Effect.COMM, tied={0: 0})
def get(
    dst: Value,
    peer: Value,
    src: Value,
    dst_offsets: Offsets | None = None,
    src_offsets: Offsets | None = None,
    *,
    shape: Shape | None = None,
    chunk_rows: int = 0,
    chunk_cols: int = 0,
    pipeline: bool = False,
) -> Value:
    """Writes into local `dst` what the part of `src` that rank `peer` has holds: whole tensors, or
    the region of extents `shape` at the offsets. Chunks are hints."""
    ...


@get.type_rule
def get_type(
    dst: Value,
    peer: Value,
    src: Value,
    dst_offsets: Offsets,
    src_offsets: Offsets,
    *,
    shape: Shape | None,
    chunk_rows: int,
    chunk_cols: int,
    pipeline: bool,
) -> Type:
    require_peer("get", peer)
    type_, source = require_tensor("get", "dst", dst), require_window("get", "src", src)
    moved_region("get", type_, source, dst_offsets, src_offsets, shape)
    return type_


@get.reference
def get_numpy(
    dst: Any,
    peer: Any,
    src: Any,
    dst_offsets: Any,
    src_offsets: Any,
    *,
    shape: Any,
    chunk_rows: int,
    chunk_cols: int,
    pipeline: bool,
) -> Array:
    transfer(
        dst, participant().peer(src, int(peer)), dst_offsets, src_offsets, shape, AtomicType.None_
    )
    return dst


def get_tensor(
    dst: Any,
    peer: Any,
    src: Any,
    dst_offsets: Any = None,
    src_offsets: Any = None,
    shape: Any = None,
    *,
    chunk_rows: int = 0,
    chunk_cols: int = 0,
    pipeline: bool = False,
) -> Value:
    """Writes into local `dst` what rank `peer` has in `src` (or a region of it)."""
    return get(
        *_ends("get", dst, peer, src, dst_offsets, src_offsets),
        shape=_extents(shape),
        chunk_rows=chunk_rows,
        chunk_cols=chunk_cols,
        pipeline=pipeline,
    )


def get_tile(
    dst: Any,
    peer: Any,
    src: Any,
    stage: Any,
    stage2: Any = None,
    dst_offsets: Any = None,
    src_offsets: Any = None,
    shape: Any = None,
) -> Value:
    """`pld.tensor.get` with its staging tiles given; they hold nothing afterwards."""
    require_stages("get", src, stage, stage2)
    return get_tensor(dst, peer, src, dst_offsets, src_offsets, shape)


spelled(get, "pld.tensor.get", "pld.get")(get_tensor)
spelled(get, "pld.tile.get", render=never)(get_tile)


# -------------------------------------------------------------------------- remote load and store


@op("comm.remote_load", effect=Effect.COMM)
def remote_load(
    target: Value,
    peer: Value,
    offsets: Sequence[Value],
    valid_shape: Sequence[Value] | None = None,
    *,
    shape: Shape,
) -> Value:
    """A tile of extents `shape` with the window at `offsets` of the part that rank `peer` has;
    valid inside `valid_shape`, 0 outside."""
    ...


@remote_load.type_rule
def remote_load_type(
    target: Value,
    peer: Value,
    offsets: Sequence[Value],
    valid_shape: Sequence[Value] | None,
    *,
    shape: Shape,
) -> Type:
    require_peer("remote_load", peer)
    type_ = require_window("remote_load", "target", target)
    require_static("remote_load", "shape", shape)
    valid = require_part("remote_load", type_, as_dims(offsets), shape, valid_shape, False)
    return tile_type(shape, type_.dtype, MemorySpace.Vec, valid)


@remote_load.reference
def remote_load_numpy(
    target: Any, peer: Any, offsets: Any, valid_shape: Any, *, shape: tuple[int, ...]
) -> Array:
    part = np.asarray(participant().peer(target, int(peer)))
    return load_numpy(
        part, offsets, valid_shape, shapes=shape, target_memory=MemorySpace.Vec, clamp=False
    )


@remote_load.spelling("pld.tile.remote_load", "pld.remote_load")
def remote_load_spelling(
    target: Any, peer: Any, offsets: Any, shape: Any, valid_shape: Any = None
) -> Value:
    """A tile with a window of the part of `target` that rank `peer` has."""
    return remote_load(
        require_value("remote_load", "target", target),
        as_peer("remote_load", peer),
        list(offsets),
        _offsets(valid_shape),
        shape=as_shape(shape),
    )


@op("comm.remote_store", effect=Effect.COMM, tied={0: 1})
def remote_store(
    src: Value,
    target: Value,
    peer: Value,
    offsets: Sequence[Value],
    *,
    valid: Shape | None = None,
    atomic: AtomicType = AtomicType.None_,
) -> Value:
    """Writes the valid region of a tile or tensor at `offsets` of the part of `target` that rank
    `peer` has. With `atomic` Add the elements are added to what is there."""
    ...


@remote_store.type_rule
def remote_store_type(
    src: Value,
    target: Value,
    peer: Value,
    offsets: Sequence[Value],
    *,
    valid: Shape | None,
    atomic: AtomicType,
) -> Type:
    require_peer("remote_store", peer)
    source = require_shaped("remote_store", "src", src)
    type_ = require_window("remote_store", "target", target)
    written_window("remote_store", source, type_, as_dims(offsets), valid)
    return type_


@remote_store.reference
def remote_store_numpy(
    src: Any, target: Any, peer: Any, offsets: Any, *, valid: Any, atomic: AtomicType
) -> Array:
    write_window(src, offsets, participant().peer(target, int(peer)), valid, atomic)
    return target


def _store_arguments(operation: Operation) -> dict[str, Any]:
    given = op_arguments(operation)
    del given["valid"]
    return given


def remote_store_spelling(
    src: Any, target: Any, peer: Any, offsets: Any, *, atomic: AtomicType = AtomicType.None_
) -> Value:
    """Writes a tile or tensor into the part of `target` that rank `peer` has."""
    source = require_value("remote_store", "src", src)
    whole = require_value("remote_store", "target", target)
    source = from_accumulator(source, require_tensor("remote_store", "target", whole).dtype)
    return remote_store(
        source,
        whole,
        as_peer("remote_store", peer),
        list(offsets),
        valid=valid_attr(source),
        atomic=atomic,
    )


def remote_store_tile(
    src_tile: Any, target: Any, peer: Any, offsets: Any, *, atomic: AtomicType = AtomicType.None_
) -> Value:
    """Writes a tile into the part of `target` that rank `peer` has."""
    require_tile("remote_store", "src_tile", require_value("remote_store", "src_tile", src_tile))
    return remote_store_spelling(src_tile, target, peer, offsets, atomic=atomic)


spelled(remote_store, "pld.remote_store", render=_store_arguments)(remote_store_spelling)
spelled(remote_store, "pld.tensor.remote_store", render=never)(remote_store_spelling)
spelled(remote_store, "pld.tile.remote_store", render=never)(remote_store_tile)


put.samples(
    lambda: [
        sample(windowed(4, 8, dtype=FP32), index(0), tensor(4, 8)),
        sample(
            windowed(4, 8, dtype=FP32),
            index(0),
            tensor(2, 8),
            indices(1, 0),
            indices(0, 0),
            shape=(2, 8),
        ),
        sample(windowed(4, 8, dtype=FP32), index(0), tensor(4, 8), atomic=AtomicType.Add),
        fails(ArgumentTypeMismatch, tensor(4, 8), index(0), tensor(4, 8)),
        fails(ShapeMismatch, windowed(4, 8, dtype=FP32), index(0), tensor(2, 8)),
        fails(DTypeMismatch, windowed(4, 8, dtype=FP32), index(0), tensor(4, 8, dtype=INT32)),
    ]
)
get.samples(
    lambda: [
        sample(tensor(4, 8), index(0), windowed(4, 8, dtype=FP32)),
        sample(
            tensor(4, 8), index(0), windowed(2, 8, dtype=FP32), indices(1, 0), None, shape=(2, 8)
        ),
        fails(ArgumentTypeMismatch, windowed(4, 8, dtype=FP32), index(0), tensor(4, 8)),
        fails(ShapeMismatch, tensor(4, 8), index(0), windowed(4, 8, dtype=FP32), indices(0, 0)),
    ]
)
remote_load.samples(
    lambda: [
        sample(windowed(4, 8, dtype=FP32), index(0), indices(1, 0), shape=(2, 8)),
        sample(windowed(4, 8, dtype=FP32), index(0), indices(3, 0), indices(1, 8), shape=(2, 8)),
        fails(ShapeMismatch, windowed(4, 8, dtype=FP32), index(0), indices(3, 0), shape=(2, 8)),
        fails(ArgumentTypeMismatch, tensor(4, 8), index(0), indices(1, 0), shape=(2, 8)),
    ]
)
remote_store.samples(
    lambda: [
        sample(tile(2, 8), windowed(4, 8, dtype=FP32), index(0), indices(1, 0)),
        sample(
            tensor(2, 8), windowed(4, 8, dtype=FP32), index(0), indices(1, 0), atomic=AtomicType.Add
        ),
        sample(
            tile(2, 8, valid=(1, 8)),
            windowed(4, 8, dtype=FP32),
            index(0),
            indices(3, 0),
            valid=(1, 8),
        ),
        fails(ArgumentTypeMismatch, tile(2, 8), tensor(4, 8), index(0), indices(1, 0)),
        fails(ShapeMismatch, tile(2, 8), windowed(4, 8, dtype=FP32), index(0), indices(3, 0)),
    ]
)
