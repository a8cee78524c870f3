"""`nisa`: making and moving tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.dtypes import FP32
from tilewright.errors.nki_instructions import (
    FMA_LENGTH,
    MEMCPY_SHAPE,
    MIN_ARCH_HWDGE,
    NO_DEVICE,
    SAME_DTYPE,
    VALID_SIZE,
)
from tilewright.errors.nki_tensors import RANK_LIMIT, UNEXPECTED_OPERAND
from tilewright.frontend.trace import access as trace_access
from tilewright.frontend.trace.access import require_dtype
from tilewright.frontend.trace.ambient import nki_ctx, refusal
from tilewright.frontend.trace.arith import converted_value
from tilewright.frontend.trace.index import TileIndex
from tilewright.frontend.trace.indirect import IndirectTile, direct_tile, put_rows, rows_inside
from tilewright.frontend.trace.ops import nki_op
from tilewright.frontend.trace.predicates import DynamicScalar
from tilewright.frontend.trace.tensors import nki_tensor
from tilewright.frontend.trace.tiles import index_tile
from tilewright.frontend.trace.views import static_shape
from tilewright.ir.core import Value
from tilewright.ir.enums import MemorySpace
from tilewright.nki._accumulators import write_tile
from tilewright.nki._buffers import sbuf
from tilewright.nki._enums import dge_mode as dge_modes
from tilewright.nki._enums import engine as engines
from tilewright.nki._enums import nc_version
from tilewright.nki._enums import oob_mode as oob_modes
from tilewright.nki._isa_compute import result_dtype_like
from tilewright.nki._matmul import require_direct
from tilewright.nki._memory import filled, require_tensor, skip_outside
from tilewright.nki._operands import (
    is_scalar,
    operation_name,
    require_engine,
    require_same_elements,
    require_tile,
    result_tile,
    tile_value,
)
from tilewright.ops import elementwise as ew
from tilewright.ops import shape
from tilewright.ops.nki_math import number, times

KEEP = 255
QUADRANT = 32
TRANSPOSES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


# ---------------------------------------------------------------------------- creation


@nki_op("nisa.memset")
def memset(
    shape: Any,
    value: Any,
    dtype: Any,
    *,
    mask: Any = None,
    engine: engines = engines.unknown,
    **kwargs: Any,
) -> nki_tensor:
    """A tile with `value` at every element."""
    require_engine(engine, "memset")
    extents = tuple(int(extent) for extent in static_shape(shape))
    return filled(extents, require_dtype(dtype), sbuf, value)


@nki_op("nisa.iota")
def iota(expr: Any, dtype: Any, *, mask: Any = None, **kwargs: Any) -> nki_tensor:
    """An index object as a tile: evaluated in 32-bit integers, then converted."""
    if not isinstance(expr, (TileIndex, DynamicScalar)):
        found = {"given": type(expr).__name__, "wanted": "an index object"}
        raise refusal(UNEXPECTED_OPERAND, op="iota", name="expr", **found)
    index = expr if isinstance(expr, TileIndex) else TileIndex(expr.expr, {}, (1, 1))
    value = index_tile(nki_ctx().sema, index)
    return result_tile(value, require_dtype(dtype), mask)


# ---------------------------------------------------------------------------- movement


@nki_op("nisa.dma_copy")
def dma_copy(
    *,
    dst: nki_tensor,
    src: Any,
    mask: Any = None,
    dst_rmw_op: Any = None,
    oob_mode: oob_modes = oob_modes.error,
    dge_mode: dge_modes = dge_modes.unknown,
    **kwargs: Any,
) -> None:
    """Copies between any memories, converting; `dst_rmw_op` add adds to what is there.

    With `oob_mode.skip` rows that do not exist are neither read nor written: `dst` keeps its own.
    """
    device = nki_ctx().device
    if dge_mode is dge_modes.hwdge and "dma_copy.hwdge" not in device.instructions:
        raise refusal(MIN_ARCH_HWDGE, op="dma_copy", wanted="trn2", given=device.name)
    sema = nki_ctx().sema
    for tensor in (dst, src):
        skip_outside(tensor, {"mode": oob_mode})
    value = moved_value(sema, src, require_tensor(dst, "dst"), mask)
    inside = rows_inside(sema, src)
    inside = None if inside is None else trace_access.reshaped_value(dst, inside)
    if dst_rmw_op is not None:
        operation_name(dst_rmw_op, ("add",))
        value = value if inside is None else ew.select(inside, value, number(value, 0))
        add_to(dst, value, mask)
        return
    if inside is not None:
        kept = trace_access.fetch(sema, dst, None, MemorySpace.Sbuf)
        value = ew.select(inside, value, kept)
    trace_access.write(sema, dst, value, mask)


def add_to(dst: nki_tensor, value: Value, mask: Any) -> None:
    """Adds to the elements of a view; rows that are named more than once get every term."""
    sema = nki_ctx().sema
    if isinstance(dst, IndirectTile):
        put_rows(sema, dst, value, mask, ew.add)
        return
    present = trace_access.fetch(sema, dst, mask, MemorySpace.Sbuf)
    trace_access.write(sema, dst, ew.add(present, value), mask)


def moved_value(sema: Any, src: Any, dst: nki_tensor, mask: Any) -> Value:
    """What a transfer writes: `src` from any memory, in the type and shape of `dst`."""
    if is_scalar(src):
        return trace_access.fitted(sema, dst, src)
    given = require_tensor(src, "src")
    value = trace_access.fetch(sema, given, mask, MemorySpace.Sbuf)
    return trace_access.reshaped_value(dst, converted_value(value, dst.root.dtype))


@nki_op("nisa.dma_transpose")
def dma_transpose(
    src: nki_tensor, *, axes: Any = None, mask: Any = None, dtype: Any = None, **kwargs: Any
) -> nki_tensor:
    """A new SBUF tile with the dimensions of `src` reversed as the transfer engine can."""
    given = require_tensor(src, "src")
    require_direct(given)
    if given.ndim not in TRANSPOSES:
        raise refusal(RANK_LIMIT, op="dma_transpose", name="src", shape=list(given.shape), limit=4)
    order = tuple(axes) if axes is not None else TRANSPOSES[given.ndim]
    if order != TRANSPOSES[given.ndim]:
        wanted = str(TRANSPOSES[given.ndim])
        raise refusal(VALID_SIZE, op="dma_transpose", name="axes", given=order, supported=wanted)
    value = trace_access.fetch(nki_ctx().sema, given, mask, MemorySpace.Sbuf)
    value = shape.transpose(value, perm=order)
    return result_tile(value, result_dtype_like(dtype, given), is_loaded=True)


@nki_op("nisa.tensor_copy_dynamic_src")
def tensor_copy_dynamic_src(
    src: nki_tensor,
    *,
    mask: Any = None,
    dtype: Any = None,
    engine: engines = engines.unknown,
    **kwargs: Any,
) -> nki_tensor:
    """A copy of a tile that is read at an offset which only the run knows."""
    src = direct_tile(src)
    require_engine(engine, "copy", src=require_tile(src, "src"))
    return result_tile(tile_value(src, src.root.dtype, mask), result_dtype_like(dtype, src), mask)


@nki_op("nisa.tensor_copy_dynamic_dst")
def tensor_copy_dynamic_dst(
    *,
    dst: nki_tensor,
    src: nki_tensor,
    mask: Any = None,
    dtype: Any = None,
    engine: engines = engines.unknown,
    **kwargs: Any,
) -> None:
    """Writes a tile at an offset of `dst` which only the run knows."""
    dst = direct_tile(dst)
    require_engine(engine, "copy", src=require_tile(src, "src"), dst=dst)
    write_tile(require_tile(dst, "dst"), tile_value(require_tile(src, "src"), src.root.dtype), mask)


@nki_op("nisa.nc_stream_shuffle")
def nc_stream_shuffle(
    src: nki_tensor,
    dst: nki_tensor,
    shuffle_mask: Sequence[int],
    *,
    dtype: Any = None,
    mask: Any = None,
    **kwargs: Any,
) -> None:
    """In each quadrant of 32 partitions, dst[i] = src[shuffle_mask[i]]; 255 keeps dst[i]."""
    if src.root.dtype is not dst.root.dtype:
        raise refusal(SAME_DTYPE, op="nc_stream_shuffle", src=src.dtype, dst=dst.dtype)
    _require_shuffle(require_tile(src, "src"), require_tile(dst, "dst"), shuffle_mask)
    given = result_tile(tile_value(src, src.root.dtype), src.root.dtype)
    for base in range(0, dst.shape[0], QUADRANT):
        for to, start, size in runs(shuffle_mask, min(QUADRANT, dst.shape[0] - base)):
            rows = given[base + start : base + start + size]
            write_tile(dst[base + to : base + to + size], tile_value(rows, src.root.dtype))


def _require_shuffle(src: nki_tensor, dst: nki_tensor, order: Sequence[int]) -> None:
    """Refuses what is no order of the partitions of whole quadrants."""
    require_same_elements(src, dst)
    fields: dict[str, Any] = {}
    if len(order) != QUADRANT:
        fields = {"given": f"of {len(order)} entries", "supported": "32 entries"}
    unknown = [each for each in order if each not in (KEEP, *range(QUADRANT))]
    if unknown:
        fields = {"given": f"with {unknown[0]!r}", "supported": "0 to 31, or 255 to keep"}
    if fields:
        raise refusal(VALID_SIZE, op="nc_stream_shuffle", name="shuffle_mask", **fields)
    if src.shape[0] % QUADRANT:
        fields = {"name": "the number of partitions", "given": src.shape[0]}
        raise refusal(VALID_SIZE, op="nc_stream_shuffle", supported="a multiple of 32", **fields)


def runs(order: Sequence[int], limit: int) -> Iterator[tuple[int, int, int]]:
    """(destination, source, length) of the stretches in which both go up by one."""
    place = 0
    while place < limit:
        size = 1
        if order[place] == KEEP:
            place += 1
            continue
        while place + size < limit and order[place + size] == order[place] + size:
            size += 1
        yield place, order[place], size
        place += size


# ---------------------------------------------------------------------------- offloaded


@nki_op("nisa._tiled_offloaded_memcpy")
def tiled_offloaded_memcpy(src: nki_tensor, dst: nki_tensor, **kwargs: Any) -> None:
    """Copies a tensor of HBM to another of the same shape, tile by tile."""
    if src.shape != dst.shape:
        raise refusal(MEMCPY_SHAPE, src=list(src.shape), dst=list(dst.shape))
    sema = nki_ctx().sema
    trace_access.write(sema, dst, moved_value(sema, src, dst, None))


@nki_op("nisa._tiled_offloaded_fma")
def tiled_offloaded_fma(
    *srcs: nki_tensor, scales: Sequence[float], dst: nki_tensor, **kwargs: Any
) -> None:
    """dst = sum of scale * src over tensors of HBM, in FP32."""
    if len(srcs) != len(scales):
        raise refusal(FMA_LENGTH, srcs=len(srcs), scales=len(scales))
    sema = nki_ctx().sema
    total: Value | None = None
    for src, scale in zip(srcs, scales):
        value = converted_value(trace_access.fetch(sema, src, None, MemorySpace.Sbuf), FP32)
        part = times(value, scale)
        total = part if total is None else ew.add(total, part)
    assert total is not None, "at least one source"
    trace_access.write(sema, dst, converted_value(total, dst.root.dtype))


# ---------------------------------------------------------------------------- queries


@nki_op("nisa.get_nc_version")
def get_nc_version() -> nc_version:
    """The generation of the target's core."""
    return nc_version(nki_ctx().device.generation)


@nki_op("nisa.builtin_custom_op")
def builtin_custom_op(
    function_name: str,
    lib_file_name: str,
    ulib_to_ucode_version: Any,
    ulib_to_isa_version: Any,
    srcs: Any,
    dsts: Any,
    **kwargs: Any,
) -> None:
    """A function of a library for the accelerator; refused on this machine."""
    raise refusal(NO_DEVICE, op="builtin_custom_op", what=f"the library {lib_file_name}")
