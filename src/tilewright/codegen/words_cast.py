"""Casts between all dtypes with arithmetic, in every rounding mode.

Modes: `rint` rounds half to even, `round` half away from zero, `floor`, `ceil`, `trunc` in their
direction, `odd` to the odd neighbour; `none` is `trunc` to an integer and `rint` to a float. A cast
rounds once. Float to integer saturates and gives 0 for NaN; integer to integer wraps; integer to
float is `rint`; anything to BOOL is "not zero". Rounding to a narrower float overflows to infinity
(to NaN where the format has none) unless the direction is toward zero.
"""

from collections.abc import Callable

from tilewright.codegen.formats import (
    FLOAT_FORMATS,
    HALF_BYTES,
    INT_FORMATS,
    WIDE_FLOATS,
    FloatFormat,
    IntFormat,
)
from tilewright.codegen.lanes import (
    WIDTH,
    Lanes,
    round_away,
    round_down,
    round_even,
    round_odd,
    round_to_zero,
    round_up,
    select,
)
from tilewright.codegen.text import type_text

EVEN_MODES = frozenset({"none", "rint"})

WHOLE: dict[str, Callable[[Lanes], Lanes]] = {
    "none": round_to_zero,
    "rint": round_even,
    "round": round_away,
    "floor": round_down,
    "ceil": round_up,
    "trunc": round_to_zero,
    "odd": round_odd,
}


def cast(x: Lanes, source: str, target: str, mode: str) -> Lanes:
    """`x` of dtype `source` as dtype `target`."""
    if source == target:
        return x
    if source in HALF_BYTES:
        form = HALF_BYTES[source]
        return cast(half_byte(x, form), "INT8" if form.signed else "UINT8", target, mode)
    if target in HALF_BYTES:
        return to_half_byte(x, source, HALF_BYTES[target], mode)
    if target == "BOOL":
        return to_bool(x, source)
    if source == "BOOL":
        return from_bool(x, target)
    if source in INT_FORMATS:
        return from_int(x, INT_FORMATS[source], target)
    wide = widen_float(x, source)
    if target in INT_FORMATS:
        return float_to_int(WHOLE[mode](wide), INT_FORMATS[target])
    return to_float(wide, target, mode)


def half_byte(x: Lanes, form: IntFormat) -> Lanes:
    """The low half of a byte as a whole one."""
    high = x << 4
    return high.ashr(4) if form.signed else high >> 4


def to_half_byte(x: Lanes, source: str, form: IntFormat, mode: str) -> Lanes:
    """An integer cut to four bits; a float rounded and saturated to them."""
    if source in INT_FORMATS or source == "BOOL":
        return half_byte(cast(x, source, "INT8", mode), form)
    wide = cast(x, source, "INT8" if form.signed else "UINT8", mode)
    low, high = (-8, 7) if form.signed else (0, 15)
    if not form.signed:
        return wide.call("umin", high)
    return wide.call("smin", high).call("smax", low)


def widen_power(x: Lanes) -> Lanes:
    """FP8E8M0, a power of two, as binary32."""
    bits = x.resize("i32")
    value = select(bits.eq(0), 0x400000, bits << 23)
    return select(bits.eq(255), 0x7FC00000, value).as_float()


def narrow_power(x: Lanes) -> Lanes:
    """binary32 as the nearest power of two, halves up; NaN for what is not positive and finite."""
    bits = x.bits()
    tiny = select(bits.lt(0x400001), bits.constant(0), 1)
    power = select(bits.lt(0x800000), tiny, (bits + 0x400000) >> 23)
    invalid = bits.lt(1) | bits.gt(0x7F7FFFFF)
    return select(invalid, 255, power).resize("i8")


def to_bool(x: Lanes, source: str) -> Lanes:
    """Whether x is not zero; NaN is not zero, nor is any power of two."""
    if source == "FP8E8M0":
        return x.eq(x)
    if source in FLOAT_FORMATS:
        return (x & ((1 << FLOAT_FORMATS[source].sign_bit) - 1)).ne(0)
    return x.ne(0)


def from_bool(x: Lanes, target: str) -> Lanes:
    """One or zero."""
    if target in INT_FORMATS:
        return x.resize(INT_FORMATS[target].element)
    return to_float(select(x, x.constant(1.0, "float"), 0.0), target, "rint")


