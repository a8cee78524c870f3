"""Pipes between the cube core and the vector lanes of a group: push, pop, free, shard, gather.

A pipe is a ring of slots. A push fills a slot and waits while none is free; a pop takes the oldest
filled slot and waits while there is none; a free gives the oldest popped slot back. `split` says
how a tile of the cube core is divided between the two lanes: 0 not at all (every lane has its
own), 1 and 3 rows, 2 and 4 columns; of an odd extent the first lane has one more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import INT32, DType
from tilewright.errors import ParserTypeError, RuntimeShapeMismatch, ShapeMismatch
from tilewright.ir.affine import as_expr
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import Effect, FunctionType, MemorySpace, SplitMode
from tilewright.ir.opdef import op
from tilewright.ir.structure import Read, Structure, domain
from tilewright.ir.types import ScalarType, Shape, ShapedType, Type
from tilewright.ops.adapt import as_dtype, as_shape, require_value
from tilewright.ops.extents import as_dim
from tilewright.ops.participant import participant
from tilewright.ops.rules import (
    moved_type,
    require_fully_valid,
    require_shaped,
    require_static,
    require_tile,
    tile_type,
)
from tilewright.ops.sampling import fails, index, sample, tile
from tilewright.ops.shape import rearrangement
from tilewright.ops.words import Array

AIC, AIV = FunctionType.AIC, FunctionType.AIV
SPLIT_AXES: dict[int, int | None] = {0: None, 1: 0, 2: 1, 3: 0, 4: 1}
"""The axis that each `split` divides."""
MODE_AXES: dict[SplitMode, int | None] = {
    SplitMode.NONE: None,
    SplitMode.UP_DOWN: 0,
    SplitMode.LEFT_RIGHT: 1,
}

RETURNED = -1
"""The pipes from this number down carry what the sides of a group return."""


def require_split(name: str, split: Any) -> None:
    """Raises ParserTypeError unless `split` is 0 to 4."""
    if split not in SPLIT_AXES:
        raise ParserTypeError(f"{name}: split is {split!r}, not 0 to 4")


def lane_parts(array: Array, split: int, lanes: int) -> list[Array]:
    """What each of `lanes` lanes gets of a tile of the cube core."""
    axis = SPLIT_AXES[split]
    extents = [part[axis or 0] for part in part_shapes(array.shape, split, lanes)]
    return [array] * lanes if axis is None else np.split(array, np.cumsum(extents)[:-1], axis)


def part_shapes(shape: Sequence[int], split: int, lanes: int) -> list[tuple[int, ...]]:
    """The extents of what each lane has of a tile of the cube core: the first ones have one more.

    Raises ShapeMismatch where there is one lane for a split tile.
    """
    axis = SPLIT_AXES[split]
    if axis is None:
        return [tuple(shape)] * lanes
    if lanes == 1:
        raise ShapeMismatch(f"a pipe with split={split} needs two vector lanes")
    part, more = divmod(shape[axis], lanes)
    extents = [part + (lane < more) for lane in range(lanes)]
    return [(*shape[:axis], extent, *shape[axis + 1 :]) for extent in extents]


@op("pipe.push", effect=Effect.COMM)
def push(
    tile: Value, *, to: FunctionType, split: int, lane_stride: int | None = None, id: int = 0
) -> None:
    """Sends `tile` to the other side of pipe `id`; waits while the ring is full."""


@push.type_rule
def push_type(
    tile: Value, *, to: FunctionType, split: int, lane_stride: int | None, id: int
) -> None:
    require_split("tpush", split)
    require_tile("tpush", "tile", tile)


@push.reference
def push_numpy(
    tile: Any, *, to: FunctionType, split: int, lane_stride: int | None, id: int
) -> tuple[()]:
    participant().push(to is AIV, id, np.array(tile), split)
    return ()


@op("pipe.pop", effect=Effect.COMM)
def pop(
    *,
    source: FunctionType,
    shape: Shape,
    dtype: DType,
    split: int = 0,
    lane_stride: int | None = None,
    id: int = 0,
) -> Value:
    """The oldest tile in pipe `id` from the other side; waits until there is one."""
    ...


@pop.type_rule
def pop_type(
    *,
    source: FunctionType,
    shape: Shape,
    dtype: DType,
    split: int,
    lane_stride: int | None,
    id: int,
) -> Type:
    require_split("tpop", split)
    space = MemorySpace.Vec if source is AIC else MemorySpace.Mat
    return tile_type(require_static("tpop", "shape", shape), dtype, space)


@pop.reference
def pop_numpy(
    *,
    source: FunctionType,
    shape: tuple[int, ...],
    dtype: DType,
    split: int,
    lane_stride: int | None,
    id: int,
) -> Array:
    parts: list[Array] = participant().pop(source is AIC, id, split)
    is_joined = source is not AIC and split
    wanted = part_shapes(shape, split, len(parts)) if is_joined else [tuple(shape)]
    for part, extents in zip(parts, wanted, strict=True):
        if part.shape != extents or part.dtype != dtype.numpy:
            raise RuntimeShapeMismatch(
                f"tpop: a tile {list(part.shape)} of {part.dtype} was pushed, where "
                f"{list(extents)} of {dtype.numpy} is popped"
            )
    return np.concatenate(parts, SPLIT_AXES[split]) if is_joined else parts[0]


@op("pipe.free", effect=Effect.COMM)
def free(tile: Value, *, to: FunctionType, split: int | None = None, id: int = 0) -> None:
    """Gives the slot of the oldest popped tile of pipe `id` back to the side that filled it."""


@free.type_rule
def free_type(tile: Value, *, to: FunctionType, split: int | None, id: int) -> None:
    require_tile("tfree", "tile", tile)
    if split is not None:
        require_split("tfree", split)


@free.reference
def free_numpy(tile: Any, *, to: FunctionType, split: int | None, id: int) -> tuple[()]:
    participant().free(to is AIC, id)
    return ()


def _side(name: str, side: FunctionType, **more: str) -> Any:
    """Renders an op whose attribute `name` is `side`."""

    def render(operation: Operation) -> dict[str, Any] | None:
        given = {**dict(zip(operation.opdef.operand_names, operation.operands)), **operation.attrs}
        if given.pop(name) is not side:
            return None
        given["id"] = given["id"] or None
        return {more.get(key, key): entry for key, entry in given.items()}

    return render


@push.spelling("pl.system.tpush_to_aiv", "pl.tpush_to_aiv", render=_side("to", AIV))
def tpush_to_aiv(
    tile: Any, *, split: int, lane_stride: int | None = None, id: int | None = None
) -> None:
    """Sends a tile of the cube core to the vector lanes."""
    value = require_value("tpush_to_aiv", "tile", tile)
    push(value, to=AIV, split=split, lane_stride=lane_stride, id=id or 0)


@push.spelling("pl.system.tpush_to_aic", "pl.tpush_to_aic", render=_side("to", AIC))
def tpush_to_aic(tile: Any, *, split: int, id: int | None = None) -> None:
    """Sends a tile of a vector lane to the cube core."""
    push(require_value("tpush_to_aic", "tile", tile), to=AIC, split=split, id=id or 0)


def _popped(name: str, source: FunctionType, shape: Any, dtype: Any, **attrs: Any) -> Value:
    if shape is None or dtype is None:
        raise ParserTypeError(
            f"{name}: the tile's shape= and dtype= are missing",
            hint=f"Write pl.{name}(shape=[16, 16], dtype=pl.FP32, split=0).",
        )
    return pop(source=source, shape=as_shape(shape), dtype=as_dtype(dtype), **attrs)


@pop.spelling("pl.system.tpop_from_aic", "pl.tpop_from_aic", render=_side("source", AIC))
def tpop_from_aic(
    *,
    shape: Any = None,
    dtype: Any = None,
    split: int = 0,
    lane_stride: int | None = None,
    id: int | None = None,
) -> Value:
    """The next tile that the cube core has sent to this lane, in the vector memory."""
    return _popped(
        "tpop_from_aic", AIC, shape, dtype, split=split, lane_stride=lane_stride, id=id or 0
    )


@pop.spelling("pl.system.tpop_from_aiv", "pl.tpop_from_aiv", render=_side("source", AIV))
def tpop_from_aiv(
    *, shape: Any = None, dtype: Any = None, split: int = 0, id: int | None = None
) -> Value:
    """The next tile that the vector lanes have sent to the cube core, in the matrix memory."""
    return _popped("tpop_from_aiv", AIV, shape, dtype, split=split, id=id or 0)


@free.spelling("pl.system.tfree_to_aic", "pl.tfree_to_aic", render=_side("to", AIC))
def tfree_to_aic(tile: Any, *, split: int | None = None, id: int | None = None) -> None:
    """Gives the slot of a tile popped from the cube core back to it."""
    free(require_value("tfree_to_aic", "tile", tile), to=AIC, split=split, id=id or 0)


@free.spelling("pl.system.tfree_to_aiv", "pl.tfree_to_aiv", render=_side("to", AIV))
def tfree_to_aiv(tile: Any, *, split: int | None = None, id: int | None = None) -> None:
    """Gives the slot of a tile popped from the vector lanes back to them."""
    free(require_value("tfree_to_aiv", "tile", tile), to=AIV, split=split, id=id or 0)


# ---------------------------------------------------------------------------------------- buffers


@op("pipe.reserve", effect=Effect.COMM)
def reserve(*, name: str, size: int, base: int = -1) -> Value:
    """Reserves `size` bytes called `name` for a pipe; the address, 0 where a CPU has none."""
    ...


@reserve.type_rule
def reserve_type(*, name: str, size: int, base: int) -> Type:
    if size <= 0:
        raise ParserTypeError(f"reserve_buffer: size is {size}, not positive")
    return ScalarType(INT32)


@reserve.reference
def reserve_numpy(*, name: str, size: int, base: int) -> Any:
    return np.int32(max(base, 0))


reserve.samples(
    lambda: [
        sample(name="ring", size=4096),
        sample(name="ring", size=4096, base=64),
        fails(ParserTypeError, name="ring", size=0),
    ]
)


@reserve.spelling("pl.system.reserve_buffer", "pl.reserve_buffer")
def reserve_buffer(*, name: str, size: int, base: int = -1) -> Value:
    """A named buffer for a cross-core pipe, placed by the compiler unless `base` is given."""
    return reserve(name=name, size=size, base=base)


@op("pipe.import_peer", effect=Effect.COMM)
def import_peer(*, name: str, peer_func: str) -> Value:
    """The address of the buffer `name` that function `peer_func` of the group reserves."""
    ...


@import_peer.type_rule
def import_peer_type(*, name: str, peer_func: str) -> Type:
    return ScalarType(INT32)


@import_peer.reference
def import_peer_numpy(*, name: str, peer_func: str) -> Any:
    return np.int32(0)


import_peer.samples(lambda: [sample(name="ring", peer_func="cube")])


@import_peer.spelling("pl.system.import_peer_buffer", "pl.import_peer_buffer")
def import_peer_buffer(*, name: str, peer_func: str) -> Value:
    """The buffer that another function of the group has reserved under this name."""
    return import_peer(name=name, peer_func=peer_func)


@op("pipe.initialize", effect=Effect.COMM)
def initialize(
    buffers: Sequence[Value],
    *,
    side: FunctionType,
    dir_mask: int = 3,
    slot_size: int = 0,
    slot_num: int | None = None,
    id: int = 0,
) -> None:
    """Sets up pipe `id` on one side; `slot_num` is the number of slots of its ring."""


@initialize.type_rule
def initialize_type(
    buffers: Sequence[Value],
    *,
    side: FunctionType,
    dir_mask: int,
    slot_size: int,
    slot_num: int | None,
    id: int,
) -> None:
    if slot_num is not None and slot_num < 1:
        raise ParserTypeError(f"initialize_pipe: slot_num is {slot_num}, not positive")


@initialize.reference
def initialize_numpy(
    buffers: Any,
    *,
    side: FunctionType,
    dir_mask: int,
    slot_size: int,
    slot_num: int | None,
    id: int,
) -> tuple[()]:
    if slot_num is not None:
        participant().set_slots(id, slot_num)
    return ()


def _initialize(side: FunctionType, buffers: Sequence[Any], options: dict[str, Any]) -> None:
    options["id"] = options["id"] or 0
    initialize([given for given in buffers if isinstance(given, Value)], side=side, **options)


def _initialize_arguments(side: FunctionType) -> Any:
    def render(operation: Operation) -> dict[str, Any] | None:
        given = {"buffers": operation.operands[0], **operation.attrs}
        if given.pop("side") is not side:
            return None
        given["id"] = given["id"] or None
        return given

    return render


@initialize.spelling(
    "pl.system.aic_initialize_pipe", "pl.aic_initialize_pipe", render=_initialize_arguments(AIC)
)
def aic_initialize_pipe(
    buffers: Sequence[Any] = (),
    *,
    dir_mask: int = 3,
    slot_size: int = 0,
    slot_num: int | None = None,
    id: int | None = None,
) -> None:
    """Sets up the cube side of a pipe."""
    options = {"dir_mask": dir_mask, "slot_size": slot_size, "slot_num": slot_num, "id": id}
    _initialize(AIC, buffers, options)


@initialize.spelling(
    "pl.system.aiv_initialize_pipe", "pl.aiv_initialize_pipe", render=_initialize_arguments(AIV)
)
def aiv_initialize_pipe(
    buffers: Sequence[Any] = (),
    *,
    dir_mask: int = 3,
    slot_size: int = 0,
    slot_num: int | None = None,
    id: int | None = None,
) -> None:
    """Sets up the vector side of a pipe."""
    options = {"dir_mask": dir_mask, "slot_size": slot_size, "slot_num": slot_num, "id": id}
    _initialize(AIV, buffers, options)


# ------------------------------------------------------------------------------ shard and gather


def split_shape(name: str, type_: ShapedType, mode: SplitMode) -> Shape:
    """The extents of one lane's part; raises ShapeMismatch where they are not even."""
    axis = MODE_AXES[mode]
    if axis is None:
        return type_.shape
    if type_.rank < 2:
        raise ShapeMismatch(f"{name}: {type_} has no rows and columns to divide")
    at = type_.rank - 2 + axis
    extent = as_dim(type_.shape[at])
    if not isinstance(extent, int) or extent % 2:
        raise ShapeMismatch(f"{name}: extent {extent} of axis {at} does not divide in two")
    return tuple(extent // 2 if k == at else e for k, e in enumerate(type_.shape))


@op("pipe.shard")
def shard(x: Value, lane: Value, *, mode: SplitMode) -> Value:
    """The part of a cube core's value that vector lane `lane` gets: half of its rows or columns,
    or, with mode NONE, all of it."""
    ...


@shard.type_rule
def shard_type(x: Value, lane: Value, *, mode: SplitMode) -> Type:
    type_ = require_shaped("aiv_shard", "x", x)
    require_fully_valid("aiv_shard", "x", type_)
    return moved_type(type_, split_shape("aiv_shard", type_, mode), type_.dtype)


def _split_axis(rank: int, mode: SplitMode) -> int | None:
    axis = MODE_AXES[mode]
    return None if axis is None else rank - 2 + axis


@shard.reference
def shard_numpy(x: Any, lane: Any, *, mode: SplitMode) -> Array:
    axis = _split_axis(x.ndim, mode)
    return x if axis is None else np.split(x, 2, axis)[int(lane)]


@shard.structure
def shard_loops(x: Value, lane: Value, *, mode: SplitMode) -> Structure:
    type_ = x.type
    assert isinstance(type_, ShapedType)
    shape = split_shape("aiv_shard", type_, mode)
    dims = domain(shape)
    axis = _split_axis(type_.rank, mode)
    index = tuple(
        as_expr(dim) + as_expr(as_dim(lane)) * extent if at == axis else as_expr(dim)
        for at, (dim, extent) in enumerate(zip(dims, shape, strict=True))
    )
    return rearrangement(shape, dims, Read(x, index))


shard.samples(
    lambda: [
        sample(tile(4, 8), index(1), mode=SplitMode.UP_DOWN),
        sample(tile(4, 8), index(0), mode=SplitMode.LEFT_RIGHT),
        sample(tile(3, 8), index(1), mode=SplitMode.NONE),
        fails(ShapeMismatch, tile(3, 8), index(0), mode=SplitMode.UP_DOWN),
        fails(ShapeMismatch, tile(8), index(0), mode=SplitMode.UP_DOWN),
    ]
)


@op("pipe.gather", effect=Effect.COMM)
def gather(x: Value, lane: Value, *, mode: SplitMode) -> Value:
    """The value that the cube core gets of the parts of both lanes, rejoined along the split axis;
    with mode NONE that of one of them."""
    ...


@gather.type_rule
def gather_type(x: Value, lane: Value, *, mode: SplitMode) -> Type:
    type_ = require_shaped("aic_gather", "x", x)
    require_fully_valid("aic_gather", "x", type_)
    axis = _split_axis(type_.rank, mode)
    shape = tuple(extent * 2 if k == axis else extent for k, extent in enumerate(type_.shape))
    return moved_type(type_, shape, type_.dtype)


@gather.reference
def gather_numpy(x: Any, lane: Any, *, mode: SplitMode) -> Array:
    axis = _split_axis(x.ndim, mode)
    return x if axis is None else np.concatenate(participant().exchange(np.array(x)), axis)


def _crossing(operation: Operation) -> dict[str, Any] | None:
    """The value alone where the lane is the index of a loop, which says the rest."""
    x, lane = operation.operands
    home = lane.owner
    is_index = isinstance(home, Block) and home.params[0] is lane and home.ops
    return {"x": x} if is_index and home.terminator.name == "control.yield" else None


@shard.spelling("pl.aiv_shard", "pl.tile.aiv_shard", render=_crossing)
def aiv_shard(x: Any) -> Value:
    """What this lane gets of a value of the cube core; the mode comes from pl.split_aiv."""
    raise _outside("aiv_shard")


@gather.spelling("pl.aic_gather", "pl.tile.aic_gather", render=_crossing)
def aic_gather(x: Any) -> Value:
    """What the cube core gets of the values of the lanes; the mode comes from pl.split_aiv."""
    raise _outside("aic_gather")


def _outside(name: str) -> ParserTypeError:
    return ParserTypeError(
        f"pl.{name} stands outside pl.split_aiv",
        hint="Use it in 'for lane in pl.split_aiv(2, mode=...)', which gives the split.",
    )
