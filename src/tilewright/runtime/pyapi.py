"""CPython's C API through ctypes, with prototypes of our own.

`ctypes.pythonapi` is shared by everything in the process: declaring argument types there would
change them for others.
"""

from __future__ import annotations

import ctypes
from typing import Any

api: Any = ctypes.PyDLL(None, handle=getattr(ctypes.pythonapi, "_handle"))  # noqa: B009

api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyThread_tss_alloc.restype = ctypes.c_void_p
api.PyThread_tss_alloc.argtypes = []
api.PyThread_tss_create.argtypes = [ctypes.c_void_p]
api.PyThread_tss_get.restype = ctypes.c_void_p
api.PyThread_tss_get.argtypes = [ctypes.c_void_p]
api.PyThread_tss_set.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
api.PyType_FromSpec.restype = ctypes.py_object
api.PyType_FromSpec.argtypes = [ctypes.c_void_p]
api.PyType_Modified.argtypes = [ctypes.py_object]
api.PyType_Modified.restype = None
api.Py_IncRef.argtypes = [ctypes.py_object]
api.Py_IncRef.restype = None


def capsule_pointer(capsule: object, name: bytes | None) -> int:
    """The pointer in a capsule of this name, 0 when it is not one."""
    if not api.PyCapsule_IsValid(capsule, name):
        return 0
    return int(api.PyCapsule_GetPointer(capsule, name) or 0)


def function_address(name: str) -> int:
    """The address of one of CPython's C functions."""
    return int(ctypes.cast(getattr(api, name), ctypes.c_void_p).value or 0)
