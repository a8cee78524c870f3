"""A lock between processes, held on a file; the system releases it when its holder dies.

(`filelock` would do, but importing it costs every process more than a compiled kernel's loading.)
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


_PAUSE = 0.005


class ProcessLock:
    """An exclusive lock on a file that is made for it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1

    def acquire(self, seconds: float) -> bool:
        """Waits for the lock; False when that takes longer. Raises OSError without a file."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        limit = time.monotonic() + seconds
        while True:
            try:
                _try_lock(descriptor)
            except OSError:
                if time.monotonic() > limit:
                    os.close(descriptor)
                    return False
                time.sleep(_PAUSE)
                continue
            self._descriptor = descriptor
            return True

    def release(self) -> None:
        """Gives the lock back."""
        os.close(self._descriptor)
        self._descriptor = -1
