"""`nl`: matrix products, transposes, broadcasts."""

from __future__ import annotations

import math
from typing import Any

from tilewright.dtypes import BF16, FP16, FP32, DType
from tilewright.errors.nki_instructions import TRANSPOSE_IN_ALLOCATION
from tilewright.errors.nki_tensors import (
    DIMENSION_LIMIT,
    INDICES_SHAPE,
    INDIRECT_API,
    MATMUL_SHAPES,
    RANK_LIMIT,
)
from tilewright.frontend.trace import access as trace_access
from tilewright.frontend.trace.ambient import current_api, nki_ctx, refusal
from tilewright.frontend.trace.arith import converted_value
from tilewright.frontend.trace.masks import carried, transposed
from tilewright.frontend.trace.ops import nki_op
from tilewright.frontend.trace.tensors import nki_tensor
from tilewright.frontend.trace.tiles import mask_tile
from tilewright.ir.core import Value
from tilewright.ir.enums import MemorySpace
from tilewright.nki._memory import require_hbm
from tilewright.nki._operands import (
    in_allocated_kernel,
    require_tile,
    result_dtype,
    result_tile,
    tile_value,
)
from tilewright.ops import matmul as products
from tilewright.ops import shape
from tilewright.ops.nki_alu import only_where, reduce_axes
from tilewright.ops.nki_dtypes import promote_all

MULTIPLIED = (FP32, FP16, BF16)


def product_dtype(*operands: nki_tensor) -> DType:
    """The type in which operands are multiplied: one that holds both exactly."""
    found = promote_all(operand.root.dtype for operand in operands)
    return found if found in MULTIPLIED else (BF16 if found.bits == 8 else FP32)


def require_limit(x: nki_tensor, name: str, axis: int, limit: int, dimension: str) -> None:
    """Refuses an extent that the target does not take."""
    if x.shape[axis] > limit:
        raise refusal(
            DIMENSION_LIMIT,
            op=current_api(),
            given=x.shape[axis],
            dimension=dimension,
            name=name,
            shape=list(x.shape),
            limit=limit,
        )


def require_matrix(x: nki_tensor, name: str) -> None:
    """Refuses a tile of more than two dimensions."""
    if x.ndim > 2:
        raise refusal(RANK_LIMIT, op=current_api(), name=name, shape=list(x.shape), limit=2)


def require_direct(x: nki_tensor) -> None:
    """Refuses a view whose rows are chosen by a tile of indices."""
    if x.is_indirect:
        raise refusal(INDIRECT_API, op=current_api())


def matrix(x: nki_tensor) -> nki_tensor:
    """A tile with its free dimensions as one."""
    return x if x.ndim == 2 else x.reshape((x.shape[0], math.prod(x.shape[1:])))


@nki_op("nl.matmul")
def matmul(
    x: nki_tensor, y: nki_tensor, *, transpose_x: bool = False, mask: Any = None, **kwargs: Any
) -> nki_tensor:
    """x @ y (x.T @ y with `transpose_x`), accumulated in FP32 in PSUM.

    x is [M, K] (or [K, M]), y is [K, N]; K and M are at most 128, N at most 512. `mask` is one of
    y: rows of K where it does not hold are left out. Compiled and interpreted elements differ by at
    most K * 2^-23 * (|x| @ |y|); see `matmul.matmul`.
    """
    for name, operand in (("x", x), ("y", y)):
        require_matrix(require_tile(operand, name), name)
    inner = x.shape[0] if transpose_x else x.shape[1]
    if inner != y.shape[0]:
        note = "" if transpose_x else "; transpose_x is False"
        raise refusal(
            MATMUL_SHAPES, op="matmul", left=list(x.shape), right=list(y.shape), note=note
        )
    device = nki_ctx().device
    require_limit(x, "x", 1, device.stationary_fmax, "free")
    require_limit(y, "y", 1, device.moving_fmax, "free")
    if not transpose_x:
        require_own_transpose()
    return product(x, y, transpose_x, mask)


def require_own_transpose() -> None:
    """Refuses a transpose by the tensor engine in a kernel that places its tensors itself."""
    if in_allocated_kernel():
        raise refusal(TRANSPOSE_IN_ALLOCATION, op=current_api())


def product(x: nki_tensor, y: nki_tensor, transpose_x: bool, mask: Any = None) -> nki_tensor:
    """The product as a tile in PSUM; `mask` chooses elements of y, and columns of the result."""
    dtype = product_dtype(x, y)
    sema = nki_ctx().sema
    lhs, rhs = (converted_value(trace_access.read(sema, each), dtype) for each in (x, y))
    if chooses(mask, y):
        lhs, rhs = _chosen(lhs, rhs, y, mask, transpose_x)
    where = carried(mask, (None, 1), 2)
    value = products.matmul(lhs, rhs, a_trans=transpose_x)
    return sema.tile(value, MemorySpace.Psum, mask=where)


def chooses(given: Any, y: nki_tensor) -> bool:
    """True for a mask that says something of the rows of a matrix; refuses one of another shape."""
    if not isinstance(given, trace_access.MASKS):
        return False
    if not trace_access.fits(given, y.shape):
        shapes = f"{given.shape} of the mask and {y.shape} of '{y.name}'"
        raise refusal(INDICES_SHAPE, shapes=shapes)
    return y.ndim in given.axes.values()


def _chosen(
    lhs: Value, rhs: Value, y: nki_tensor, mask: Any, transpose_x: bool
) -> tuple[Value, Value]:
    """The operands with zeros where the mask leaves out elements: in both, for 0 * inf is NaN."""
    holds = mask_tile(nki_ctx().sema, mask, y.shape)
    row = reduce_axes("logical_or", holds, (1,))
    row = row if transpose_x else shape.transpose(row, perm=(1, 0))
    kept = shape.broadcast_to(row, shape=trace_access.static_extents(lhs))
    return only_where(kept, lhs, "add"), only_where(holds, rhs, "add")


@nki_op("nl.transpose")
def transpose(x: nki_tensor, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> nki_tensor:
    """The matrix with partitions and free dimension exchanged; both at most 128."""
    require_matrix(require_tile(x, "x"), "x")
    require_own_transpose()
    limit = nki_ctx().device.transpose_max
    require_limit(x, "x", 1, limit, "free")
    value = shape.transpose(tile_value(x, x.root.dtype, mask), perm=(1, 0))
    return result_tile(value, result_dtype(dtype, x), transposed(mask))


@nki_op("nl.load_transpose2d")
def load_transpose2d(
    src: nki_tensor, *, mask: Any = None, dtype: Any = None, **kwargs: Any
) -> nki_tensor:
    """A new SBUF tile with the transpose of a matrix in HBM."""
    require_hbm(src, "src")
    require_direct(src)
    require_matrix(src, "src")
    sema = nki_ctx().sema
    value = trace_access.fetch(sema, src, mask, MemorySpace.Sbuf)
    value = shape.transpose(value, perm=(1, 0))
    return result_tile(value, result_dtype(dtype, src), transposed(mask), is_loaded=True)


@nki_op("nl.broadcast_to")
def broadcast_to(src: nki_tensor, *, shape: Any, **kwargs: Any) -> nki_tensor:
    """A view of a tile with extents of 1 repeated; the tile itself when the shape is the same."""
    return require_tile(src, "src").broadcast_to(shape)


@nki_op("nl.expand_dims")
def expand_dims(data: nki_tensor, axis: int, **kwargs: Any) -> nki_tensor:
    """A view with a dimension of extent 1 inserted at `axis`."""
    return data.expand_dims(axis)
