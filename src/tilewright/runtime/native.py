"""The entry stub in memory, and whether this process can use it.

Everything the stub assumes about CPython and numpy is checked here by probes. Where one fails
(another interpreter, a free-threaded build, another array layout), calls take the careful path.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from functools import cache
from types import CellType
from typing import Any

import numpy as np

import tilewright.runtime as room
from tilewright import settings
from tilewright.hashes import blake
from tilewright.runtime import process, records
from tilewright.runtime.load import LoadedObject, compile_text, has_own_loader, load_object
from tilewright.runtime.pyapi import api, capsule_pointer, function_address
from tilewright.runtime.records import CELL_CONTENTS, FLOAT_VALUE, INSTANCE, LIST, NDARRAY

TP_FLAGS = 168  # in a type object
_NEW_FROM_DESCR = 94  # index in numpy's C API table

_PYTHON_FUNCTIONS = """
PyDict_GetItemWithError PyErr_CheckSignals PyErr_Clear PyErr_ExceptionMatches PyErr_Occurred
PyEval_SaveThread PyEval_RestoreThread PyLong_AsLongLongAndOverflow PyLong_FromLongLong
PyObject_GetAttr PyObject_Vectorcall PyThread_tss_get PyThread_tss_set PyTuple_New
PyTuple_SetItem Py_DecRef
Py_IncRef
"""


# ---- probes --------------------------------------------------------------------------------------


@cache
def missing_assumption() -> str:
    """Why the stub cannot be used here, or "" when it can."""
    if not settings.FAST_LAUNCH.read():
        return "switched off by TILEWRIGHT_FAST_LAUNCH"
    if not has_own_loader() or sys.implementation.name != "cpython":
        return "not CPython on x86-64 Linux"
    if sys.abiflags.startswith("t"):
        return "a free-threaded build"
    if object.__basicsize__ != INSTANCE["vectorcall"]:
        return "a debug build: objects have a longer header"
    probes = (_probe_types, _probe_ndarray, _probe_allocator)
    return next((probe.__doc__ or "" for probe in probes if not probe()), "")


def _word(address: int, size: int = 8) -> int:
    return int.from_bytes(ctypes.string_at(address, size), "little")


def _probe_types() -> bool:
    """types, cells, lists or floats have another layout"""
    cell, number, items = CellType(object), 1.5, [int, object]
    bits = ctypes.c_double.from_address(id(number) + FLOAT_VALUE).value
    return (
        _word(id(int) + TP_FLAGS) == int.__flags__
        and _word(id(cell) + CELL_CONTENTS) == id(object)
        and _word(id(items) + LIST["size"]) == len(items)
        and _word(_word(id(items) + LIST["items"]) + 8) == id(object)
        and bits == number
    )


def _probe_ndarray() -> bool:
    """numpy arrays have another layout"""
    whole = np.zeros((3, 5, 7), np.float32)
    frozen = whole[:, ::2]
    frozen.flags.writeable = False
    return all(
        _has_known_layout(array) for array in (whole, frozen, np.zeros(()), np.zeros((0, 2)))
    )


def _has_known_layout(array: np.ndarray[Any, Any]) -> bool:
    at = {name: id(array) + offset for name, offset in NDARRAY.items()}
    extents, strides = _word(at["dims"]), _word(at["strides"])
    flags: int = array.flags.num
    return (
        _word(id(array) + INSTANCE["type"]) == id(np.ndarray)
        and _word(at["data"]) == array.__array_interface__["data"][0]
        and _word(at["ndim"], 4) == array.ndim
        and [_word(extents + 8 * i) for i in range(array.ndim)] == list(array.shape)
        and [_word(strides + 8 * i) for i in range(array.ndim)] == list(array.strides)
        and _word(at["descr"]) == id(array.dtype)
        and _word(at["flags"], 4) & 0x501 == flags & 0x501
    )


@cache
def _allocator() -> int:
    """The address of PyArray_NewFromDescr, 0 when numpy keeps its table elsewhere."""
    core = sys.modules.get("numpy._core._multiarray_umath")
    capsule = getattr(core, "_ARRAY_API", None)
    table = capsule_pointer(capsule, None)
    return _word(table + 8 * _NEW_FROM_DESCR) if table else 0


def _probe_allocator() -> bool:
    """numpy's C function table is another one"""
    if not _allocator():
        return False
    kinds = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, *[ctypes.c_void_p] * 3]
    make = ctypes.PYFUNCTYPE(ctypes.py_object, *kinds, ctypes.c_int, ctypes.c_void_p)(_allocator())
    dims, dtype = (ctypes.c_int64 * 2)(3, 4), np.dtype(np.float32)
    api.Py_IncRef(dtype)
    made = make(id(np.ndarray), id(dtype), 2, ctypes.addressof(dims), None, None, 0, None)
    return type(made) is np.ndarray and made.shape == (3, 4) and made.dtype is dtype


