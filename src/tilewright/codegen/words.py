"""Scalar words as LLVM text: any word, any dtype with arithmetic, any number of lanes.

A word is written once per (word, dtype, lanes) as a template and then pasted, so emitting one costs
about a microsecond. FP16, BF16 and FP8 live in integer registers and compute through binary32 with
one rounding per word.
"""

from collections.abc import Callable

from tilewright.codegen import (
    math_double,
    math_double_pow,
    math_double_trig,
    math_exp,
    math_log,
    math_pieces,
    math_trig,
    words_int,
)
from tilewright.codegen.formats import (
    FLOAT_FORMATS,
    HALF_BYTES,
    INT_FORMATS,
    OPAQUE,
    REGISTER_ELEMENT,
    WIDE_FLOATS,
    encode_constant,
)
from tilewright.codegen.lanes import Lanes, fma, select
from tilewright.codegen.text import Module, Text, constant_text, type_text
from tilewright.codegen.words_cast import cast as cast_lanes
from tilewright.codegen.words_cast import narrow_float, widen_float
from tilewright.codegen.words_float import FLOAT_WORDS
from tilewright.dataclass import dataclass
from tilewright.errors import UnsupportedFeatureError

FloatWord = Callable[..., Lanes]
IntWord = Callable[..., Lanes]

MATH_WORDS: dict[str, FloatWord] = {
    "exp": math_exp.exp,
    "exp2": math_exp.exp2,
    "sigmoid": math_exp.sigmoid,
    "tanh": math_pieces.tanh,
    "erf": math_pieces.erf,
    "log": math_log.log,
    "log1p": math_log.log1p,
    "pow": math_log.power,
    "sin": math_trig.sin,
    "cos": math_trig.cos,
    "tan": math_trig.tan,
    "atan": math_trig.atan,
}

DOUBLE_WORDS: dict[str, FloatWord] = {
    "exp": math_double.exp,
    "exp2": math_double.exp2,
    "sigmoid": math_double.sigmoid,
    "tanh": math_double.tanh,
    "erf": math_double.erf,
    "log": math_double.log,
    "log1p": math_double.log1p,
    "pow": math_double_pow.power,
    "sin": math_double_trig.sin,
    "cos": math_double_trig.cos,
    "tan": math_double_trig.tan,
    "atan": math_double_trig.atan,
}

ALL_FLOAT_WORDS: dict[str, FloatWord] = {**FLOAT_WORDS, **MATH_WORDS, "fma": fma}

PLAIN_INT_WORDS: dict[str, str] = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "and": "and",
    "or": "or",
    "xor": "xor",
}

INT_WORDS: dict[str, IntWord] = {
    "div": words_int.truncdiv,
    "floordiv": words_int.floordiv,
    "mod": words_int.mod,
    "fmod": words_int.fmod,
    "shl": words_int.shl,
    "shr": words_int.shr,
    "min": words_int.minimum,
    "max": words_int.maximum,
    "abs": words_int.absolute,
    "sign": words_int.sign,
    "pow": words_int.power,
}

FLOAT_PREDICATES = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
SIGNED_PREDICATES = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
UNSIGNED_PREDICATES = {"eq": "eq", "ne": "ne", "lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge"}

BOOL_INSTRUCTIONS = {"and": "and", "or": "or", "xor": "xor", "min": "and", "max": "or"}

TOKENS = ("%~x", "%~y", "%~z")


@dataclass(frozen=True, slots=True)
class Template:
    """A word written with placeholder names: `~` in front of locals, TOKENS for operands."""

    body: str
    result: str
    block: str
    helpers: dict[str, str]

    def paste(self, text: Text, operands: tuple[str, ...]) -> str:
        """Write the word into `text` and give the name of its result."""
        text.count += 1
        prefix = f"{text.prefix}{text.count}."
        body, result = self.body, self.result
        for token, operand in zip(TOKENS, operands, strict=False):
            body = body.replace(token, operand)
            result = result.replace(token, operand)
        if self.block:
            body = body.replace("%~entry", f"%{text.block}")
            text.block = self.block.replace("~", prefix)
        if body:
            text.lines.append(body.replace("~", prefix))
        if self.helpers:
            text.module.helpers.update(self.helpers)
        return result.replace("~", prefix)


_templates: dict[tuple[str, ...], Template] = {}


def word(text: Text, name: str, dtype: str, lanes: int, *operands: str) -> str:
    """The result of the word `name` on operands of `dtype`.

    Raises UnsupportedFeatureError if the word has no meaning for it, or none on this target.
    `select` takes an i1 condition first; comparisons give an i1.
    """
    key = (text.isa.name, name, dtype, str(lanes))
    template = _templates.get(key)
    if template is None:
        arity = len(operands)
        template = record(text, lambda t: write_word(t, name, dtype, lanes, arity))
        _templates[key] = template
    return template.paste(text, operands)