def from_int(x: Lanes, form: IntFormat, target: str) -> Lanes:
    """An integer as another integer (wrapping) or as the nearest float."""
    if target in INT_FORMATS:
        return x.resize(INT_FORMATS[target].element, signed=form.signed)
    instruction = "sitofp" if form.signed else "uitofp"
    if target in WIDE_FLOATS:
        return x.convert(instruction, WIDE_FLOATS[target])
    if WIDTH[form.element] < 32:
        return to_float(x.convert(instruction, "float"), target, "rint")
    exact = x if form.element == "i32" else sticky(x, signed=form.signed)
    return to_float(exact.convert(instruction, "double"), target, "rint")


def sticky(x: Lanes, *, signed: bool) -> Lanes:
    """A 64-bit integer rounded to odd so that binary64 holds it exactly."""
    rounded = (x & -2048) | select((x & 2047).ne(0), x.constant(2048), 0)
    small = (x + (1 << 52)).compare("ult", 1 << 53) if signed else x.compare("ult", 1 << 53)
    return select(small, x, rounded)


def float_to_int(x: Lanes, form: IntFormat) -> Lanes:
    """A whole float as an integer, saturating; NaN gives 0."""
    name = "fptosi" if form.signed else "fptoui"
    target = x.like("", form.element)
    symbol = f"@llvm.{name}.sat.{target.suffix}.{x.suffix}"
    return x.like(x.text.let(f"call {target.type} {symbol}({x.type} {x.ref})"), form.element)


def widen_float(x: Lanes, source: str) -> Lanes:
    """A float of any format as binary32 (or binary64 unchanged); exact."""
    if source in WIDE_FLOATS:
        return x
    if source == "FP16":
        return widen_half(x)
    if source == "FP8E8M0":
        return widen_power(x)
    bits = x.resize("i32")
    if source == "BF16":
        return (bits << 16).as_float()
    if source == "FP8E5M2":
        return widen_half(x.resize("i16") << 8)
    return widen_bits(bits, FLOAT_FORMATS[source])


def widen_half(x: Lanes) -> Lanes:
    """FP16 bits as binary32."""
    if x.text.isa.has_half:
        half = x.text.let(f"bitcast {x.type} {x.ref} to {type_text('half', x.lanes)}")
        return x.like(
            x.text.let(
                f"fpext {type_text('half', x.lanes)} {half} to {type_text('float', x.lanes)}"
            ),
            "float",
        )
    return widen_bits(x.resize("i32"), FLOAT_FORMATS["FP16"])


def widen_bits(bits: Lanes, form: FloatFormat) -> Lanes:
    """Any narrow format as binary32: place the fields, then scale by a power of two."""
    size = bits & ((1 << form.sign_bit) - 1)
    sign = (bits << (31 - form.sign_bit)) & -(1 << 31)
    placed = (size << (23 - form.significand_bits)).as_float()
    value = placed * 2.0 ** (127 - form.bias)
    infinity = select(size.eq(form.overflow), value.constant(float("inf")), float("nan"))
    if form.overflow == form.nan:
        infinity = value.constant(float("nan"))
    value = select(size.gt(form.finite), infinity, value)
    return (value.bits() | sign).as_float()


def to_float(x: Lanes, target: str, mode: str) -> Lanes:
    """binary32 or binary64 as the float dtype `target`, rounded once."""
    if target == "FP64":
        return x if x.element == "double" else x.widen()
    if target in ("FP32", "TF32"):
        return x if x.element == "float" else narrow_double(x, mode)
    if x.element == "double":
        x = narrow_double(x, "odd")
    if target == "FP8E8M0":
        return narrow_power(x)
    return narrow_float(x, target, mode)


def narrow_float(x: Lanes, target: str, mode: str) -> Lanes:
    """binary32 as a narrow format."""
    if mode in EVEN_MODES and target == "BF16":
        return narrow_bfloat(x)
    if mode in EVEN_MODES and target == "FP16" and x.text.isa.has_half:
        kind = type_text("half", x.lanes)
        half = x.text.let(f"fptrunc {x.type} {x.ref} to {kind}")
        return x.like(x.text.let(f"bitcast {kind} {half} to {type_text('i16', x.lanes)}"), "i16")
    return narrow_bits(x, FLOAT_FORMATS[target], mode)


