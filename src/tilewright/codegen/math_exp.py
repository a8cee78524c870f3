"""exp, exp2 and sigmoid of binary32, each within the ULP bound its docstring states."""

from tilewright.codegen.lanes import Lanes, fma, horner, round_down, round_even, select
from tilewright.codegen.pick import pick
from tilewright.codegen.text import Text

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
EXP = (
    0.001381454002689207,
    0.008368745112582109,
    0.0416683907865647,
    0.16666520399003032,
    0.4999999343211462,
    1.0,
    1.0,
)
EXP2 = (
    0.00015453262409320672,
    0.0013390978248123866,
    0.00961808237061666,
    0.05550356898627073,
    0.24022650760957306,
    0.6931471880711763,
)
EXP_NEAR = (0.1666702777147293, 0.5000158548355103)
"""Of (e**r - 1 - r)/(r*r), within a thirty-second of ln 2."""

POWERS = (
    1.0,
    1.0442737,
    1.0905077,
    1.1387886,
    1.1892071,
    1.2418578,
    1.2968396,
    1.3542556,
    1.4142135,
    1.4768262,
    1.5422108,
    1.6104903,
    1.6817929,
    1.7562522,
    1.8340081,
    1.9152066,
)
POWERS_LOW = (
    0.0,
    4.83347e-08,
    -1.307754e-08,
    5.3862223e-08,
    3.7976353e-08,
    4.496838e-08,
    -4.0189995e-08,
    -1.0123349e-08,
    2.4203235e-08,
    -4.500899e-08,
    8.070905e-09,
    9.836217e-09,
    -2.4755327e-08,
    -9.23577e-09,
    -1.1239278e-08,
    9.845328e-09,
)
"""Two to the power of the sixteenths, and what rounding took from it."""

SIGMOID_SCALE = 2.0**-32
"""Of the sum of one and a power, which is far less than one or 2**150."""

ROUNDER = 12582912.0
"""Three times 2**22: what is added to it is rounded to an integer, in the low bits."""


def clamp(x: Lanes, low: float, high: float) -> Lanes:
    """x between two constants; NaN stays NaN."""
    above = select(x.lt(low), low, x)
    return select(above.gt(high), high, above)


def scale(x: Lanes, exponent: Lanes) -> Lanes:
    """x * 2**exponent for integral |exponent| <= 252, rounded once."""
    t = x.text
    if scales_at_once(x):
        if x.lanes == 1:
            return x.like(scale_one(t, x.ref, exponent.ref))
        arguments = f"{x.type} {x.ref}, {x.type} {exponent.ref}, {x.type} poison, i16 -1, i32 4"
        return x.like(t.let(f"call {x.type} @llvm.x86.avx512.mask.scalef.ps.512({arguments})"))
    whole = exponent.convert("fptosi", "i32")
    half = whole.ashr(1)
    return x * power_of_two(half) * power_of_two(whole - half)


def scales_at_once(x: Lanes) -> bool:
    """Whether an instruction scales as many lanes; it takes the floor of any exponent, and NaN."""
    return x.text.isa.has_scalef and x.lanes in (1, 16)


def scale_one(text: Text, ref: str, exponent: str) -> str:
    """One float times two to the power of another."""
    kind = "<4 x float>"
    sides = (
        text.let(f"insertelement {kind} zeroinitializer, float {each}, i64 0")
        for each in (ref, exponent)
    )
    arguments = ", ".join(f"{kind} {side}" for side in sides)
    arguments += f", {kind} zeroinitializer, i8 -1, i32 4"
    whole = text.let(f"call {kind} @llvm.x86.avx512.mask.scalef.ss({arguments})")
    return text.let(f"extractelement {kind} {whole}, i64 0")


def power_of_two(exponent: Lanes) -> Lanes:
    """2**exponent for an i32 in the range of normal numbers."""
    return ((exponent + 127) << 23).as_float()


def exp(x: Lanes) -> Lanes:
    """e**x within 1 ULP: Cody-Waite reduction, a degree 6 polynomial, one exact scaling.

    0.892 over every float.
    """
    x = clamp(x, -104.0, 89.0)
    n = round_even(x * LOG2_E)
    r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x))
    return scale(horner(r, EXP), finite(n))


def finite(n: Lanes) -> Lanes:
    """n with 0 for NaN, so that converting it to an integer is defined."""
    return n if scales_at_once(n) else select(n.is_nan(), 0.0, n)


def exp2(x: Lanes) -> Lanes:
    """2**x within 1 ULP; 0.911 over every float."""
    x = clamp(x, -151.0, 129.0)
    n = round_even(x)
    r = x - n
    return scale(fma(r, horner(r, EXP2), 1.0), finite(n))


def sigmoid(x: Lanes) -> Lanes:
    """1/(1+e**-x) within 1 ULP: a quotient, corrected by what it leaves of 1.

    The divisor is large + small + more, scaled so that no power overflows. `large` is above one, by
    a sixteenth at least: what the quotient leaves of it is below a half, and so has a bit more.
    0.836 over every float.
    """
    power, rest, octaves = exp_parts(-clamp(x, -104.0, 24.0))
    octaves = scale(x.constant(SIGMOID_SCALE), octaves)
    one, sixteenth = octaves.constant(SIGMOID_SCALE), SIGMOID_SCALE / 16.0
    power, more = power * octaves, fma(rest, octaves, octaves.constant(-sixteenth))
    least = octaves.constant(SIGMOID_SCALE + sixteenth)
    is_power = power.gt(least)
    large, small = select(is_power, power, least), select(is_power, least, power)
    q = one / (large + small + more)
    left = fma(-q, more, fma(-q, small, fma(-q, large, one)))
    return fma(left, q * (1.0 / SIGMOID_SCALE), q)


def exp_parts(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """(power, rest, n) with e**x = (power + rest) * 2**n: by sixteenths of octaves."""
    shifted = fma(x, LOG2_E, x.constant(ROUNDER / 16.0))
    n, piece = shifted - ROUNDER / 16.0, shifted.bits()
    r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x))
    s = fma(r * r, horner(r, EXP_NEAR), r)
    power = pick(POWERS, piece)
    rest = fma(power, s, pick(POWERS_LOW, piece))
    return power, rest, n if scales_at_once(n) else round_down(finite(n))
