"""Artifacts on disk: which requests may use them, under which key, and how they come back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgpack

import tilewright.jit as room
from tilewright import abi, cache, settings
from tilewright.abi import Manifest, Signature
from tilewright.cache import CacheConfig, Entry, Reader, State, stats
from tilewright.cache.compiler import compiler_identity
from tilewright.cache.machine import machine_identity
from tilewright.cache.reader import read_whole
from tilewright.hashes import blake
from tilewright.ir.core import Program
from tilewright.jit.artifact import Artifact, Generated
from tilewright.jit.cache import Key
from tilewright.jit.kernels import NativeKernel
from tilewright.jit.signature import Calling

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")
Make = Callable[[], tuple[Program, Generated]]
"""Specializes and generates; called when the disk has nothing."""


def obtain(key: Key, config: CacheConfig, make: Make, *, bypass: str | None = None) -> Artifact:
    """The artifact of a key: from disk where the policy allows it, else made and published.

    `bypass` says why this request cannot use the disk. A restored artifact has no program.
    """
    if not config.enabled:
        stats.count("disabled_requests")
        return _build(make)
    if bypass is not None:
        stats.note_bypass(bypass)
        return _build(make)
    reader = Reader(config.directory, readonly=config.readonly)
    whole = persistent_key(key, config, reader)
    found = _find_ready(reader, whole)
    if found is not None:
        return found
    store = cache.Store(config.directory, readonly=config.readonly, max_bytes=config.max_bytes)
    store.rejected |= reader.rejected
    with store.building(whole.digest):
        return _find_ready(store, whole) or _make_and_publish(store, whole, make)


def _find_ready(reader: Reader, key: Key) -> Artifact | None:
    start = time.perf_counter_ns()
    entry = reader.find(key.digest, State.READY)
    artifact = None if entry is None else _read(reader, entry, _restored)
    stats.count("lookup_ns", time.perf_counter_ns() - start)
    if artifact is not None:
        stats.count("ready_hits")
    return artifact


def _find_generated(reader: Reader, key: Key) -> Generated | None:
    entry = reader.find(key.digest, State.GENERATED)
    generated = None if entry is None else _read(reader, entry, _generated)
    if generated is not None:
        stats.count("generated_hits")
    return generated


def _read(reader: Reader, entry: Entry, read: Callable[[Entry], T]) -> T | None:
    """What an entry holds; None, and the entry counts as damaged, when it lacks something."""
    try:
        return read(entry)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        reader.reject(entry.digest, entry.state, f"it lacks what this version reads: {error!r}")
        return None


def _restored(entry: Entry) -> Artifact:
    calling, manifest = _read_facts(entry)
    kernel = NativeKernel(bytes(entry.payloads["object"]), calling.signature, manifest)
    return Artifact(manifest.name, calling, kernel, None)


def _generated(entry: Entry) -> Generated:
    calling, manifest = _read_facts(entry)
    return Generated(manifest.name, calling, manifest, entry.payloads["text"].decode())


def _make_and_publish(store: cache.Store, key: Key, make: Make) -> Artifact:
    """Text first, then machine code: who dies or fails in between leaves the text."""
    program: Program | None = None
    generated = _find_generated(store, key)
    if generated is None:
        stats.count("misses")
        stats.count("generation_builds")
        program, generated = make()
        store.publish(_entry(key, State.GENERATED, generated, text=generated.text.encode()))
    artifact = _finish(generated, program)
    assert isinstance(artifact.kernel, NativeKernel)
    ready = _entry(key, State.READY, generated, object=artifact.kernel.data)
    if store.publish(ready):
        store.settle(ready)
    return artifact


def finish(generated: Generated, program: Program | None) -> Artifact:
    """Text as machine code."""
    return room.build.finish(generated, program)


def _build(make: Make) -> Artifact:
    stats.count("generation_builds")
    program, generated = make()
    return _finish(generated, program)


def _finish(generated: Generated, program: Program | None) -> Artifact:
    start = time.perf_counter_ns()
    artifact = finish(generated, program)
    stats.count("binary_builds")
    stats.count("build_ns", time.perf_counter_ns() - start)
    return artifact


# ---- entries -------------------------------------------------------------------------------------


def _entry(key: Key, state: State, generated: Generated, **payloads: bytes) -> Entry:
    facts = {
        "signature": generated.calling.signature.to_json(),
        "scalars": list(generated.calling.scalars),
        "manifest": generated.manifest.to_json(),
    }
    payloads = {"facts": cast(bytes, msgpack.packb(facts)), **payloads}
    return Entry(key.digest, state, key.parts, payloads, details=key.details)


def _read_facts(entry: Entry) -> tuple[Calling, Manifest]:
    facts = cast("dict[str, Any]", msgpack.unpackb(entry.payloads["facts"]))
    signature = Signature.from_json(facts["signature"])
    calling = Calling(signature, tuple(facts["scalars"]))
    return calling, Manifest.from_json(facts["manifest"])


# ---- identity ------------------------------------------------------------------------------------


def persistent_key(key: Key, config: CacheConfig, reader: Reader) -> Key:
    """A request's key with everything else that an artifact of another process depends on."""
    return key.extended(
        (
            ("compiler", compiler_identity(reader)),
            ("abi", str(abi.VERSION)),
            ("machine", machine_identity()),
            ("instruction set", settings.TARGET_ISA.read()),
            ("extra sources", _digest_of(config.extra_source_paths)),
            ("extra fingerprint", config.extra_fingerprint or ""),
        )
    )


def _digest_of(paths: tuple[str | Path, ...]) -> str:
    state = blake()
    for path in paths:
        try:
            state.update(read_whole(os.fspath(path)))
        except OSError as error:
            raise ValueError(
                f"CacheConfig.extra_source_paths: {str(path)!r} cannot be read ({error.strerror}); "
                "files are accepted"
            ) from error
    return state.hexdigest() if paths else ""
