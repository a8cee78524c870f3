"""LLVM without llvmlite's binding: declared alike, found alike, and refusing with reasons."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from typing import Any

import llvmlite.binding
import pytest
from llvmlite.binding import ffi

from tilewright.codegen import llvm
from tilewright.codegen.llvm import Machine, parsed

ADD = "define i64 @f(i64 %x) {\n %y = add i64 %x, 1\n ret i64 %y\n}\n"


def shape_of(declared: Any) -> tuple[bool, int]:
    """What decides how a value of a type of ctypes is passed: whether an address, and its size."""
    is_address = declared in (ctypes.c_void_p, ctypes.c_char_p) or hasattr(declared, "contents")
    return is_address, ctypes.sizeof(declared)


@pytest.mark.parametrize("name", llvm._SIGNATURES)  # type: ignore[attr-defined]
def test_functions_are_declared_as_llvmlite_declares_them(name: str) -> None:
    theirs = getattr(ffi.lib, f"LLVMPY_{name}")
    ours = llvm._library()[name]  # type: ignore[attr-defined]
    if theirs.argtypes is None:  # then ctypes passes what it is given
        assert len(ours.argtypes) <= 1
    else:
        assert [*map(shape_of, ours.argtypes)] == [*map(shape_of, theirs.argtypes)]
    if theirs.restype in (None, ctypes.c_int, ctypes.c_bool):
        assert ours.restype in (None, ctypes.c_int)
    else:
        assert shape_of(ours.restype) == shape_of(theirs.restype)


def test_the_host_is_what_llvmlite_finds() -> None:
    assert llvm.version() == llvmlite.binding.llvm_version_info
    assert llvm.process_triple() == llvmlite.binding.get_process_triple()
    assert llvm.host_cpu() == llvmlite.binding.get_host_cpu_name()
    assert ",".join(llvm.host_features()) == llvmlite.binding.get_host_cpu_features().flatten()


def test_a_module_becomes_an_object_and_text_for_people() -> None:
    machine = Machine(llvm.process_triple(), "", "")
    with parsed(ADD) as module:
        assert b"\tret" in machine.emit(module, assembly=True)
        assert llvmlite.binding.ObjectFileRef.from_data(machine.emit(module))


def test_what_llvm_refuses_is_said() -> None:
    with pytest.raises(RuntimeError, match="expected type"), parsed("define ?"):
        pass
    twice = ADD.replace(
        "ret i64 %y", "br label %a\na:\n %z = add i64 %u, 1\n %u = add i64 1, 1\n ret i64 %z"
    )
    with pytest.raises(RuntimeError, match="does not dominate"), parsed(twice):
        pass
    with pytest.raises(RuntimeError, match="nowhere"):
        Machine("nowhere-unknown", "", "")


def test_a_first_compilation_imports_nothing_else_of_llvmlite() -> None:
    program = (
        "import sys\n"
        "from tilewright.codegen.machine import compile_text, host_target\n"
        f"assert compile_text({ADD!r}, host_target())\n"
        "print(*sorted(name for name in sys.modules if name.startswith('llvmlite')))\n"
    )
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    said = subprocess.check_output([sys.executable, "-c", program], env=paths, text=True)
    assert said.split() == ["llvmlite", "llvmlite._version", "llvmlite.utils"]
