"""`nisa`: selecting and searching."""

from __future__ import annotations

from typing import Any

from tilewright.dtypes import BOOL, FP32, INT8, INT16, INT32, UINT8, UINT16, UINT32
from tilewright.errors.nki_instructions import (
    MIN_ARCH,
    SAME_DTYPE,
    UNSUPPORTED_DTYPES,
    UNSUPPORTED_OP,
    VALID_SIZE,
)
from tilewright.frontend.trace import access as trace_access
from tilewright.frontend.trace.access import require_dtype, reshaped_to
from tilewright.frontend.trace.ambient import current_api, nki_ctx, refusal
from tilewright.frontend.trace.loops import SequentialRange
from tilewright.frontend.trace.masks import without_axes
from tilewright.frontend.trace.ops import nki_op
from tilewright.frontend.trace.tensors import nki_tensor
from tilewright.frontend.trace.tiles import mask_tile
from tilewright.ir.core import Value
from tilewright.ir.enums import MemorySpace
from tilewright.nki._accumulators import registers, require_command, run_command, write_tile
from tilewright.nki._enums import reduce_cmd as commands
from tilewright.nki._isa_compute import result_dtype_like
from tilewright.nki._isa_matrix import masked_tile, scratch
from tilewright.nki._matmul import matrix
from tilewright.nki._operands import (
    inside,
    masked_value,
    operand_value,
    operation_name,
    require_dtypes,
    require_number,
    require_one_in_sbuf,
    require_same_elements,
    require_supported,
    require_tile,
    result_dtype,
    result_tile,
    scalar_or_vector,
    tile_value,
)
from tilewright.ops import creation, shape
from tilewright.ops import elementwise as ew
from tilewright.ops.nki_alu import COMPARING, apply, as_bool, reduce_axes
from tilewright.ops.nki_dtypes import LEAST
from tilewright.ops.nki_math import number

FLOAT_MIN = LEAST[FP32]
COMPARED = frozenset(COMPARING)
PREDICATES = (UINT8, UINT16, UINT32, BOOL)
SELECTING = (INT8, UINT8, INT16, UINT16, BOOL)


def require_instruction(name: str, wanted: str = "trn2") -> None:
    """Refuses an instruction that the target's generation does not have."""
    device = nki_ctx().device
    if name not in device.instructions:
        raise refusal(MIN_ARCH, op=name, wanted=wanted, given=device.name)


# ---------------------------------------------------------------------------- selection


