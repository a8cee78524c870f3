"""Finding entries: all that a kernel which is on disk needs of the cache."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from functools import cached_property

from tilewright.cache import stats
from tilewright.cache.entries import Entry, InvalidEntry, State, decode, file_name
from tilewright.cache.trust import find_intruder, warn_once


class Reader:
    """The entries under one root. Finding one is remembered, unless the root is `readonly`."""

    def __init__(self, root: str | os.PathLike[str], *, readonly: bool = False) -> None:
        self.directory = os.fspath(root)
        self.readonly = readonly
        self.rejected: set[str] = set()

    @cached_property
    def is_trusted(self) -> bool:
        """False, with one warning, for a root that somebody else may have written to."""
        reason = find_intruder(self.directory)
        if reason is not None:
            stats.count("storage_errors")
            warn_once(self.directory, reason)
        return reason is None

    def place(self, digest: str, state: State) -> str:
        """The file of an entry."""
        return os.path.join(self.directory, digest[:2], file_name(digest, state))

    def find(self, digest: str, state: State) -> Entry | None:
        """The entry, or None when it is absent, damaged, unreadable or not to be trusted."""
        if not self.is_trusted:
            return None
        place = self.place(digest, state)
        try:
            entry = read_entry(place)
        except FileNotFoundError:
            return None
        except OSError:
            stats.count("storage_errors")
            return None
        except InvalidEntry as damage:
            self.reject(digest, state, str(damage))
            return None
        self._touch(place)
        return entry

    def reject(self, digest: str, state: State, reason: str) -> None:
        """Counts, once a request, an entry that is there and cannot be used; warns of it once."""
        place = self.place(digest, state)
        if place not in self.rejected:
            self.rejected.add(place)
            stats.count("invalid_entries")
        warn_once(place, reason)

    def read_note(self, name: str) -> str | None:
        """The text that a writer kept under a name; None without one."""
        if not self.is_trusted:
            return None
        try:
            return read_whole(os.path.join(self.directory, NOTES, name)).decode()
        except (OSError, ValueError):
            return None

    def _touch(self, place: str) -> None:
        """Remembers that an entry was used, for pruning."""
        if not self.readonly:
            with suppress(OSError):
                os.utime(place)


NOTES = "notes"


def read_entry(path: str | os.PathLike[str]) -> Entry:
    """The entry in a file; raises OSError, and InvalidEntry unless it is the one of that name."""
    entry = decode(read_whole(path))
    if os.path.basename(path) != file_name(entry.digest, entry.state):
        raise InvalidEntry("it stands under another key")
    return entry


_AT_ONCE = getattr(os, "O_NONBLOCK", 0)
"""Opening a pipe does not wait for its other end."""


def read_whole(path: str | os.PathLike[str]) -> bytes:
    """The contents of a file; raises OSError, for what is no regular file, too."""
    with open(path, "rb", opener=_open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))
        return file.read()


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | _AT_ONCE)
