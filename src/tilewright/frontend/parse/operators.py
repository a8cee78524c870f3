"""Python's operators on values of the IR."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from tilewright.dtypes import BOOL, DType
from tilewright.errors import InvalidOperationError, ParserTypeError, UnsupportedFeatureError
from tilewright.frontend.operations import emit_call
from tilewright.frontend.values import constant, dtype_of, is_number, is_scalar, unify
from tilewright.ir.core import Value
from tilewright.ir.opdef import OPS, OpDef
from tilewright.ir.types import ShapedType
from tilewright.ops import arith
from tilewright.ops.adapt import paired
from tilewright.ops.extents import as_dim
from tilewright.source import Span

Word = OpDef[..., Value]

_SCALAR_BINARY: Mapping[type[ast.operator], Word] = {
    ast.Add: arith.add,
    ast.Sub: arith.sub,
    ast.Mult: arith.mul,
    ast.Div: arith.div,
    ast.FloorDiv: arith.floordiv,
    ast.Mod: arith.mod,
    ast.LShift: arith.shl,
    ast.RShift: arith.shr,
}
_SHAPED_BINARY: Mapping[type[ast.operator], str] = {
    ast.Add: "pl.add",
    ast.Sub: "pl.sub",
    ast.Mult: "pl.mul",
    ast.Div: "pl.div",
    ast.FloorDiv: "elementwise.floordiv",
    ast.Mod: "elementwise.mod",
    ast.LShift: "pl.shl",
    ast.RShift: "pl.shr",
}
_SCALAR_COMPARE: Mapping[type[ast.cmpop], Word] = {
    ast.Eq: arith.eq,
    ast.NotEq: arith.ne,
    ast.Lt: arith.lt,
    ast.LtE: arith.le,
    ast.Gt: arith.gt,
    ast.GtE: arith.ge,
}
_CMP_TYPE: Mapping[type[ast.cmpop], int] = {
    ast.Eq: 0, ast.NotEq: 1, ast.Lt: 2, ast.LtE: 3, ast.Gt: 4, ast.GtE: 5,
}  # fmt: skip


def is_shaped(given: Any) -> bool:
    """True for a tensor or a tile."""
    return isinstance(given, Value) and isinstance(given.type, ShapedType)


def emit_binary(op: ast.operator, left: Any, right: Any) -> Value:
    """`left op right`, at least one of them a value of the IR."""
    kind = type(op)
    if kind not in _SCALAR_BINARY:
        raise UnsupportedFeatureError(
            f"Unsupported binary operator: {kind.__name__}",
            hint="Use supported operators: + - * / // % << >>, or pl.and_, pl.or_, pl.xor.",
        )
    if is_shaped(left) or is_shaped(right):
        return _emit_shaped(_SHAPED_BINARY[kind], left, right)
    _require_scalars(f"'{_SYMBOLS[kind]}'", left, right)
    return _SCALAR_BINARY[kind](*unify(left, right))


def require_divisor(op: ast.operator, left: Any, right: Any, span: Span) -> None:
    """Raises InvalidOperationError where an integer is divided by what is 0 for certain."""
    if not isinstance(op, (ast.Div, ast.FloorDiv, ast.Mod)):
        return
    if _is_integer(left) and _is_integer(right) and not is_shaped(right) and as_dim(right) == 0:
        raise InvalidOperationError(
            f"'{_SYMBOLS[type(op)]}': an integer is divided by 0",
            span,
            "Only a divisor that run time brings may be 0; then the result is 0.",
        )


def _is_integer(given: Any) -> bool:
    """True for an integer, for a scalar of some, and for a tensor or tile of some."""
    if isinstance(given, Value):
        dtype = getattr(given.type, "dtype", None)
        return isinstance(dtype, DType) and dtype.is_int()
    return isinstance(given, int)


_SYMBOLS: Mapping[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.LShift: "<<", ast.RShift: ">>", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=",
    ast.Gt: ">", ast.GtE: ">=", ast.USub: "-", ast.Invert: "~",
}  # fmt: skip


def _emit_shaped(path: str, left: Any, right: Any) -> Value:
    if path.startswith("pl."):
        return emit_call(path, (left, right), {})
    return OPS[path](*paired(path.rpartition(".")[2], left, right))


def _require_scalars(what: str, *operands: Any) -> None:
    for operand in operands:
        if not (is_number(operand) or is_scalar(operand)):
            shown = operand.type if isinstance(operand, Value) else repr(operand)
            raise ParserTypeError(f"{what}: {shown} is neither a scalar, a tensor nor a tile")


def is_signed_literal(node: ast.UnaryOp) -> bool:
    """True for `-3`, a literal; `-(3)` negates one."""
    adjacent = node.operand.col_offset == node.col_offset + 1
    return isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant) and adjacent


def emit_unary(op: ast.unaryop, operand: Value) -> Value:
    """`-x`, `~x`, `not x` or `+x`."""
    if isinstance(op, ast.UAdd):
        return operand
    if isinstance(op, ast.Not):
        return arith.not_(as_condition(operand))
    if is_shaped(operand):
        return emit_call("pl.neg" if isinstance(op, ast.USub) else "pl.not_", (operand,), {})
    _require_scalars(f"'{_SYMBOLS[type(op)]}'", operand)
    return arith.neg(operand) if isinstance(op, ast.USub) else arith.not_(operand)


def emit_compare(op: ast.cmpop, left: Any, right: Any) -> Value:
    """One comparison: BOOL for scalars, an elementwise result for tensors and tiles."""
    kind = type(op)
    if kind not in _SCALAR_COMPARE:
        raise UnsupportedFeatureError(
            f"Unsupported comparison: {kind.__name__}", hint="Use == != < <= > >= on scalars."
        )
    if is_shaped(left) or is_shaped(right):
        return emit_call("pl.cmp", (left, right), {"cmp_type": _CMP_TYPE[kind]})
    _require_scalars(f"'{_SYMBOLS[kind]}'", left, right)
    return _SCALAR_COMPARE[kind](*unify(left, right))


def emit_bool(op: ast.boolop, values: Sequence[Any]) -> Value:
    """`and` / `or` of BOOL scalars; every operand is evaluated."""
    word = arith.and_ if isinstance(op, ast.And) else arith.or_
    return reduce(word, (as_condition(value) for value in values))


def as_condition(given: Any) -> Value:
    """A BOOL scalar; raises ParserTypeError for anything else."""
    if isinstance(given, bool):
        return constant(given)
    if is_scalar(given) and dtype_of(given) is BOOL:
        return given
    shown = given.type if isinstance(given, Value) else repr(given)
    raise ParserTypeError(
        f"The condition is {shown}, not a pl.BOOL scalar",
        hint="Use an explicit boolean comparison, such as 'n != 0'.",
    )


def emit_extremum(function: Callable[..., Any], values: Sequence[Any]) -> Value:
    """`min(...)` or `max(...)` of scalars."""
    word = arith.min_ if function is min else arith.max_
    if any(map(is_shaped, values)):
        name = function.__name__
        raise ParserTypeError(
            f"{name}(...) of tensors or tiles is not that of their elements",
            hint=f"Write pl.{name}imum(a, b) for elements, pl.row_{name}(x) along an axis.",
        )
    _require_scalars(function.__name__, *values)
    total: Any = values[0]
    for value in values[1:]:
        total = word(*unify(total, value)) if _any_value(total, value) else function(total, value)
    return total


def _any_value(*operands: Any) -> bool:
    return any(isinstance(operand, Value) for operand in operands)
