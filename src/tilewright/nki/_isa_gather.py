"""`nisa.local_gather` and `nl.gather_flattened`: elements chosen by index tiles."""

from __future__ import annotations

import math
from typing import Any

from tilewright.dtypes import INT8, INT16, INT32, UINT8, UINT16, UINT32
from tilewright.errors.nki_instructions import VALID_SIZE
from tilewright.frontend.trace.access import reshaped_to
from tilewright.frontend.trace.ambient import nki_ctx, refusal
from tilewright.frontend.trace.ops import nki_op
from tilewright.frontend.trace.tensors import nki_tensor
from tilewright.ir.core import Value
from tilewright.ir.enums import MemorySpace
from tilewright.nki._matmul import matrix
from tilewright.nki._operands import (
    require_dtypes,
    require_same_partitions,
    require_tile,
    result_dtype,
    result_tile,
    tile_value,
)
from tilewright.ops import creation, gather, shape
from tilewright.ops import elementwise as ew

CORE = 16
"""Partitions that share their indices."""
INDEXING = (UINT32, INT32, UINT16, INT16, UINT8, INT8)
SIZES = (1, 2, 4, 8, 16, 32)
INDICES = 4096
"""Indices that a core reads."""


@nki_op("nl.gather_flattened")
def gather_flattened(
    data: nki_tensor, indices: nki_tensor, *, mask: Any = None, dtype: Any = None, **kwargs: Any
) -> nki_tensor:
    """In each partition, the free elements (flattened) that the index tile names."""
    require_same_partitions(require_tile(data, "data"), require_tile(indices, "indices"))
    require_dtypes(indices, "indices", INDEXING)
    value = tile_value(matrix(data), data.root.dtype)
    places = tile_value(matrix(indices), INT32)
    picked = gather.take_along(value, places, axis=1)
    return result_tile(reshaped_to(picked, indices.shape), result_dtype(dtype, data), mask)


@nki_op("nisa.local_gather")
def local_gather(
    src_buffer: nki_tensor,
    index: nki_tensor,
    num_elem_per_idx: int = 1,
    num_valid_indices: int | None = None,
    *,
    mask: Any = None,
    **kwargs: Any,
) -> nki_tensor:
    """In each core of 16 partitions, the groups of elements that the core's indices name.

    The indices, uint16 and up to 4096 of a core, are read partition first; all of its partitions
    use all of them, or the first `num_valid_indices`.
    """
    require_same_partitions(require_tile(src_buffer, "src_buffer"), require_tile(index, "index"))
    require_dtypes(index, "index", (UINT16,))
    _require_sizes(src_buffer, num_elem_per_idx)
    source, places = matrix(src_buffer), matrix(index)
    rows = [_core_rows(places[base : base + CORE]) for base in range(0, source.shape[0], CORE)]
    chosen = shape.concat(tuple(rows), axis=0) if len(rows) > 1 else rows[0]
    count = _valid_count(CORE * places.shape[1], num_valid_indices)
    chosen = _expanded(
        _first(chosen, source.shape[0], count), source.shape[0], count, num_elem_per_idx
    )
    picked = gather.take_along(tile_value(source, source.root.dtype), chosen, axis=1)
    return result_tile(picked, source.root.dtype, mask)


def _require_sizes(source: nki_tensor, size: int) -> None:
    if size not in SIZES:
        fields = {"name": "num_elem_per_idx", "given": size, "supported": "1, 2, 4, 8, 16 or 32"}
        raise refusal(VALID_SIZE, op="local_gather", **fields)
    if source.shape[0] % CORE:
        fields = {"name": "the number of partitions", "given": source.shape[0]}
        raise refusal(VALID_SIZE, op="local_gather", supported="a multiple of 16", **fields)


def _valid_count(given: int, wanted: int | None) -> int:
    """How many of the indices of a core are used."""
    if given > INDICES:
        fields = {"name": "the number of indices of a core", "given": given}
        raise refusal(VALID_SIZE, op="local_gather", supported=f"up to {INDICES}", **fields)
    if wanted is not None and not 1 <= wanted <= given:
        fields = {"name": "num_valid_indices", "given": wanted, "supported": f"1 to {given}"}
        raise refusal(VALID_SIZE, op="local_gather", **fields)
    return given if wanted is None else wanted


def _core_rows(places: nki_tensor) -> Value:
    """The indices of one core, flattened partition first, for each of its partitions."""
    count = math.prod(places.shape)
    flat = shape.transpose(tile_value(places, INT32), perm=(1, 0))
    line = reshaped_to(flat, (1, count))
    return shape.broadcast_to(line, shape=(CORE, count))


def _first(value: Value, rows: int, count: int) -> Value:
    zero = nki_ctx().sema.index(0)
    return shape.slice_(value, (zero, zero), shape=(rows, count))


def _expanded(value: Value, rows: int, count: int, size: int) -> Value:
    """Each index as the positions of the group of `size` elements that it names."""
    if size == 1:
        return value
    sema = nki_ctx().sema
    offsets = creation.iota(
        sema.constant(0, INT32),
        shape=(1, 1, size),
        dtype=INT32,
        axis=2,
        space=MemorySpace.Sbuf,
    )
    starts = ew.mul(reshaped_to(value, (rows, count, 1)), sema.constant(size, INT32))
    return reshaped_to(ew.add(starts, offsets), (rows, count * size))
