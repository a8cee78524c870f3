"""Memory of contexts: aligned, zeroed, on large pages where it is large."""

from __future__ import annotations

import ctypes

import pytest

from tilewright.abi import ARENA_ALIGNMENT
from tilewright.runtime.context import AlignedMemory, Context


@pytest.mark.parametrize("size", [0, 8, 1000, 1 << 19, 3 << 20])
def test_memory_is_aligned_zeroed_and_large_enough(size: int) -> None:
    memory = AlignedMemory(size)
    assert memory.size >= size
    assert memory.address % ARENA_ALIGNMENT == 0
    ctypes.memset(memory.address, 255, size)
    fresh = AlignedMemory(size)
    assert ctypes.string_at(fresh.address, size) == bytes(size)


def test_an_arena_only_grows() -> None:
    context = Context()
    context.require_arena(1 << 20)
    first = context.get("arena_bytes")
    context.require_arena(1)
    assert context.get("arena_bytes") == first >= 1 << 20


@pytest.mark.parametrize("size", [1 << 45, 1 << 62])
def test_memory_that_is_not_to_be_had_is_a_memory_error(size: int) -> None:
    with pytest.raises(MemoryError, match="bytes of scratch memory"):
        AlignedMemory(size)
