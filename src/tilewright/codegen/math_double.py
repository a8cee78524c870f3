"""exp, exp2, sigmoid, log, log1p and tanh of binary64, by steps of which each rounds once.

No step is fused, so that every instruction set gives the same bits.
"""

from math import factorial

from tilewright.codegen.lanes import Lanes, horner64, round_even, select
from tilewright.codegen.math_exp import clamp
from tilewright.codegen.math_log import log_limits, split64

LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
"""Products of the first with exponents are exact."""

LN2_HALF, LN2_REST = 0.6931471824645996, -1.904654299957768e-09
"""The first has 26 bits: its products with numbers of 26 bits are exact."""

HIGH_BITS = -1 << 27
TINY, SCALE, SCALED_BY = 2.2250738585072014e-308, 2.0**54, 54.0
EXP = tuple(1.0 / factorial(k) for k in range(14, 1, -1))
ATANH = tuple(2.0 / (2 * k + 1) for k in range(11, 0, -1))
"""Of (log((1+s)/(1-s)) - 2*s)/s in powers of s*s."""

INFINITY = float("inf")


def power_of_two(exponent: Lanes) -> Lanes:
    """2**exponent for an i64 in the range of normal numbers."""
    return ((exponent + 1023) << 52).as_float()


def scale(x: Lanes, exponent: Lanes) -> Lanes:
    """x * 2**exponent, rounded once, for x near 1 and an integral exponent; NaN is 0."""
    whole = select(exponent.is_nan(), 0.0, exponent).convert("fptosi", "i64")
    half = whole.ashr(1)
    return x * power_of_two(half) * power_of_two(whole - half)


def exp_rest(high: Lanes, low: Lanes) -> tuple[Lanes, Lanes]:
    """e**(high + low) - 1 for a sum of magnitude at most 0.35, and what rounding took from it.

    low is much smaller than high.
    """
    r = high + low
    more = r * r * horner64(r, EXP) + ((high - r) + low)
    total = r + more
    return total, more - (total - r)


def reduced(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """n, the integer nearest to x/ln 2, and `exp_rest` of what is left."""
    n = round_even(x * LOG2_E)
    return n, *exp_rest(x - n * LN2_HIGH, -(n * LN2_LOW))


def exp(x: Lanes) -> Lanes:
    """e**x within 1 ULP."""
    n, rest, _ = reduced(clamp(x, -746.0, 710.0))
    return scale(rest + 1.0, n)


def exp2(x: Lanes) -> Lanes:
    """2**x within 1 ULP."""
    x = clamp(x, -1076.0, 1025.0)
    n = round_even(x)
    r = x - n
    high = (r.bits() & HIGH_BITS).as_float()
    rest, _ = exp_rest(high * LN2_HALF, high * LN2_REST + (r - high) * LN2)
    return scale(rest + 1.0, n)


def sigmoid(x: Lanes) -> Lanes:
    """1/(1+e**-x) within 2.5 ULP."""
    t = exp(-x.abs())
    return select(x.lt(0.0), t, 1.0) / select(x.is_nan(), x, t + 1.0)


def tanh(x: Lanes) -> Lanes:
    """tanh x within 2 ULP: t/(t + 2) for t = e**2|x| - 1; what t has lost is made up for."""
    n, rest, taken = reduced(clamp(x.abs() * 2.0, 0.0, 44.0))
    power = power_of_two(select(n.is_nan(), 0.0, n).convert("fptosi", "i64"))
    head, part = power - 1.0, rest * power
    t = head + part
    larger, smaller = select(head.gt(part), head, part), select(head.gt(part), part, head)
    lost = smaller - (t - larger) + taken * power
    total = t + 2.0
    q = t / total
    wrong = t - (total - 2.0)
    return (q + ((lost + lost) / total - q * wrong) / total).copysign(x)


def log_of(f: Lanes, k: Lanes, more: Lanes | float = 0.0) -> Lanes:
    """log(1+f) + k*ln 2 + more, for 1+f from sqrt(1/2) to sqrt(2)."""
    s = f / (f + 2.0)
    z = s * s
    half = f * f * 0.5
    low = s * (half + z * horner64(z, ATANH)) + (k * LN2_LOW + more)
    return k * LN2_HIGH - ((half - low) - f)


def log(x: Lanes) -> Lanes:
    """Natural logarithm within 1 ULP."""
    tiny = x.lt(TINY)
    k, m = split64(select(tiny, x * SCALE, x))
    k = k - select(tiny, x.constant(SCALED_BY), 0.0)
    return log_limits(x, log_of(m - 1.0, k))


def log1p(x: Lanes) -> Lanes:
    """log(1+x) within 2 ULP: what 1+x has lost is made up for."""
    u = x + 1.0
    k, m = split64(u)
    whole = u - 1.0
    lost = select(x.abs().lt(1.0), x - whole, x.constant(1.0) - (u - x)) / u
    f = select(k.eq(0.0), x, m - 1.0)
    result = log_of(f, k, select(k.eq(0.0), 0.0, lost))
    result = select(x.eq(INFINITY), x, log_limits(u, result))
    return select(x.eq(0.0), x, result)


DOUBLE_WORDS = {
    "exp": exp,
    "exp2": exp2,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "log": log,
    "log1p": log1p,
}