# ---- loading -------------------------------------------------------------------------------------


_STUB_SOURCES = (
    "../abi.py", "assembler.py", "entry.py", "entry_outputs.py", "entry_pool.py", "entry_run.py",
    "records.py",
)  # fmt: skip
"""What the stub is made of; these modules are imported when it is not kept yet."""


@cache
def load_stub() -> LoadedObject:
    """The stub in memory: from the cache directory, or compiled now and kept there."""
    _fill_process_table()
    symbols = {name: function_address(name) for name in _PYTHON_FUNCTIONS.split()}
    symbols[records.PROCESS_SYMBOL] = process.TABLE_ADDRESS
    symbols[records.ACTIONS_SYMBOL] = process.ACTIONS_ADDRESS
    image = load_object(_stub_object(), symbols)
    api.Py_IncRef(image)  # never unloaded: instances and threads point into it to the last
    return image


def _fill_process_table() -> None:
    for name, value in (
        ("ndarray_type", np.ndarray),
        ("none", None),
        ("true", True),
        ("false", False),
        ("long_type", int),
        ("float_type", float),
        ("keyboard_interrupt", KeyboardInterrupt),
        ("name_call_slowly", sys.intern("call_slowly")),
        ("name_report_status", sys.intern("report_status")),
        ("name_requires_grad", sys.intern("requires_grad")),
    ):
        process.set_object(name, value)
    process.set_word("new_from_descr", _allocator())


def _stub_object() -> bytes:
    path = _stub_path()
    kept = _read_checked(path) if path else None
    if kept is not None:
        return kept
    made = compile_text(room.entry.stub_text())
    if path and not settings.CACHE_READONLY.read():
        _write_checked(path, made)
    return made


def _stub_path() -> str | None:
    """Where the stub is kept; its name says what it was made from."""
    if settings.CACHE.find() is not None and not settings.CACHE.read():
        return None
    digest = blake(sys.version.encode())
    try:
        for name in _STUB_SOURCES:
            with open(os.path.join(os.path.dirname(__file__), name), "rb") as file:
                digest.update(file.read())
    except OSError:
        return None
    return os.path.join(cache_directory(), f"entry-stub-{digest.hexdigest()[:24]}.o")


def cache_directory() -> str:
    """The user's directory of compiled things; kernels have one of their own (`cache/`)."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "tilewright")


def _read_checked(path: str) -> bytes | None:
    """What `_write_checked` wrote, None when it is absent or damaged."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    digest, body = data[:32], data[32:]
    return body if blake(body).digest() == digest else None


def _write_checked(path: str, body: bytes) -> None:
    """Keep bytes with their digest, atomically; a directory that cannot be written is no error."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        unfinished = f"{path}.{os.getpid()}-{threading.get_ident()}"
        with open(unfinished, "wb") as file:
            file.write(blake(body).digest() + body)
        os.replace(unfinished, path)
    except OSError:
        return


@cache
def stub_address(name: str) -> int:
    """The address of one of the stub's functions; 0 where the stub cannot be used."""
    if missing_assumption():
        return 0
    try:
        return load_stub().address(f"tilewright_{name}")
    except ImportError:  # neither the stub in the cache nor LLVM to make it
        return 0


@cache
def native_runner() -> Callable[[int, int, int, int], int] | None:
    """run(kernel, words, context, ns) of the stub, or None; raises what a signal handler raises."""
    address = stub_address("run")
    made = ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)
    return made(address) if address else None
