"""log, log1p and pow of binary32. The last two work in binary64 and round once."""

from tilewright.codegen.lanes import (
    Lanes,
    fma,
    horner,
    horner64,
    round_even,
    round_to_zero,
    select,
)
from tilewright.codegen.math_exp import clamp

LOG = (0.3036075830459595, 0.39957815408706665, 0.666669487953186)
LN2_UPPER, LN2_LOWER = 0.693115234375, 3.1946184994535795e-05
THREE_QUARTERS = 0x3F400000
ATANH = (
    0.08312208910204648,
    0.09070010752368131,
    0.11111433112659677,
    0.1428571205101898,
    0.20000000005660445,
    0.3333333333333101,
)
EXP2_64 = (
    1.5297413107272950e-05,
    1.5461560778872135e-04,
    1.3333502162588130e-03,
    9.6180563880577750e-03,
    5.5504108840145120e-02,
    2.4022650923651495e-01,
    6.9314718055994530e-01,
)
LN2, LOG2_E = 0.6931471805599453, 1.4426950408889634
SQRT_HALF_64 = 0x3FE6A09E667F3BCD
INFINITY = float("inf")
NAN = float("nan")


def log(x: Lanes) -> Lanes:
    """Natural logarithm within 1 ULP: log(1+f) = f - (f*f/2 - s*(f*f/2 + R)), s = f/(2+f).

    0.928 over every float.
    """
    direct = x.text.isa.has_scalef and x.lanes == 16
    e, m = split_directly(x) if direct else split(x)
    f = m - 1.0
    s = f / (m + 1.0)
    z = s * s
    half = f * (f * 0.5)
    correction = half - fma(s, half + z * horner(z, LOG), e * LN2_LOWER)
    result = fma(e, LN2_UPPER, f - correction)
    return result if direct else log_limits(x, result)


def split(x: Lanes) -> tuple[Lanes, Lanes]:
    """(e, m) with x = m * 2**e and m from 3/4 to 3/2, for positive finite x."""
    tiny = x.lt(1.1754943508222875e-38)
    scaled = select(tiny, x * 8388608.0, x)
    bits = scaled.bits()
    exponent = (bits - THREE_QUARTERS).ashr(23)
    m = (bits - (exponent << 23)).as_float()
    return exponent.convert("sitofp", "float") - select(tiny, x.constant(23.0), 0.0), m


def split_directly(x: Lanes) -> tuple[Lanes, Lanes]:
    """`split` by instructions made for it.

    Infinity and zero give an infinite e and m = 1, negative numbers give NaN.
    """
    m = taken_apart(x + 0.0, "getmant", ", i32 11")
    return taken_apart(x, "getexp") - taken_apart(m, "getexp"), m


def taken_apart(x: Lanes, instruction: str, how: str = "") -> Lanes:
    """One of the instructions that split floats."""
    kind = x.type
    arguments = f"{kind} {x.ref}{how}, {kind} poison, i16 -1, i32 4"
    name = f"@llvm.x86.avx512.mask.{instruction}.ps.512"
    return x.like(x.text.let(f"call {kind} {name}({arguments})"))


def log_limits(x: Lanes, result: Lanes) -> Lanes:
    """`result` except where the logarithm of x is infinite or undefined."""
    result = select(x.lt(INFINITY), result, x)
    return select(
        x.gt(0.0), result, select(x.eq(0.0), x.constant(-INFINITY), select(x.is_nan(), x, NAN))
    )


def split64(u: Lanes) -> tuple[Lanes, Lanes]:
    """(k, m) with u = m * 2**k and m from sqrt(1/2) to sqrt(2), both binary64."""
    bits = u.bits()
    k = (bits - SQRT_HALF_64).ashr(52)
    return k.convert("sitofp", "double"), (bits - (k << 52)).as_float()


def log_ratio(f: Lanes) -> Lanes:
    """log(1+f) in binary64 for 1+f between sqrt(1/2) and sqrt(2)."""
    s = f / (f + 2.0)
    z = s * s
    return (s + s) * (z * horner64(z, ATANH) + 1.0)


def log1p(x: Lanes) -> Lanes:
    """log(1+x) within 1 ULP; 0.501 over every float."""
    wide = x.widen()
    k, m = split64(wide + 1.0)
    f = select(k.eq(0.0), wide, m - 1.0)
    result = (k * LN2 + log_ratio(f)).narrow()
    return select(x.eq(0.0), x, log_limits(x + 1.0, select(x.eq(INFINITY), x, result)))


def exp2_wide(t: Lanes) -> Lanes:
    """2**t rounded to binary32, for binary64 t of magnitude at most 200."""
    n = round_even(t)
    r = t - n
    power = ((select(n.is_nan(), 0.0, n).convert("fptosi", "i64") + 1023) << 52).as_float()
    return ((r * horner64(r, EXP2_64) + 1.0) * power).narrow()


def pow_magnitude(x: Lanes, y: Lanes) -> Lanes:
    """|x|**y in binary32."""
    a = x.abs()
    k, m = split64(a.widen())
    logarithm = k + log_ratio(m - 1.0) * LOG2_E
    logarithm = select(a.eq(0.0), -INFINITY, logarithm)
    logarithm = select(a.lt(INFINITY), logarithm, a.widen())
    result = exp2_wide(clamp(logarithm * y.widen(), -200.0, 200.0))
    return select(a.eq(1.0) | y.eq(0.0), 1.0, result)


def power(x: Lanes, y: Lanes) -> Lanes:
    """x**y within 1 ULP, with the special cases of IEEE 754."""
    return signed_power(x, y, pow_magnitude(x, y))


def signed_power(x: Lanes, y: Lanes, size: Lanes) -> Lanes:
    """x**y from |x|**y."""
    size = select(y.is_nan() & x.ne(1.0), y, size)
    whole = round_to_zero(y).eq(y)
    half = y * 0.5
    odd = whole & round_to_zero(half).ne(half)
    negative = x.bits().lt(0)
    undefined = x.lt(0.0) & x.gt(-INFINITY) & ~whole
    size = select(undefined, NAN, size)
    return select(negative & odd, -size, size)
