"""Integer words: wrap-around arithmetic, floor division, defined shifts.

Division and remainder by zero give 0. Shifting by the width or more gives 0, or the sign for a
signed right shift; a negative amount counts as too large.
"""

from tilewright.codegen.lanes import WIDTH, Lanes, round_down, select


def floordiv(x: Lanes, y: Lanes, signed: bool) -> Lanes:
    """floor(x / y); x // 0 is 0."""
    zero = y.eq(0)
    if x.lanes > 1 and WIDTH[x.element] <= 32:
        return select(zero, 0, divide_by_float(x, y, zero, signed))
    if not signed:
        return select(zero, 0, x.binary("udiv", select(zero, 1, y)))
    minus = y.eq(-1)
    divisor = select(zero | minus, 1, y)
    quotient = x.binary("sdiv", divisor)
    rest = x - quotient * divisor
    lower = rest.ne(0) & (rest ^ divisor).lt(0)
    quotient = quotient + lower.resize(x.element, signed=True)
    return select(zero, 0, select(minus, -x, quotient))


def divide_by_float(x: Lanes, y: Lanes, zero: Lanes, signed: bool) -> Lanes:
    """floor(x / y) through binary64, which is exact for quotients of 32-bit integers."""
    instruction = "sitofp" if signed else "uitofp"
    divisor = select(zero, 1, y).convert(instruction, "double")
    quotient = round_down(x.convert(instruction, "double") / divisor)
    return quotient.convert("fptosi", "i64").resize(x.element)


def mod(x: Lanes, y: Lanes, signed: bool) -> Lanes:
    """x - floor(x / y) * y, with the sign of y; x % 0 is 0."""
    return select(y.eq(0), 0, x - floordiv(x, y, signed) * y)


def truncdiv(x: Lanes, y: Lanes, signed: bool) -> Lanes:
    """x / y rounded to zero; x / 0 is 0."""
    if not signed:
        return floordiv(x, y, signed)
    quotient = floordiv(x, y, signed)
    rest = x - quotient * y
    return quotient + (rest.ne(0) & (x ^ y).lt(0) & y.ne(0)).resize(x.element)


def shl(x: Lanes, y: Lanes, signed: bool) -> Lanes:
    """x << y, 0 when nothing remains."""
    width = WIDTH[x.element]
    fits = y.compare("ult", width)
    return select(fits, x << select(fits, y, 0), 0)


def shr(x: Lanes, y: Lanes, signed: bool) -> Lanes:
    """x >> y, keeping the sign of signed integers."""
    width = WIDTH[x.element]
    fits = y.compare("ult", width)
    if signed:
        return x.ashr(select(fits, y, width - 1))
    return select(fits, x >> select(fits, y, 0), 0)


def minimum(x: Lanes, y: Lanes, signed: bool) -> Lanes:
    """The smaller."""
    return x.call("smin" if signed else "umin", y)


def maximum(x: Lanes, y: Lanes, signed: bool) -> Lanes:
    """The larger."""
    return x.call("smax" if signed else "umax", y)


def absolute(x: Lanes, signed: bool) -> Lanes:
    """The magnitude; the most negative integer is its own."""
    return select(x.lt(0), -x, x) if signed else x


def sign(x: Lanes, signed: bool) -> Lanes:
    """-1, 0 or 1."""
    positive = x.compare("sgt" if signed else "ugt", 0).resize(x.element)
    if not signed:
        return positive
    return select(x.lt(0), -1, positive)


def fmod(x: Lanes, y: Lanes, signed: bool) -> Lanes:
    """The remainder with the sign of x; 0 for y = 0."""
    return select(y.eq(0), 0, x - truncdiv(x, y, signed) * y)


def power(x: Lanes, y: Lanes, signed: bool) -> Lanes:
    """x**y by squaring, wrapping; 0 for a negative exponent."""
    result, base, rest = x.constant(1), x, y
    for _ in range(WIDTH[x.element]):
        result = select((rest & 1).ne(0), result * base, result)
        base = base * base
        rest = rest >> 1
    return select(y.lt(0), 0, result) if signed else result
