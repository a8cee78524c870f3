"""What native code needs to know of this process: one table of words, and the epoch.

The epoch is a number that changes whenever a context or a configuration does, so that one
comparison tells a warm call that nothing it depends on has been switched.
"""

from __future__ import annotations

import ctypes

from tilewright.runtime.pyapi import api, capsule_pointer
from tilewright.runtime.records import (
    EXCHANGE,
    EXCHANGE_TYPES,
    PROCESS,
    SIGACTION_WORDS,
    SIGNALS,
)

_table = (ctypes.c_uint64 * len(PROCESS))()
_actions = (ctypes.c_uint64 * (SIGACTION_WORDS * SIGNALS))()
_owners: list[object] = []

TABLE_ADDRESS = ctypes.addressof(_table)
_DLPACK_MAJOR = 1
ACTIONS_ADDRESS = ctypes.addressof(_actions)


def set_word(name: str, value: int) -> None:
    """Write one word of the table."""
    _table[PROCESS[name] // 8] = value


def get_word(name: str) -> int:
    """Read one word of the table."""
    return _table[PROCESS[name] // 8]


def set_object(name: str, value: object) -> None:
    """Write the address of an object, and keep the object."""
    _owners.append(value)
    set_word(name, id(value))


def current_epoch() -> int:
    """The epoch a variant's guards are taken in."""
    return get_word("epoch")


def bump_epoch() -> int:
    """Begin a new epoch: every warm call looks again, once, at what it depends on."""
    set_word("epoch", get_word("epoch") + 1)
    return current_epoch()


_exchange_types: list[type] = []


def register_exchange_type(cls: type) -> None:
    """Let the entry stub read instances of exactly `cls` through DLPack's C exchange functions."""
    if cls in _exchange_types or len(_exchange_types) == EXCHANGE_TYPES:
        return
    capsule = getattr(cls, "__dlpack_c_exchange_api__", None)
    table = capsule_pointer(capsule, b"dlpack_exchange_api") if capsule is not None else 0
    if not table or ctypes.c_uint32.from_address(table).value != _DLPACK_MAJOR:
        return
    needed = (EXCHANGE["allocate"], EXCHANGE["wrap"], EXCHANGE["read"])
    if all(ctypes.c_uint64.from_address(table + offset).value for offset in needed):
        index = len(_exchange_types)
        _exchange_types.append(cls)
        _owners.append(capsule)
        set_word(f"exchange_table_{index}", table)
        set_object(f"exchange_type_{index}", cls)


# ---- the context of each thread ------------------------------------------------------------------


def _make_thread_key() -> int:
    key = api.PyThread_tss_alloc()
    if not key or api.PyThread_tss_create(key):
        raise MemoryError("no key for thread-specific storage")
    return int(key)


set_word("epoch", 1)
_thread_key = _make_thread_key()
set_word("thread_key", _thread_key)


def thread_context() -> int:
    """The address of this thread's context, 0 when it has none yet."""
    return api.PyThread_tss_get(_thread_key) or 0


def set_thread_context(address: int) -> None:
    """Make native code find this thread's context."""
    api.PyThread_tss_set(_thread_key, address)
