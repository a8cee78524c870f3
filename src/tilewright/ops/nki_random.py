"""Random numbers of the traced style: a hash of the position, the same on every target."""

from __future__ import annotations

import math

from tilewright.dtypes import FP32, UINT32
from tilewright.ir.builder import Builder
from tilewright.ir.core import Value
from tilewright.ir.enums import MemorySpace
from tilewright.ops import creation, shape
from tilewright.ops import elementwise as ew

ROUNDS = ((16, 0x7FEB352D), (15, 0x846CA68B))
STEP = 0x9E3779B9


def uint32(value: int) -> Value:
    """A constant."""
    return Builder.current().constant(value % (1 << 32), UINT32)


def uniform(start: Value, extents: tuple[int, ...]) -> Value:
    """FP32 numbers in [0, 1): 24 bits of the hash of `start` plus the row-major position."""
    count = math.prod(extents)
    line = creation.iota(uint32(0), shape=(1, count), dtype=UINT32, axis=1, space=MemorySpace.Sbuf)
    bits = ew.add(shape.reshape(line, shape=extents), start)
    for distance, factor in ROUNDS:
        bits = ew.xor(bits, ew.shr(bits, uint32(distance)))
        bits = ew.mul(bits, uint32(factor))
    bits = ew.xor(bits, ew.shr(bits, uint32(16)))
    fraction = ew.cast(ew.shr(bits, uint32(8)), dtype=FP32)
    return ew.mul(fraction, Builder.current().constant(2.0**-24, FP32))
