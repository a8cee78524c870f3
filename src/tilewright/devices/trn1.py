"""Trainium, first generation of the tensor core that this language addresses (gen2)."""

from __future__ import annotations

from tilewright.devices.model import Device

TRN1 = Device("trn1", generation=2)
