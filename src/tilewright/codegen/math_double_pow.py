"""pow of binary64: a logarithm, and its product with y, are pairs of numbers."""

from __future__ import annotations

from tilewright.codegen.lanes import Lanes, horner64, select
from tilewright.codegen.math_double import LN2_HIGH, LN2_LOW, reduced_pair, scale, split_scaled
from tilewright.codegen.math_exp import clamp
from tilewright.codegen.math_log import signed_power
from tilewright.codegen.pairs import Pair, quick_two_sum, two_product, two_sum

THIRD, THIRD_LOW = 1.0 / 3.0, 1.850371707708594e-17
ATANH = tuple(1.0 / (2 * k + 1) for k in range(11, 1, -1))
"""Of (atanh(s)/s - 1 - s*s/3)/s**4 in powers of s*s."""

INFINITY = float("inf")
LEAST, MOST = -746.0, 710.0


def log_pair(a: Lanes) -> Pair:
    """log a for positive finite numbers, with 64 bits: k*ln 2 + 2*atanh(s), s = (m-1)/(m+1)."""
    k, m = split_scaled(a)
    f = m - 1.0
    below, below_low = two_sum(m, m.constant(1.0))
    s = f / below
    again, rest = two_product(s, below)
    s_low = (((f - again) - rest) - s * below_low) / below
    z, z_low = two_product(s, s)
    z_low = z_low + (s + s) * s_low
    factor, factor_low = quick_two_sum(z.constant(THIRD), z * horner64(z, ATANH) + THIRD_LOW)
    cube, cube_low = two_product(z, factor)
    cube_low = cube_low + (z * factor_low + z_low * factor)
    more, more_low = two_product(s, cube)
    more_low = more_low + (s * cube_low + s_low * cube)
    part, part_low = quick_two_sum(s, more)
    part_low = part_low + (more_low + s_low)
    total, low = two_sum(k * LN2_HIGH, part + part)
    return quick_two_sum(total, low + (part_low + part_low + k * LN2_LOW))


def pow_magnitude(x: Lanes, y: Lanes) -> Lanes:
    """|x|**y."""
    a = x.abs()
    logarithm, low = log_pair(a)
    logarithm = select(a.eq(0.0), -INFINITY, select(a.lt(INFINITY), logarithm, a))
    product, rest = two_product(logarithm, y)
    bounded = clamp(product, LEAST, MOST)
    rest = select(bounded.eq(product), rest + low * y, 0.0)
    n, total = reduced_pair(bounded, rest)
    return select(a.eq(1.0) | y.eq(0.0), 1.0, scale(total + 1.0, n))


def power(x: Lanes, y: Lanes) -> Lanes:
    """x**y within 1 ULP, with the special cases of IEEE 754."""
    return signed_power(x, y, pow_magnitude(x, y))
