"""A lock between processes, held on a file; the system releases it when its holder dies.

(`filelock` would do, but importing it costs every process more than a compiled kernel's loading.)
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _unlock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # for a child that was forked meanwhile, too


_PAUSE = 0.005


class ProcessLock:
    """An exclusive lock on a file that is made for it, and removed when it is given back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1

    def acquire(self, seconds: float) -> bool:
        """Waits for the lock; False when that takes longer. Raises OSError without a file."""
        limit = time.monotonic() + seconds
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                _try_lock(descriptor)
                if self._is_in_place(descriptor):
                    self._descriptor = descriptor
                    return True
            except (BlockingIOError, PermissionError):
                pass  # somebody has it
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
            if time.monotonic() > limit:
                return False
            time.sleep(_PAUSE)

    def _is_in_place(self, descriptor: int) -> bool:
        """False when its last holder has just removed the file that was locked."""
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self.path))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Gives the lock back. The file goes first: who locks it later sees that it is gone."""
        descriptor, self._descriptor = self._descriptor, -1
        with suppress(OSError):
            self.path.unlink()
        with suppress(OSError):
            _unlock(descriptor)
        os.close(descriptor)
