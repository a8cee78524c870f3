"""Locks between threads: a forked child finds them free, and their holder may take them again.

A child has one thread. A lock that another thread of the parent held at the fork would stay locked
in the child for ever. And a thread may come back while it holds one: a signal handler, a finalizer
or a hook for warnings may call a kernel.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def make_lock() -> Any:
    """A reentrant lock."""
    made = threading.RLock()
    _locks.add(made)
    return made


def make_bell() -> threading.Lock:
    """A lock that is taken already: each release lets one thread that waits for it pass."""
    bell = threading.Lock()
    bell.acquire()
    return bell


def _release_in_child() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)