def cast(text: Text, source: str, target: str, mode: str, lanes: int, operand: str) -> str:
    """`operand` of dtype `source` as dtype `target`, rounded by `mode`."""
    if source == target or {source, target} <= {"INDEX", "INT64"}:
        return operand
    key = (text.isa.name, "cast", source, target, mode, str(lanes))
    template = _templates.get(key)
    if template is None:
        template = record(text, lambda t: write_cast(t, source, target, mode, lanes))
        _templates[key] = template
    return template.paste(text, (operand,))


def constant(value: float | int | bool, dtype: str, lanes: int) -> str:
    """A constant operand of `dtype` with `value` in every lane."""
    return constant_text(encode_constant(value, dtype), REGISTER_ELEMENT[dtype], lanes)


def register_type(dtype: str, lanes: int) -> str:
    """The LLVM type of a register of `dtype`."""
    return type_text(REGISTER_ELEMENT[dtype], lanes)


def record(text: Text, write: Callable[[Text], Lanes]) -> Template:
    """Write a word once into an empty text and keep it as a template."""
    module = Module(text.isa)
    draft = Text(module, prefix="~", block="~entry")
    result = write(draft)
    block = "" if draft.block == "~entry" else draft.block
    return Template("\n".join(draft.lines), result.ref, block, dict(module.helpers))


def write_cast(text: Text, source: str, target: str, mode: str, lanes: int) -> Lanes:
    """The template of a cast."""
    try:
        operand = Lanes(text, TOKENS[0], REGISTER_ELEMENT[source], lanes)
        return cast_lanes(operand, source, target, mode)
    except (KeyError, NotImplementedError) as reason:
        raise refusal(f"cast of {source} to {target}, mode {mode!r}", reason) from None


def refusal(what: str, reason: Exception) -> UnsupportedFeatureError:
    """The author's error for a word that has no meaning here."""
    why = f": {reason}" if isinstance(reason, NotImplementedError) else ""
    return UnsupportedFeatureError(f"{what} cannot be compiled{why}")


def write_word(text: Text, name: str, dtype: str, lanes: int, arity: int) -> Lanes:
    """The template of a word."""
    element = REGISTER_ELEMENT[dtype]
    if name != "select" and dtype in (*HALF_BYTES, *OPAQUE, "FP4"):
        raise UnsupportedFeatureError(f"{name} of {dtype} cannot be compiled: no arithmetic")
    operands = [Lanes(text, TOKENS[i], element, lanes) for i in range(arity)]
    try:
        if name == "select":
            condition = Lanes(text, TOKENS[0], "i1", lanes)
            return select(condition, operands[1], operands[2])
        if name in FLOAT_PREDICATES:
            return compare(name, dtype, operands)
        if dtype == "BOOL":
            return bool_word(name, operands)
        if dtype in INT_FORMATS:
            return int_word(name, dtype, operands)
        return float_word(name, dtype, operands)
    except (KeyError, NotImplementedError) as reason:
        raise refusal(f"{name} of {dtype}", reason) from None


def compare(predicate: str, dtype: str, operands: list[Lanes]) -> Lanes:
    """An i1 per lane; comparisons with NaN are false except `ne`."""
    if dtype in INT_FORMATS or dtype == "BOOL":
        signed = dtype != "BOOL" and INT_FORMATS[dtype].signed
        table = SIGNED_PREDICATES if signed else UNSIGNED_PREDICATES
        return operands[0].compare(table[predicate], operands[1])
    left, right = (widen_float(o, dtype) for o in operands)
    return left.compare(FLOAT_PREDICATES[predicate], right)


def bool_word(name: str, operands: list[Lanes]) -> Lanes:
    """Logic on i1."""
    if name == "not":
        return ~operands[0]
    return operands[0].binary(BOOL_INSTRUCTIONS[name], operands[1])


def int_word(name: str, dtype: str, operands: list[Lanes]) -> Lanes:
    """Integer arithmetic."""
    if name in PLAIN_INT_WORDS:
        return operands[0].binary(PLAIN_INT_WORDS[name], operands[1])
    if name == "neg":
        return -operands[0]
    if name == "not":
        return ~operands[0]
    if name == "fma":
        return operands[0] * operands[1] + operands[2]
    return INT_WORDS[name](*operands, signed=INT_FORMATS[dtype].signed)


def float_word(name: str, dtype: str, operands: list[Lanes]) -> Lanes:
    """Float arithmetic; narrow formats widen, compute, and round once."""
    function = ALL_FLOAT_WORDS[name]
    if dtype == "FP64" and name in DOUBLE_WORDS:
        return DOUBLE_WORDS[name](*operands)
    if dtype in WIDE_FLOATS:
        return function(*operands)
    if dtype in FLOAT_FORMATS and name in ("neg", "abs"):
        return sign_bit_word(name, dtype, operands[0])
    wide = function(*(widen_float(o, dtype) for o in operands))
    return narrow_float(wide, dtype, "rint")


def sign_bit_word(name: str, dtype: str, x: Lanes) -> Lanes:
    """neg and abs of a narrow float touch its sign bit only."""
    bit = 1 << FLOAT_FORMATS[dtype].sign_bit
    return x ^ bit if name == "neg" else x & (bit - 1)
