"""sin, cos, tan and atan of binary64, by steps of which each rounds once.

What is left of an argument after quarters of a turn is a pair of numbers: one would lose too much
where it is close to zero.
"""

from __future__ import annotations

from math import factorial

from tilewright.codegen.lanes import Lanes, horner64, round_even, select
from tilewright.codegen.math_trig import TWO_OVER_PI, TWO_OVER_PI_WORDS, Reduction, periodic
from tilewright.codegen.pairs import quick_two_sum, two_product, two_sum
from tilewright.codegen.pick import fetch

QUARTERS = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21)
"""The first bits of pi/2, 33 in each: products with numbers of 20 bits are exact."""

QUARTER_REST = 8.4784276603689e-32
HALF_PI, HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17
QUARTER_PI, QUARTER_PI_LOW = HALF_PI / 2, HALF_PI_LOW / 2
LARGE = 2.0**20
SIN = tuple((-1) ** (k // 2) / factorial(k) for k in range(17, 1, -2))
COS = tuple((-1) ** (k // 2) / factorial(k) for k in range(16, 2, -2))
TAN_PI_8, TAN_3PI_8 = 0.41421356237309503, 2.414213562373095
ATAN = (
    0.01520109159771124,
    -0.03348016151069035,
    0.045037875312298366,
    -0.05218461001331246,
    0.058770302456438245,
    -0.06666227579202973,
    0.07692282811145165,
    -0.09090908146694357,
    0.1111111108823361,
    -0.14285714285388867,
    0.19999999999997678,
    -0.33333333333333326,
)
"""Of (atan(s)/s - 1)/(s*s) in powers of s*s."""

WORDS = (0, *TWO_OVER_PI_WORDS)
"""The first bits of 2/pi after 64 zero bits, 32 in each."""

WINDOW = 6
"""Words that a significand is multiplied with: the rest of 2/pi is too small to matter."""

LOW = (1 << 32) - 1
SIGNIFICAND, IMPLICIT, EXPONENT = (1 << 52) - 1, 1 << 52, 0x7FF


def reduce_small(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """(r, more, quadrant) with x = r + more + quadrant*pi/2, for magnitudes below LARGE."""
    n = round_even(x * TWO_OVER_PI)
    first, lost = two_sum(x - n * QUARTERS[0], -(n * QUARTERS[1]))
    second, more = two_sum(first, -(n * QUARTERS[2]))
    r, rest = quick_two_sum(second, (lost + more) - n * QUARTER_REST)
    return r, rest, n.convert("fptosi", "i64")


def reduce_large(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """The same for any finite magnitude of at least LARGE.

    The significand times the right 192 bits of 2/pi, of which the first two number the quadrant.
    """
    bits = x.bits()
    significand = (bits & SIGNIFICAND) | IMPLICIT
    position = ((bits >> 52) & EXPONENT) - (1075 - 62)
    limbs = product(significand, [window(position, k) for k in range(WINDOW)])
    top = (limbs[5] << 32) | limbs[4]
    quadrant = (top + (1 << 61)) >> 62
    whole = top - (quadrant << 62)
    parts = (whole.ashr(32), whole & LOW, limbs[3], limbs[2])
    scaled = [part.convert("sitofp", "double") * 2.0**-k for k, part in zip(WEIGHTS, parts)]
    high, lost = two_sum(scaled[0], scaled[1])
    turn, more = quick_two_sum(high, lost + (scaled[2] + scaled[3]))
    r, rest = two_product(turn, turn.constant(HALF_PI))
    r, rest = quick_two_sum(r, rest + (turn * HALF_PI_LOW + more * HALF_PI))
    negative = bits.lt(0)
    return (
        select(negative, -r, r),
        select(negative, -rest, rest),
        select(negative, -quadrant, quadrant),
    )


WEIGHTS = (30, 62, 94, 126)
"""What a part of the product is multiplied with: two to the power of minus this."""


def window(position: Lanes, number: int) -> Lanes:
    """32 bits of 2/pi from bit `position` + 32*number on."""
    first = (position >> 5) + number
    pair = (fetch(WORDS, first, "i64") << 32) | fetch(WORDS, first + 1, "i64")
    return ((pair << (position & 31)) >> 32) & LOW


def product(significand: Lanes, words: list[Lanes]) -> list[Lanes]:
    """The significand times words of 32 bits, the highest first; gives the lowest first."""
    low, high = significand & LOW, significand >> 32
    found: list[Lanes] = []
    carry = before = significand.constant(0)
    for word in reversed(words):
        left, right = low * word, high * before
        total = (left & LOW) + (right & LOW) + carry
        found.append(total & LOW)
        carry = (total >> 32) + (left >> 32) + (right >> 32)
        before = word
    return found


DOUBLE = Reduction(LARGE, reduce_small, reduce_large)


def sin_kernel(r: Lanes, more: Lanes) -> Lanes:
    """sin(r + more) for magnitudes up to pi/4."""
    z = r * r
    return r + (r * z * horner64(z, SIN) + more * (z.constant(1.0) - z * 0.5))


def cos_kernel(r: Lanes, more: Lanes) -> Lanes:
    """cos(r + more) for magnitudes up to pi/4."""
    z = r * r
    half = z * 0.5
    head = z.constant(1.0) - half
    return head + (((z.constant(1.0) - head) - half) + (z * z * horner64(z, COS) - r * more))


def sin_of(r: Lanes, more: Lanes, quadrant: Lanes) -> Lanes:
    """sin(r + more + quadrant*pi/2)."""
    size = select((quadrant & 1).eq(0), sin_kernel(r, more), cos_kernel(r, more))
    return select((quadrant & 2).eq(0), size, -size)


def cos_of(r: Lanes, more: Lanes, quadrant: Lanes) -> Lanes:
    """cos(r + more + quadrant*pi/2)."""
    return sin_of(r, more, quadrant + 1)


def tan_of(r: Lanes, more: Lanes, quadrant: Lanes) -> Lanes:
    """tan(r + more + quadrant*pi/2)."""
    s, c = sin_kernel(r, more), cos_kernel(r, more)
    even = (quadrant & 1).eq(0)
    return select(even, s, -c) / select(even, c, s)


def sin(x: Lanes) -> Lanes:
    """sin x within 1 ULP."""
    return select(x.eq(0.0), x, periodic(x, "sin", sin_of, DOUBLE))


def cos(x: Lanes) -> Lanes:
    """cos x within 1 ULP."""
    return periodic(x, "cos", cos_of, DOUBLE)


def tan(x: Lanes) -> Lanes:
    """tan x within 3 ULP."""
    return select(x.eq(0.0), x, periodic(x, "tan", tan_of, DOUBLE))


def atan(x: Lanes) -> Lanes:
    """atan x within 1 ULP: a quotient below tan(pi/8), with what it has lost, and a polynomial."""
    a = x.abs()
    middle, high = a.gt(TAN_PI_8), a.gt(TAN_3PI_8)
    less, less_low = two_sum(a, a.constant(-1.0))
    plus, plus_low = two_sum(a, a.constant(1.0))
    above = select(high, -1.0, select(middle, less, a))
    below = select(high, a, select(middle, plus, 1.0))
    between = middle & ~high
    above_low = select(between, less_low, 0.0)
    below_low = select(between, plus_low, 0.0)
    offset = select(high, a.constant(HALF_PI), select(middle, a.constant(QUARTER_PI), 0.0))
    low = select(high, a.constant(HALF_PI_LOW), select(middle, a.constant(QUARTER_PI_LOW), 0.0))
    s = above / below
    again, rest = two_product(s, below)
    lost = (((above - again) - rest) + above_low - s * below_low) / below
    lost = select(between, lost, 0.0)
    z = s * s
    head, more = quick_two_sum(offset, s)
    result = head + (more + (s * z * horner64(z, ATAN) + (lost + low)))
    return select(x.is_nan(), x, result.copysign(x))
