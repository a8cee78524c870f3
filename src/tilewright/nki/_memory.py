"""`nl`: creating tensors, moving them between memories."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.errors.nki import BLOCK_DIMENSION_WARNING
from tilewright.errors.nki_control import SHARED_HBM_LEVEL
from tilewright.errors.nki_instructions import TARGET_TYPE
from tilewright.errors.nki_memory import (
    ALLOCATION_RANGE,
    CAPACITY_PSUM,
    CAPACITY_SBUF,
    MIXED_ALLOCATION,
)
from tilewright.errors.nki_tensors import (
    BLOCK_DIMENSION,
    HBM_INIT_VALUE,
    PARTITION_LIMIT,
    SCRATCHPAD_INIT_VALUE,
    UNEXPECTED_OPERAND,
    UNSUPPORTED_MEMORY,
)
from tilewright.frontend.trace import access as trace_access
from tilewright.frontend.trace.access import require_dtype
from tilewright.frontend.trace.allocations import Rectangle
from tilewright.frontend.trace.ambient import current_api, nki_ctx, refusal
from tilewright.frontend.trace.arith import held_dtype, new_tile
from tilewright.frontend.trace.grid import ParDim
from tilewright.frontend.trace.indirect import IndirectTile, rows_inside
from tilewright.frontend.trace.ops import nki_op
from tilewright.frontend.trace.sequences import as_items
from tilewright.frontend.trace.spans import warn_author
from tilewright.frontend.trace.tensors import nki_tensor, whole_tensor
from tilewright.frontend.trace.tiles import mask_tile
from tilewright.frontend.trace.views import static_shape
from tilewright.ir.enums import MemorySpace
from tilewright.nki._buffers import Buffer, as_buffer
from tilewright.nki._enums import oob_mode
from tilewright.nki._operands import require_number
from tilewright.ops import creation
from tilewright.ops import elementwise as ew
from tilewright.ops.nki_dtypes import dtype_name

Shape = Any
Dtype = Any
GATED_DTYPES = frozenset({"float8_e4m3fn", "float8_e8m0fnu"})


# ---------------------------------------------------------------------------- creation


@nki_op("nl.ndarray")
def ndarray(
    shape: Shape, dtype: Dtype, *, buffer: Any = None, name: str = "", **kwargs: Any
) -> nki_tensor:
    """An uninitialised tensor of `shape` in `buffer` (SBUF when it is None)."""
    return create(shape, require_dtype(dtype), as_buffer(buffer), None, name)


@nki_op("nl.full")
def full(
    shape: Shape,
    fill_value: float,
    dtype: Dtype,
    *,
    buffer: Any = None,
    name: str = "",
    **kwargs: Any,
) -> nki_tensor:
    """A tensor of `shape` with `fill_value` at every element."""
    return create(shape, require_dtype(dtype), as_buffer(buffer), fill_value, name)


@nki_op("nl.zeros")
def zeros(
    shape: Shape, dtype: Dtype, *, buffer: Any = None, name: str = "", **kwargs: Any
) -> nki_tensor:
    """A tensor of zeros."""
    return create(shape, require_dtype(dtype), as_buffer(buffer), 0, name)


@nki_op("nl.ones")
def ones(
    shape: Shape, dtype: Dtype, *, buffer: Any = None, name: str = "", **kwargs: Any
) -> nki_tensor:
    """A tensor of ones."""
    return create(shape, require_dtype(dtype), as_buffer(buffer), 1, name)


@nki_op("nl.zeros_like")
def zeros_like(
    a: nki_tensor, dtype: Dtype = None, *, buffer: Any = None, name: str = "", **kwargs: Any
) -> nki_tensor:
    """Zeros in the shape and element type of `a`."""
    wanted = a.root.dtype if dtype is None else require_dtype(dtype)
    return create(a.shape, wanted, _buffer_like(a, buffer), 0, name)


@nki_op("nl.empty_like")
def empty_like(
    a: nki_tensor, dtype: Dtype = None, *, buffer: Any = None, name: str = "", **kwargs: Any
) -> nki_tensor:
    """An uninitialised tensor in the shape and element type of `a`."""
    wanted = a.root.dtype if dtype is None else require_dtype(dtype)
    return create(a.shape, wanted, _buffer_like(a, buffer), None, name)


def _buffer_like(a: nki_tensor, buffer: Any) -> Buffer:
    if buffer is not None or a.root.is_hbm:
        return as_buffer(buffer)
    return Buffer(a.root.space)


def create(
    shape: Shape, dtype: DType, buffer: Buffer, fill: bool | int | float | None, name: str = ""
) -> nki_tensor:
    """A tensor in a memory, under the author's name for it, if he gives one."""
    _require_one_kind(buffer)
    made = filled(shape, dtype, buffer, fill)
    if name:
        nki_ctx().sema.name_tensor(made, re.sub(r"\W|^(?=\d)", "_", name))
    return made


