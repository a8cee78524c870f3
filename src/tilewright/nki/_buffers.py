"""Memories that tensors can be made in, and explicit allocations in them."""

from __future__ import annotations

from typing import Any

from tilewright.dataclass import dataclass
from tilewright.frontend.trace.roots import HBM_SPACES, MEMORY_NAMES
from tilewright.ir.enums import MemorySpace


@dataclass(frozen=True, eq=False)
class Buffer:
    """A memory; `allocation` says where in it, or None to leave that to the compiler.

    The name of a memory, which tensors say they are in, equals it.
    """

    space: MemorySpace
    allocation: Any = None

    @property
    def is_hbm(self) -> bool:
        """True for memory outside the chip."""
        return self.space in HBM_SPACES

    def __eq__(self, other: object) -> bool:
        given = BY_NAME.get(other) if isinstance(other, str) else other
        if not isinstance(given, Buffer):
            return False
        return (given.space, given.allocation) == (self.space, self.allocation)

    def __hash__(self) -> int:
        return hash(MEMORY_NAMES[self.space])


sbuf = Buffer(MemorySpace.Sbuf)
psum = Buffer(MemorySpace.Psum)
hbm = Buffer(MemorySpace.Hbm)
private_hbm = hbm
shared_hbm = Buffer(MemorySpace.SharedHbm)
BY_NAME = {
    "sbuf": sbuf,
    "psum": psum,
    "hbm": hbm,
    "private_hbm": hbm,
    "shared_hbm": shared_hbm,
}


def as_buffer(given: Any) -> Buffer:
    """The memory that a `buffer=` argument names; None is SBUF."""
    if given is None:
        return sbuf
    if isinstance(given, Buffer):
        return given
    if hasattr(given, "auto_alloc"):
        return given.auto_alloc()
    if given in BY_NAME:
        return BY_NAME[given]
    raise TypeError(f"{given!r} is not a buffer; use nl.sbuf, nl.psum, nl.hbm or nl.shared_hbm")
