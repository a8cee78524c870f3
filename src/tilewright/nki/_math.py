"""`nl`: element-wise functions of tiles."""

from __future__ import annotations

from typing import Any

from tilewright.errors.nki_instructions import BIAS_IN_ALLOCATION
from tilewright.frontend.trace import arith as trace_arith
from tilewright.frontend.trace.ambient import nki_ctx, refusal
from tilewright.frontend.trace.ops import NKIFunc, nki_op
from tilewright.frontend.trace.tensors import nki_tensor
from tilewright.nki._operands import in_allocated_kernel
from tilewright.ops import elementwise, nki_math
from tilewright.ops.nki_math import FLOAT_FUNCTIONS

Unary = NKIFunc[..., nki_tensor]
Binary = NKIFunc[..., nki_tensor]


ROUNDED = ("reciprocal", "ceil", "floor", "trunc")
"""Functions that the scalar engine does not compute by an activation, which has a bias."""


def _unary(name: str, meaning: str) -> Unary:
    op = FLOAT_FUNCTIONS[name]

    def function(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> nki_tensor:
        if name not in ROUNDED and in_allocated_kernel():
            raise refusal(BIAS_IN_ALLOCATION, op=name)
        return trace_arith.pointwise(nki_ctx().sema, op, x, dtype, mask)

    return _named(function, name, f"{meaning}, for each element; the result has the type of x.")


def _exact_unary(name: str, op: Any, meaning: str) -> Unary:
    def function(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> nki_tensor:
        return trace_arith.exact_unary(nki_ctx().sema, op, x, dtype, mask)

    return _named(function, name, f"{meaning}, for each element; the result has the type of x.")


def _binary(name: str, meaning: str) -> Binary:
    def function(
        x: Any, y: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any
    ) -> nki_tensor:
        return trace_arith.binary(nki_ctx().sema, name, x, y, dtype, mask)

    return _named(function, name, f"{meaning}, for each element, with numpy broadcasting.")


def _remainder(name: str, meaning: str) -> Binary:
    """These two also take `dtype` and `mask` by position."""

    def function(x: Any, y: Any, dtype: Any = None, mask: Any = None, **kwargs: Any) -> nki_tensor:
        return trace_arith.binary(nki_ctx().sema, name, x, y, dtype, mask)

    return _named(function, name, f"{meaning}, for each element, with numpy broadcasting.")


def _comparison(name: str, meaning: str) -> Binary:
    def function(
        x: Any, y: Any, *, dtype: Any = bool, mask: Any = None, **kwargs: Any
    ) -> nki_tensor:
        return trace_arith.binary(nki_ctx().sema, name, x, y, dtype, mask)

    return _named(function, name, f"{meaning}, for each element, as booleans.")


def _logical(name: str, op: Any, meaning: str) -> Binary:
    def function(
        x: Any, y: Any, *, dtype: Any = bool, mask: Any = None, **kwargs: Any
    ) -> nki_tensor:
        return trace_arith.logical(nki_ctx().sema, op, (x, y), dtype, mask)

    return _named(function, name, f"{meaning}, for each element, as booleans.")


def _named(function: Any, name: str, doc: str) -> NKIFunc[..., nki_tensor]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return nki_op(f"nl.{name}")(function)


exp = _unary("exp", "e to the power x")
log = _unary("log", "The natural logarithm")
sqrt = _unary("sqrt", "The square root")
rsqrt = _unary("rsqrt", "1 / sqrt(x)")
reciprocal = _unary("reciprocal", "1 / x")
sin = _unary("sin", "The sine")
cos = _unary("cos", "The cosine")
tan = _unary("tan", "The tangent")
arctan = _unary("arctan", "The inverse tangent")
tanh = _unary("tanh", "The hyperbolic tangent")
erf = _unary("erf", "The error function")
erf_dx = _unary("erf_dx", "The derivative of the error function")
sigmoid = _unary("sigmoid", "1 / (1 + exp(-x))")
relu = _unary("relu", "max(x, 0)")
gelu = _unary("gelu", "0.5 x (1 + erf(x / sqrt 2))")
gelu_dx = _unary("gelu_dx", "The derivative of gelu")
gelu_apprx_tanh = _unary("gelu_apprx_tanh", "The tanh approximation of gelu")
gelu_apprx_sigmoid = _unary("gelu_apprx_sigmoid", "x sigmoid(1.702 x)")
gelu_apprx_sigmoid_dx = _unary("gelu_apprx_sigmoid_dx", "The derivative of x sigmoid(1.702 x)")
silu = _unary("silu", "x sigmoid(x)")
silu_dx = _unary("silu_dx", "The derivative of silu")
mish = _unary("mish", "x tanh(softplus(x))")
softplus = _unary("softplus", "log(1 + exp(x))")
ceil = _unary("ceil", "The least integral value not below x")
floor = _unary("floor", "The greatest integral value not above x")
trunc = _unary("trunc", "x rounded toward zero")

abs = _exact_unary("abs", elementwise.abs_, "The absolute value")
negative = _exact_unary("negative", elementwise.neg, "-x")
sign = _exact_unary("sign", elementwise.sign, "-1, 0 or 1")
square = _exact_unary("square", nki_math.square, "x * x")

add = _binary("add", "x + y")
subtract = _binary("subtract", "x - y")
multiply = _binary("multiply", "x * y")
divide = _binary("divide", "x / y")
maximum = _binary("maximum", "The larger of x and y")
minimum = _binary("minimum", "The smaller of x and y")
power = _binary("power", "x to the power y")
mod = _remainder("mod", "The remainder of x / y with the sign of y")
fmod = _remainder("fmod", "The remainder of x / y with the sign of x")
bitwise_and = _binary("bitwise_and", "The bits set in both integers")
bitwise_or = _binary("bitwise_or", "The bits set in either integer")
bitwise_xor = _binary("bitwise_xor", "The bits set in one of the integers")
left_shift = _binary("left_shift", "x shifted left by y bits")
right_shift = _binary("right_shift", "x shifted right by y bits, filled with zeros")

equal = _comparison("equal", "x == y")
not_equal = _comparison("not_equal", "x != y")
less = _comparison("less", "x < y")
less_equal = _comparison("less_equal", "x <= y")
greater = _comparison("greater", "x > y")
greater_equal = _comparison("greater_equal", "x >= y")
logical_and = _logical("logical_and", elementwise.and_, "Whether both are nonzero")
logical_or = _logical("logical_or", elementwise.or_, "Whether one is nonzero")
logical_xor = _logical("logical_xor", elementwise.xor, "Whether exactly one is nonzero")


@nki_op("nl.logical_not")
def logical_not(x: Any, *, dtype: Any = bool, mask: Any = None, **kwargs: Any) -> nki_tensor:
    """Whether the element is zero, as booleans."""
    return trace_arith.logical(nki_ctx().sema, elementwise.not_, (x,), dtype, mask)


@nki_op("nl.invert")
def invert(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> nki_tensor:
    """The complement of the bits of each integer."""
    trace_arith.require_bits([trace_arith.dtype_of(x)])
    return trace_arith.exact_unary(nki_ctx().sema, elementwise.not_, x, dtype, mask)


@nki_op("nl.where")
def where(
    condition: Any, x: Any, y: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any
) -> nki_tensor:
    """x where the condition is nonzero, else y, for each element, with numpy broadcasting."""
    return trace_arith.where(nki_ctx().sema, condition, x, y, dtype, mask)


def _magnitude(x: Any) -> Any:
    """The absolute value of a tile or a number."""
    if not isinstance(x, nki_tensor):
        return x if x >= 0 else -x
    return trace_arith.exact_unary(nki_ctx().sema, elementwise.abs_, x, None, None)


@nki_op("nl.abs_max")
def abs_max(x: Any, y: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> nki_tensor:
    """The larger of |x| and |y|, for each element, with numpy broadcasting."""
    operands = (_magnitude(x), _magnitude(y))
    return trace_arith.binary(nki_ctx().sema, "maximum", *operands, dtype, mask)


@nki_op("nl.abs_min")
def abs_min(x: Any, y: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> nki_tensor:
    """The smaller of |x| and |y|, for each element, with numpy broadcasting."""
    operands = (_magnitude(x), _magnitude(y))
    return trace_arith.binary(nki_ctx().sema, "minimum", *operands, dtype, mask)


@nki_op("nl.prelu")
def prelu(x: Any, alpha: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> nki_tensor:
    """x where it is positive, else alpha * x; alpha is a number, or a tile that broadcasts."""
    sema = nki_ctx().sema
    positive = trace_arith.binary(sema, "greater", x, 0.0)
    return trace_arith.where(
        sema, positive, x, trace_arith.binary(sema, "multiply", x, alpha), dtype, mask
    )
