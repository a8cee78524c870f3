"""Sums of two binary64 numbers, the second far smaller: twice the precision without fused steps."""

from __future__ import annotations

from tilewright.codegen.lanes import Lanes, fma

HIGH_BITS = -1 << 27
"""What is left of a significand has 26 bits; what was taken from it has 27."""

Pair = tuple[Lanes, Lanes]


def two_sum(x: Lanes, y: Lanes) -> Pair:
    """x + y exactly."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def quick_two_sum(x: Lanes, y: Lanes) -> Pair:
    """x + y exactly, where x is not the smaller."""
    total = x + y
    return total, y - (total - x)


def halves(x: Lanes) -> Pair:
    """x exactly, as two numbers of half as many bits."""
    high = (x.bits() & HIGH_BITS).as_float()
    return high, x - high


def two_product(x: Lanes, y: Lanes) -> Pair:
    """x * y, but for its last bit of 106."""
    product = x * y
    (x_high, x_low), (y_high, y_low) = halves(x), halves(y)
    rest = (x_high * y_high - product) + x_high * y_low + x_low * y_high
    return product, rest + x_low * y_low


def less_product(z: Lanes | float, x: Lanes, y: Lanes) -> Lanes:
    """z - x*y, rounded once where x*y is close to z: of binary32 fused, of binary64 by pairs."""
    if x.element == "float":
        return fma(-x, y, z)
    product, rest = two_product(x, y)
    return (-product + z) - rest
