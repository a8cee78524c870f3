"""exp, exp2, sigmoid, tanh and erf of binary32, each within the ULP bound its docstring states."""

from tilewright.codegen.lanes import Lanes, fma, horner, round_even, select
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
EXPM1 = (
    0.012701364234089851,
    0.04461009427905083,
    0.1333342343568802,
    0.333330899477005,
    0.6666666269302368,
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
ROUNDER = 12582912.0
"""Three times 2**22: what is added to it is rounded to an integer, in the low bits."""

ERF_NEAR = (
    -5.96761703e-4,
    4.99119423e-3,
    -2.67681349e-2,
    1.12819925e-1,
    -3.76125336e-1,
    1.28379166e-1,
)
ERF_FAR = (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1)


def clamp(x: Lanes, low: float, high: float) -> Lanes:
    """x between two constants; NaN stays NaN."""
    return select(x.gt(high), high, select(x.lt(low), low, x))


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
    """Whether an instruction scales as many lanes; it takes NaN and infinite exponents, too."""
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
    """1/(1+e**-x) within 2.5 ULP, through e**-|x| so that nothing overflows or flushes.

    2.402 over every float.
    """
    t = exp(-x.abs())
    return select(x.lt(0.0), t, 1.0) / select(x.is_nan(), x, t + 1.0)


def tanh(x: Lanes) -> Lanes:
    """tanh x within 2 ULP: e/(e + 1) for e = (E**2|x| - 1)/2, E the base of logarithms.

    What is lost in e + 1 is made up for. 1.956 over every float.
    """
    a = x.abs()
    y = select(a.gt(9.5), 9.5, a)
    shifted = fma(y, 2.0 * LOG2_E, y.constant(ROUNDER))
    n = shifted - ROUNDER
    r = fma(n, -LN2_LOW / 2, fma(n, -LN2_HIGH / 2, y))
    p = fma(r * r, horner(r, EXPM1), r)
    exponent = shifted.bits() << 23
    power, half = (exponent + 0x3F800000).as_float(), (exponent + 0x3F000000).as_float()
    e = fma(p, power, half - 0.5)
    total = e + 1.0
    larger, smaller = select(e.gt(1.0), e, 1.0), select(e.gt(1.0), 1.0, e)
    lost = smaller - (total - larger)
    q = e / total
    return fma(fma(q, -q, q), -lost, q).copysign(x)


def erf(x: Lanes) -> Lanes:
    """erf x within 1.1 ULP: odd near 0, else 1 - e**Q(|x|); 1.013 over every float."""
    a = x.abs()
    near = fma(a, horner(x * x, ERF_NEAR), a)
    t = select(a.gt(4.0), 4.0, a)
    r = fma(t, -1.72853470e-5, 3.83197126e-4)
    u = fma(t, -3.88396438e-3, 2.42546219e-2)
    r = fma(r, t * t, u)
    for coefficient in ERF_FAR:
        r = fma(r, t, coefficient)
    far = t.constant(1.0) - exp(fma(r, t, -t))
    return select(a.gt(0.927734375), far, near).copysign(x)
