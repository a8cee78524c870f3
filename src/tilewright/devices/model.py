"""What a device model says: sizes of its memories, limits of its instructions, what it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tilewright.dataclass import dataclass
from tilewright.devices.memory import Memory
from tilewright.ir.enums import MemorySpace


@dataclass(frozen=True)
class Device:
    """One accelerator. Sizes are bytes, extents are elements; `source` says where they are from.

    `instructions` names the instructions that exist on some devices only; `reduce_commands` and
    `dtypes` likewise name what not every device has. `start_partitions` are pairs: so many
    partitions, and where an operand of an instruction that has no more of them may start.
    """

    name: str
    generation: int
    source: str = "AWS Neuron documentation, architecture pages and tile_size constants"
    pmax: int = 128
    start_partitions: tuple[tuple[int, tuple[int, ...]], ...] = (
        (32, (0, 32, 64, 96)),
        (64, (0, 64)),
        (128, (0,)),
    )
    sbuf_partition_bytes: int = 192 * 1024
    sbuf_reserved_bytes: int = 16 * 1024
    psum_banks: int = 8
    psum_bank_bytes: int = 2 * 1024
    stationary_fmax: int = 128
    moving_fmax: int = 512
    bn_stats_fmax: int = 512
    transpose_max: int = 128
    vector_transpose_max: int = 32
    psum_min_align: int = 4
    sbuf_min_align: int = 1
    physical_cores: int = 1
    instructions: frozenset[str] = field(default_factory=frozenset[str])
    dtypes: frozenset[str] = field(default_factory=frozenset[str])

    def starts_of(self, partitions: int) -> tuple[int, ...]:
        """Where an operand of an instruction that has so many partitions may start."""
        return next((starts for most, starts in self.start_partitions if partitions <= most), (0,))

    @property
    def psum_fmax(self) -> int:
        """FP32 elements in one bank of one partition."""
        return self.psum_bank_bytes // 4

    @property
    def psum_partition_bytes(self) -> int:
        """Bytes of PSUM in one partition."""
        return self.psum_banks * self.psum_bank_bytes

    @property
    def usable_sbuf_bytes(self) -> int:
        """Bytes of SBUF per partition that tensors may take."""
        return self.sbuf_partition_bytes - self.sbuf_reserved_bytes

    @property
    def memories(self) -> Mapping[MemorySpace, Memory]:
        """The on-chip memories, as every kind of model states them."""
        return {
            MemorySpace.Sbuf: Memory("SBUF", self.usable_sbuf_bytes, self.pmax),
            MemorySpace.Psum: Memory(
                "PSUM", self.psum_partition_bytes, self.pmax, self.psum_bank_bytes
            ),
        }
