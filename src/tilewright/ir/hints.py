"""Optimization entries of scopes: data that the compiler may follow."""

from __future__ import annotations

from typing import Any

from tilewright.dataclass import dataclass
from tilewright.ir.enums import SplitMode


class Optimization:
    """An entry of `optimizations=`."""


@dataclass(frozen=True)
class Split(Optimization):
    """How a mixed scope is divided between the vector lanes."""

    mode: SplitMode
    slot_num: int | None = None

    def as_python(self, printer: Any = None) -> str:
        """The call that gives it."""
        prefix = getattr(printer, "prefix", "pl")
        slots = "" if self.slot_num is None else f", slot_num={self.slot_num}"
        return f"{prefix}.split({prefix}.SplitMode.{self.mode.name}{slots})"


@dataclass(frozen=True)
class CrossCoreSlot(Optimization):
    """Ring depth of the automatic pipe between core kinds."""

    slot_num: int

    def as_python(self, printer: Any = None) -> str:
        """The call that gives it."""
        return f"{getattr(printer, 'prefix', 'pl')}.cross_core_slot(slot_num={self.slot_num})"


def split(mode: SplitMode, *, slot_num: int | None = None) -> Split:
    """`pl.split(mode)`: divide a mixed scope between the vector lanes."""
    return Split(mode, slot_num)


def cross_core_slot(*, slot_num: int) -> CrossCoreSlot:
    """`pl.cross_core_slot(slot_num=)`: ring depth of the automatic pipe."""
    return CrossCoreSlot(slot_num)
