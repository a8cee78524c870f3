"""How each dtype lives in registers and memory, and the layout of the narrow float formats."""

import struct

from tilewright.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary float of at most 16 bits, kept in an integer register.

    `finite` is the largest finite bit pattern, `overflow` what is beyond it, `nan` a quiet NaN.
    """

    element: str
    exponent_bits: int
    significand_bits: int
    bias: int
    finite: int
    overflow: int
    nan: int

    @property
    def sign_bit(self) -> int:
        """The position of the sign."""
        return self.exponent_bits + self.significand_bits


@dataclass(frozen=True, slots=True)
class IntFormat:
    """An integer dtype: its register element, whether it has a sign, and its width if smaller."""

    element: str
    signed: bool
    width: int = 0


FLOAT_FORMATS: dict[str, FloatFormat] = {
    "FP16": FloatFormat("i16", 5, 10, 15, 0x7BFF, 0x7C00, 0x7E00),
    "BF16": FloatFormat("i16", 8, 7, 127, 0x7F7F, 0x7F80, 0x7FC0),
    "FP8E5M2": FloatFormat("i8", 5, 2, 15, 0x7B, 0x7C, 0x7E),
    "FP8E4M3": FloatFormat("i8", 4, 3, 7, 0x77, 0x78, 0x7C),
    "FP8E4M3FN": FloatFormat("i8", 4, 3, 7, 0x7E, 0x7F, 0x7F),
    "FP4": FloatFormat("i8", 2, 1, 1, 0x7, 0x7, 0x8),
}

INT_FORMATS: dict[str, IntFormat] = {
    "INT8": IntFormat("i8", True),
    "INT16": IntFormat("i16", True),
    "INT32": IntFormat("i32", True),
    "INT64": IntFormat("i64", True),
    "UINT8": IntFormat("i8", False),
    "UINT16": IntFormat("i16", False),
    "UINT32": IntFormat("i32", False),
    "UINT64": IntFormat("i64", False),
    "INDEX": IntFormat("i64", True),
    "TASK_ID": IntFormat("i64", True),
}

# Integers of half a byte are kept one per byte; only casts know them.
HALF_BYTES: dict[str, IntFormat] = {
    "INT4": IntFormat("i8", True, 4),
    "UINT4": IntFormat("i8", False, 4),
}

WIDE_FLOATS = {"FP32": "float", "FP64": "double", "TF32": "float"}

# What can be moved but not computed with, and a power of two, which only casts know.
OPAQUE = {"HF4": "i8", "HF8": "i8", "FP8E8M0": "i8"}

REGISTER_ELEMENT: dict[str, str] = {
    "BOOL": "i1",
    **WIDE_FLOATS,
    **{name: f.element for name, f in FLOAT_FORMATS.items()},
    **{name: f.element for name, f in INT_FORMATS.items()},
    **{name: f.element for name, f in HALF_BYTES.items()},
    **OPAQUE,
}

MEMORY_ELEMENT: dict[str, str] = {**REGISTER_ELEMENT, "BOOL": "i8"}


def encode_constant(value: float | int | bool, dtype: str) -> float | int | bool:
    """`value` as the register of `dtype` holds it: bits of a narrow float, a wrapped integer."""
    if dtype in FLOAT_FORMATS:
        return encode_float(float(value), FLOAT_FORMATS[dtype])
    if dtype in INT_FORMATS:
        return wrap(int(value), INT_FORMATS[dtype])
    if dtype in HALF_BYTES:
        return wrap(int(value), HALF_BYTES[dtype])
    return bool(value) if dtype == "BOOL" else float(value)


def wrap(value: int, form: IntFormat) -> int:
    """`value` modulo the size of its element, with its sign."""
    bits = form.width or int(form.element[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if form.signed and value >> (bits - 1) else value


def encode_float(value: float, form: FloatFormat) -> int:
    """The bits of `value` in `form`, half to even."""
    sign = (struct.unpack("<Q", struct.pack("<d", value))[0] >> 63) << form.sign_bit
    size = abs(value)
    if size != size:
        return sign | form.nan
    lowest = 1 - form.bias - form.significand_bits
    exponent = max(_exponent_of(size) - form.significand_bits, lowest)
    if exponent > form.bias + 1:
        return sign | form.overflow
    quotient = round(size / 2.0**exponent)
    bits = ((exponent - lowest) << form.significand_bits) + quotient
    return sign | (bits if bits <= form.finite else form.overflow)


def _exponent_of(size: float) -> int:
    """floor(log2(size)); very large for infinity, very small for 0."""
    if size == 0.0:
        return -2000
    bits = struct.unpack("<Q", struct.pack("<d", size))[0]
    return (bits >> 52) - 1023
