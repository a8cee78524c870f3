"""LLVM as far as text becomes objects, from the library that llvmlite brings.

`llvmlite.binding` declares all of LLVM and imports what a first kernel has no use for, which takes
three times as long as to load the library. So what is needed is declared here, as llvmlite 0.46 to
0.50 do. Each module has a context of its own: threads do not meet in one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from ctypes import CDLL, POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_void_p, string_at
from functools import lru_cache
from typing import Any

from tilewright.locks import make_lock

_TEXT = POINTER(c_char_p)
"""Where a text is put that has to be given back."""

_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "GetVersionInfo": (c_uint,),
    "InitializeNativeTarget": (c_int,),
    "InitializeNativeAsmPrinter": (c_int,),
    "SetCommandLine": (None, c_char_p, c_char_p),
    "DisposeString": (None, c_char_p),
    "GetProcessTriple": (None, _TEXT),
    "GetHostCPUName": (None, _TEXT),
    "GetHostCPUFeatures": (c_int, _TEXT),
    "ContextCreate": (c_void_p,),
    "ContextDispose": (None, c_void_p),
    "ParseAssembly": (c_void_p, c_void_p, c_char_p, _TEXT),
    "VerifyModule": (c_int, c_void_p, _TEXT),
    "DisposeModule": (None, c_void_p),
    "SetTarget": (None, c_void_p, c_char_p),
    "SetDataLayout": (None, c_void_p, c_char_p),
    "GetTargetFromTriple": (c_void_p, c_char_p, _TEXT),
    # target, triple, cpu, features, effort, relocation, code model, printing, JIT, ABI
    "CreateTargetMachine": (
        *(c_void_p, c_void_p, c_char_p, c_char_p, c_char_p, c_int, c_char_p, c_char_p),
        *(c_int, c_int, c_char_p),
    ),
    "CreateTargetMachineData": (c_void_p, c_void_p),
    "CopyStringRepOfTargetData": (None, c_void_p, _TEXT),
    "DisposeTargetData": (None, c_void_p),
    "TargetMachineEmitToMemory": (c_void_p, c_void_p, c_void_p, c_int, _TEXT),
    "GetBufferStart": (c_void_p, c_void_p),
    "GetBufferSize": (c_size_t, c_void_p),
    "DisposeMemoryBuffer": (None, c_void_p),
}
"""The result and the arguments of each function."""

_lock = make_lock()


def call(name: str, *arguments: Any) -> Any:
    """What a function of LLVM gives."""
    return _library()[name](*arguments)


def _library() -> dict[str, Callable[..., Any]]:
    with _lock:
        return _load()


@lru_cache(maxsize=1)
def _load() -> dict[str, Callable[..., Any]]:
    import llvmlite
    from llvmlite.utils import get_library_name

    home = os.path.join(os.path.dirname(llvmlite.__file__), "binding")
    library, made = CDLL(os.path.join(home, get_library_name())), dict[str, Callable[..., Any]]()
    for name, (result, *arguments) in _SIGNATURES.items():
        made[name] = function = library[f"LLVMPY_{name}"]
        function.restype, function.argtypes = result, arguments
    made["InitializeNativeTarget"]()
    made["InitializeNativeAsmPrinter"]()
    return made


def called_for_text(name: str, *arguments: Any) -> tuple[Any, str]:
    """What a function of LLVM gives, and the text that it puts where its last argument says."""
    place = c_char_p()
    result = call(name, *arguments, byref(place))
    text = (place.value or b"").decode()
    call("DisposeString", place)
    return result, text


def checked(name: str, *arguments: Any) -> Any:
    """The object that a function of LLVM gives; RuntimeError with what it says if it gives none."""
    made, problem = called_for_text(name, *arguments)
    if not made:
        raise RuntimeError(problem)
    return made


def version() -> tuple[int, ...]:
    """The version of LLVM: three numbers."""
    return tuple(call("GetVersionInfo").to_bytes(4, "big").lstrip(b"\0"))


def process_triple() -> str:
    """What this process is made for."""
    return called_for_text("GetProcessTriple")[1]


def host_cpu() -> str:
    """What LLVM calls this processor."""
    return called_for_text("GetHostCPUName")[1]


def host_features() -> list[str]:
    """What this processor has, "+avx2", and has not, "-avx512f", by name."""
    listed = called_for_text("GetHostCPUFeatures")[1]
    return sorted((each for each in listed.split(",") if each), key=lambda each: each[1:])


def set_option(option: str) -> None:
    """Sets an option of the whole process; one that LLVM does not know ends it."""
    call("SetCommandLine", b"", option.encode())


@contextmanager
def parsed(text: str) -> Generator[Any]:
    """A module that LLVM has read and verified; RuntimeError with what is wrong."""
    context = call("ContextCreate")
    try:
        module = checked("ParseAssembly", context, text.encode())
        try:
            is_broken, problem = called_for_text("VerifyModule", module)
            if is_broken:
                raise RuntimeError(problem)
            yield module
        finally:
            call("DisposeModule", module)
    finally:
        call("ContextDispose", context)


class Machine:
    """Makes objects for one kind of processor; of use to one thread at a time."""

    def __init__(self, triple: str, cpu: str, features: str) -> None:
        target = checked("GetTargetFromTriple", triple.encode())
        made = call(
            "CreateTargetMachine", target, triple.encode(), cpu.encode(), features.encode(),
            1, b"pic", b"small", 0, 0, b"",
        )  # fmt: skip
        if not made:
            raise RuntimeError(f"LLVM makes no objects for {triple}, {cpu}")
        self.triple, self._made = triple.encode(), made
        data = call("CreateTargetMachineData", made)
        self.layout = called_for_text("CopyStringRepOfTargetData", data)[1].encode()
        call("DisposeTargetData", data)

    def emit(self, module: Any, *, assembly: bool = False) -> bytes:
        """The object of a module, or its text for people."""
        call("SetTarget", module, self.triple)
        call("SetDataLayout", module, self.layout)
        buffer = checked("TargetMachineEmitToMemory", self._made, module, int(not assembly))
        try:
            return string_at(call("GetBufferStart", buffer), call("GetBufferSize", buffer))
        finally:
            call("DisposeMemoryBuffer", buffer)
