"""Between Python and the IR: literals, constants, and scalars that must agree on a dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

import numpy as np

from tilewright.abi import integer_range
from tilewright.dtypes import BOOL, FP32, INDEX, INT64, DType
from tilewright.errors import ParserTypeError
from tilewright.ir.affine import Symbol, scaled_symbol, symbols
from tilewright.ir.affine.expr import Expr, FloorDiv, Max, Min, Product
from tilewright.ir.builder import Builder
from tilewright.ir.core import Value
from tilewright.ir.enums import Rounding
from tilewright.ir.opdef import OpDef
from tilewright.ir.types import ScalarType, ShapedType, Type
from tilewright.ops import arith
from tilewright.ops.cast import cast

Number = bool | int | float
SymbolValue = Callable[[Symbol], Value]
_BARE_LITERALS = (INDEX, FP32, BOOL)


def is_number(given: Any) -> bool:
    """True for Python and numpy numbers and booleans."""
    return isinstance(given, (bool, int, float, np.number, np.bool_))


def is_integer(given: Any) -> bool:
    """True for an integer: a number, a scalar or an expression of dimensions."""
    if isinstance(given, Value):
        return isinstance(given.type, ScalarType) and given.type.dtype.is_int()
    if is_number(given):
        return isinstance(as_number(given), int)
    return isinstance(given, (Expr, Symbol))


def as_number(given: Any) -> Number:
    """A Python number for a Python or numpy number."""
    plain: Number = given.item() if hasattr(given, "item") else given
    return plain


def literal_dtype(value: Number) -> DType:
    """The dtype of a bare literal: BOOL, INDEX or FP32."""
    if isinstance(value, bool):
        return BOOL
    return INDEX if isinstance(value, int) else FP32


def literal_of(value: Value) -> Number | None:
    """The Python number that a constant of a bare literal's dtype stands for, or None."""
    op = value.op
    if op is None or op.opdef is not arith.const or op.attrs["dtype"] not in _BARE_LITERALS:
        return None
    return op.attrs["value"]


def constant(value: Number, dtype: DType | None = None) -> Value:
    """A constant of `dtype`, by default the bare literal's; raises ParserTypeError."""
    dtype = dtype or literal_dtype(value)
    if isinstance(value, bool) is not (dtype is BOOL):
        raise ParserTypeError(f"{value} is not a value of {dtype}")
    if isinstance(value, float) and not dtype.is_float():
        raise ParserTypeError(
            f"the float {value} cannot be used as {dtype}", hint="Convert it with pl.cast."
        )
    return Builder.current().constant(value, dtype)


def dtype_of(value: Value) -> DType:
    """The dtype of a scalar value."""
    assert isinstance(value.type, ScalarType)
    return value.type.dtype


def is_scalar(given: Any) -> bool:
    """True for a scalar of the IR."""
    return isinstance(given, Value) and isinstance(given.type, ScalarType)


def convert(value: Value, dtype: DType) -> Value:
    """`value` as `dtype`; itself when it has that dtype already."""
    if dtype_of(value) is dtype:
        return value
    return cast(value, dtype=dtype, mode=Rounding.RINT)


def unify(left: Any, right: Any) -> tuple[Value, Value]:
    """Two scalar operands of one dtype: literals adopt, like kinds widen; or ParserTypeError."""
    if not isinstance(left, Value):
        return adopt(left, right), right
    if not isinstance(right, Value):
        return left, adopt(right, left)
    dtype = common_dtype(dtype_of(left), dtype_of(right))
    return convert(left, dtype), convert(right, dtype)


def adopt(literal: Number, other: Value) -> Value:
    """A literal as a constant of the other operand's dtype."""
    return constant(as_number(literal), dtype_of(other))


def common_dtype(left: DType, right: DType) -> DType:
    """The dtype in which two scalars meet; raises ParserTypeError for different kinds."""
    if left is right:
        return left
    if left.is_float() and right.is_float():
        return left if left.bits >= right.bits else right
    if left.is_int() and right.is_int():
        return _common_int(left, right)
    raise ParserTypeError(
        f"scalars of {left} and {right} do not combine", hint="Convert one with pl.cast."
    )


