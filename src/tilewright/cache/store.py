"""Entries on disk: one file each, written whole, checked when read.

A file is a magic line, the SHA-256 of the rest, and a MessagePack map with the key's named parts
and the payloads. Damaged files are ignored and counted, never used; so is a root that others can
write to. A writer that dies leaves at most an unfinished file, which `tidy` removes.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock

from tilewright.cache import stats
from tilewright.cache.entries import Entry, InvalidEntry, State, encode
from tilewright.cache.reader import NOTES, Reader, read_entry

_LOCK_SECONDS = 60.0
_LOCK_PAUSE = 0.005
_UNFINISHED = ".unfinished-"
_ABANDONED_SECONDS = 3600.0
_PRIVATE = 0o700
_held = threading.local()
"""`digests` that this thread builds: coming back for one of them, it does not wait for itself."""


class Store(Reader):
    """The entries under one root; above `max_bytes` (0: any) the longest unused are removed."""

    def __init__(self, root: str | Path, *, readonly: bool = False, max_bytes: int = 0) -> None:
        super().__init__(root, readonly=readonly)
        self.root = Path(root)
        self.max_bytes = max_bytes

    def path(self, digest: str, state: State) -> Path:
        """The file of an entry."""
        return Path(self.place(digest, state))

    def publish(self, entry: Entry) -> bool:
        """Writes an entry, whole or not at all; False where the root cannot be written."""
        if self.readonly or not self.is_trusted:
            return False
        path = self.path(entry.digest, entry.state)
        try:
            make_private(self.root)
            make_private(path.parent)
            write_whole(path, encode(entry))
        except OSError:
            stats.count("storage_errors")
            return False
        return True

    def settle(self, entry: Entry) -> None:
        """Makes room for a finished entry, which has been published: its text goes, then others."""
        if self.readonly:
            return
        with suppress(OSError):
            self.path(entry.digest, State.GENERATED).unlink()
        if self.max_bytes:
            self.prune(max_bytes=self.max_bytes, keep=self.path(entry.digest, entry.state))

    def write_note(self, name: str, text: str) -> None:
        """Keeps a short text, where the root can be written."""
        if self.readonly or not self.is_trusted:
            return
        with suppress(OSError):
            make_private(self.root)
            make_private(self.root / NOTES)
            write_whole(self.root / NOTES / name, text.encode())

    @contextmanager
    def building(self, digest: str) -> Generator[None]:
        """Keeps other processes from building the same entry, where the root can be written."""
        held: set[str] = vars(_held).setdefault("digests", set[str]())
        lock = None if digest in held else self._lock(digest)
        if lock is None:
            yield
            return
        held.add(digest)
        try:
            yield
        finally:
            held.discard(digest)
            _give_back(lock)

    def _lock(self, digest: str) -> FileLock | None:
        if self.readonly or not self.is_trusted:
            return None
        try:
            make_private(self.root)
            make_private(self.root / "locks")
            return _lock(self.root / "locks" / f"{digest}.lock", _LOCK_SECONDS)
        except OSError:
            return None

    # Everything there is

    def files(self) -> list[Path]:
        """The files of all entries, oldest use first."""
        return [path for path, _ in self._listing()]

    def _listing(self) -> list[tuple[Path, os.stat_result]]:
        """The files of all entries that are there now, oldest use first."""
        suffixes = {f".{state.value}" for state in State}
        found = [
            (path, status)
            for path in self.root.glob("??/*")
            if path.suffix in suffixes and (status := _status(path)) is not None
        ]
        return sorted(found, key=lambda each: each[1].st_mtime_ns)

    def entries(self) -> Iterator[tuple[Path, Entry | None]]:
        """Every file with its entry, None for a damaged one."""
        for path in self.files():
            try:
                yield path, read_entry(path)
            except FileNotFoundError:
                continue
            except (OSError, InvalidEntry):
                yield path, None

    def prune(
        self,
        *,
        max_bytes: int | None = None,
        max_age: float | None = None,
        keep: Path | None = None,
    ) -> list[Path]:
        """Removes entries unused for `max_age` seconds, then the longest unused above `max_bytes`.

        Gives the removed files. `keep` stays, whatever its size.
        """
        self.tidy()
        files = self._listing()
        total = sum(status.st_size for _, status in files)
        removed: list[Path] = []
        for path, status in files:
            is_old = max_age is not None and time.time() - status.st_mtime > max_age
            is_surplus = max_bytes is not None and total > max_bytes
            if path == keep or not (is_old or is_surplus):
                continue
            with suppress(OSError):
                path.unlink(missing_ok=True)
                total -= status.st_size
                removed.append(path)
        return removed

    def tidy(self) -> None:
        """Removes what writers left behind that died long ago."""
        left = (*self.root.glob(f"*/{_UNFINISHED}*"), *self.root.glob("locks/*.lock"))
        for path in left:
            status = _status(path)
            if status is not None and abs(time.time() - status.st_mtime) > _ABANDONED_SECONDS:
                self._remove_abandoned(path)

    def _remove_abandoned(self, path: Path) -> None:
        with suppress(OSError):
            if path.suffix == ".lock":
                _give_back(_lock(path, 0.0))
            else:
                path.unlink()


def _lock(path: Path, seconds: float) -> FileLock:
    """Waits for a lock that the system releases when its holder dies; raises OSError without it."""
    lock = FileLock(path, seconds, 0o600, poll_interval=_LOCK_PAUSE, fallback_to_soft=False)
    lock.acquire()
    return lock


def _give_back(lock: FileLock) -> None:
    """Releases a lock, unless a parent has it. The file goes first: who waits makes a new one."""
    if lock.is_locked:
        with suppress(OSError):
            os.unlink(lock.lock_file)
        lock.release()


def _status(path: Path) -> os.stat_result | None:
    """What is known of a file; None when it is gone."""
    try:
        return path.stat()
    except OSError:
        return None


def make_private(directory: Path) -> None:
    """Makes a directory for this user alone, unless it is there; raises OSError."""
    if not directory.is_dir():
        directory.mkdir(parents=True, mode=_PRIVATE, exist_ok=True)


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file so that readers see all of it or nothing; raises OSError."""
    unfinished = path.with_name(f"{_UNFINISHED}{os.urandom(8).hex()}")
    try:
        with open(unfinished, "xb", opener=_open_private) as file:
            file.write(data)
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
