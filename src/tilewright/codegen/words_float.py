"""Float words in the precision they compute in: binary32, or binary64 for FP64."""

from tilewright.codegen.lanes import (
    Lanes,
    fma,
    round_away,
    round_down,
    round_even,
    round_to_zero,
    round_up,
    select,
)
from tilewright.codegen.text import constant_number

SCALED_BELOW = 2.0**-96
"""The remainder of the root of a float below this may not be a float."""


def minimum(x: Lanes, y: Lanes) -> Lanes:
    """The smaller; NaN if either is NaN, and -0 is below +0."""
    return bounded(x, y, "olt") or x.call("minimum", y)


def maximum(x: Lanes, y: Lanes) -> Lanes:
    """The larger; NaN if either is NaN, and +0 is above -0."""
    return bounded(x, y, "ogt") or x.call("maximum", y)


def bounded(x: Lanes, y: Lanes, closer: str) -> Lanes | None:
    """An extreme by one comparison, where one side is a constant but neither zero nor NaN."""
    for value, bound in ((x, y), (y, x)):
        number = constant_number(bound.ref)
        if number is not None and number == number and number != 0:
            return select(bound.compare(closer, value), bound, value)
    return None


def add(x: Lanes, y: Lanes) -> Lanes:
    """x + y."""
    return x + y


def sub(x: Lanes, y: Lanes) -> Lanes:
    """x - y."""
    return x - y


def mul(x: Lanes, y: Lanes) -> Lanes:
    """x * y."""
    return x * y


def div(x: Lanes, y: Lanes) -> Lanes:
    """x / y."""
    return x / y


def negate(x: Lanes) -> Lanes:
    """-x."""
    return -x


def sign(x: Lanes) -> Lanes:
    """-1, 0 or 1; NaN for NaN, +0 for both zeros."""
    below = select(x.lt(0.0), x.constant(-1.0), select(x.eq(0.0), 0.0, x))
    return select(x.gt(0.0), 1.0, below)


def sqrt(x: Lanes) -> Lanes:
    """Correctly rounded square root."""
    return x.sqrt()


def rsqrt(x: Lanes) -> Lanes:
    """1/sqrt(x): a correctly rounded root and quotient, within 1.5 ULP; 1 ULP in binary32.

    There both remainders, which are exact, correct the quotient once.
    """
    if x.element == "double":
        return x.constant(1.0) / x.sqrt()
    tiny = x.lt(SCALED_BELOW)
    scaled = select(tiny, x * (1 / SCALED_BELOW), x)
    root = scaled.sqrt()
    y = x.constant(1.0) / root
    of_root, of_quotient = fma(-root, root, scaled), fma(-y, root, 1.0)
    wrong = fma((y * y) * -0.5, of_root, of_quotient)
    y = select(wrong.is_nan(), y, fma(y, wrong, y))
    return y * select(tiny, x.constant(SCALED_BELOW**-0.5), 1.0)


def recip(x: Lanes) -> Lanes:
    """1/x, correctly rounded."""
    return x.constant(1.0) / x


def magnitude(x: Lanes) -> Lanes:
    """|x|."""
    return x.abs()


def mod(x: Lanes, y: Lanes) -> Lanes:
    """The exact remainder with the sign of y, as numpy's `mod`."""
    rest = remainder(x, y)
    wrong = rest.ne(0.0) & rest.lt(0.0).compare("ne", y.lt(0.0))
    return select(rest.eq(0.0), rest.copysign(y), select(wrong, rest + y, rest))


def fmod(x: Lanes, y: Lanes) -> Lanes:
    """The exact remainder with the sign of x."""
    return remainder(x, y).copysign(x)


def floordiv(x: Lanes, y: Lanes) -> Lanes:
    """floor(x / y), the quotient rounded first."""
    return round_down(x / y)


def remainder(x: Lanes, y: Lanes) -> Lanes:
    """x - trunc(x / y) * y without rounding: subtract y times 24 quotient bits at a time."""
    text = x.text
    if x.element != "float":
        raise NotImplementedError("the remainder of FP64 is not available")
    infinity = float("inf")
    start, divisor = x.widen().abs(), y.widen().abs()
    bounded = divisor.lt(infinity)
    proper = start.lt(infinity) & divisor.gt(0.0) & bounded
    start = select(proper, start, 0.0)
    divisor = select(proper, divisor, 1.0)
    head, after, before = text.label(), text.label(), text.block
    text.jump(head)
    text.start(head)
    place = len(text.lines)
    name = text.fresh()
    rest = start.like(name)
    quotient = rest / divisor
    cut = (quotient.bits() & -(1 << 29)).as_float()
    following = rest - round_to_zero(cut) * divisor
    text.branch(following.ge(divisor).any(), head, after)
    text.lines.insert(
        place, f"{name} = phi {start.type} [{start.ref}, %{before}], [{following.ref}, %{head}]"
    )
    text.start(after)
    result = select(proper, following.narrow().copysign(x), float("nan"))
    whole_x = x.abs().lt(infinity) & y.abs().eq(infinity)
    return select(whole_x, x, result)


FLOAT_WORDS = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "div": div,
    "min": minimum,
    "max": maximum,
    "neg": negate,
    "abs": magnitude,
    "sign": sign,
    "sqrt": sqrt,
    "rsqrt": rsqrt,
    "recip": recip,
    "floor": round_down,
    "ceil": round_up,
    "trunc": round_to_zero,
    "rint": round_even,
    "round": round_away,
    "mod": mod,
    "fmod": fmod,
    "floordiv": floordiv,
}
