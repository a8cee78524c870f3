"""Models of accelerators, as data: one module per device."""

from __future__ import annotations

from tilewright.devices.ascend import A2A3, A5
from tilewright.devices.inf2 import INF2
from tilewright.devices.memory import CoreModel, Memory, Model
from tilewright.devices.model import Device
from tilewright.devices.trn1 import TRN1
from tilewright.devices.trn2 import TRN2
from tilewright.devices.trn3 import TRN3

DEVICES: dict[str, Device] = {device.name: device for device in (TRN1, INF2, TRN2, TRN3)}
CORES: dict[str, CoreModel] = {device.name: device for device in (A2A3, A5)}
ALIASES = {"gen2": "trn1", "gen3": "trn2", "gen4": "trn3"}


def get_device(name: str) -> Device:
    """The model called `name`; raises ValueError that lists the names there are."""
    found = DEVICES.get(ALIASES.get(name, name))
    if found is None:
        raise ValueError(f"unknown device {name!r}; there are {', '.join(DEVICES)}")
    return found


def get_model(name: str) -> Model:
    """The model called `name`, of any kind; raises ValueError that lists the names there are."""
    models: dict[str, Model] = {**DEVICES, **CORES}
    found = models.get(ALIASES.get(name, name))
    if found is None:
        raise ValueError(f"unknown device {name!r}; there are {', '.join(models)}")
    return found


__all__ = [
    "ALIASES",
    "CORES",
    "DEVICES",
    "CoreModel",
    "Device",
    "Memory",
    "Model",
    "get_device",
    "get_model",
]
