"""LLVM text to object bytes, for the host or less. llvmlite is imported on first use."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from types import ModuleType
from typing import Any

from tilewright import settings
from tilewright.archive import join
from tilewright.codegen.units import split_units
from tilewright.locks import make_lock
from tilewright.target import Target, infer_isa, restrict_target

_lock = make_lock()
_binding: list[ModuleType] = []
_compiling = [0]
_machines: dict[Target, list[Any]] = {}
KEPT_UNITS = 256
VERSIONS_WITH_SWITCH = range(15, 24)
"""An option LLVM does not know ends the process, so it is set where it is known to exist."""


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
    isa = settings.TARGET_ISA.read().strip().lower()
    return restrict_target(detect_host(), isa) if isa else detect_host()


def compile_text(text: str, target: Target) -> bytes:
    """The objects of a module (see archive.py); RuntimeError from LLVM if the text is wrong.

    Micro-kernels that this process has compiled before are not compiled again.
    """
    main, units = split_units(text)
    return join([compile_module(main, target), *(compile_unit(unit, target) for unit in units)])


@lru_cache(maxsize=KEPT_UNITS)
def compile_unit(text: str, target: Target) -> bytes:
    """The object of a micro-kernel."""
    return compile_module(text, target)


def compile_module(text: str, target: Target) -> bytes:
    """The object of a module. No optimisation passes run: the text says what should happen."""
    binding = llvm()
    module = binding.parse_assembly(text)
    module.triple = target.triple
    module.verify()
    with borrowed_machine(target) as machine, addresses_as_written():
        module.data_layout = str(machine.target_data)
        return machine.emit_object(module)


def assembly(text: str, target: Target) -> str:
    """The machine code of a module as assembly, for people."""
    module = llvm().parse_assembly(text)
    module.verify()
    with borrowed_machine(target) as machine, addresses_as_written():
        return machine.emit_assembly(module)


@contextmanager
def addresses_as_written() -> Generator[None]:
    """Loop strength reduction is off for the duration.

    It takes half of the compile time, more than linear in the number of loops, and finds nothing in
    our loops. The option belongs to the process, so others who compile meanwhile may do without it
    too: slower code at worst. LLVM has no attribute of functions and no flag of target machines
    that would say it of one module.
    """
    _set_strength_reduction(+1)
    try:
        yield
    finally:
        _set_strength_reduction(-1)


def _set_strength_reduction(change: int) -> None:
    binding = llvm()
    with _lock:
        before = _compiling[0]
        _compiling[0] = before + change
        if binding.llvm_version_info[0] in VERSIONS_WITH_SWITCH and 0 in (before, _compiling[0]):
            binding.set_option("", f"-disable-lsr={'true' if _compiling[0] else 'false'}")


@contextmanager
def borrowed_machine(target: Target) -> Generator[Any]:
    """An LLVM target machine that nobody else uses meanwhile; what it has found out is kept."""
    with _lock:
        idle = _machines.setdefault(target, [])
        machine = idle.pop() if idle else None
    machine = machine or create_machine(target)
    yield machine
    idle.append(machine)


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
