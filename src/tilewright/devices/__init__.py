"""Models of accelerators, as data: one module per device."""

from __future__ import annotations

from tilewright.devices.inf2 import INF2
from tilewright.devices.model import Device
from tilewright.devices.trn1 import TRN1
from tilewright.devices.trn2 import TRN2
from tilewright.devices.trn3 import TRN3

DEVICES: dict[str, Device] = {device.name: device for device in (TRN1, INF2, TRN2, TRN3)}
ALIASES = {"gen2": "trn1", "gen3": "trn2", "gen4": "trn3"}


def get_device(name: str) -> Device:
    """The model called `name`; raises ValueError that lists the names there are."""
    found = DEVICES.get(ALIASES.get(name, name))
    if found is None:
        raise ValueError(f"unknown device {name!r}; there are {', '.join(DEVICES)}")
    return found


__all__ = ["ALIASES", "DEVICES", "Device", "get_device"]
