"""`nl.tile_size`: limits of the target, as constants."""

from __future__ import annotations

from tilewright.devices import Device, get_device
from tilewright.dtypes import FP32
from tilewright.frontend.trace.ambient import nki_ctx_or_none
from tilewright.frontend.trace.options import DEFAULT_TARGET


class TileSize:
    """Limits of the target of the kernel that is traced, or of the default target."""

    @property
    def _device(self) -> Device:
        ctx = nki_ctx_or_none()
        return get_device(DEFAULT_TARGET) if ctx is None else ctx.device

    @property
    def pmax(self) -> int:
        """Partitions of a tile."""
        return self._device.pmax

    @property
    def psum_fmax(self) -> int:
        """FP32 elements in one bank of PSUM, in one partition."""
        return self._device.psum_fmax

    psum_bank_fmax = psum_fmax

    @property
    def psum_bank_fmax_bytes(self) -> int:
        """Bytes of one bank of PSUM, in one partition."""
        return self._device.psum_bank_bytes

    @property
    def psum_num_banks(self) -> int:
        """Banks of PSUM."""
        return self._device.psum_banks

    @property
    def gemm_stationary_fmax(self) -> int:
        """Free elements of the stationary operand of a matmul."""
        return self._device.stationary_fmax

    @property
    def gemm_moving_fmax(self) -> int:
        """Free elements of the moving operand of a matmul."""
        return self._device.moving_fmax

    @property
    def bn_stats_fmax(self) -> int:
        """Free elements of `nisa.bn_stats`."""
        return self._device.bn_stats_fmax

    @property
    def psum_min_align(self) -> int:
        """Alignment of addresses in PSUM, in bytes."""
        return self._device.psum_min_align

    @property
    def sbuf_min_align(self) -> int:
        """Alignment of addresses in SBUF, in bytes."""
        return self._device.sbuf_min_align

    @property
    def total_available_sbuf_size(self) -> int:
        """Bytes of SBUF per partition that tensors may take."""
        return self._device.usable_sbuf_bytes

    @property
    def sbuf_size_bytes(self) -> int:
        """Bytes of SBUF per partition."""
        return self._device.sbuf_partition_bytes

    @property
    def sbuf_fmax_bytes(self) -> int:
        """Bytes of a tile in SBUF, in one partition."""
        return self._device.usable_sbuf_bytes

    @property
    def sbuf_fmax(self) -> int:
        """FP32 elements of a tile in SBUF, in one partition."""
        return self.sbuf_fmax_bytes // FP32.nbytes


class Limits:
    """The least value of an element type (`nl.fp32.min`)."""

    def __init__(self, least: float) -> None:
        self.min = least


tile_size = TileSize()
fp32 = Limits(-3.4028234663852886e38)
bfp16 = Limits(-3.3895313892515355e38)