def narrow_bfloat(x: Lanes) -> Lanes:
    """binary32 as BF16, half to even: add just under half a unit, cut."""
    bits = x.bits()
    rounded = bits + (((bits >> 16) & 1) + 0x7FFF)
    return (select(x.is_nan(), bits | 0x400000, rounded) >> 16).resize("i16")


def narrow_bits(x: Lanes, form: FloatFormat, mode: str) -> Lanes:
    """binary32 as any narrow format in any mode, by integer arithmetic on the significand."""
    bits = x.bits()
    size, negative = bits & 0x7FFFFFFF, bits.lt(0)
    field = size >> 23
    normal = field.ne(0)
    significand = (size & 0x7FFFFF) | select(normal, bits.constant(1 << 23), 0)
    exponent = select(normal, field, 1) - (127 - form.bias)
    below = select(exponent.lt(1), exponent.constant(1) - exponent, 0)
    shift = smaller(below + (23 - form.significand_bits), 26)
    quotient = significand >> shift
    rest = significand - (quotient << shift)
    quotient = quotient + round_up_bit(quotient, rest, shift, negative, mode)
    base = select(exponent.lt(1), 0, exponent - 1) << form.significand_bits
    result = base + quotient
    limit = overflow_value(negative, form, mode)
    result = select(result.gt(form.finite), limit, result)
    result = select(size.eq(0x7F800000), form.overflow, result)
    result = select(size.gt(0x7F800000), form.nan, result)
    sign = (bits >> (31 - form.sign_bit)) & (1 << form.sign_bit)
    return (result | sign).resize(form.element)


def smaller(x: Lanes, limit: int) -> Lanes:
    """x, at most `limit`."""
    return select(x.gt(limit), limit, x)


def round_up_bit(quotient: Lanes, rest: Lanes, shift: Lanes, negative: Lanes, mode: str) -> Lanes:
    """1 where the magnitude goes up, given what was cut off."""
    one = rest.constant(1)
    half = one << (shift - 1)
    inexact = rest.ne(0)
    if mode == "trunc":
        return one.constant(0)
    if mode == "odd":
        return select(inexact & (quotient & 1).eq(0), one, 0)
    if mode == "floor":
        return select(inexact & negative, one, 0)
    if mode == "ceil":
        return select(inexact & ~negative, one, 0)
    if mode == "round":
        return select(rest.ge(half), one, 0)
    up = rest.gt(half) | (rest.eq(half) & (quotient & 1).ne(0))
    return select(up, one, 0)


def overflow_value(negative: Lanes, form: FloatFormat, mode: str) -> Lanes | int:
    """What a finite value too large for the format becomes."""
    if mode in ("trunc", "odd"):
        return form.finite
    if mode == "floor":
        return select(negative, negative.constant(form.overflow, "i32"), form.finite)
    if mode == "ceil":
        return select(negative, negative.constant(form.finite, "i32"), form.overflow)
    return form.overflow


def narrow_double(x: Lanes, mode: str) -> Lanes:
    """binary64 as binary32: round half to even, then step to the neighbour the mode wants."""
    near = x.narrow()
    if mode in EVEN_MODES:
        return near
    back = near.widen()
    bits = near.bits()
    too_far = back.abs().gt(x.abs())
    too_near = back.abs().lt(x.abs())
    negative = x.lt(0.0)
    odd = (bits & 1).ne(0)
    inward, outward = step_conditions(mode, too_far, too_near, negative, ~odd)
    if mode == "round":
        next_out = (bits + 1).as_float().widen()
        tie = (next_out - x).eq(x - back)
        outward = too_near & tie
    step = select(inward, bits.constant(-1), select(outward, bits.constant(1), 0))
    return (bits + step).as_float()


def step_conditions(
    mode: str, too_far: Lanes, too_near: Lanes, negative: Lanes, even: Lanes
) -> tuple[Lanes, Lanes]:
    """(step to smaller magnitude, step to larger magnitude) for a value rounded to nearest."""
    never = too_far.constant(False)
    if mode == "trunc":
        return too_far, never
    if mode == "floor":
        return too_far & ~negative, too_near & negative
    if mode == "ceil":
        return too_far & negative, too_near & ~negative
    if mode == "odd":
        return too_far & even, too_near & even
    return never, never
