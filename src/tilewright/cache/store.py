"""Entries on disk: one file each, written whole, checked when read.

A file is a magic line, the SHA-256 of the rest, and a MessagePack map with the key's named parts
and the payloads. Damaged files are ignored and counted, never used.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, cast

import msgpack

from tilewright.cache import stats
from tilewright.cache.locks import ProcessLock

MAGIC = b"tilewright-cache-1\n"
_DIGEST = 32
_LOCK_SECONDS = 60.0


class State(Enum):
    """How far an entry has come: its text is known, or its machine code."""

    GENERATED = "generated"
    READY = "ready"


@dataclass(frozen=True)
class Entry:
    """What is kept under one key: payloads by name, and the key's parts for explanations."""

    digest: str
    state: State
    parts: tuple[tuple[str, str], ...]
    payloads: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    created: float = 0.0

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return dict(self.parts).get("kernel", "?")


class InvalidEntry(Exception):
    """A file is no entry, or a damaged one; the message says which."""


class Store:
    """The entries under one root."""

    def __init__(self, root: str | Path, *, readonly: bool = False) -> None:
        self.root = Path(root)
        self.readonly = readonly

    def path(self, digest: str, state: State) -> Path:
        """The file of an entry."""
        return self.root / digest[:2] / f"{digest}.{state.value}"

    def find(self, digest: str, state: State) -> Entry | None:
        """The entry, or None when it is absent, damaged or unreadable."""
        path = self.path(digest, state)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError:
            stats.count("storage_errors")
            return None
        try:
            entry = decode(data)
            if entry.digest != digest or entry.state is not state:
                raise InvalidEntry("it stands under another key")
        except InvalidEntry:
            stats.count("invalid_entries")
            return None
        self._touch(path)
        return entry

    def publish(self, entry: Entry) -> bool:
        """Writes an entry, whole or not at all; False where the root cannot be written."""
        if self.readonly:
            return False
        path = self.path(entry.digest, entry.state)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, encode(entry))
        except OSError:
            stats.count("storage_errors")
            return False
        return True

    @contextmanager
    def building(self, digest: str) -> Generator[None]:
        """Keeps other processes from building the same entry, where the root can be written."""
        lock = self._lock(digest)
        if lock is None:
            yield
            return
        try:
            yield
        finally:
            with suppress(OSError):
                lock.release()

    def _lock(self, digest: str) -> ProcessLock | None:
        if self.readonly:
            return None
        try:
            directory = self.root / "locks"
            directory.mkdir(parents=True, exist_ok=True)
            lock = ProcessLock(directory / f"{digest}.lock")
            return lock if lock.acquire(_LOCK_SECONDS) else None
        except OSError:
            return None

    def _touch(self, path: Path) -> None:
        """Remembers that an entry was used, for pruning."""
        if not self.readonly:
            with suppress(OSError):
                os.utime(path)

    # Everything there is

    def files(self) -> list[Path]:
        """The files of all entries, oldest use first."""
        if not self.root.is_dir():
            return []
        suffixes = {f".{state.value}" for state in State}
        found = [path for path in self.root.glob("??/*") if path.suffix in suffixes]
        return sorted(found, key=lambda path: path.stat().st_mtime)

    def entries(self) -> Iterator[tuple[Path, Entry | None]]:
        """Every file with its entry, None for a damaged one."""
        for path in self.files():
            try:
                yield path, decode(path.read_bytes())
            except (OSError, InvalidEntry):
                yield path, None

    def prune(self, *, max_bytes: int | None = None, max_age: float | None = None) -> list[Path]:
        """Removes entries unused for `max_age` seconds, then the longest unused above `max_bytes`.

        Gives the removed files.
        """
        files = [(path, path.stat()) for path in self.files()]
        total = sum(stat.st_size for _, stat in files)
        removed: list[Path] = []
        for path, stat in files:
            is_old = max_age is not None and time.time() - stat.st_mtime > max_age
            is_surplus = max_bytes is not None and total > max_bytes
            if not (is_old or is_surplus):
                continue
            path.unlink(missing_ok=True)
            total -= stat.st_size
            removed.append(path)
        return removed


def encode(entry: Entry) -> bytes:
    """An entry as the bytes of its file."""
    body = cast(
        bytes,
        msgpack.packb(
            {
                "digest": entry.digest,
                "state": entry.state.value,
                "parts": [list(part) for part in entry.parts],
                "payloads": dict(entry.payloads),
                "created": entry.created or time.time(),
            }
        ),
    )
    return MAGIC + hashlib.sha256(body).digest() + body


def decode(data: bytes) -> Entry:
    """The entry in a file's bytes; raises InvalidEntry."""
    start = len(MAGIC) + _DIGEST
    body = data[start:]
    if not data.startswith(MAGIC):
        raise InvalidEntry("it is no entry of this version")
    if hashlib.sha256(body).digest() != data[len(MAGIC) : start]:
        raise InvalidEntry("its checksum is wrong")
    try:
        fields = cast("dict[str, Any]", msgpack.unpackb(body))
        return Entry(
            fields["digest"],
            State(fields["state"]),
            tuple((name, text) for name, text in fields["parts"]),
            fields["payloads"],
            fields["created"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidEntry(f"it cannot be read: {error}") from error


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file so that readers see all of it or nothing; raises OSError."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".unfinished-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except OSError:
        with suppress(OSError):
            Path(name).unlink()
        raise
