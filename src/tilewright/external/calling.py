"""A kernel in C++ called with numpy arrays: what the interpreter does."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from tilewright.abi import (
    CTX,
    CTX_SIZE,
    FAULT_VALUES,
    ExternalKernel,
    Fault,
    encode_scalar,
    fault_name,
)
from tilewright.dtypes import DType
from tilewright.errors import CancelledError, InternalError
from tilewright.errors.faults import FAULT_ERRORS
from tilewright.external.library import address_of, prepare

Array = np.ndarray[Any, np.dtype[Any]]

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
    )


def run(
    kernel: ExternalKernel, dtypes: Sequence[DType], around: Sequence[int], args: Sequence[Any]
) -> None:
    """Calls a kernel with arrays and scalars of `dtypes`; `around` are the words after theirs.

    Arrays of parameters that are not const are written in place; inputs that share memory with them
    are copied first. Raises the faults that the kernel reports, and what `prepare` raises.
    """
    written = [a for a, p in zip(args, kernel.params, strict=True) if _is_written(p)]
    keep: list[Any] = []
    words = [
        _tensor(_apart(cast(Array, given), param, written), keep)
        if isinstance(given, np.ndarray)
        else encode_scalar(given, dtype)
        for given, param, dtype in zip(args, kernel.params, dtypes, strict=True)
    ]
    passed = (ctypes.c_uint64 * (len(words) + len(around)))(*words, *around)
    context = (ctypes.c_char * CTX_SIZE)()
    entry = _ENTRY(address_of(prepare(kernel)))
    status = entry(ctypes.addressof(passed), ctypes.addressof(context))
    del keep
    if status:
        raise _fault(kernel, status, bytes(context))


def _is_written(param: str) -> bool:
    return param.startswith("tw::Tensor<") and "<const " not in param


def _apart(array: Array, param: str, written: Sequence[Any]) -> Array:
    """An input that shares no memory with what is written."""
    if _is_written(param):
        return array
    return np.array(array) if any(np.may_share_memory(array, w) for w in written) else array


def _tensor(array: Array, keep: list[Any]) -> int:
    """The address of the description of an array; `keep` holds the memory of it."""
    size = array.itemsize
    shape = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
    strides = (ctypes.c_int64 * max(1, array.ndim))(*(s // size for s in array.strides))
    tensor = _Tensor(
        array.ctypes.data, ctypes.addressof(shape), ctypes.addressof(strides), array.ndim
    )
    keep += (array, shape, strides, tensor)
    return ctypes.addressof(tensor)


def _fault(kernel: ExternalKernel, status: int, context: bytes) -> BaseException:
    if status == Fault.CANCELLED:
        return CancelledError(f"{kernel.function} was interrupted")
    known = FAULT_ERRORS.get(fault_name(status))
    if known is None:
        return InternalError(f"{kernel.function} returned the unknown status {status}")
    error_class, template = known
    start = CTX["fault_values"].offset
    values = np.frombuffer(context, np.int64, FAULT_VALUES, start)
    return error_class(f"{kernel.function}: {template.format(*values)}")
