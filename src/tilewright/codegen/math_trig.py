"""sin, cos, tan and atan of binary32, in binary64 and rounded once: within 1 ULP everywhere."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.codegen.lanes import Lanes, horner64, round_even, select
from tilewright.codegen.text import Module, Text
from tilewright.dataclass import dataclass

SIN = (2.7249314054698804e-06, -0.00019840082012765537, 0.008333331865959415, -0.16666666663832763)
COS = (
    -2.7300448619488353e-07,
    2.4800595436421998e-05,
    -0.0013888887664713619,
    0.0416666666643024,
)
ATAN = (
    -0.040413140264068864,
    0.0713442020118805,
    -0.09028824015570887,
    0.11107482298859256,
    -0.142856120495556,
    0.19999998911296413,
    -0.33333333331428355,
)
TWO_OVER_PI = 0.6366197723675814
HALF_PI_HIGH, HALF_PI_LOW = 1.570796325802803, 9.920935796805404e-10
HALF_PI, QUARTER_PI = 1.5707963267948966, 0.7853981633974483
TAN_PI_8, TAN_3PI_8 = 0.41421356237309503, 2.414213562373095
LARGE = 8388608.0

# The first 1344 bits of 2/pi after 32 zero bits, in words of 32; binary32 needs 224 of them.
TWO_OVER_PI_WORDS = (
    0x00000000,
    0xA2F9836E,
    0x4E441529,
    0xFC2757D1,
    0xF534DDC0,
    0xDB629599,
    0x3C439041,
    0xFE5163AB,
    0xDEBBC561,
    0xB7246E3A,
    0x424DD2E0,
    0x06492EEA,
    0x09D1921C,
    0xFE1DEB1C,
    0xB129A73E,
    0xE88235F5,
    0x2EBB4484,
    0xE99C7026,
    0xB45F7E41,
    0x3991D639,
    0x835339F4,
    0x9C845F8B,
    0xBDF9283B,
    0x1FF897FF,
    0xDE05980F,
    0xEF2F118B,
    0x5A0A6D1F,
    0x6D367ECF,
    0x27CB09B7,
    0x4F463F66,
    0x9E5FEA2D,
    0x7527BAC7,
    0xEBE5F17B,
    0x3D0739F7,
    0x8A5292EA,
    0x6BFB5FB1,
    0x1F8D5D08,
    0x56033046,
    0xFC7B6BAB,
    0xF0CFBC20,
    0x9AF4361D,
    0xA9E39161,
    0x5EE61B08,
)
SINGLE_WORDS = 8

Kernel = Callable[..., Lanes]


def sin_kernel(r: Lanes) -> Lanes:
    """sin r in binary64 for |r| <= pi/4."""
    z = r * r
    return r * (z * horner64(z, SIN) + 1.0)


def cos_kernel(r: Lanes) -> Lanes:
    """cos r in binary64 for |r| <= pi/4."""
    z = r * r
    return z * (z * horner64(z, COS) - 0.5) + 1.0


def sin_of(r: Lanes, quadrant: Lanes) -> Lanes:
    """sin(r + quadrant*pi/2)."""
    size = select((quadrant & 1).eq(0), sin_kernel(r), cos_kernel(r))
    return select((quadrant & 2).eq(0), size, -size).narrow()


def cos_of(r: Lanes, quadrant: Lanes) -> Lanes:
    """cos(r + quadrant*pi/2)."""
    return sin_of(r, quadrant + 1)


def tan_of(r: Lanes, quadrant: Lanes) -> Lanes:
    """tan(r + quadrant*pi/2)."""
    s, c = sin_kernel(r), cos_kernel(r)
    even = (quadrant & 1).eq(0)
    return (select(even, s, -c) / select(even, c, s)).narrow()


def reduce_small(x: Lanes) -> tuple[Lanes, Lanes]:
    """(r, quadrant) with x = r + quadrant*pi/2 for |x| < 2**23."""
    wide = x.widen()
    n = round_even(wide * TWO_OVER_PI)
    r = (wide - n * HALF_PI_HIGH) - n * HALF_PI_LOW
    return r, n.convert("fptosi", "i32")


def reduce_large(x: Lanes) -> tuple[Lanes, Lanes]:
    """(r, quadrant) for any finite |x| >= 1: the significand times the right 96 bits of 2/pi."""
    bits = x.bits()
    significand = ((bits & 0x7FFFFF) | 0x800000).resize("i64")
    position = ((bits >> 23) & 0xFF) - (150 - 30)
    words = [window(position, j) for j in range(3)]
    product = ((significand * words[0]) << 32) + significand * words[1]
    product = product + ((significand * words[2]) >> 32)
    quadrant = (product + (1 << 61)) >> 62
    fraction = (product - (quadrant << 62)).convert("sitofp", "double")
    r = fraction * (HALF_PI / 2.0**62)
    negative = bits.lt(0)
    turn = quadrant.resize("i32")
    return select(negative, -r, r), select(negative, -turn, turn)


def window(position: Lanes, j: int) -> Lanes:
    """32 bits of 2/pi from bit `position + 32*j` on, as an i64."""
    first = (position >> 5) + j
    high, low = pick_word(first), pick_word(first + 1)
    shift = (position & 31).resize("i64")
    pair = (high << 32) | low
    return ((pair << shift) >> 32) & 0xFFFFFFFF


def pick_word(index: Lanes) -> Lanes:
    """The word of 2/pi with this number, without a table in memory."""
    word = index.constant(TWO_OVER_PI_WORDS[0], "i64")
    for k, value in enumerate(TWO_OVER_PI_WORDS[1:SINGLE_WORDS], 1):
        word = select(index.eq(k), word.constant(value), word)
    return word


@dataclass(frozen=True, slots=True)
class Reduction:
    """How x becomes what is left of it after quarters of a turn, and their number.

    `small` is for magnitudes below `limit`, `large` for all others.
    """

    limit: float
    small: Callable[[Lanes], tuple[Lanes, ...]]
    large: Callable[[Lanes], tuple[Lanes, ...]]


SINGLE = Reduction(LARGE, reduce_small, reduce_large)


def periodic(x: Lanes, name: str, kernel: Kernel, reduction: Reduction = SINGLE) -> Lanes:
    """Reduce and apply `kernel`; vectors with a lane beyond the limit take a call for those."""
    text, limit = x.text, reduction.limit
    large = x.abs().ge(limit)
    near = kernel(*reduction.small(select(x.abs().lt(limit), x, 0.0)))
    near = select(x.is_nan(), x, near)
    before, rare, after = text.block, text.label(), text.label()
    text.branch(large.any(), rare, after)
    text.start(rare)
    symbol = f"@tilewright.{name}.large.{x.suffix}"
    text.module.require(symbol, lambda module: large_helper(module, symbol, x, kernel, reduction))
    far = x.like(text.let(f"call fastcc {x.type} {symbol}({x.type} {x.ref})"))
    mixed = select(large, far, near)
    text.jump(after)
    text.start(after)
    return x.like(text.let(f"phi {x.type} [{near.ref}, %{before}], [{mixed.ref}, %{rare}]"))


def large_helper(
    module: Module, symbol: str, model: Lanes, kernel: Kernel, reduction: Reduction
) -> str:
    """The function that reduces arguments of any size; infinities give NaN."""
    text = Text(module, f"define internal fastcc {model.type} {symbol}({model.type} %x) #1")
    x = Lanes(text, "%x", model.element, model.lanes)
    reduced = reduction.large(select(x.abs().ge(reduction.limit), x, reduction.limit))
    result = select(x.abs().lt(float("inf")), kernel(*reduced), x - x)
    text.do(f"ret {x.type} {result.ref}")
    return text.finish()


def sin(x: Lanes) -> Lanes:
    """sin x; 0.501 ULP over every float."""
    return select(x.eq(0.0), x, periodic(x, "sin", sin_of))


def cos(x: Lanes) -> Lanes:
    """cos x; 0.501 ULP over every float."""
    return periodic(x, "cos", cos_of)


def tan(x: Lanes) -> Lanes:
    """tan x."""
    return select(x.eq(0.0), x, periodic(x, "tan", tan_of))


def atan(x: Lanes) -> Lanes:
    """atan x: one division brings |x| below tan(pi/8), then an odd polynomial."""
    a = x.abs().widen()
    middle, high = a.gt(TAN_PI_8), a.gt(TAN_3PI_8)
    above = select(high, -1.0, select(middle, a - 1.0, a))
    below = select(high, a, select(middle, a + 1.0, 1.0))
    offset = select(high, a.constant(HALF_PI), select(middle, a.constant(QUARTER_PI), 0.0))
    s = above / below
    z = s * s
    return (offset + s * (z * horner64(z, ATAN) + 1.0)).narrow().copysign(x)
