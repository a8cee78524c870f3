"""LLVM text to object bytes, for the host or less. llvmlite is imported on first use."""

import os
import threading
from functools import lru_cache
from types import ModuleType
from typing import Any

from tilewright.target import ISA_ENVIRONMENT, Target, infer_isa, restrict_target

_lock = threading.Lock()
_binding: list[ModuleType] = []


def llvm() -> ModuleType:
    """llvmlite.binding with the native target initialised."""
    if not _binding:
        with _lock:
            if not _binding:
                import llvmlite.binding

                llvmlite.binding.initialize_native_target()
                llvmlite.binding.initialize_native_asmprinter()
                _binding.append(llvmlite.binding)
    return _binding[0]


def llvm_version() -> str:
    """The version of LLVM that makes the objects; a part of every key."""
    return ".".join(str(part) for part in llvm().llvm_version_info)


@lru_cache(maxsize=1)
def detect_host() -> Target:
    """This machine."""
    binding = llvm()
    features = binding.get_host_cpu_features()
    present = frozenset(name for name, has in features.items() if has)
    triple = binding.get_process_triple()
    isa = infer_isa(triple, present)
    return Target(triple, binding.get_host_cpu_name(), features.flatten(), isa)


def host_target() -> Target:
    """This machine, restricted by the environment variable TILEWRIGHT_TARGET_ISA if that is set."""
    isa = os.environ.get(ISA_ENVIRONMENT, "").strip().lower()
    return restrict_target(detect_host(), isa) if isa else detect_host()


def compile_text(text: str, target: Target) -> bytes:
    """The object file of a module; RuntimeError from LLVM if the text is wrong.

    No optimisation passes run: the text already says what should happen.
    """
    binding = llvm()
    module = binding.parse_assembly(text)
    module.triple = target.triple
    module.verify()
    machine = create_machine(target)
    module.data_layout = str(machine.target_data)
    return machine.emit_object(module)


def assembly(text: str, target: Target) -> str:
    """The machine code of a module as assembly, for people."""
    module = llvm().parse_assembly(text)
    module.verify()
    return create_machine(target).emit_assembly(module)


def create_machine(target: Target) -> Any:
    """An LLVM target machine."""
    return (
        llvm()
        .Target.from_triple(target.triple)
        .create_target_machine(
            cpu=target.cpu,
            features=target.features,
            opt=1,
            reloc="pic",
            codemodel="small",
        )
    )
