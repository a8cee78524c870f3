"""`nki.compiler`: memories with explicit allocations, directives of loops and kernels.

Every allocation is automatic here; explicit ones must lie in the memory, and forbid what the
language forbids in kernels that allocate their memory themselves. With `check_allocation=True` a
kernel is refused that writes one where another lies that is still read, or a block of a tensor
where another of its blocks does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from tilewright.dataclass import dataclass
from tilewright.ir.enums import MemorySpace
from tilewright.nki._buffers import Buffer

F = TypeVar("F")
Place = Callable[..., tuple[int, ...]]


@dataclass(frozen=True)
class Allocation:
    """Where a tensor is put: a function of its block index, or a base that blocks go round from."""

    place: Place | None = None
    base: tuple[int, ...] = ()
    tiles: tuple[tuple[int, ...], ...] = ()

    def place_of(self, block: tuple[int, ...], partitions: int, nbytes: int) -> tuple[int, ...]:
        """Where a block is put: (start partition, byte), after the bank in PSUM."""
        if self.place is not None:
            return tuple(map(int, self.place(block, partitions, nbytes)))
        turns = [_turn(block, counts) for counts in self.tiles]
        sizes = (1, partitions, nbytes)[-len(self.base) :]
        pairs = zip(self.base, turns, sizes, strict=True)
        return tuple(base + turn * size for base, turn, size in pairs)


def _turn(block: tuple[int, ...], counts: tuple[int, ...]) -> int:
    """The number of the physical tile of a block: its index, modulo the tiles there are."""
    total = 0
    for index, count in zip(block, counts or (1,) * len(block)):
        total = total * count + index % count
    return total


@dataclass(frozen=True)
class OnChip:
    """One on-chip memory."""

    space: MemorySpace

    def auto_alloc(self) -> Buffer:
        """The memory, with places chosen by the compiler."""
        return Buffer(self.space)

    def alloc(self, func: Place) -> Buffer:
        """The memory, with the place of each block given by `func`."""
        return Buffer(self.space, Allocation(place=func))


@dataclass(frozen=True)
class Sbuf(OnChip):
    """SBUF; places are (start partition, byte address)."""

    def mod_alloc(
        self,
        *,
        base_addr: int,
        base_partition: int = 0,
        num_par_tiles: Sequence[int] = (),
        num_free_tiles: Sequence[int] = (),
    ) -> Buffer:
        """Blocks go round `num_free_tiles` places from a base address."""
        tiles = (tuple(num_par_tiles), tuple(num_free_tiles))
        return Buffer(self.space, Allocation(base=(base_partition, base_addr), tiles=tiles))


@dataclass(frozen=True)
class Psum(OnChip):
    """PSUM; places are (bank, start partition, byte address)."""

    def mod_alloc(
        self,
        *,
        base_bank: int,
        base_addr: int = 0,
        base_partition: int = 0,
        num_bank_tiles: Sequence[int] = (),
        num_par_tiles: Sequence[int] = (),
        num_free_tiles: Sequence[int] = (),
    ) -> Buffer:
        """Blocks go round `num_bank_tiles` banks from a base bank."""
        tiles = (tuple(num_bank_tiles), tuple(num_par_tiles), tuple(num_free_tiles))
        base = (base_bank, base_partition, base_addr)
        return Buffer(self.space, Allocation(base=base, tiles=tiles))


sbuf = Sbuf(MemorySpace.Sbuf)
psum = Psum(MemorySpace.Psum)


@dataclass(frozen=True)
class Directive:
    """Advice about a loop or kernel; recorded, and without effect on results."""

    name: str
    value: Any = None


def multi_buffer(factor: int = 2) -> Directive:
    """Keep `factor` generations of a loop's tensors."""
    return Directive("multi_buffer", factor)


def no_reorder() -> Directive:
    """Keep the instructions of a loop in order."""
    return Directive("no_reorder")


@contextmanager
def allocation_scope() -> Generator[None]:
    """Tensors made inside are allocated together."""
    yield


def skip_middle_end_transformations(kernel: F) -> F:
    """The kernel itself: there is no middle end to skip."""
    return kernel


def force_auto_alloc(kernel: F) -> F:
    """The kernel itself: allocation is automatic."""
    return kernel


def enable_stack_allocator(kernel: Any = None, log_level: int = 50) -> Any:
    """The kernel, refused where its tiles do not fit on the chip. Also usable with arguments.

    Raises `err_stack_overflow_sbuf` and `err_stack_overflow_psum` when it is traced.
    """
    if kernel is None:
        return enable_stack_allocator
    return with_options(kernel, check_capacity=True)


def with_options(kernel: Any, **options: Any) -> Any:
    """A traced kernel under further options; of a function, they are for `nki.jit` to find."""
    if hasattr(kernel, "with_options"):
        return kernel.with_options(**options)
    kernel.nki_options = {**getattr(kernel, "nki_options", {}), **options}
    return kernel


__all__ = [
    "Allocation",
    "Directive",
    "allocation_scope",
    "enable_stack_allocator",
    "force_auto_alloc",
    "multi_buffer",
    "no_reorder",
    "psum",
    "sbuf",
    "skip_middle_end_transformations",
]
