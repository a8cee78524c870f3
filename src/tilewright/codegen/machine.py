"""LLVM text to object bytes, for the host or less. LLVM is loaded on first use."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache

from tilewright import settings
from tilewright.archive import join
from tilewright.codegen import llvm
from tilewright.codegen.units import split_units
from tilewright.locks import make_lock
from tilewright.target import Target, infer_isa, restrict_target

_lock = make_lock()
_compiling = [0]
_machines: dict[Target, list[llvm.Machine]] = {}
KEPT_UNITS = 256
VERSIONS_WITH_SWITCH = range(15, 24)
"""An option LLVM does not know ends the process, so it is set where it is known to exist."""


def llvm_version() -> str:
    """The version of LLVM that makes the objects; a part of every key."""
    return ".".join(str(part) for part in llvm.version())


@lru_cache(maxsize=1)
def detect_host() -> Target:
    """This machine."""
    features, triple = llvm.host_features(), llvm.process_triple()
    present = frozenset(each[1:] for each in features if each.startswith("+"))
    return Target(triple, llvm.host_cpu(), ",".join(features), infer_isa(triple, present))


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
    with llvm.parsed(text) as module, borrowed_machine(target) as machine, addresses_as_written():
        return machine.emit(module)


def assembly(text: str, target: Target) -> str:
    """The machine code of a module as assembly, for people."""
    with llvm.parsed(text) as module, borrowed_machine(target) as machine, addresses_as_written():
        return machine.emit(module, assembly=True).decode()


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
    with _lock:
        before = _compiling[0]
        _compiling[0] = before + change
        if llvm.version()[0] in VERSIONS_WITH_SWITCH and 0 in (before, _compiling[0]):
            llvm.set_option(f"-disable-lsr={'true' if _compiling[0] else 'false'}")


@contextmanager
def borrowed_machine(target: Target) -> Generator[llvm.Machine]:
    """An LLVM target machine that nobody else uses meanwhile; what it has found out is kept."""
    with _lock:
        idle = _machines.setdefault(target, [])
        machine = idle.pop() if idle else None
    machine = machine or llvm.Machine(target.triple, target.cpu, target.features)
    try:
        yield machine
    finally:
        idle.append(machine)
