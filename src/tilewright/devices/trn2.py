"""Trainium2 (gen3)."""

from __future__ import annotations

from tilewright.devices.model import Device

GEN3_INSTRUCTIONS = frozenset(
    {
        "activation_reduce.any_op",
        "dma_copy.hwdge",
        "nc_matmul.double_row",
        "range_select",
    }
)
TRN2 = Device(
    "trn2",
    generation=3,
    sbuf_partition_bytes=224 * 1024,
    physical_cores=2,
    instructions=GEN3_INSTRUCTIONS,
    dtypes=frozenset({"float8_e4m3fn"}),
)
