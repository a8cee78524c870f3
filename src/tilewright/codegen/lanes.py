"""Arithmetic on lanes, written like arithmetic: `Lanes` turns operators into LLVM instructions.

Every operation here gives the same bits for any number of lanes on any instruction set. Where a
target has no fused multiply-add or no rounding instruction, an exact replacement is called instead.
"""

from tilewright.codegen.text import FLOAT_ELEMENTS, Module, Text, constant_text, type_text
from tilewright.dataclass import dataclass

Number = float | int | bool
INTEGER_OF = {"float": "i32", "double": "i64"}
FLOAT_OF = {"i32": "float", "i64": "double"}
WIDTH = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "float": 32, "double": 64}


@dataclass(frozen=True, slots=True)
class Lanes:
    """A value with the same element type in each of `lanes` lanes, named `ref` in `text`."""

    text: Text
    ref: str
    element: str
    lanes: int

    @property
    def type(self) -> str:
        """The LLVM type."""
        return type_text(self.element, self.lanes)

    @property
    def is_float(self) -> bool:
        """Whether the lanes are floating-point numbers."""
        return self.element in FLOAT_ELEMENTS

    def like(self, ref: str, element: str | None = None) -> "Lanes":
        """A value named `ref` with as many lanes."""
        return Lanes(self.text, ref, element or self.element, self.lanes)

    def constant(self, value: Number, element: str | None = None) -> "Lanes":
        """`value` in every lane."""
        element = element or self.element
        return self.like(constant_text(value, element, self.lanes), element)

    def operand(self, other: "Lanes | Number") -> str:
        """The text of `other` as an operand of this type."""
        if isinstance(other, Lanes):
            return other.ref
        return constant_text(other, self.element, self.lanes)

    def binary(self, instruction: str, other: "Lanes | Number") -> "Lanes":
        """`instruction self, other`."""
        return self.like(
            self.text.let(f"{instruction} {self.type} {self.ref}, {self.operand(other)}")
        )

    def __add__(self, other: "Lanes | Number") -> "Lanes":
        return self.binary("fadd" if self.is_float else "add", other)

    def __sub__(self, other: "Lanes | Number") -> "Lanes":
        return self.binary("fsub" if self.is_float else "sub", other)

    def __mul__(self, other: "Lanes | Number") -> "Lanes":
        return self.binary("fmul" if self.is_float else "mul", other)

    def __truediv__(self, other: "Lanes | Number") -> "Lanes":
        return self.binary("fdiv", other)

    def __and__(self, other: "Lanes | Number") -> "Lanes":
        return self.binary("and", other)

    def __or__(self, other: "Lanes | Number") -> "Lanes":
        return self.binary("or", other)

    def __xor__(self, other: "Lanes | Number") -> "Lanes":
        return self.binary("xor", other)

    def __lshift__(self, other: "Lanes | Number") -> "Lanes":
        return self.binary("shl", other)

    def __rshift__(self, other: "Lanes | Number") -> "Lanes":
        """Logical shift right; `ashr` keeps the sign."""
        return self.binary("lshr", other)

    def ashr(self, other: "Lanes | Number") -> "Lanes":
        """Arithmetic shift right."""
        return self.binary("ashr", other)

    def __neg__(self) -> "Lanes":
        if self.is_float:
            return self.like(self.text.let(f"fneg {self.type} {self.ref}"))
        return self.constant(0) - self

    def __invert__(self) -> "Lanes":
        return self ^ (True if self.element == "i1" else -1)

    def compare(self, predicate: str, other: "Lanes | Number") -> "Lanes":
        """An i1 per lane: `fcmp` for floats, `icmp` for integers."""
        instruction = "fcmp" if self.is_float else "icmp"
        operands = f"{self.type} {self.ref}, {self.operand(other)}"
        return self.like(self.text.let(f"{instruction} {predicate} {operands}"), "i1")

    def lt(self, other: "Lanes | Number") -> "Lanes":
        """Below; false on NaN, signed for integers."""
        return self.compare("olt" if self.is_float else "slt", other)

    def gt(self, other: "Lanes | Number") -> "Lanes":
        """Above; false on NaN, signed for integers."""
        return self.compare("ogt" if self.is_float else "sgt", other)

    def le(self, other: "Lanes | Number") -> "Lanes":
        """At most; false on NaN, signed for integers."""
        return self.compare("ole" if self.is_float else "sle", other)

    def ge(self, other: "Lanes | Number") -> "Lanes":
        """At least; false on NaN, signed for integers."""
        return self.compare("oge" if self.is_float else "sge", other)

    def eq(self, other: "Lanes | Number") -> "Lanes":
        """Equal; false on NaN."""
        return self.compare("oeq" if self.is_float else "eq", other)

    def ne(self, other: "Lanes | Number") -> "Lanes":
        """Not equal; true on NaN."""
        return self.compare("une" if self.is_float else "ne", other)

    def is_nan(self) -> "Lanes":
        """Whether a lane is NaN."""
        return self.compare("uno", self)

    def call(self, intrinsic: str, *others: "Lanes | Number") -> "Lanes":
        """An LLVM intrinsic on values of this type."""
        operands = ", ".join(f"{self.type} {self.operand(o)}" for o in (self, *others))
        return self.like(
            self.text.let(f"call {self.type} @llvm.{intrinsic}.{self.suffix}({operands})")
        )

    @property
    def suffix(self) -> str:
        """This type in the name of an intrinsic."""
        element = {"float": "f32", "double": "f64"}.get(self.element, self.element)
        return element if self.lanes == 1 else f"v{self.lanes}{element}"

    def abs(self) -> "Lanes":
        """Magnitude of a float."""
        return self.call("fabs")

    def sqrt(self) -> "Lanes":
        """Correctly rounded square root."""
        return self.call("sqrt")

    def copysign(self, other: "Lanes | Number") -> "Lanes":
        """This magnitude with the sign of `other`."""
        return self.call("copysign", other)

    def bits(self) -> "Lanes":
        """The bits of a float as an integer."""
        return self.reinterpret(INTEGER_OF[self.element])

    def as_float(self) -> "Lanes":
        """The float with these bits."""
        return self.reinterpret(FLOAT_OF[self.element])

    def reinterpret(self, element: str) -> "Lanes":
        """The same bits as another element type."""
        return self.convert("bitcast", element)

    def convert(self, instruction: str, element: str) -> "Lanes":
        """A conversion instruction to `element`."""
        target = type_text(element, self.lanes)
        return self.like(
            self.text.let(f"{instruction} {self.type} {self.ref} to {target}"), element
        )

    def widen(self) -> "Lanes":
        """binary32 to binary64."""
        return self.convert("fpext", "double")

    def narrow(self) -> "Lanes":
        """binary64 to binary32, half to even."""
        return self.convert("fptrunc", "float")

    def resize(self, element: str, *, signed: bool = False) -> "Lanes":
        """An integer cut or extended to `element`."""
        if WIDTH[element] == WIDTH[self.element]:
            return self
        if WIDTH[element] < WIDTH[self.element]:
            return self.convert("trunc", element)
        return self.convert("sext" if signed else "zext", element)

    def any(self) -> str:
        """A scalar i1: whether some lane is set."""
        if self.lanes == 1:
            return self.ref
        return self.text.let(
            f"call i1 @llvm.vector.reduce.or.v{self.lanes}i1({self.type} {self.ref})"
        )


