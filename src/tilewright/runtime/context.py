"""The context a kernel runs in: one per thread, with its scratch arena and its print ring.

A thread has another one for kernels that a signal handler or a finalizer runs while a kernel of
the thread is in flight. Contexts are kept by thread identity and never freed: an identity is used
again only after its thread is gone, so their number is bounded by the kernels at the same time.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from tilewright.abi import (
    ARENA_ALIGNMENT,
    CTX,
    CTX_SIZE,
    FAULT_VALUES,
    PRINT_HEADER,
    PRINT_RECORD,
    PRINT_VALUES,
    Fault,
)
from tilewright.dataclass import dataclass
from tilewright.errors import OutOfMemory
from tilewright.runtime import process
from tilewright.runtime.native import stub_address
from tilewright.runtime.records import CANCEL, CTX_BUSY, CTX_MAIN_THREAD

_PRINT_CAPACITY = 4096
_ARENA_STEP = 1 << 16
_HUGE_PAGE = 2 << 20
_MANY_PAGES = 512 << 10


def _cancelled(_context: int) -> int:
    return Fault.CANCELLED


_give_up = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(_cancelled)


def attending(how: str) -> int:
    """The address of what a context attends with: `attend` to signals, or `give_up` at any word."""
    return stub_address(how) or ctypes.cast(_give_up, ctypes.c_void_p).value or 0


class AlignedMemory:
    """Zeroed bytes at an aligned address; on pages of 2 MB where there are many, if there are any.

    What a matmul packs fills most of a cache that is found by physical address: pages from
    anywhere would meet in it.
    """

    __slots__ = ("_buffer", "address", "size")

    def __init__(self, size: int, alignment: int = ARENA_ALIGNMENT) -> None:
        self._buffer: ctypes.Array[ctypes.c_char] | mmap.mmap
        if size >= _MANY_PAGES and hasattr(mmap, "MADV_HUGEPAGE"):
            size, alignment = -(-size // _HUGE_PAGE) * _HUGE_PAGE, _HUGE_PAGE
            private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            try:
                self._buffer = mmap.mmap(-1, size + alignment, flags=private)
            except (OSError, OverflowError, ValueError):
                raise OutOfMemory(f"{size:,} bytes of scratch memory are not to be had") from None
            self._buffer.madvise(mmap.MADV_HUGEPAGE)
            start = ctypes.addressof(ctypes.c_char.from_buffer(self._buffer))
        else:
            self._buffer = ctypes.create_string_buffer(size + alignment)
            start = ctypes.addressof(self._buffer)
        self.address = -(-start // alignment) * alignment
        self.size = size


class Context:
    """A `Ctx` in memory. Fields are read and written by name."""

    def __init__(self) -> None:
        self._memory = AlignedMemory(CTX_SIZE)
        self._cancel = AlignedMemory(8)
        self._arena = AlignedMemory(0)
        self._arenas: list[AlignedMemory] = []  # a worker may still be in an old one
        self.is_registered = False
        self._ring: AlignedMemory | None = None
        self.address = self._memory.address
        self.set("cancel", self._cancel.address)
        self.set("attend", attending("attend"))
        self.set("grid_end", 1)

    def get(self, field: str) -> int:
        """The value of an integer or pointer field."""
        return self._word(field).value

    def set(self, field: str, value: int) -> None:
        """Store an integer or pointer field."""
        self._word(field).value = value

    def _word(self, field: str) -> ctypes.c_int64 | ctypes.c_int32:
        place = CTX[field]
        kind = ctypes.c_int64 if place.size == 8 else ctypes.c_int32
        return kind.from_address(self.address + place.offset)

    @property
    def is_busy(self) -> bool:
        """True while a kernel is in flight in it."""
        return bool(self.get("flags") & CTX_BUSY)

    @contextmanager
    def taken(self) -> Generator[None]:
        """A kernel of this thread is in flight in it for the duration."""
        self.set("flags", self.get("flags") | CTX_BUSY)
        try:
            yield
        finally:
            self.set("flags", self.get("flags") & ~CTX_BUSY)
            process.set_thread_context(self.address)

    def fault_values(self) -> tuple[int, ...]:
        """The four words of the fault record."""
        at = self.address + CTX["fault_values"].offset
        return tuple((ctypes.c_int64 * FAULT_VALUES).from_address(at))

    def require_arena(self, size: int) -> None:
        """Make the arena at least `size` bytes; it only ever grows."""
        if size <= self._arena.size:
            return
        self._arena = AlignedMemory(
            -(-max(size, 2 * self._arena.size) // _ARENA_STEP) * _ARENA_STEP
        )
        if not self.is_registered:
            self._arenas.append(self._arena)
        elif _hooks.arena_growth is not None:
            _hooks.arena_growth(self._arena.size)
        self.set("arena", self._arena.address)
        self.set("arena_bytes", self._arena.size)

    def require_ring(self) -> None:
        """Give kernels somewhere to print."""
        if self._ring is None:
            self._ring = AlignedMemory(PRINT_HEADER + _PRINT_CAPACITY * PRINT_RECORD)
            ctypes.c_uint64.from_address(self._ring.address + 8).value = _PRINT_CAPACITY
            self.set("print_ring", self._ring.address)

    def drain_ring(self) -> tuple[list[tuple[int, ...]], int]:
        """The records printed since the last time, and how many were lost."""
        if self._ring is None:
            return [], 0
        count = ctypes.c_uint64.from_address(self._ring.address)
        kept = min(count.value, _PRINT_CAPACITY)
        raw = ctypes.string_at(self._ring.address + PRINT_HEADER, kept * PRINT_RECORD)
        lost, count.value = count.value - kept, 0
        return list(struct.iter_unpack(f"<{1 + PRINT_VALUES}q", raw)), lost

    def cancel(self) -> None:
        """Ask the kernel that runs in this context to stop."""
        self._cancel_word().value = CANCEL

    def clear_cancel(self) -> None:
        """Forget an earlier request."""
        self._cancel_word().value = 0

    def _cancel_word(self) -> ctypes.c_int32:
        return ctypes.c_int32.from_address(self._cancel.address)


@dataclass
class _Hooks:
    """What the thread pool wants to be told."""

    new_context: Callable[[Context], None] | None = None
    arena_growth: Callable[[int], None] | None = None


_hooks = _Hooks()


def on_new_context(hook: Callable[[Context], None] | None) -> None:
    """Call `hook` with each context that a thread is given."""
    _hooks.new_context = hook


def on_arena_growth(hook: Callable[[int], None] | None) -> None:
    """Call `hook` with the size before any thread's arena becomes that large."""
    _hooks.arena_growth = hook


def all_contexts() -> list[Context]:
    """The contexts of threads, dead ones' included."""
    return list(_by_address.values())


_contexts: dict[int, list[Context]] = {}
_by_address: dict[int, Context] = {}


def current_context() -> Context:
    """The context of this thread's latest kernel, made when it first runs one."""
    return _by_address.get(process.thread_context()) or free_context()


def free_context() -> Context:
    """A context of this thread in which no kernel is in flight."""
    own = _contexts.setdefault(threading.get_ident(), [])
    context = next((each for each in own if not each.is_busy), None) or _new_context(own)
    if process.thread_context() != context.address:
        context.set("flags", CTX_MAIN_THREAD * _is_main_thread())
        process.set_thread_context(context.address)
    return context


def _new_context(own: list[Context]) -> Context:
    context = Context()
    context.is_registered = True
    if _hooks.new_context is not None:
        _hooks.new_context(context)
    _by_address[context.address] = context
    own.append(context)
    return context


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
