"""Where an argument's elements are: numpy arrays, DLPack producers, and anything with a buffer.

torch is never imported here: a tensor brings its own `__dlpack__`.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any, Literal, cast

import numpy as np

import tilewright.runtime as room
from tilewright import dtypes
from tilewright.dataclass import dataclass
from tilewright.dtypes import DType
from tilewright.runtime.pyapi import capsule_pointer
from tilewright.runtime.records import LARGE_RESULT

Family = Literal["numpy", "torch"]
Array = np.ndarray[Any, np.dtype[Any]]
Storage = Any
"""A numpy dtype (numpy's own annotations of its attributes are incomplete)."""


@dataclass(frozen=True, slots=True)
class View:
    """The memory of one array argument; `strides` are in bytes, `owner` keeps it alive."""

    address: int
    dtype: Storage
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    writable: bool
    family: Family
    owner: object

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.dtype.itemsize * count_elements(self.shape)

    @property
    def is_aligned(self) -> bool:
        """True when every element starts at a multiple of its alignment."""
        alignment = self.dtype.alignment
        if self.address % alignment:
            return False
        return all(stride % alignment == 0 for stride in self.strides)

    @property
    def is_contiguous(self) -> bool:
        """True for row-major order without gaps (any array of at most one element is)."""
        expected = self.dtype.itemsize
        if 0 in self.shape:
            return True
        for extent, stride in zip(reversed(self.shape), reversed(self.strides)):
            if extent != 1 and stride != expected:
                return False
            expected *= extent
        return True

    def span(self) -> tuple[int, int]:
        """First byte and one past the last byte that an element occupies; equal when empty."""
        if 0 in self.shape:
            return self.address, self.address
        if self.is_contiguous:
            return self.address, self.address + self.nbytes
        reaches = [(n - 1) * s for n, s in zip(self.shape, self.strides)]
        low = self.address + sum(r for r in reaches if r < 0)
        return low, self.address + sum(r for r in reaches if r > 0) + self.dtype.itemsize

    def repeats_elements(self) -> bool:
        """True when two elements share bytes, as in broadcast and in overlapping windows."""
        axes = [(abs(s), n) for s, n in zip(self.strides, self.shape) if n > 1]
        if 0 in self.shape or not axes:
            return False
        axes.sort()
        inner = [self.dtype.itemsize, *(s * n for s, n in axes)]
        if all(step >= size for (step, _), size in zip(axes, inner)):
            return False
        low, high = self.span()
        if axes[0][0] == 0 or self.nbytes > high - low:
            return True
        starts: Any = np.zeros((), np.int64)
        for step, extent in axes:
            starts = np.add.outer(starts, np.arange(extent) * step)
        return bool((np.diff(np.sort(starts, axis=None)) < self.dtype.itemsize).any())

    def as_array(self) -> Array:
        """A numpy array over the same memory."""
        owner: Any = self.owner
        if isinstance(owner, np.ndarray):
            return cast(Array, owner)
        low, high = self.span()
        raw: Any = (ctypes.c_char * (high - low)).from_address(low) if high > low else bytearray(1)
        offset = self.address - low if high > low else 0
        return np.ndarray(self.shape, self.dtype, raw, offset, self.strides)


def count_elements(shape: tuple[int, ...]) -> int:
    """The product of the extents."""
    count = 1
    for extent in shape:
        count *= extent
    return count


class NotAnArray(Exception):
    """The argument cannot be read as an array; the message says why."""


def view_array(value: object) -> View:
    """The memory of an array-like argument, never a copy; raises NotAnArray."""
    if isinstance(value, np.ndarray):
        if is_masked(cast(object, value)):
            raise NotAnArray("a masked array, whose mask a kernel would not see")
        return _view_numpy(cast(Array, value), cast(object, value))
    if isinstance(value, np.generic):
        raise NotAnArray("a numpy scalar")
    try:
        return _view_exported(value)
    except NotAnArray:
        raise
    except Exception as error:  # whatever the object itself raises is why
        reason = str(error).partition("\n")[0]
        raise NotAnArray(f"a {type(value).__name__} that refuses to be shared: {reason}") from None


def _view_exported(value: object) -> View:
    """The memory that an object of another library says it has."""
    if hasattr(value, "__dlpack__"):
        return _view_dlpack(value)
    if hasattr(value, "__array_interface__") or hasattr(value, "__array_struct__"):
        return _view_numpy(np.asarray(value), value)
    try:
        buffer = memoryview(cast(Any, value))
    except TypeError:
        raise NotAnArray(describe_value(value)) from None
    return _view_numpy(np.asarray(buffer), value)


def is_masked(value: object) -> bool:
    """True for an array with a mask; numpy.ma is not imported for a plain one."""
    return type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray)