def select(condition: Lanes, yes: Lanes | Number, no: Lanes | Number) -> Lanes:
    """`yes` where `condition`, else `no`; at least one of the two must be a `Lanes`."""
    model = yes if isinstance(yes, Lanes) else no
    if not isinstance(model, Lanes):
        raise TypeError("select needs a value to take its type from")
    kind = model.type
    operands = f"{kind} {model.operand(yes)}, {kind} {model.operand(no)}"
    return model.like(condition.text.let(f"select {condition.type} {condition.ref}, {operands}"))


def fma(x: Lanes, y: Lanes | Number, z: Lanes | Number) -> Lanes:
    """x*y + z with one rounding."""
    if x.text.isa.has_fma:
        return x.call("fma", y, z)
    if x.element == "double":
        raise NotImplementedError(
            "fused multiply-add of FP64 needs an instruction this target lacks"
        )
    return call_helper("fma", x, y, z)


def horner(x: Lanes, coefficients: tuple[float, ...]) -> Lanes:
    """A polynomial in binary32 by fused steps, highest power first."""
    total = x.constant(coefficients[0])
    for coefficient in coefficients[1:]:
        total = fma(total, x, coefficient)
    return total


def horner64(x: Lanes, coefficients: tuple[float, ...]) -> Lanes:
    """A polynomial in binary64 by multiply and add, highest power first."""
    total = x.constant(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def round_even(x: Lanes) -> Lanes:
    """Nearest integer, half to even."""
    return x.call("rint") if x.text.isa.has_round else call_helper("rint", x)


def round_down(x: Lanes) -> Lanes:
    """Nearest integer not above."""
    return x.call("floor") if x.text.isa.has_round else call_helper("floor", x)


def round_up(x: Lanes) -> Lanes:
    """Nearest integer not below."""
    return x.call("ceil") if x.text.isa.has_round else call_helper("ceil", x)


def round_to_zero(x: Lanes) -> Lanes:
    """The integer part."""
    return x.call("trunc") if x.text.isa.has_round else call_helper("trunc", x)


def round_away(x: Lanes) -> Lanes:
    """Nearest integer, half away from zero."""
    whole = round_to_zero(x)
    up = (x - whole).abs().ge(0.5)
    return (whole + select(up, x.constant(1.0).copysign(x), 0.0)).copysign(x)


def round_odd(x: Lanes) -> Lanes:
    """The integer part if that is x or odd, else the next integer away from zero."""
    whole = round_to_zero(x)
    half = whole * 0.5
    even = round_to_zero(half).eq(half)
    step = select(whole.ne(x) & even, x.constant(1.0).copysign(x), 0.0)
    return (whole + step).copysign(x)


def call_helper(name: str, *operands: Lanes | Number) -> Lanes:
    """Call the exact replacement `name` of an instruction the target lacks."""
    first = operands[0]
    if not isinstance(first, Lanes):
        raise TypeError("the first operand gives the type")
    symbol = f"@tilewright.{name}.{first.suffix}"
    arity = len(operands)
    first.text.module.require(
        symbol, lambda module: make_helper(module, symbol, name, first.element, first.lanes, arity)
    )
    arguments = ", ".join(f"{first.type} {first.operand(o)}" for o in operands)
    return first.like(first.text.let(f"call fastcc {first.type} {symbol}({arguments})"))


def make_helper(
    module: Module, symbol: str, name: str, element: str, lanes: int, arity: int
) -> str:
    """The definition of one exact replacement."""
    kind = type_text(element, lanes)
    parameters = ", ".join(f"{kind} %a{i}" for i in range(arity))
    text = Text(module, f"define internal fastcc {kind} {symbol}({parameters}) #1")
    arguments = [Lanes(text, f"%a{i}", element, lanes) for i in range(arity)]
    result = HELPERS[name](*arguments)
    text.do(f"ret {kind} {result.ref}")
    return text.finish()


def exact_fma(x: Lanes, y: Lanes, z: Lanes) -> Lanes:
    """Fused multiply-add of binary32: round to odd in binary64, then once to binary32."""
    product, addend = x.widen() * y.widen(), z.widen()
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    inexact = error.compare("one", 0.0)
    even = (total.bits() & 1).eq(0)
    outward = error.gt(0.0).compare("eq", total.gt(0.0))
    step = select(outward, total.constant(1, "i64"), -1)
    adjusted = total.bits() + select(inexact & even, step, 0)
    return adjusted.as_float().narrow()


def exact_trunc(x: Lanes) -> Lanes:
    """The integer part, by way of an integer where the float has a fraction at all."""
    integer = INTEGER_OF[x.element]
    limit = 2.0**23 if x.element == "float" else 2.0**52
    small = x.abs().lt(limit)
    whole = select(small, x, 0.0).convert("fptosi", integer).convert("sitofp", x.element)
    return select(small, whole.copysign(x), x + 0.0)


def exact_rint(x: Lanes) -> Lanes:
    """Half to even, by pushing the fraction out of the significand and back."""
    limit = 2.0**23 if x.element == "float" else 2.0**52
    shifted = (x.abs() + limit) - limit
    return select(x.abs().lt(limit), shifted.copysign(x), x + 0.0)


def exact_floor(x: Lanes) -> Lanes:
    """The integer part, one less where that went up."""
    whole = exact_trunc(x)
    return select(whole.gt(x), whole - 1.0, whole)


def exact_ceil(x: Lanes) -> Lanes:
    """The integer part, one more where that went down."""
    whole = exact_trunc(x)
    return select(whole.lt(x), whole + 1.0, whole).copysign(x)


HELPERS = {
    "fma": exact_fma,
    "trunc": exact_trunc,
    "rint": exact_rint,
    "floor": exact_floor,
    "ceil": exact_ceil,
}
