"""Memory below bufferization: strided windows of flat numpy memory, and the words on them.

Indices are ints, or int64 arrays with one entry per lane; masks likewise. An access outside its
buffer is a defect of the pass that made it, and is reported as one.
"""

from __future__ import annotations

import time
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import IndexOutOfBounds, InternalError, RuntimeShapeMismatch

Array = npt.NDArray[Any]
Indices = tuple[Any, ...]
Extents = tuple[int, ...]


class Buffer:
    """`shape` elements of `data` (1-D), starting at `offset`; `strides` count elements."""

    __slots__ = ("data", "offset", "shape", "strides")

    def __init__(self, data: Array, offset: int, shape: Extents, strides: Extents) -> None:
        self.data = data
        self.offset = offset
        self.shape = shape
        self.strides = strides

    def array(self) -> Array:
        """The elements as a writable numpy array; raises InternalError when they are not there."""
        size = self.data.itemsize
        if prod(self.shape) == 0:
            return np.empty(self.shape, self.data.dtype)
        steps = tuple(stride * size for stride in self.strides)
        try:
            return np.ndarray(self.shape, self.data.dtype, self.data, self.offset * size, steps)
        except ValueError as error:
            raise InternalError(f"a buffer of shape {self.shape} leaves its memory") from error


def as_buffer(array: Array) -> Buffer:
    """The memory of a numpy array of any strides, shared."""
    size = array.itemsize
    strides = tuple(step // size for step in array.strides)
    if array.flags.c_contiguous:
        return Buffer(array.reshape(-1), 0, array.shape, strides)
    spans = [(n - 1) * stride for n, stride in zip(array.shape, strides)]
    low = sum(span for span in spans if span < 0)
    extent = 1 + sum(map(abs, spans)) if array.size else 0
    corner = array[tuple(slice(-1, None) if stride < 0 else slice(1) for stride in strides)]
    start: Array = np.lib.stride_tricks.as_strided(corner, (extent,), (size,))
    return Buffer(start, -low, array.shape, strides)


def allocate(shape: Extents, dtype: npt.DTypeLike, poison: bool) -> Buffer:
    """Scratch memory: zeros, or poison where reading it before writing must show."""
    data: Array = np.zeros(prod(max(0, extent) for extent in shape), dtype)
    if poison:
        fill_with_poison(data)
    return Buffer(data, 0, shape, dense_strides(shape))


def dense_strides(shape: Extents) -> Extents:
    """Row-major element strides."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def fill_with_poison(array: Array) -> None:
    """NaN for floats, the greatest value for integers, True for booleans."""
    if array.dtype.kind == "b":
        array[...] = True
    elif array.dtype.kind in "iu":
        array[...] = np.iinfo(array.dtype).max
    else:
        pattern = b"\x7f" if array.itemsize == 1 else b"\xff" * array.itemsize
        array[...] = np.frombuffer(pattern, array.dtype)[0]


def view(
    buffer: Buffer, offsets: Indices, shape: Extents, strides: Extents, dtype: Any = None
) -> Buffer:
    """`loop.view`: a window of `buffer`, perhaps of other element type."""
    start = buffer.offset + sum(i * stride for i, stride in zip(offsets, buffer.strides))
    data = buffer.data
    if dtype is None or dtype == data.dtype:
        return Buffer(data, start, shape, strides)
    size = np.dtype(dtype).itemsize
    where, odd = divmod(start * data.itemsize, size)
    if odd:
        raise InternalError("loop.view: the offset is not a multiple of the new element size")
    room = data.nbytes // size * size
    return Buffer(data.view(np.uint8)[:room].view(dtype), where, shape, strides)


def _address(buffer: Buffer, indices: Indices, mask: Any) -> Any:
    """The flat position of each element accessed; checks those where `mask` holds."""
    address: Any = buffer.offset
    for axis, (index, extent, stride) in enumerate(zip(indices, buffer.shape, buffer.strides)):
        outside = (index < 0) | (index >= extent)
        if np.any(outside if mask is None else outside & mask):
            raise InternalError(
                f"an unchecked access leaves axis {axis} of a buffer of shape {buffer.shape}"
            )
        address = address + index * stride
    return address


def load(buffer: Buffer, indices: Indices, mask: Any) -> Any:
    """`loop.load`: one element, or one per lane; 0 where the mask is False."""
    address = _address(buffer, indices, mask)
    if mask is None:
        return buffer.data[address]
    zero = buffer.data.dtype.type(0)
    if not np.any(mask):
        return np.full(np.shape(mask), zero) if np.ndim(mask) else zero
    return np.where(mask, buffer.data[np.where(mask, address, buffer.offset)], zero)[()]


def store(buffer: Buffer, indices: Indices, value: Any, mask: Any) -> None:
    """`loop.store`: writes one element, or one per lane, where the mask holds."""
    address = _address(buffer, indices, mask)
    if mask is None:
        buffer.data[address] = value
        return
    mask, address, value = np.broadcast_arrays(mask, address, value)
    buffer.data[address[mask]] = value[mask]


def copy(dst: Buffer, src: Buffer) -> None:
    """`loop.copy`: every element of `src`."""
    dst.array()[...] = src.array()


def check_extent(given: Any, wanted: Any) -> None:
    """`loop.check_extent`: RuntimeShapeMismatch unless the numbers are equal."""
    if given != wanted:
        raise RuntimeShapeMismatch(f"an extent is {given}; it must be {wanted}")


def check_index(index: Any, bound: Any, mask: Any, axis: int) -> Any:
    """`loop.check_index`: `index` as INDEX; IndexOutOfBounds unless in [0, bound)."""
    wide = index if isinstance(index, int) else np.asarray(index).astype(np.int64)
    outside = (wide < 0) | (wide >= bound)
    if mask is not None:
        outside = outside & mask
    if np.any(outside):
        first = int(np.extract(outside, np.broadcast_to(wide, np.shape(outside)))[0])
        raise IndexOutOfBounds(
            f"index {first} is out of bounds for axis {axis} with extent {bound}"
        )
    return wide if isinstance(wide, int) else wide[()]


def tick(table: Any, slot: int) -> None:
    """`loop.tick`, in nanoseconds."""
    now = time.perf_counter_ns()
    table[slot] += now - table[0]
    table[0] = now
