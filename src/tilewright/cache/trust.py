"""Whether entries may be run: only those that nobody else can have written."""

from __future__ import annotations

import os
import stat
import warnings

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class CacheWarning(UserWarning):
    """Something on disk is not used; the kernel is compiled instead."""


_told: set[tuple[str, str]] = set()


def warn_once(path: str, reason: str) -> None:
    """One CacheWarning for each reason and path, which is an entry or a root."""
    if (path, reason) not in _told:
        _told.add((path, reason))
        warnings.warn(f"{path} is not used: {reason}", CacheWarning, stacklevel=2)


def find_intruder(directory: str) -> str | None:
    """Why what stands in `directory` is not to be run; None when there is no reason.

    It must belong to this user (or to the system's), and nobody else may be able to write to it.
    """
    try:
        status = os.stat(directory)
    except OSError:
        return None
    if not stat.S_ISDIR(status.st_mode):
        return "it is no directory"
    if os.name != "posix":
        return None
    if status.st_uid not in (os.geteuid(), 0):
        return (
            f"the directory belongs to another user (uid {status.st_uid}); choose one of your own"
        )
    if status.st_mode & _OTHERS:
        return f"other users may write to the directory; make it private with chmod 700 {directory}"
    return None
