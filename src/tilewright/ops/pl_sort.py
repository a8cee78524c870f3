"""`pl` names of sorts and of the compare form of gather, made of ranks, prefix sums and puts.

An element's place is the number of elements that come before it: those that are greater, and the
equal ones on its left. Floats are ordered by their bits, NaN above all and -0.0 below 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.dtypes import FP16, FP32, INT16, INT32, DType
from tilewright.errors import DTypeMismatch, InvalidOperationError, ShapeMismatch
from tilewright.ir.affine import Access, Symbol, as_expr
from tilewright.ir.core import Value
from tilewright.ir.opdef import macro
from tilewright.ops import access, creation, gather, reduce, shape
from tilewright.ops import elementwise as E
from tilewright.ops.adapt import (
    constant,
    converted,
    require_whole_value,
)
from tilewright.ops.extents import constant_of
from tilewright.ops.pl_gather import space_of
from tilewright.ops.pl_shape import shaped_type
from tilewright.ops.rules import require_static
from tilewright.ops.words import dtype_of

BLOCK = 32


def order_key(x: Value) -> Value:
    """INT32 integers in the order of the elements of x, which are FP16, FP32 or integers."""
    dtype = dtype_of(x)
    if not dtype.is_float():
        return converted(x, INT32)
    bits = bits_of(converted(x, FP32), INT32)
    sign = E.shr(bits, constant(31, INT32))
    return E.xor(bits, E.and_(sign, constant(0x7FFFFFFF, INT32)))


def bits_of(x: Value, dtype: DType) -> Value:
    """The bits of x as a dtype of the same width."""
    return shape.reinterpret(x, dtype=dtype, shape=shaped_type("sort", "x", x).shape)


def places(x: Value) -> Value:
    """INT32 place of each element of the last axis in descending order; equal ones in order."""
    extents = require_static("sort", "the shape", shaped_type("sort", "x", x).shape)
    *outer, count = extents
    key = order_key(x)
    mine = shape.reshape(key, shape=(*outer, count, 1))
    other = shape.reshape(key, shape=(*outer, 1, count))
    rows, columns = (
        creation.iota(constant(0, INT32), shape=extent, dtype=INT32, axis=axis, space=space_of(x))
        for axis, extent in ((-2, (count, 1)), (-1, (1, count)))
    )
    earlier = E.and_(E.eq(other, mine), E.lt(columns, rows))
    before = E.cast(E.or_(E.gt(other, mine), earlier), dtype=INT32)
    return reduce.sum_(before, axes=(len(extents),), keepdims=False)


def put_in_order(x: Value, at: Value) -> Value:
    """x with each element moved to its place along the last axis."""
    return gather.put_along(x, at, x, axis=-1)


def interleaved(values: Value, indices: Value) -> Value:
    """values[k] at 2k and the bits of indices[k] at 2k + 1 of an axis twice as long."""
    extents = require_static("sort", "the shape", shaped_type("sort", "src", values).shape)
    target = creation.create(
        shape=(*extents[:-1], 2 * extents[-1]), dtype=dtype_of(values), space=space_of(values)
    )
    for first, part in enumerate((values, indices)):
        target = access.access_store(target, part, (), access=every_other(extents, first))
    return target


def deinterleaved(x: Value) -> tuple[Value, Value]:
    """The even and the odd elements of the last axis."""
    *outer, count = require_static("sort", "the shape", shaped_type("sort", "src", x).shape)
    half = (*outer, count // 2)
    even, odd = (
        access.access_load(x, (), access=every_other(half, first), space=space_of(x))
        for first in (0, 1)
    )
    return even, odd


def every_other(extents: Sequence[int], first: int) -> Access:
    """Elements `first`, `first + 2`, … of the last axis."""
    dims = tuple(Symbol(f"d{k}", 0, extent - 1) for k, extent in enumerate(extents))
    return Access((*map(as_expr, dims[:-1]), dims[-1] * 2 + first), tuple(extents), dims)


def require_sortable(name: str, value: Value) -> DType:
    """The dtype of a sort's values; raises DTypeMismatch unless it is FP16 or FP32."""
    dtype = dtype_of(value)
    if dtype not in (FP16, FP32):
        raise DTypeMismatch(f"{name}: src is {dtype}, not pl.FP16 or pl.FP32")
    return dtype


