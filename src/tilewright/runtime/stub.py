"""The type whose instances Python calls natively.

Where the entry stub cannot be used (see `native.py`), `Launcher` is an ordinary Python class.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import tilewright.runtime as room
from tilewright.runtime.native import TP_FLAGS, missing_assumption, stub_address
from tilewright.runtime.pyapi import api, function_address
from tilewright.runtime.records import INSTANCE, INSTANCE_SIZE, MAX_VARIANTS
from tilewright.runtime.variants import Variant

_HAVE_VECTORCALL, _BASETYPE = 1 << 11, 1 << 10
_PY_TP_CALL, _PY_TP_MEMBERS = 50, 72
_T_PYSSIZET, _READONLY = 19, 1


class _Member(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("function", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


_spec_memory: list[object] = []


def _make_native_base() -> type[Any]:
    """A type with room for a vectorcall function and a table, to be a base of Python classes."""
    members = (_Member * 4)(
        _Member(b"__vectorcalloffset__", _T_PYSSIZET, INSTANCE["vectorcall"], _READONLY, None),
        _Member(b"_native_vectorcall", _T_PYSSIZET, INSTANCE["vectorcall"], 0, None),
        _Member(b"_native_table", _T_PYSSIZET, INSTANCE["table"], 0, None),
        _Member(),
    )
    slots = (_Slot * 3)(
        _Slot(_PY_TP_CALL, function_address("PyVectorcall_Call")),
        _Slot(_PY_TP_MEMBERS, ctypes.addressof(members)),
        _Slot(),
    )
    spec = _Spec(
        b"tilewright.runtime.stub.NativeCallable",
        INSTANCE_SIZE,
        0,
        _BASETYPE | _HAVE_VECTORCALL,
        slots,
    )
    _spec_memory.extend((members, slots, spec))
    return api.PyType_FromSpec(ctypes.addressof(spec))


class _PlainBase:
    """What the native base is where the stub cannot be used."""

    _native_vectorcall: int = 0
    _native_table: int = 0


def _native_base() -> type[_PlainBase]:
    return _PlainBase if missing_assumption() else _make_native_base()


def _allow_vectorcall(cls: type) -> None:
    """CPython does not pass the flag on to Python subclasses that define `__call__`."""
    if not missing_assumption():
        flags = ctypes.c_uint64.from_address(id(cls) + TP_FLAGS)
        flags.value |= _HAVE_VECTORCALL
        api.PyType_Modified(cls)


class Launcher(_native_base()):  # type: ignore[misc]
    """A callable that answers natively when one of its variants fits, else by `call_slowly`.

    Subclasses define `call_slowly`, not `__call__`: a native call would not reach that.
    """

    _variants: tuple[Variant, ...] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _allow_vectorcall(cls)

    def set_variants(self, variants: Sequence[Variant]) -> None:
        """What to try, in this order; those the stub cannot serve are left to the slow path."""
        if any(v.code.manifest.parallel for v in variants):
            room.pool.require_pool()
        fast = tuple(v for v in variants if v.address)[:MAX_VARIANTS]
        entry = stub_address("entry") if fast else 0
        if not entry:
            self._clear_table()
            return
        table = (ctypes.c_uint64 * (1 + len(fast)))(len(fast), *(v.address for v in fast))
        before = self._variants
        self._native_table = ctypes.addressof(table)
        self._native_vectorcall = entry
        self._variants, self._table_memory = fast, table
        del before  # not before the table no longer names them

    def _clear_table(self) -> None:
        self._native_vectorcall = self._native_table = 0
        self._variants = ()

    @property
    def variants(self) -> tuple[Variant, ...]:
        """What is tried natively."""
        return self._variants

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call_slowly(*args, **kwargs)

    def call_slowly(self, *args: Any, **kwargs: Any) -> Any:
        """Answer a call that no variant fits."""
        raise NotImplementedError