@nki_op("nisa.affine_select")
def affine_select(
    pred: Any,
    on_true_tile: nki_tensor,
    on_false_value: Any,
    *,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> nki_tensor:
    """The tile where one affine comparison holds, a number elsewhere."""
    require_tile(on_true_tile, "on_true_tile")
    if len(trace_access.mask_terms(pred)) > 1 or any(len(c) > 1 for c in pred.terms):
        raise refusal(UNSUPPORTED_OP, op="affine_select", given="a combination of comparisons")
    wanted = result_dtype_like(dtype, on_true_tile)
    value = tile_value(on_true_tile, on_true_tile.root.dtype, mask)
    holds = mask_tile(nki_ctx().sema, pred, on_true_tile.shape)
    picked = ew.select(holds, value, operand_value(on_false_value, on_true_tile.root.dtype))
    return result_tile(picked, wanted, mask)


@nki_op("nisa.range_select")
def range_select(
    *,
    on_true_tile: nki_tensor,
    comp_op0: Any,
    comp_op1: Any,
    bound0: nki_tensor,
    bound1: nki_tensor,
    reduce_cmd: commands = commands.idle,
    reduce_res: nki_tensor | None = None,
    reduce_op: Any = "maximum",
    range_start: int = 0,
    on_false_value: float = FLOAT_MIN,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> nki_tensor:
    """The tile where (index <op0> bound0) and (index <op1> bound1), `on_false_value` elsewhere.

    The index counts free elements from `range_start`; bounds are FP32 vectors by partition.
    """
    require_instruction("range_select")
    plain = matrix(inside(on_true_tile, "on_true_tile", mask))
    index = free_positions(plain, range_start)
    links = [
        apply(operation_name(op, COMPARED), index, _bound(bound, name, plain))
        for op, bound, name in ((comp_op0, bound0, "bound0"), (comp_op1, bound1, "bound1"))
    ]
    holds = ew.and_(*map(as_bool, links))
    value = tile_value(plain, FP32)
    other = require_number(on_false_value, "on_false_value", FP32)
    picked = ew.select(holds, value, number(value, other))
    _reduce_selection(picked, on_true_tile, mask, reduce_op, reduce_cmd, reduce_res)
    whole = reshaped_to(picked, on_true_tile.shape)
    return result_tile(whole, result_dtype(dtype, on_true_tile), mask)


def _bound(given: Any, name: str, data: nki_tensor) -> Value:
    value = operand_value(scalar_or_vector(given, name, data), FP32)
    if hasattr(value.type, "shape"):
        return shape.broadcast_to(value, shape=data.shape)
    return creation.splat(value, shape=data.shape, space=MemorySpace.Sbuf)


def free_positions(data: nki_tensor, start: int = 0) -> Value:
    """The number of each free element, counted from `start`, in FP32."""
    rows, columns = data.shape
    line = creation.iota(
        nki_ctx().sema.constant(start, INT32),
        shape=(1, columns),
        dtype=INT32,
        axis=1,
        space=MemorySpace.Sbuf,
    )
    return shape.broadcast_to(ew.cast(line, dtype=FP32), shape=(rows, columns))


def _reduce_selection(
    value: Value,
    data: nki_tensor,
    mask: Any,
    op: Any,
    command: commands,
    target: nki_tensor | None,
) -> None:
    """The max registers of the vector engine; idle, an instruction gives its own maximum."""
    operation_name(op, ("maximum",))
    require_command(command)
    if command is commands.idle and target is None:
        return
    rows, axes = data.shape[0], tuple(range(1, data.ndim))
    whole = masked_value(reshaped_to(value, data.shape), data.shape, mask, "maximum")
    total = reshaped_to(reduce_axes("maximum", whole, axes), (rows, 1))
    run_command("selection", "maximum", total, rows, command)
    if target is not None:
        alone = command is commands.idle
        write_tile(target, total if alone else tile_value(registers("selection", rows), FP32))


@nki_op("nisa.select_reduce")
def select_reduce(
    *,
    dst: nki_tensor,
    predicate: nki_tensor,
    on_true: nki_tensor,
    on_false: Any,
    reduce_res: nki_tensor | None = None,
    reduce_cmd: commands = commands.idle,
    reduce_op: Any = "maximum",
    reverse_pred: bool = False,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> None:
    """dst = on_true where the predicate is nonzero, on_false elsewhere; optionally its maximum."""
    plain = matrix(inside(on_true, "on_true", mask))
    require_same_elements(on_true, require_tile(predicate, "predicate"))
    require_dtypes(predicate, "predicate", SELECTING)
    truth = as_bool(tile_value(matrix(inside(predicate, "predicate", mask)), predicate.root.dtype))
    truth = ew.not_(truth) if reverse_pred else truth
    other = operand_value(scalar_or_vector(on_false, "on_false", plain), FP32)
    picked = ew.select(truth, tile_value(plain, FP32), other)
    _reduce_selection(picked, on_true, mask, reduce_op, reduce_cmd, reduce_res)
    write_tile(dst, reshaped_to(picked, on_true.shape), mask)


@nki_op("nisa.tensor_copy_predicated")
def tensor_copy_predicated(
    *,
    src: Any,
    dst: nki_tensor,
    predicate: nki_tensor,
    reverse_pred: bool = False,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> None:
    """Writes `src` to `dst` where the predicate is nonzero (zero, with `reverse_pred`)."""
    require_tile(dst, "dst")
    require_one_in_sbuf(src, predicate, "predicate")
    require_dtypes(require_tile(predicate, "predicate"), "predicate", PREDICATES)
    truth = as_bool(tile_value(predicate, predicate.root.dtype, mask))
    truth = ew.not_(truth) if reverse_pred else truth
    if isinstance(src, nki_tensor) and src.root.dtype is not dst.root.dtype:
        raise refusal(SAME_DTYPE, op="tensor_copy_predicated", src=src.dtype, dst=dst.dtype)
    given = operand_value(src, dst.root.dtype, mask)
    kept = tile_value(dst, dst.root.dtype, mask)
    write_tile(dst, ew.select(reshaped_to(truth, dst.shape), given, kept), mask)


# ---------------------------------------------------------------------------- searching


@nki_op("nisa.max8")
def max8(*, src: nki_tensor, mask: Any = None, dtype: Any = None, **kwargs: Any) -> nki_tensor:
    """The 8 largest free elements of each partition, in descending order; NaN is the largest."""
    plain = matrix(inside(src, "src", mask))
    if not src.root.dtype.is_float():
        fields = {"given": src.dtype, "target": nki_ctx().device.name}
        raise refusal(UNSUPPORTED_DTYPES, op="max8", name="src", **fields)
    if not 8 <= plain.shape[1] <= 16384:
        fields = {"name": "the free size", "given": plain.shape[1], "supported": "8 to 16384"}
        raise refusal(VALID_SIZE, op="max8", **fields)
    value, index = _searched(plain, src, mask, float("-inf")), free_positions(plain)
    found: list[Value] = []
    for _ in range(8):
        largest = reduce_axes("maximum", value, (1,))
        found.append(largest)
        is_largest = ew.or_(ew.eq(value, largest), ew.ne(value, value))
        first = first_position(is_largest, index)
        value = ew.select(ew.eq(index, first), number(value, float("-inf")), value)
    rows = without_axes(mask, src.ndim, range(1, src.ndim), keepdims=False)
    return result_tile(shape.concat(tuple(found), axis=1), result_dtype(dtype, src), rows)


def _searched(plain: nki_tensor, data: nki_tensor, mask: Any, other: float) -> Value:
    """The elements of an operand as a matrix; `other` where the mask does not hold."""
    value = tile_value(plain, FP32)
    if mask is None:
        return value
    holds = tile_value(masked_tile(mask, data, plain), BOOL)
    return ew.select(holds, value, number(value, other))


def first_position(holds: Value, index: Value) -> Value:
    """The first position in each partition where `holds`, or infinity: [P, 1]."""
    places = ew.select(holds, index, number(index, float("inf")))
    return reduce_axes("minimum", places, (1,))


@nki_op("nisa.nc_find_index8")
def nc_find_index8(
    *, data: nki_tensor, vals: nki_tensor, mask: Any = None, dtype: Any = None, **kwargs: Any
) -> nki_tensor:
    """The first position of each of 8 values in each partition; all ones where there is none.

    The positions are uint32, or uint16.
    """
    plain = matrix(inside(data, "data", mask))
    value, index = _searched(plain, data, mask, float("nan")), free_positions(plain)
    wanted = require_dtype(dtype) if dtype is not None else UINT32
    require_supported(wanted, "dtype", (UINT32, UINT16))
    found = [_find(value, index, column) for column in _columns8(vals)]
    places = shape.concat(tuple(found), axis=1)
    known = ew.cast(places, dtype=wanted)
    missing = ew.eq(places, number(places, float("inf")))
    everything = (1 << wanted.bits) - 1
    rows = without_axes(mask, data.ndim, range(1, data.ndim), keepdims=False)
    return result_tile(ew.select(missing, number(known, everything), known), wanted, rows)


def _columns8(vals: nki_tensor) -> list[Value]:
    plain = matrix(require_tile(vals, "vals"))
    if plain.shape[1] != 8:
        fields = {"name": "the free size of vals", "given": plain.shape[1], "supported": "8"}
        raise refusal(VALID_SIZE, op=current_api(), **fields)
    return [tile_value(plain[:, k : k + 1], FP32) for k in range(8)]


def _find(value: Value, index: Value, wanted: Value) -> Value:
    return first_position(ew.eq(value, wanted), index)


@nki_op("nisa.nc_match_replace8")
def nc_match_replace8(
    *,
    data: nki_tensor,
    vals: nki_tensor,
    imm: float,
    dst_idx: nki_tensor | None = None,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> nki_tensor:
    """`data` with the first occurrence of each of 8 values replaced by `imm`."""
    plain = matrix(inside(data, "data", mask))
    value, index = _searched(plain, data, mask, float("nan")), free_positions(plain)
    places: list[Value] = []
    for column in _columns8(vals):
        place = _find(value, index, column)
        places.append(place)
        value = ew.select(ew.eq(index, place), number(value, float(imm)), value)
    if dst_idx is not None:
        found = shape.concat(tuple(places), axis=1)
        write_tile(dst_idx, ew.cast(found, dtype=dst_idx.root.dtype))
    return result_tile(reshaped_to(value, data.shape), result_dtype(dtype, data), mask)


@nki_op("nisa.sequence_bounds")
def sequence_bounds(*, segment_ids: nki_tensor, dtype: Any = None, **kwargs: Any) -> nki_tensor:
    """For each of [1, N] segment ids, where its segment starts and ends: [1, 2, N].

    Elements of segment 0 get (N, -1).
    """
    ids = matrix(require_tile(segment_ids, "segment_ids"))
    if ids.shape[0] != 1:
        fields = {"name": "the number of partitions", "given": ids.shape[0], "supported": "1"}
        raise refusal(VALID_SIZE, op="sequence_bounds", **fields)
    count = ids.shape[1]
    value, index = tile_value(ids, FP32), free_positions(ids)
    result = scratch((1, 2, count), FP32)
    for i in SequentialRange(count):
        own = tile_value(ids[:, slice(i, i + 1)], FP32)
        same = ew.eq(value, own)
        last = reduce_axes("maximum", ew.select(same, index, number(index, -1.0)), (1,))
        padding = ew.eq(own, number(own, 0.0))
        start = ew.select(padding, number(own, float(count)), first_position(same, index))
        stop = ew.select(padding, number(own, -1.0), ew.add(last, number(last, 1.0)))
        write_tile(result[:, 0, slice(i, i + 1)], start)
        write_tile(result[:, 1, slice(i, i + 1)], stop)
    wanted = require_dtype(dtype) if dtype is not None else segment_ids.root.dtype
    return result_tile(tile_value(result, FP32), wanted)
