"""Memory of large results, kept for later ones.

The C library gives blocks of 32 MB and more back to the system when they are freed, so each such
result is new pages, which the system zeroes one by one: 8 ms for 64 MB, of which a kernel that
writes pages it has written before needs 2.7.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tilewright import settings
from tilewright.runtime.context import AlignedMemory
from tilewright.runtime.records import LARGE_RESULT

_kept: list[AlignedMemory] = []
"""What nobody uses, the latest last. Each step is one call of a list: threads need no lock."""


class Block:
    """Memory of an array, which it owns; what is left of it goes back to those kept."""

    def __init__(self, memory: AlignedMemory, size: int) -> None:
        self.memory = memory
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "data": (memory.address, False),
            "typestr": "|u1",
            "shape": (size,),
        }

    def __del__(self) -> None:
        if not sys.is_finalizing():
            keep(self.memory)


def large_array(shape: tuple[int, ...], dtype: Any, size: int) -> Any:
    """A numpy array of `size` bytes, uninitialised, in memory that an earlier one had if it fits.

    Raises MemoryError where there is none.
    """
    memory = find_kept(size) or AlignedMemory(size)
    bytes_: Any = np.asarray(Block(memory, size))
    return bytes_.view(dtype).reshape(shape)


def find_kept(size: int) -> AlignedMemory | None:
    """Kept memory for so many bytes, of which it wastes less than a quarter; it is the caller's."""
    for memory in reversed(tuple(_kept)):
        if size <= memory.size < size + size // 3:
            try:
                _kept.remove(memory)
            except ValueError:  # another thread has it
                continue
            return memory
    return None


def keep(memory: AlignedMemory) -> None:
    """Keeps memory for later; what was kept longest goes where that would be too much."""
    _kept.append(memory)
    limit = settings.RESULT_POOL_BYTES.read()
    while sum(each.size for each in tuple(_kept)) > limit:
        try:
            _kept.pop(0)
        except IndexError:  # another thread was here
            return


def is_large(size: int) -> bool:
    """Whether a result of so many bytes is kept."""
    return size >= LARGE_RESULT and settings.RESULT_POOL_BYTES.read() > 0
