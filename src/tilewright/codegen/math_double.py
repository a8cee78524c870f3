"""exp, exp2, sigmoid, log, log1p, tanh and erf of binary64, by steps of which each rounds once.

No step is fused, so that every instruction set gives the same bits.
"""

from math import factorial

from tilewright.codegen.lanes import Lanes, horner64, round_even, select
from tilewright.codegen.math_exp import clamp
from tilewright.codegen.math_log import log_limits, split64
from tilewright.codegen.pairs import halves, less_product, two_sum

LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
"""Products of the first with exponents are exact."""

LN2_HALF, LN2_REST = 0.6931471824645996, -1.904654299957768e-09
"""The first has 26 bits: its products with numbers of 26 bits are exact."""

TINY, SCALE, SCALED_BY = 2.2250738585072014e-308, 2.0**54, 54.0
EXP = tuple(1.0 / factorial(k) for k in range(14, 1, -1))
ATANH = tuple(2.0 / (2 * k + 1) for k in range(11, 0, -1))
"""Of (log((1+s)/(1-s)) - 2*s)/s in powers of s*s."""

ERF_NEAR = (
    -8.655961552705454e-10,
    1.4118414149825582e-08,
    -1.6288445145058332e-07,
    1.6456525192347512e-06,
    -1.4925381910933849e-05,
    0.00012055324343331319,
    -0.0008548326839896709,
    0.0052239776229635135,
    -0.026866170644933317,
    0.11283791670954307,
    -0.37612638903183737,
    0.1283791670955126,
)
"""Of erf(x)/x - 1 in powers of x*x, up to ERF_FAR."""

ERFC = (
    0.0019308354076121507,
    -0.010286049434096093,
    0.025641622372846028,
    -0.040051059007469664,
    0.04395271727687034,
    -0.03470268336583952,
    0.01632359046431813,
    0.005046184027364258,
    -0.02360847765478632,
    0.03450700815889365,
    -0.034437254934081604,
    0.022458962309255214,
    -0.0006276999273158767,
    -0.025685315993213574,
    0.04777556961673104,
    -0.05386796455161768,
    0.029627761931882993,
    0.04112863766238779,
    -0.17558234852469173,
    0.39098400703187497,
    0.2962874773692113,
)
"""Of (1 - erf x) * e**(x*x) in powers of 1/x - 0.6, from ERF_FAR on."""

ERF_FAR, ERF_END = 0.875, 6.0
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


def reduced_pair(x: Lanes, more: Lanes) -> tuple[Lanes, Lanes]:
    """n, the integer nearest to x/ln 2, and e**(x + more - n*ln 2) - 1, for a small `more`."""
    n = round_even(x * LOG2_E)
    return n, exp_rest(x - n * LN2_HIGH, more - n * LN2_LOW)[0]


def exp(x: Lanes) -> Lanes:
    """e**x within 1 ULP."""
    n, rest, _ = reduced(clamp(x, -746.0, 710.0))
    return scale(rest + 1.0, n)


def exp2(x: Lanes) -> Lanes:
    """2**x within 1 ULP."""
    x = clamp(x, -1076.0, 1025.0)
    n = round_even(x)
    r = x - n
    high, low = halves(r)
    rest, _ = exp_rest(high * LN2_HALF, high * LN2_REST + low * LN2)
    return scale(rest + 1.0, n)


def sigmoid(x: Lanes) -> Lanes:
    """1/(1+e**-x) within 1 ULP, through e**-|x| so that nothing overflows or flushes.

    That power is (head + more) * 2**n, and what the sum with 1 has lost is made up for.
    """
    n, rest, taken = reduced(clamp(-x.abs(), -746.0, 0.0))
    head = rest + 1.0
    t, more = scale(head, n), scale((rest - (head - 1.0)) + taken, n)
    total = t + 1.0
    lost = (t - (total - 1.0)) + more
    negative = x.lt(0.0)
    upper, more = select(negative, t, 1.0), select(negative, more, 0.0)
    q = upper / total
    result = q + (less_product(upper, q, total) + (more - q * lost)) / total
    return select(x.is_nan(), x, result)


def tanh(x: Lanes) -> Lanes:
    """tanh x within 1 ULP: t/(t + 2) for t = e**2|x| - 1; what both have lost is made up for."""
    n, rest, taken = reduced(clamp(x.abs() * 2.0, 0.0, 44.0))
    power = power_of_two(select(n.is_nan(), 0.0, n).convert("fptosi", "i64"))
    t, lost = two_sum(power - 1.0, rest * power)
    lost = lost + taken * power
    total = t + 2.0
    q = t / total
    wrong = (t - (total - 2.0)) + lost
    left = less_product(t, q, total) + (lost - q * wrong)
    return select(x.is_nan(), x, (q + left / total).copysign(x))


def log_of(f: Lanes, k: Lanes, more: Lanes | float = 0.0) -> Lanes:
    """log(1+f) + k*ln 2 + more, for 1+f from sqrt(1/2) to sqrt(2)."""
    s = f / (f + 2.0)
    z = s * s
    half = f * f * 0.5
    low = s * (half + z * horner64(z, ATANH)) + (k * LN2_LOW + more)
    return k * LN2_HIGH - ((half - low) - f)


def log(x: Lanes) -> Lanes:
    """Natural logarithm within 1 ULP."""
    k, m = split_scaled(x)
    return log_limits(x, log_of(m - 1.0, k))


def split_scaled(x: Lanes) -> tuple[Lanes, Lanes]:
    """(k, m) with x = m * 2**k and m from sqrt(1/2) to sqrt(2), for any positive finite x."""
    tiny = x.lt(TINY)
    k, m = split64(select(tiny, x * SCALE, x))
    return k - select(tiny, x.constant(SCALED_BY), 0.0), m


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


def erf(x: Lanes) -> Lanes:
    """erf x within 1 ULP: odd near 0, else 1 - e**(-x*x) * P(1/x)."""
    a = x.abs()
    near = a * horner64(x * x, ERF_NEAR) + a
    t = clamp(a, ERF_FAR, ERF_END)
    u = t.constant(1.0) / t - 0.6
    far = t.constant(1.0) - exp(-(t * t)) * horner64(u, ERFC)
    return select(a.gt(ERF_FAR), far, near).copysign(x)