def _view_numpy(array: Array, owner: object) -> View:
    address = array.__array_interface__["data"][0]
    keep = array if isinstance(owner, np.ndarray) else (array, owner)
    return View(
        address, array.dtype, array.shape, array.strides, array.flags.writeable, "numpy", keep
    )


def describe_value(value: object) -> str:
    """What an argument is, for a message."""
    if value is None:
        return "None"
    if isinstance(value, (bool, int, float, str)):
        text = repr(value)
        return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"
    return f"an object of type {type(value).__name__}"


# ---- DLPack --------------------------------------------------------------------------------------


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    )


_CPU_DEVICES = frozenset({1, 3, 11})  # plain, and host memory pinned for CUDA or ROCm
_READ_ONLY = 1

# (type code, bits) -> storage type; codes 7.. are DLPack's 8-bit and 4-bit floats
DLPACK_TYPES: dict[tuple[int, int], DType] = {
    **{(0, each.bits): each for each in (dtypes.INT8, dtypes.INT16, dtypes.INT32, dtypes.INT64)},
    **{(1, each.bits): each for each in (dtypes.UINT8, dtypes.UINT16, dtypes.UINT32)},
    (1, 64): dtypes.UINT64,
    **{(2, each.bits): each for each in (dtypes.FP16, dtypes.FP32, dtypes.FP64)},
    (6, 8): dtypes.BOOL,
    (4, 16): dtypes.BF16,
    (8, 8): dtypes.FP8E4M3,
    (10, 8): dtypes.FP8E4M3FN,
    (12, 8): dtypes.FP8E5M2,
    (14, 8): dtypes.FP8E8M0,
}


def _view_dlpack(value: object) -> View:
    _require_resolved(value)
    capsule = _export(value)
    address = capsule_pointer(capsule, b"dltensor_versioned")
    if address:
        managed = _Versioned.from_address(address)
        return _view_dltensor(managed.tensor, not managed.flags & _READ_ONLY, value, capsule)
    address = capsule_pointer(capsule, b"dltensor")
    if not address:
        raise NotAnArray(f"a {type(value).__name__} whose DLPack capsule is of an unknown version")
    return _view_dltensor(_DLTensor.from_address(address), True, value, capsule)


def _require_resolved(value: object) -> None:
    """Refuse torch's lazily negated views: their bytes are not their values."""
    is_negated = getattr(value, "is_neg", None)
    if callable(is_negated) and is_negated():
        raise NotAnArray("a tensor with a pending negation (call .resolve_neg() on it)")


def _export(value: object) -> object:
    export = cast(Callable[..., object], cast(Any, value).__dlpack__)
    try:
        return export(max_version=(1, 0))
    except TypeError:
        return export()


def _view_dltensor(tensor: _DLTensor, writable: bool, value: object, capsule: object) -> View:
    if tensor.device_type not in _CPU_DEVICES:
        raise NotAnArray(f"a {type(value).__name__} that is not in the memory of the CPU")
    dtype = DLPACK_TYPES.get((tensor.code, tensor.bits))
    if dtype is None or tensor.lanes != 1:
        raise NotAnArray(f"a {type(value).__name__} of DLPack type {tensor.code}:{tensor.bits}")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = _dlpack_strides(tensor, shape, dtype.nbytes)
    address = (tensor.data or 0) + tensor.byte_offset
    family: Family = "torch" if is_torch(value) else "numpy"
    return View(address, dtype.numpy, shape, strides, writable, family, (value, capsule))


def _dlpack_strides(tensor: _DLTensor, shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    if tensor.strides:
        return tuple(tensor.strides[i] * size for i in range(len(shape)))
    return tuple(count_elements(shape[i + 1 :]) * size for i in range(len(shape)))


def is_torch(value: object) -> bool:
    """True for a torch tensor (or a subclass's)."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def allocate(shape: tuple[int, ...], dtype: Storage, family: Family, zeroed: bool) -> Any:
    """A fresh array of the family the other arguments are of."""
    if family == "torch":
        torch: Any = sys.modules["torch"]
        maker = torch.zeros if zeroed else torch.empty
        return maker(shape, dtype=getattr(torch, dtype.name))
    size = count_elements(shape) * np.dtype(dtype).itemsize
    if size < LARGE_RESULT or not room.results.is_large(size):
        return np.zeros(shape, dtype) if zeroed else np.empty(shape, dtype)
    made = room.results.large_array(shape, dtype, size)
    if zeroed:
        made.fill(0)
    return made
