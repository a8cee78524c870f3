"""`nisa`: the tensor engine, reductions, scans, statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.dtypes import BF16, BOOL, FP16, FP32, TF32, DType
from tilewright.errors.nki_instructions import (
    EXACT_ARCH,
    PAR_REDUCE_DTYPE,
    PAR_REDUCE_OP,
    REDUCE_DTYPE,
    REDUCE_NEGATE,
    VALID_SIZE,
)
from tilewright.errors.nki_tensors import MATMUL_SHAPES
from tilewright.frontend.trace.access import reshaped_to
from tilewright.frontend.trace.ambient import nki_ctx, refusal
from tilewright.frontend.trace.loops import SequentialRange
from tilewright.frontend.trace.masks import carried, transposed, without_axes
from tilewright.frontend.trace.ops import nki_op
from tilewright.frontend.trace.tensors import nki_tensor
from tilewright.frontend.trace.tiles import mask_tile
from tilewright.ir.core import Value
from tilewright.ir.enums import MemorySpace
from tilewright.ir.types import ShapedType
from tilewright.nki._accumulators import write_tile
from tilewright.nki._enums import engine as engines
from tilewright.nki._isa_compute import BINARY, combined, result_dtype_like
from tilewright.nki._matmul import (
    matrix,
    product,
    require_limit,
    require_matrix,
    require_own_transpose,
)
from tilewright.nki._operands import (
    free_axes,
    inside,
    masked_value,
    operand_value,
    operation_name,
    reduced_shape,
    require_dtypes,
    require_engine,
    require_same_elements,
    require_sbuf,
    require_tile,
    result_dtype,
    result_tile,
    scalar_or_vector,
    tile_value,
)
from tilewright.nki._reduce import inner_dtype
from tilewright.ops import creation, gather, reduce, scan, shape
from tilewright.ops import elementwise as ew
from tilewright.ops.nki_alu import BITS, REDUCIBLE, is_bitvec, only_where, reduce_axes
from tilewright.ops.nki_dtypes import FP8
from tilewright.ops.nki_math import number, square, times

MATRIX_DTYPES = (FP32, FP16, BF16, TF32, *FP8)
PARTITION_REDUCIBLE = ("add", "maximum", "bitwise_or", "bitwise_and")
SCAN_WORDS = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "maximum": "max",
    "minimum": "min",
}
TILE_STEP = 32


# ---------------------------------------------------------------------------- tensor engine


@nki_op("nisa.nc_matmul")
def nc_matmul(
    stationary: nki_tensor,
    moving: nki_tensor,
    *,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    tile_position: tuple[int, ...] = (),
    tile_size: tuple[int, ...] = (),
    mask: Any = None,
    **kwargs: Any,
) -> nki_tensor:
    """stationary.T @ moving, [K, M] and [K, N], accumulated in FP32 in PSUM.

    K and M are at most 128, N at most 512. `mask` is one of `moving`: rows of K where it does not
    hold are left out. `tile_size`, with `tile_position`, is the part of the engine that is used: K
    rows and M columns fit in it. With `is_transpose`, `moving` has a single 1 in each column, and
    the bits of the rows of `stationary` that they name are moved. Compiled and interpreted elements
    differ by at most K * 2^-23 * (|stationary|.T @ |moving|); see `matmul.matmul`.
    """
    for name, operand in (("stationary", stationary), ("moving", moving)):
        require_matrix(require_tile(operand, name), name)
        require_sbuf(operand, name)
        require_dtypes(operand, name, MATRIX_DTYPES)
    _require_mode(kwargs.get("perf_mode"))
    if stationary.shape[0] != moving.shape[0]:
        shapes = {"left": list(stationary.shape), "right": list(moving.shape), "note": ""}
        raise refusal(MATMUL_SHAPES, op="nc_matmul", **shapes)
    device = nki_ctx().device
    require_limit(stationary, "stationary", 1, device.stationary_fmax, "free")
    require_limit(moving, "moving", 1, device.moving_fmax, "free")
    _require_place(tile_position, tile_size, stationary.shape)
    if is_transpose:
        return _moved(stationary, moving, mask)
    return product(stationary, moving, True, mask)


def _require_place(position: Sequence[int], size: Sequence[int], wanted: Sequence[int]) -> None:
    """Refuses a part of the engine that does not exist, or is too small for `wanted`."""
    if not position and not size:
        return
    limit, pairs = nki_ctx().device.pmax, tuple(zip(position, size, wanted))
    known = len(position) == len(size) == len(pairs) == 2
    if not known or any(extent % TILE_STEP for extent in (*position, *size)):
        given = f"{position} with tile_size {size}"
        supported = "two multiples of 32, and two of tile_size"
    elif any(start < 0 or start + count > limit for start, count, _ in pairs):
        given, supported = f"{position} with tile_size {size}", f"within {limit} x {limit}"
    elif any(needed > count for _, count, needed in pairs):
        given, supported = f"with tile_size {size}", f"a tile_size of {list(wanted)} or more"
    else:
        return
    name = "tile_position"
    raise refusal(VALID_SIZE, op="nc_matmul", name=name, given=given, supported=supported)


def _moved(stationary: nki_tensor, moving: nki_tensor, mask: Any) -> nki_tensor:
    """The rows of `stationary` that the ones in the columns of `moving` stand in, as columns."""
    rows = reduce.argmax(tile_value(moving, FP32), axes=(0,), keepdims=False)
    value = gather.take(tile_value(stationary, stationary.root.dtype), rows, axis=0)
    tile = result_tile(shape.transpose(value, perm=(1, 0)), stationary.root.dtype)
    tile.root.mask = carried(mask, (None, 1), 2)
    return in_psum(tile)


def _require_mode(mode: Any) -> None:
    device = nki_ctx().device
    if "double_row" in str(mode) and "nc_matmul.double_row" not in device.instructions:
        raise refusal(EXACT_ARCH, op=f"nc_matmul with {mode}", wanted="trn2", given=device.name)


@nki_op("nisa.nc_transpose")
def nc_transpose(
    data: nki_tensor,
    *,
    mask: Any = None,
    dtype: Any = None,
    engine: engines = engines.unknown,
    **kwargs: Any,
) -> nki_tensor:
    """Partitions and free elements exchanged; free dimensions count as one.

    The tensor engine takes up to 128 x 128 and writes PSUM, the vector engine up to 32 x 32.
    """
    plain = matrix(require_tile(data, "data"))
    require_engine(engine, "transpose")
    device = nki_ctx().device
    small = max(plain.shape) <= device.vector_transpose_max
    if engine is not engines.vector:
        require_own_transpose()
    limit = device.vector_transpose_max if engine is engines.vector else device.transpose_max
    for axis, dimension in enumerate(("partition", "free")):
        require_limit(plain, "data", axis, limit, dimension)
    value = shape.transpose(tile_value(plain, data.root.dtype, mask), perm=(1, 0))
    on_vector = engine is engines.vector or (engine is engines.unknown and small)
    tile = result_tile(value, result_dtype_like(dtype, data), transposed(mask))
    return tile if on_vector else in_psum(tile)


def in_psum(tile: nki_tensor) -> nki_tensor:
    """The tile, counted as living in PSUM."""
    tile.root.space = MemorySpace.Psum
    return tile


# ---------------------------------------------------------------------------- reductions


@nki_op("nisa.tensor_reduce")
def tensor_reduce(
    op: Any,
    data: nki_tensor,
    axis: Any,
    *,
    mask: Any = None,
    dtype: Any = None,
    negate: bool = False,
    keepdims: bool = False,
    **kwargs: Any,
) -> nki_tensor:
    """`data` combined by `op` along free axes; the result is negated on request."""
    name = operation_name(op, REDUCIBLE)
    axes = free_axes(require_tile(data, "data"), axis)
    if is_bitvec(name) and not data.root.dtype.is_int():
        raise refusal(REDUCE_DTYPE, op="tensor_reduce", op0=name, given=data.dtype)
    if negate and (is_bitvec(name) or name.startswith("logical")):
        raise refusal(REDUCE_NEGATE, op="tensor_reduce", op0=name)
    inside = data.root.dtype if is_bitvec(name) else inner_dtype(name, data.root.dtype)
    value = masked_value(tile_value(data, inside, mask), data.shape, mask, name)
    total = reduce_axes(name, value, axes)
    total = ew.neg(total) if negate else total
    total = reshaped_to(total, reduced_shape(data, axes, keepdims))
    where = without_axes(mask, data.ndim, axes, keepdims=keepdims)
    return result_tile(total, result_dtype(dtype, data), where)


@nki_op("nisa.tensor_partition_reduce")
def tensor_partition_reduce(
    op: Any, data: nki_tensor, *, mask: Any = None, dtype: Any = None, **kwargs: Any
) -> nki_tensor:
    """`data` combined by `op` (add, max, bitwise_or, bitwise_and) over its partitions: [1, F]."""
    name = operation_name(op)
    if name not in PARTITION_REDUCIBLE:
        raise refusal(PAR_REDUCE_OP, given=name)
    require_tile(data, "data")
    if is_bitvec(name) and not data.root.dtype.is_int():
        raise refusal(PAR_REDUCE_DTYPE, op0=name, given=data.dtype)
    inside = data.root.dtype if is_bitvec(name) else inner_dtype(name, data.root.dtype)
    value = masked_value(tile_value(data, inside, mask), data.shape, mask, name)
    where = without_axes(mask, data.ndim, (0,), keepdims=True)
    return result_tile(reduce_axes(name, value, (0,)), result_dtype(dtype, data), where)


@nki_op("nisa.tensor_tensor_scan")
def tensor_tensor_scan(
    data0: nki_tensor,
    data1: nki_tensor,
    initial: Any,
    op0: Any,
    op1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    *,
    dtype: Any = None,
    mask: Any = None,
    **kwargs: Any,
) -> nki_tensor:
    """r[i] = (data0[i] <op0> r[i - 1]) <op1> data1[i] along the free elements, from `initial`."""
    names = [operation_name(op, BINARY - set(BITS)) for op in (op0, op1)]
    require_same_elements(require_tile(data0, "data0"), require_tile(data1, "data1"))
    left, right = matrix(inside(data0, "data0", mask)), matrix(inside(data1, "data1", mask))
    start = operand_value(scalar_or_vector(initial, "initial", left), FP32)
    words = [SCAN_WORDS.get(name, "") for name in names]
    if all(words) and not (reverse0 or reverse1):
        operands = (tile_value(left, FP32), tile_value(right, FP32), start)
        result = scan.linear(*operands, axis=1, op0=words[0], op1=words[1])
    else:
        result = _scan_by_columns(left, right, start, names, (reverse0, reverse1))
    whole = reshaped_to(result, data0.shape)
    return result_tile(whole, result_dtype(dtype, data0, data1), mask)


def _scan_by_columns(
    left: nki_tensor, right: nki_tensor, start: Value, names: list[str], reverse: tuple[bool, bool]
) -> Value:
    """The scan as a loop, for operations that the scan op does not have."""
    state = scratch((left.shape[0], 1), FP32)
    result = scratch(left.shape, FP32)
    write_tile(state, broadcast_column(start, left.shape[0]))
    for i in SequentialRange(left.shape[1]):
        column = (slice(None), slice(i, i + 1))
        first, second = tile_value(left[column], FP32), tile_value(right[column], FP32)
        value = combined(names[0], first, tile_value(state, FP32), reverse=reverse[0])
        value = combined(names[1], value, second, reverse=reverse[1])
        write_tile(state, value)
        write_tile(result[column], value)
    return tile_value(result, FP32)


def scratch(extents: tuple[int, ...], dtype: DType) -> nki_tensor:
    """An uninitialised SBUF tile."""
    value = creation.create(shape=extents, dtype=dtype, space=MemorySpace.Sbuf)
    return nki_ctx().sema.tile(value)


def broadcast_column(value: Value, rows: int) -> Value:
    """A number or a vector as a [rows, 1] tile."""
    if not isinstance(value.type, ShapedType):
        return creation.splat(value, shape=(rows, 1), space=MemorySpace.Sbuf)
    return shape.broadcast_to(value, shape=(rows, 1)) if value.type.shape[0] != rows else value


# ---------------------------------------------------------------------------- statistics


@nki_op("nisa.bn_stats")
def bn_stats(data: nki_tensor, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> nki_tensor:
    """(count, mean, variance * count) of the even, then of the odd free elements: [P, 6].

    Elements where the mask does not hold do not count; of none, all three are 0.
    """
    plain = matrix(inside(data, "data", mask))
    require_limit(plain, "data", 1, nki_ctx().device.bn_stats_fmax, "free")
    chosen = None if mask is None else masked_tile(mask, data, plain)
    parts = [part for start in (0, 1) for part in _statistics(plain, chosen, start)]
    whole = shape.concat(tuple(parts), axis=1)
    where = without_axes(mask, data.ndim, range(1, data.ndim), keepdims=False)
    return result_tile(whole, result_dtype(dtype, data), where)


def masked_tile(mask: Any, data: nki_tensor, plain: nki_tensor) -> nki_tensor:
    """Where a mask of `data` holds, as a tile in the shape of its matrix."""
    sema = nki_ctx().sema
    return sema.tile(reshaped_to(mask_tile(sema, mask, data.shape), plain.shape))


def _statistics(x: nki_tensor, chosen: nki_tensor | None, start: int) -> list[Value]:
    """Count, mean and variance * count of every second column, where it is chosen."""
    size = len(range(start, x.shape[1], 2))
    number_of = creation.full(
        shape=(x.shape[0], 1), dtype=FP32, value=float(size), space=MemorySpace.Sbuf
    )
    if not size:
        return [number_of, number_of, number_of]
    columns = (slice(None), slice(start, start + 2 * size - 1, 2))
    value = tile_value(x[columns], FP32)
    if chosen is None:
        mean = times(reduce_axes("add", value, (1,)), 1.0 / size)
        return [number_of, mean, reduce_axes("add", square(ew.sub(value, mean)), (1,))]
    holds = tile_value(chosen[columns], BOOL)
    count = reduce_axes("add", ew.cast(holds, dtype=FP32), (1,))
    total = reduce_axes("add", only_where(holds, value, "add"), (1,))
    mean = ew.div(total, ew.max_(count, number(count, 1.0)))
    squares = only_where(holds, square(ew.sub(value, mean)), "add")
    return [count, mean, reduce_axes("add", squares, (1,))]


@nki_op("nisa.bn_aggr")
def bn_aggr(data: nki_tensor, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> nki_tensor:
    """(mean, variance) of groups given as (count, mean, variance * count): [P, 3 n] -> [P, 2].

    Groups where the mask does not hold do not count.
    """
    plain = matrix(inside(data, "data", mask))
    if plain.shape[1] % 3:
        wanted = "a multiple of 3"
        fields = {"name": "the free size", "given": plain.shape[1], "supported": wanted}
        raise refusal(VALID_SIZE, op="bn_aggr", **fields)
    columns = [(slice(None), slice(k, None, 3)) for k in range(3)]
    triples = [tile_value(plain[each], FP32) for each in columns]
    if mask is not None:
        chosen = masked_tile(mask, data, plain)
        holds = [tile_value(chosen[each], BOOL) for each in columns]
        triples = [only_where(*pair, "add") for pair in zip(holds, triples)]
    count, mean, spread = triples
    total = reduce_axes("add", count, (1,))
    middle = ew.div(reduce_axes("add", ew.mul(count, mean), (1,)), total)
    between = ew.mul(count, square(ew.sub(mean, middle)))
    variance = ew.div(reduce_axes("add", ew.add(spread, between), (1,)), total)
    both = shape.concat((middle, variance), axis=1)
    where = without_axes(mask, data.ndim, range(1, data.ndim), keepdims=False)
    return result_tile(both, result_dtype(dtype, data), where)
