"""Object bytes to addresses.

On x86-64 Linux our own ELF loader does it, without LLVM; elsewhere LLVM's JIT linker does. Objects
carry no addresses: what a process must supply is an undefined symbol, found by `resolve_symbol` or
given by the caller.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Protocol
from weakref import WeakValueDictionary

from tilewright.archive import split
from tilewright.errors import ToolchainError
from tilewright.runtime.elf import ElfImage

_LIBC_NAMES = frozenset(
    {"memcpy", "memmove", "memset", "bcmp", "memcmp", "aligned_alloc", "free"}
    | {"sched_yield", "sigaction", "syscall"}
)
_MATH_STEMS = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 fabs floor "
    "fma fmax fmin fmod ldexp lgamma log log10 log1p log2 nearbyint pow rint round roundeven sin "
    "sincos sinh sqrt tan tanh tgamma trunc"
)
_MATH_NAMES = frozenset(f"{stem}{kind}" for stem in _MATH_STEMS.split() for kind in ("", "f"))
_HALF_NAMES = frozenset(
    {"__extendhfsf2", "__truncsfhf2", "__truncdfhf2", "__truncsfbf2", "__truncdfbf2"}
)


class LoadedObject(Protocol):
    """Code in memory; it stays there while this object lives."""

    def address(self, name: str) -> int:
        """The address of a function the object defines; raises KeyError."""
        ...


def has_own_loader() -> bool:
    """True when objects of this machine load without LLVM."""
    return sys.platform == "linux" and platform.machine() in ("x86_64", "AMD64")


def load_object(data: bytes, symbols: Mapping[str, int] | None = None) -> LoadedObject:
    """Load an object, or an archive of them whose first one is the kernel.

    `symbols` are addresses it may refer to beside the known library functions.

    Raises ToolchainError when the object is malformed or needs something unknown.
    """
    given = symbols or {}
    if not has_own_loader():
        return JitImage(data, given)
    main, *others = objects_of(data)
    if not others:
        return ElfImage(main, lambda name: given.get(name) or resolve_symbol(name))
    return LinkedImage(main, others, given)


def objects_of(data: bytes) -> list[bytes]:
    """What is loaded, then what that calls."""
    try:
        return split(data)
    except ValueError as error:
        raise ToolchainError(str(error)) from error


class LinkedImage:
    """An object that calls functions of `others`, which stand for themselves and are shared."""

    _shared: ClassVar[WeakValueDictionary[bytes, ElfImage]] = WeakValueDictionary()

    def __init__(self, main: bytes, others: Sequence[bytes], symbols: Mapping[str, int]) -> None:
        self.others = [self._share(data) for data in others]
        known = dict(symbols)
        for image in self.others:
            known.update(image.exports())
        self._main = ElfImage(main, lambda name: known.get(name) or resolve_symbol(name))

    def _share(self, data: bytes) -> ElfImage:
        """The object in memory, once per process."""
        image = self._shared.get(data)
        if image is None:
            image = self._shared[data] = ElfImage(data, resolve_symbol)
        return image

    def address(self, name: str) -> int:
        """The address of `name`; raises KeyError when the main object does not define it."""
        return self._main.address(name)


@cache
def resolve_symbol(name: str) -> int:
    """The address of a library function that code may call; raises ToolchainError."""
    library = _library_of(name)
    if library is not None and hasattr(library, name):
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        if address:
            return address
    raise ToolchainError(f"the object needs {name!r}, which the runtime does not offer")


def _library_of(name: str) -> ctypes.CDLL | None:
    if name in _LIBC_NAMES:
        return ctypes.CDLL(None)
    if name in _MATH_NAMES:
        return ctypes.CDLL(
            ctypes.util.find_library("m") if sys.platform == "darwin" else "libm.so.6"
        )
    if name in _HALF_NAMES:
        return _optional_library("libgcc_s.so.1")
    return None


def _optional_library(name: str) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


# ---- LLVM ----------------------------------------------------------------------------------------


@cache
def _llvm() -> Any:
    """llvmlite's binding, with this machine's back end ready."""
    import llvmlite.binding as llvm  # pyright: ignore[reportMissingTypeStubs]

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@cache
def _jit() -> Any:
    llvm = _llvm()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=1, reloc="pic")
    return llvm.create_lljit_compiler(machine)


class JitImage:
    """Objects loaded by LLVM's JIT linker; each exported name is linked in a copy of its own."""

    _count = 0

    def __init__(self, data: bytes, symbols: Mapping[str, int]) -> None:
        JitImage._count += 1
        self._objects = objects_of(data)
        self._symbols = symbols
        self._name = f"tilewright-{JitImage._count}"
        self._trackers: dict[str, Any] = {}

    def address(self, name: str) -> int:
        """The address of `name`; raises KeyError when the object does not define it."""
        if name not in self._trackers:
            self._trackers[name] = self._link(name)
        return int(self._trackers[name][name])

    def _link(self, name: str) -> Any:
        builder = _llvm().JITLibraryBuilder().add_current_process()
        for data in self._objects:
            builder.add_object_img(data)
        for symbol, address in self._symbols.items():
            builder.import_symbol(symbol, address)
        try:
            return builder.export_symbol(name).link(_jit(), f"{self._name}-{name}")
        except RuntimeError as error:
            if name in str(error).split():
                raise KeyError(name) from error
            raise ToolchainError(f"LLVM cannot link the object: {error}") from error


def compile_text(text: str, *, passes: int = 2) -> bytes:
    """Object bytes of LLVM text for any processor of this machine's family, optimised at `passes`.

    Only the runtime's own stubs come this way; kernels are compiled in `codegen`.
    """
    llvm = _llvm()
    module = llvm.parse_assembly(text)
    module.verify()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(opt=passes, reloc="pic", codemodel="small")
    if passes:
        options = llvm.create_pipeline_tuning_options(speed_level=passes)
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))