def _require_one_kind(buffer: Buffer) -> None:
    """Refuses a kernel that places some of its tensors on the chip itself, and others not."""
    if buffer.is_hbm:
        return
    kernel, direct = nki_ctx().kernel, buffer.allocation is not None
    if kernel.allocates not in (None, direct):
        names = ("the compiler", "its author")
        raise refusal(MIXED_ALLOCATION, this=names[direct], others=names[not direct])
    kernel.allocates = direct


def filled(
    shape: Shape, dtype: DType, buffer: Buffer, fill: bool | int | float | None
) -> nki_tensor:
    """A tensor full of a number, if one is given; PSUM starts at zero, for what is added first."""
    extents = static_shape(shape)
    if buffer.is_hbm:
        if fill is not None:
            raise refusal(HBM_INIT_VALUE)
        return _hbm_tensor(extents, dtype, buffer.space)
    axis = _partition_axis(as_items(shape))
    require_partitions(extents, axis)
    require_on_target(dtype)
    require_room(extents, axis, dtype, buffer)
    sema = nki_ctx().sema
    dtype = held_dtype(sema, dtype)
    if buffer.allocation is not None and fill is not None:
        raise refusal(SCRATCHPAD_INIT_VALUE, name="tensor")
    if fill is None and buffer.space is MemorySpace.Psum:
        fill = 0
    if fill is None:
        value = creation.create(shape=extents, dtype=dtype, space=buffer.space)
    else:
        given = require_number(fill, "value", dtype)
        value = creation.full(shape=extents, dtype=dtype, value=given, space=buffer.space)
    places = () if buffer.allocation is None else places_of(buffer, extents, axis, dtype)
    return sema.tile(value, buffer.space, partition_axis=axis, places=places)


def places_of(
    buffer: Buffer, extents: tuple[int, ...], axis: int, dtype: DType
) -> tuple[Rectangle, ...]:
    """Where the blocks of an explicitly allocated tensor lie; refuses places that do not exist."""
    device = nki_ctx().device
    partitions, nbytes = extents[axis], math.prod(extents[axis + 1 :]) * dtype.nbytes
    banked = buffer.space is MemorySpace.Psum
    limit = device.psum_partition_bytes if banked else device.usable_sbuf_bytes
    found: list[Rectangle] = []
    for block in itertools.product(*map(range, extents[:axis])):
        *bank, start, byte = buffer.allocation.place_of(block, partitions, nbytes)
        byte += sum(bank) * device.psum_bank_bytes
        place = Rectangle(buffer.space, start, start + partitions, byte, byte + nbytes)
        if min(start, byte) < 0 or place.end_partition > device.pmax or place.end_byte > limit:
            available = f"{device.pmax} partitions of {limit} bytes"
            where = {"memory": buffer.space.name.lower(), "given": place, "available": available}
            raise refusal(ALLOCATION_RANGE, name="tensor", **where)
        found.append(place)
    return tuple(found)


def _hbm_tensor(extents: tuple[int, ...], dtype: DType, space: MemorySpace) -> nki_tensor:
    ctx = nki_ctx()
    at_top = ctx.is_kernel_level
    if space is MemorySpace.SharedHbm and not at_top:
        raise refusal(SHARED_HBM_LEVEL, scope=ctx.cur_scope.describe())
    if at_top and (space is MemorySpace.SharedHbm or not ctx.kernel.axes):
        return whole_tensor(ctx.kernel.new_output(extents, dtype, space))
    value = creation.create(shape=extents, dtype=dtype, space=MemorySpace.DDR)
    return whole_tensor(ctx.sema.new_root(value, MemorySpace.Hbm))


def require_on_target(dtype: DType) -> None:
    """Refuses an element type that only later targets have."""
    device = nki_ctx().device
    if dtype_name(dtype) in GATED_DTYPES and dtype_name(dtype) not in device.dtypes:
        raise refusal(TARGET_TYPE, op=dtype_name(dtype), given=device.name)