def _common_int(left: DType, right: DType) -> DType:
    if INDEX in (left, right):
        other = right if left is INDEX else left
        return INT64 if other is INT64 else INDEX if other.bits < 64 else other
    if left.bits != right.bits:
        return left if left.bits > right.bits else right
    return left if left.is_signed_int() else right


def is_passed_as(wanted: DType, given: DType) -> bool:
    """True when an integer scalar is passed as another one without a cast: an INDEX, or one whose
    every value the other type has."""
    if not (wanted.is_int() and given.is_int()):
        return False
    (low, high), (least, most) = integer_range(wanted), integer_range(given)
    return given is INDEX or (low <= least and most <= high)


def fitted(given: Any, declared: Any) -> Any:
    """What a declared scalar type makes of a value: literals adopt it, INDEX and INT64 mix."""
    if not isinstance(declared, ScalarType):
        return given
    if isinstance(given, Value):
        number = literal_of(given)
        if number is None or given.type == declared:
            mixes = is_scalar(given) and {dtype_of(given), declared.dtype} == {INDEX, INT64}
            return convert(given, declared.dtype) if mixes else given
        given = number
    return constant(as_number(given), declared.dtype) if is_number(given) else given


def emit_expr(expr: Expr, value_of: SymbolValue) -> Value:
    """Operations that compute an affine expression as an INDEX scalar."""
    total: Value | None = None
    for atom, coefficient in expr.terms.items():
        term = _emit_atom(atom, value_of)
        if coefficient != 1:
            term = arith.mul(term, constant(coefficient))
        total = term if total is None else arith.add(total, term)
    if total is None:
        return constant(expr.const)
    return arith.add(total, constant(expr.const)) if expr.const else total


def _emit_atom(atom: Any, value_of: SymbolValue) -> Value:
    if isinstance(atom, Symbol):
        return convert(value_of(atom), INDEX)
    if isinstance(atom, FloorDiv):
        divisor = atom.divisor
        right = constant(divisor) if isinstance(divisor, int) else emit_expr(divisor, value_of)
        return arith.floordiv(emit_expr(atom.numerator, value_of), right)
    if isinstance(atom, Product):
        return _chain(arith.mul, [_emit_atom(factor, value_of) for factor in atom.factors])
    assert isinstance(atom, (Min, Max))
    word = arith.min_ if isinstance(atom, Min) else arith.max_
    return _chain(word, [emit_expr(arg, value_of) for arg in atom.args])


def _chain(word: OpDef[..., Value], values: list[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        total = word(total, value)
    return total


def extents_with(
    symbol: Symbol, declared: Iterable[tuple[Type, Value]]
) -> list[tuple[tuple[int, int], Value, int]]:
    """Where the symbol alone makes an extent that a type declares: (scale, offset) of it there, the
    value of that type and the axis, the plainest first."""
    found: list[tuple[tuple[int, int], Value, int]] = []
    for type_, value in declared:
        shape = type_.shape if isinstance(type_, ShapedType) else ()
        for axis, extent in enumerate(shape):
            parts = scaled_symbol(extent) if isinstance(extent, Expr) else None
            if parts is not None and parts[0] is symbol:
                found.append((parts[1:], value, axis))
    return sorted(found, key=itemgetter(0))


def how_to_know(symbol: Symbol, params: Iterable[Value]) -> str:
    """The fix where no parameter has a symbol as an extent of its own."""
    for param in params:
        shape = param.type.shape if isinstance(param.type, ShapedType) else ()
        for axis, extent in enumerate(shape):
            if isinstance(extent, Expr) and symbol in symbols(extent):
                return (
                    f"'{param.name}' has it in the extent {extent} only: give a parameter the "
                    f"extent {symbol.name}, or compute it from {param.name}.shape[{axis}]."
                )
    return "It is known where a parameter has this dimension."
