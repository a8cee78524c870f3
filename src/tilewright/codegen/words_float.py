"""Float words in the precision they compute in: binary32, or binary64 for FP64."""

from tilewright.codegen.lanes import (
    Lanes,
    round_away,
    round_down,
    round_even,
    round_to_zero,
    round_up,
    select,
)
from tilewright.codegen.pairs import less_product
from tilewright.codegen.text import constant_number

EXPONENT_64, LARGE_POWER = 0x7FF << 52, 2.0**1000
SCALED_BELOW = {"float": 2.0**-96, "double": 2.0**-800}
"""What the root of a number below this leaves may be too small for one."""


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
    """1/sqrt(x) within 1 ULP: a correctly rounded root and quotient.

    What both leave, which is exact, corrects the quotient once. 0.501 over every binary32.
    """
    below = SCALED_BELOW[x.element]
    tiny = x.lt(below)
    scaled = select(tiny, x * (1 / below), x)
    root = scaled.sqrt()
    y = x.constant(1.0) / root
    of_root, of_quotient = less_product(scaled, root, root), less_product(1.0, y, root)
    wrong = of_quotient - y * y * 0.5 * of_root
    y = select(wrong.is_nan(), y, y + y * wrong)
    return y * select(tiny, x.constant(below**-0.5), 1.0)


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
    """x - trunc(x / y) * y without rounding: subtract some multiple of y until less is left."""
    text = x.text
    infinity = float("inf")
    is_double = x.element == "double"
    start, divisor = (each if is_double else each.widen() for each in (x.abs(), y.abs()))
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
    following = rest - (one_bit if is_double else many_bits)(rest, divisor)
    text.branch(following.ge(divisor).any(), head, after)
    text.lines.insert(
        place, f"{name} = phi {start.type} [{start.ref}, %{before}], [{following.ref}, %{head}]"
    )
    text.start(after)
    narrow = following if is_double else following.narrow()
    result = select(proper, narrow.copysign(x), float("nan"))
    whole_x = x.abs().lt(infinity) & y.abs().eq(infinity)
    return select(whole_x, x, result)


def many_bits(rest: Lanes, divisor: Lanes) -> Lanes:
    """A multiple of a binary32 in a binary64: the first 24 bits of the quotient are exact."""
    quotient = rest / divisor
    return round_to_zero((quotient.bits() & -(1 << 29)).as_float()) * divisor


def one_bit(rest: Lanes, divisor: Lanes) -> Lanes:
    """The greatest multiple of a binary64 by a power of two: subtracting that is exact.

    It is found in three steps, as the quotient may be the cube of what is a finite number.
    """
    multiple = divisor
    for _ in range(3):
        power = ((rest / multiple).bits() & EXPONENT_64).as_float()
        multiple = multiple * select(power.lt(float("inf")), power, LARGE_POWER)
    multiple = select(multiple.gt(rest), multiple * 0.5, multiple)
    return select(rest.ge(divisor), multiple, 0.0)


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
