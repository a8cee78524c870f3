"""The library of a kernel: built once for its contents, kept with the compiled kernels, loaded.

An artifact names a library by its key, so a fresh process finds it where the artifact was; one that
has been removed is built again.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from dataclasses import replace
from functools import cache

from tilewright.abi import ExternalKernel
from tilewright.cache import CacheConfig, Entry, State, Store, current_config
from tilewright.cache.machine import machine_identity
from tilewright.errors import ToolchainError
from tilewright.external.compiler import FLAGS, INCLUDE, Compiler, require_compiler
from tilewright.external.sources import watched
from tilewright.external.wrapper import CUBE, ENTRY, wrap
from tilewright.hashes import blake
from tilewright.locks import make_lock

Parts = tuple[tuple[str, str], ...]

_lock = make_lock()
_prepared: dict[tuple[ExternalKernel, str], ExternalKernel] = {}
_loaded: dict[str, ctypes.CDLL] = {}


def prepare(kernel: ExternalKernel) -> ExternalKernel:
    """The kernel with the key of its library, which is built and loaded if it has to be.

    Raises CompilerMissing, HeaderMissing, ExternalSourceRefused; ValueError without a source.
    """
    contents = _contents(kernel)
    found = _prepared.get((kernel, contents))
    if found is None:
        with _lock:
            found = _prepared[kernel, contents] = _prepare(kernel, contents)
    return found


def _contents(kernel: ExternalKernel) -> str:
    cube = "" if kernel.cube is None else _contents(kernel.cube)
    return watched(kernel.source, kernel.include_dirs).digest + cube


def _prepare(kernel: ExternalKernel, contents: str) -> ExternalKernel:
    compiler = require_compiler(kernel)
    if kernel.cube is not None:
        kernel = replace(kernel, cube=prepare(kernel.cube))
    parts = _parts(kernel, contents, compiler)
    digest = blake(repr(parts).encode()).hexdigest()
    if digest not in _loaded:
        _loaded[digest] = _load(digest, _obtain(digest, parts, kernel, compiler))
    return replace(kernel, contents=contents, library=digest)


def _parts(kernel: ExternalKernel, contents: str, compiler: Compiler) -> Parts:
    return (
        ("kernel", kernel.function),
        ("C++ source", contents),
        ("entry", wrap(kernel)),
        ("header", _header_digest()),
        ("include folders", repr(kernel.include_dirs)),
        ("compiler", compiler.identity),
        ("flags", " ".join(FLAGS)),
        ("machine", machine_identity()),
        ("cube side", kernel.cube.library if kernel.cube else ""),
    )


@cache
def _header_digest() -> str:
    headers = sorted(INCLUDE.glob("*.h"))
    return blake(b"".join(header.read_bytes() for header in headers)).hexdigest()


def _obtain(digest: str, parts: Parts, kernel: ExternalKernel, compiler: Compiler) -> bytes:
    """The bytes of a library: from disk where the policy allows it, else built and published."""
    policy = current_config()
    if not policy.enabled:
        return compiler.build(kernel)
    store = _store(policy)
    with store.building(digest):
        found = store.find(digest, State.READY)
        if found is not None:
            return found.payloads["library"]
        data = compiler.build(kernel)
        store.publish(Entry(digest, State.READY, parts, {"library": data}))
        return data


def _store(policy: CacheConfig) -> Store:
    return Store(policy.directory, readonly=policy.readonly)


def _load(digest: str, data: bytes) -> ctypes.CDLL:
    """A library in this process; its file lives no longer than the loading takes."""
    handle, name = tempfile.mkstemp(prefix=f"tilewright-{digest[:16]}-", suffix=".so")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        return ctypes.CDLL(name)
    except OSError as error:
        raise ToolchainError(f"the library of a C++ kernel cannot be loaded: {error}") from error
    finally:
        os.unlink(name)


def address_of(kernel: ExternalKernel) -> int:
    """The address of the entry of a kernel that has been prepared, in this process or another.

    Raises what `prepare` raises, and ToolchainError when the library is gone and its source is
    another one now.
    """
    with _lock:
        if kernel.library not in _loaded:
            found = _store(current_config()).find(kernel.library, State.READY)
            if found is None:
                return address_of(_rebuilt(kernel))
            _loaded[kernel.library] = _load(kernel.library, found.payloads["library"])
        if kernel.cube is not None:
            cube = ctypes.c_void_p.in_dll(_loaded[kernel.library], CUBE)
            cube.value = address_of(kernel.cube)
    entry = getattr(_loaded[kernel.library], ENTRY)
    address = ctypes.cast(entry, ctypes.c_void_p).value
    assert address is not None
    return address


def _rebuilt(kernel: ExternalKernel) -> ExternalKernel:
    again = prepare(replace(kernel, contents="", library=""))
    if again.contents != kernel.contents:
        raise ToolchainError(
            f"the library of the C++ kernel '{kernel.function}' is gone, and {kernel.source} has "
            "changed since",
            hint="Compile the program again.",
        )
    return again
