"""Loop level: memory operations on buffers. Passes lower tile ops to these; code generation reads
only these, the scalar words and control flow.

Lanes loops. `control.for` of kind Lanes writes its body per lane. Carried values are reductions:
element j of the trip goes to virtual lane j mod 64 (4 accumulators of 16 lanes, each starting at
the identity: +0.0 for add, 1.0 for mul), in increasing j; the accumulators combine as
(a0 + a1) + (a2 + a3), lanes i and i + half combine for half = 8, 4, 2, 1, and the init combines on
the left. The order is the same on every instruction set. argmax and argmin carry (value, index)
pairs: the first extreme element in index order wins, and the first NaN wins over everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import BF16, FP32, INDEX, INT32, INT64, DType
from tilewright.errors import ArgumentTypeMismatch, DTypeMismatch, RankMismatch
from tilewright.ir.core import Value
from tilewright.ir.enums import Effect, MemorySpace
from tilewright.ir.opdef import op
from tilewright.ir.types import BufferType, ScalarType, Shape, Type, row_major_strides
from tilewright.ops.words import scalar_type

VIRTUAL_LANES = 64


def buffer_type(value: Value) -> BufferType:
    """The type of a buffer; raises ArgumentTypeMismatch for any other value."""
    if not isinstance(value.type, BufferType):
        raise ArgumentTypeMismatch(f"loop: {value.type} is not a buffer")
    return value.type


@op("loop.alloc")
def alloc(*, shape: Shape, dtype: DType, space: MemorySpace = MemorySpace.Vec) -> Value:
    """Uninitialised dense scratch memory, valid until the end of the enclosing block."""
    ...


@alloc.type_rule
def alloc_type(*, shape: Shape, dtype: DType, space: MemorySpace) -> Type:
    return BufferType(shape, dtype, row_major_strides(shape), space)


@op("loop.view")
def view(
    buffer: Value,
    offsets: Sequence[Value],
    *,
    shape: Shape,
    strides: Shape,
    dtype: DType | None = None,
) -> Value:
    """Part of `buffer`: starts at element `offsets` of it, has its own extents and strides.

    `strides` count elements of the result; with `dtype` the same bytes are seen as that dtype.
    """
    ...


@view.type_rule
def view_type(
    buffer: Value,
    offsets: Sequence[Value],
    *,
    shape: Shape,
    strides: Shape,
    dtype: DType | None,
) -> Type:
    base = buffer_type(buffer)
    require_rank("loop.view", offsets, base)
    return BufferType(shape, dtype or base.dtype, strides, base.space)


def require_rank(name: str, indices: Sequence[Value], type_: BufferType) -> None:
    """Raises RankMismatch unless there is one index per axis."""
    if len(indices) != type_.rank:
        raise RankMismatch(f"{name}: {len(indices)} indices for a buffer of rank {type_.rank}")


@op("loop.extent")
def extent(buffer: Value, *, axis: int) -> Value:
    """Extent `axis` of `buffer` at run time, as INDEX: the value behind a symbol of its shape."""
    ...


@extent.type_rule
def extent_type(buffer: Value, *, axis: int) -> Type:
    require_axis("loop.extent", axis, buffer_type(buffer))
    return ScalarType(INDEX)


@extent.reference
def extent_numpy(buffer: Any, *, axis: int) -> int:
    return int(buffer.shape[axis])


def require_axis(name: str, axis: int, type_: BufferType) -> None:
    """Raises RankMismatch unless the buffer has axis `axis`."""
    if not 0 <= axis < type_.rank:
        raise RankMismatch(f"{name}: axis {axis} of a buffer of rank {type_.rank}")


@op("loop.load", effect=Effect.READ)
def load(buffer: Value, indices: Sequence[Value], mask: Value | None) -> Value:
    """Element `indices` of `buffer`; where `mask` is False nothing is read and the result is 0."""
    ...


@load.type_rule
def load_type(buffer: Value, indices: Sequence[Value], mask: Value | None) -> Type:
    require_rank("loop.load", indices, buffer_type(buffer))
    return ScalarType(buffer_type(buffer).dtype)


@op("loop.store", effect=Effect.WRITE)
def store(buffer: Value, indices: Sequence[Value], value: Value, mask: Value | None) -> None:
    """Writes `value` to element `indices` of `buffer` unless `mask` is False."""


@store.type_rule
def store_type(buffer: Value, indices: Sequence[Value], value: Value, mask: Value | None) -> None:
    require_rank("loop.store", indices, buffer_type(buffer))
    if value.type != ScalarType(buffer_type(buffer).dtype):
        raise DTypeMismatch(f"loop.store: a {value.type} into a buffer of {buffer.type}")


@op("loop.check_index", effect=Effect.WRITE)
def check_index(index: Value, bound: Value, mask: Value | None, *, axis: int = 0) -> Value:
    """`index`, after a fault IndexOutOfBounds if it is not in [0, bound) where `mask` holds.

    Returned as INDEX. Needed only where the access is not proven: data-dependent indices.
    """
    ...


@check_index.type_rule
def check_index_type(index: Value, bound: Value, mask: Value | None, *, axis: int) -> Type:
    return scalar_type("loop.check_index", bound)


@op("loop.check_extent", effect=Effect.WRITE)
def check_extent(given: Value, wanted: Value) -> None:
    """A fault RuntimeShapeMismatch unless two numbers, which the shapes promise to agree, do."""


@check_extent.type_rule
def check_extent_type(given: Value, wanted: Value) -> None:
    if given.type != wanted.type:
        raise DTypeMismatch(f"loop.check_extent: {given.type} and {wanted.type}")


@op("loop.matmul", effect=Effect.WRITE)
def matmul(
    c: Value,
    a: Value,
    b: Value,
    *,
    a_trans: bool = False,
    b_trans: bool = False,
    accumulate: bool = False,
) -> None:
    """c[i, j] = fma chain over k, in order, of a[i, k] * b[k, j] from c[i, j] (or 0).

    Rank-2 buffers: c [M, N], a [M, K] (or [K, M]), b [K, N] (or [N, K]). Floats accumulate in
    FP32, narrow inputs widened exactly; integers in INT32, wrapping. Where a and b are BF16,
    denormal elements are zeros, and sums below 2^-126 may be. Where one is FP32, the other may be
    anything that this has exactly. Each of a and b has unit stride on one axis; c has unit stride
    on its last.
    """


def accumulator_dtype(dtype: DType) -> DType:
    """The dtype in which products of `dtype` accumulate: FP32 for floats, INT32 for integers."""
    return FP32 if dtype.is_float() else INT32


def are_bf16(a: Any, b: Any) -> bool:
    """Whether two operands in numpy make a product of BF16."""
    return DType.from_numpy(a.dtype) is DType.from_numpy(b.dtype) is BF16


def without_denormals(a: Any, b: Any) -> tuple[Any, Any]:
    """The operands of a product in numpy: where both are BF16, denormals as zeros of their sign."""
    if not are_bf16(a, b):
        return a, b
    results = np.array(a), np.array(b)
    for result in results:
        small: Any = np.abs(result) < np.finfo(np.float32).tiny
        result[small] = np.copysign(0, result[small])
    return results


@matmul.type_rule
def matmul_type(
    c: Value, a: Value, b: Value, *, a_trans: bool, b_trans: bool, accumulate: bool
) -> None:
    for name, value in (("c", c), ("a", a), ("b", b)):
        if buffer_type(value).rank != 2:
            raise RankMismatch(f"loop.matmul: {name} has rank {buffer_type(value).rank}, not 2")
    floats = buffer_type(a).dtype.is_float() or buffer_type(b).dtype.is_float()
    wanted = FP32 if floats else INT32
    if buffer_type(c).dtype is not wanted:
        raise DTypeMismatch(f"loop.matmul: c is {buffer_type(c).dtype}, not {wanted}")


@op("loop.copy", effect=Effect.WRITE)
def copy(dst: Value, src: Value) -> None:
    """Copies every element of `src` to `dst`: same shape and dtype, no overlap."""


@copy.type_rule
def copy_type(dst: Value, src: Value) -> None:
    left, right = buffer_type(dst), buffer_type(src)
    if (left.shape, left.dtype) != (right.shape, right.dtype):
        raise DTypeMismatch(f"loop.copy: {right} into {left}")


@op("loop.tick", effect=Effect.WRITE)
def tick(table: Value, *, slot: int) -> None:
    """Adds the time since the last tick to entry `slot` of an INT64 table; entry 0 keeps the clock.

    The unit is the machine's: cycles where the code is compiled, nanoseconds interpreted.
    """


@tick.type_rule
def tick_type(table: Value, *, slot: int) -> None:
    type_ = buffer_type(table)
    if type_.dtype is not INT64:
        raise DTypeMismatch(f"loop.tick: the table holds {type_.dtype}, not {INT64}")
    if len(type_.shape) != 1:
        raise RankMismatch(f"loop.tick: the table has {len(type_.shape)} dimensions, not 1")