def require_room(extents: tuple[int, ...], axis: int, dtype: DType, buffer: Buffer) -> None:
    """Refuses a tensor that is larger than the memory it is made in."""
    device = nki_ctx().device
    needed = math.prod(extents[axis + 1 :]) * dtype.nbytes
    if buffer.space is MemorySpace.Psum:
        banks = -(-needed // device.psum_bank_bytes)
        if banks > device.psum_banks:
            raise refusal(CAPACITY_PSUM, needed=banks, available=device.psum_banks)
    elif needed > device.sbuf_partition_bytes:
        raise refusal(CAPACITY_SBUF, needed=needed, available=device.sbuf_partition_bytes)


def _partition_axis(shape: Any) -> int:
    places = [k for k, extent in enumerate(shape) if isinstance(extent, ParDim)]
    if places and places[0]:
        shown = tuple(int(extent) for extent in shape)
        warn_author(BLOCK_DIMENSION_WARNING.format(shape=shown), DeprecationWarning)
    return places[0] if places else 0


def require_partitions(extents: tuple[int, ...], axis: int = 0) -> None:
    """Refuses an on-chip shape without a free dimension, or with too many partitions."""
    if len(extents) - axis < 2:
        raise refusal(BLOCK_DIMENSION, shape=list(extents))
    limit = nki_ctx().device.pmax
    if extents[axis] > limit:
        raise refusal(PARTITION_LIMIT, given=extents[axis], limit=limit)


# ---------------------------------------------------------------------------- movement


@nki_op("nl.load")
def load(src: nki_tensor, *, mask: Any = None, dtype: Dtype = None, **kwargs: Any) -> nki_tensor:
    """A new SBUF tile with the elements of an HBM tensor, converted to `dtype` if it is given.

    Elements that the mask excludes, and with `mode=oob_mode.skip` those of rows that do not exist,
    are not read: where the tile is assigned to another, that keeps what it has there.
    """
    require_hbm(src, "src")
    sema = nki_ctx().sema
    skip_outside(src, kwargs)
    extents = tile_extents(src.shape)
    require_partitions(extents)
    value = trace_access.fetch(sema, src, mask, MemorySpace.Sbuf)
    value = trace_access.reshaped_to(value, extents)
    wanted = src.root.dtype if dtype is None else require_dtype(dtype)
    where = _read_where(src, mask, extents)
    return new_tile(sema, value, wanted, mask=where, is_loaded=True)


def _read_where(src: nki_tensor, given: Any, extents: tuple[int, ...]) -> Any:
    """Where a tile of `extents` that is read from `src` is defined."""
    sema = nki_ctx().sema
    inside = rows_inside(sema, src)
    if inside is None:
        return given
    inside = trace_access.reshaped_to(inside, extents)
    return inside if given is None else ew.and_(inside, mask_tile(sema, given, extents))


@nki_op("nl.store")
def store(dst: nki_tensor, value: Any, *, mask: Any = None, **kwargs: Any) -> None:
    """Writes a tile, or a number, to an HBM tensor; elements that the mask excludes stay."""
    require_hbm(dst, "dst")
    sema = nki_ctx().sema
    trace_access.require_writable(dst.root)
    skip_outside(dst, kwargs)
    trace_access.write(sema, dst, trace_access.fitted(sema, dst, value, mask), mask)


@nki_op("nl.copy")
def copy(src: nki_tensor, *, mask: Any = None, dtype: Dtype = None, **kwargs: Any) -> nki_tensor:
    """A new tile with the elements of an on-chip tile."""
    sema = nki_ctx().sema
    require_tensor(src, "src")
    wanted = src.root.dtype if dtype is None else require_dtype(dtype)
    return new_tile(sema, trace_access.read_operand(sema, src, mask), wanted, mask=mask)


def tile_extents(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a tile that holds what has `shape`: one free dimension at least."""
    return shape if len(shape) > 1 else (*shape, *(1,) * (2 - len(shape)))


def skip_outside(tensor: nki_tensor, keywords: dict[str, Any]) -> None:
    """`mode=oob_mode.skip`: indices that lie outside are dropped."""
    if isinstance(tensor, IndirectTile) and keywords.get("mode") is oob_mode.skip:
        tensor.skips = True


def require_tensor(given: Any, name: str) -> nki_tensor:
    """`given` if it is a tensor; refuses anything else."""
    if isinstance(given, nki_tensor):
        return given
    kind = "an array" if isinstance(given, np.ndarray) else type(given).__name__
    raise refusal(UNEXPECTED_OPERAND, op=current_api(), name=name, given=kind, wanted="a tensor")


def require_hbm(given: Any, name: str) -> None:
    """Refuses what is not a tensor in HBM."""
    tensor = require_tensor(given, name)
    if not tensor.root.is_hbm:
        raise refusal(
            UNSUPPORTED_MEMORY,
            op=current_api(),
            name=tensor.name,
            wanted="hbm",
            given=tensor.root.memory,
        )