@macro("pl.sort32", "pl.tensor.sort32", "pl.tile.sort32")
def sort32(src: Value, idx: Value) -> Value:
    """Each block of 32 of the last axis in descending order, with the indices moved alike.

    The last axis doubles: value and index alternate, the index as bits of the dtype of src.
    """
    value = require_whole_value("sort32", "src", src)
    dtype = require_sortable("sort32", value)
    extents = require_static("sort32", "src", shaped_type("sort32", "src", value).shape)
    *outer, count = extents
    if count % BLOCK:
        raise ShapeMismatch(f"sort32: {count} elements are no multiple of {BLOCK}")
    blocks = (*outer, count // BLOCK, BLOCK)
    values = shape.reshape(value, shape=blocks)
    tags = shape.reshape(as_tags(idx, dtype), shape=blocks)
    at = places(values)
    ordered, moved = put_in_order(values, at), put_in_order(tags, at)
    return interleaved(shape.reshape(ordered, shape=extents), shape.reshape(moved, shape=extents))


def as_tags(idx: Any, dtype: DType) -> Value:
    """Indices as bits of a float dtype of 16 or 32 bits."""
    value = require_whole_value("sort32", "idx", idx)
    return bits_of(converted(value, INT16 if dtype is FP16 else INT32), dtype)


@macro("pl.tile.mrgsort")
def mrgsort(
    src0: Value,
    src1: Value | None = None,
    src2: Value | None = None,
    src3: Value | None = None,
    tmp: Value | None = None,
    exhausted: bool = False,
    *,
    block_len: Any = None,
) -> Value:
    """Sorted runs merged into longer ones; value and index alternate, as `sort32` gives them.

    One list: every four runs of `block_len` positions become one. Two to four lists [1, N]: one
    list. With `exhausted` only what precedes the end of the first list to end is promised; the rest
    is in order all the same. Scratch memory is not needed.
    """
    lists = [each for each in (src0, src1, src2, src3) if each is not None]
    if len(lists) == 1:
        return merged_runs(lists[0], block_len)
    joined = lists[0]
    for each in lists[1:]:
        joined = shape.concat((joined, each))
    return reordered(joined)


@macro("pl.mrgsort")
def mrgsort_any(
    src0: Value,
    src1: Value | None = None,
    src2: Value | None = None,
    src3: Value | None = None,
    tmp: Value | None = None,
    *,
    exhausted: bool = False,
    block_len: Any = None,
) -> Value:
    """Sorted runs merged into longer ones (see `pl.tile.mrgsort`)."""
    return mrgsort(src0, src1, src2, src3, exhausted=exhausted, block_len=block_len)


@macro("pl.tensor.mrgsort")
def mrgsort_tensor(
    src0: Value,
    src1: Value | None = None,
    src2: Value | None = None,
    src3: Value | None = None,
    *,
    exhausted: bool = False,
    block_len: Any = None,
) -> Value:
    """Sorted runs of a tensor merged into longer ones (see `mrgsort` of tiles)."""
    return mrgsort(src0, src1, src2, src3, exhausted=exhausted, block_len=block_len)


def merged_runs(src: Value, block_len: Any) -> Value:
    """Every four runs of one list merged into one."""
    length = block_len if isinstance(block_len, int) else constant_of(block_len)
    extents = require_static("mrgsort", "src0", shaped_type("mrgsort", "src0", src).shape)
    if not isinstance(length, int) or length <= 0 or length % 64:
        raise InvalidOperationError(
            f"mrgsort: block_len is {block_len!r}, not a constant multiple of 64"
        )
    *outer, count = extents
    if count % (4 * length):
        raise ShapeMismatch(f"mrgsort: {count} positions are not whole groups of four {length}")
    groups = shape.reshape(src, shape=(*outer, count // (4 * length), 4 * length))
    return shape.reshape(reordered(groups), shape=extents)


def reordered(pairs: Value) -> Value:
    """Alternating values and indices in descending order of the values."""
    require_sortable("mrgsort", pairs)
    values, tags = deinterleaved(pairs)
    at = places(values)
    return interleaved(put_in_order(values, at), put_in_order(tags, at))
