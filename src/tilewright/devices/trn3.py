"""Trainium3 (gen4)."""

from __future__ import annotations

from tilewright.devices.model import Device
from tilewright.devices.trn2 import GEN3_INSTRUCTIONS

TRN3 = Device(
    "trn3",
    generation=4,
    sbuf_partition_bytes=256 * 1024,
    physical_cores=2,
    instructions=GEN3_INSTRUCTIONS | {"nc_matmul_mx", "quantize_mx"},
    dtypes=frozenset({"float8_e4m3fn", "float8_e8m0fnu"}),
)
