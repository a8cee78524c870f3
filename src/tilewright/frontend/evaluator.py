"""Compile-time expressions: names, attributes, constants, arithmetic and subscripts of an AST.

The parser extends this class with values of the IR; what involves none is computed here, in Python.
"""

from __future__ import annotations

import ast
import builtins
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, NoReturn, cast

import tilewright.frontend as room
from tilewright.dtypes import DType
from tilewright.errors import (
    InternalError,
    InvalidOperationError,
    ParserError,
    TilewrightError,
    UndefinedVariableError,
    UnsupportedFeatureError,
)
from tilewright.frontend.namespace import MISSING, Namespace
from tilewright.frontend.surface import surface_path
from tilewright.source import Located, SourceText, Span

_Handler = Callable[[Any, Any], Any]


def _word(name: str) -> Callable[..., Any]:
    return getattr(operator, name)


MAX_BITS = 1 << 14
MAX_ITEMS = 1 << 24


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int):
        _require_few(base.bit_length() * exponent if abs(base) > 1 else 0)
    return base**exponent


def _shifted(value: Any, count: Any) -> Any:
    if isinstance(value, int) and isinstance(count, int) and value:
        _require_few(value.bit_length() + count)
    return value << count


def _times(left: Any, right: Any) -> Any:
    for many, count in ((left, right), (right, left)):
        is_long = isinstance(many, (str, list, tuple)) and isinstance(count, int)
        if is_long and len(cast("Sequence[Any]", many)) * count > MAX_ITEMS:
            raise OverflowError(f"the result would have more than {MAX_ITEMS:,} items")
    return left * right


def _require_few(bits: int) -> None:
    """Python would compute for minutes, or take all memory, before an author sees the mistake."""
    if bits > MAX_BITS:
        raise OverflowError(f"the result would have more than {MAX_BITS:,} bits")


BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: _word("add"),
    ast.Sub: _word("sub"),
    ast.Mult: _times,
    ast.Div: _word("truediv"),
    ast.FloorDiv: _word("floordiv"),
    ast.Mod: _word("mod"),
    ast.Pow: _power,
    ast.LShift: _shifted,
    ast.RShift: _word("rshift"),
    ast.BitAnd: _word("and_"),
    ast.BitOr: _word("or_"),
    ast.BitXor: _word("xor"),
    ast.MatMult: _word("matmul"),
}
UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: _word("neg"),
    ast.UAdd: _word("pos"),
    ast.Not: _word("not_"),
    ast.Invert: _word("invert"),
}
COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: _word("eq"),
    ast.NotEq: _word("ne"),
    ast.Lt: _word("lt"),
    ast.LtE: _word("le"),
    ast.Gt: _word("gt"),
    ast.GtE: _word("ge"),
    ast.Is: _word("is_"),
    ast.IsNot: _word("is_not"),
    ast.In: lambda item, container: item in container,
    ast.NotIn: lambda item, container: item not in container,
}

_PLAIN_BUILTINS = (
    "abs", "bool", "dict", "divmod", "enumerate", "float", "int", "len", "list", "max", "min",
    "range", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip",
)  # fmt: skip
_RUNS_NOW: set[Any] = {getattr(builtins, name) for name in _PLAIN_BUILTINS}


def runs_at_compile_time(*callables: Any) -> None:
    """Let kernels call these on compile-time values; the call happens while the kernel is read."""
    _RUNS_NOW.update(callables)


class Evaluator:
    """Evaluates expressions of one text over one namespace."""

    _handlers: ClassVar[dict[type[ast.AST], _Handler]] = {}

    def __init__(self, names: Namespace, source: SourceText, parent: Span | None = None) -> None:
        self.names = names
        self.source = source
        self.parent = parent

    def __init_subclass__(cls) -> None:
        cls._handlers = _handlers_of(cls)

    def span(self, node: Located) -> Span:
        """Where `node` stands in the author's file."""
        return self.source.span(node, self.parent)

    def evaluate(self, node: ast.expr) -> Any:
        """The value of an expression; raises an author error located at the offending part."""
        handler = self._handlers.get(type(node))
        if handler is None:
            raise self.unsupported_expression(node)
        return handler(self, node)

    def lookup(self, name: str) -> Any:
        """The value of a name, or MISSING."""
        return self.names.lookup(name)

    def known_names(self) -> Sequence[str]:
        """Names that a misspelt one may have meant."""
        return list(self.names.names())

    # One method per kind of expression

    def eval_Constant(self, node: ast.Constant) -> Any:
        if node.value is Ellipsis:
            raise self.unsupported_expression(node)
        return node.value

    def eval_Name(self, node: ast.Name) -> Any:
        value = self.lookup(node.id)
        if value is MISSING:
            raise self.undefined(node)
        return value

    def eval_Attribute(self, node: ast.Attribute) -> Any:
        return self.attribute(self.evaluate(node.value), node)

    def eval_Tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self.items(node.elts))

    def eval_List(self, node: ast.List) -> list[Any]:
        return self.items(node.elts)

    def eval_Dict(self, node: ast.Dict) -> dict[Any, Any]:
        if None in node.keys:
            raise self.unsupported_expression(node)
        keys = [self.evaluate(key) for key in node.keys if key is not None]
        return dict(zip(keys, map(self.evaluate, node.values)))

    def eval_BinOp(self, node: ast.BinOp) -> Any:
        return self.binary(node, self.evaluate(node.left), self.evaluate(node.right))

    def eval_UnaryOp(self, node: ast.UnaryOp) -> Any:
        return self.unary(node, self.evaluate(node.operand))

    def eval_BoolOp(self, node: ast.BoolOp) -> Any:
        return self.bool_op(node, [self.evaluate(value) for value in node.values])

    def eval_Compare(self, node: ast.Compare) -> Any:
        if len(node.ops) > 1:
            raise UnsupportedFeatureError(
                "Chained comparisons are not supported",
                self.span(node),
                "Write 'a < b and b < c'.",
            )
        return self.compare(node, self.evaluate(node.left), self.evaluate(node.comparators[0]))

    def eval_IfExp(self, node: ast.IfExp) -> Any:
        test = self.evaluate(node.test)
        return self.choose(node, test)

    def eval_Subscript(self, node: ast.Subscript) -> Any:
        return self.subscript(node, self.evaluate(node.value))

    def eval_Slice(self, node: ast.Slice) -> slice:
        parts = (node.lower, node.upper, node.step)
        return slice(*(None if part is None else self.evaluate(part) for part in parts))

    def eval_JoinedStr(self, node: ast.JoinedStr) -> str:
        return "".join(self.computed(part, str, self.evaluate(part)) for part in node.values)

    def eval_FormattedValue(self, node: ast.FormattedValue) -> str:
        spec = self.evaluate(node.format_spec) if node.format_spec else ""
        value = self.evaluate(node.value)
        shown = self.computed(node, repr, value) if node.conversion == ord("r") else value
        return self.computed(node, format, shown, spec)

    def eval_Call(self, node: ast.Call) -> Any:
        return self.call(node, self.evaluate(node.func))

    # What an operation means; the parser overrides these for values of the IR

    def items(self, nodes: Sequence[ast.expr]) -> list[Any]:
        """Elements of a list or tuple display, stars expanded."""
        values: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                values.extend(self.computed(node, list, self.evaluate(node.value)))
            else:
                values.append(self.evaluate(node))
        return values

    def attribute(self, base: Any, node: ast.Attribute) -> Any:
        """`base.name`, of compile-time objects."""
        try:
            return getattr(base, node.attr)
        except AttributeError:
            path = surface_path(base)
            if path is None:
                raise self.no_attribute(base, node) from None
        raise room.operations.unknown_operation(f"{path}.{node.attr}").locate(self.span(node))

    def binary(self, node: ast.BinOp, left: Any, right: Any) -> Any:
        """A binary operator on compile-time values."""
        return self.computed(node, BINARY[type(node.op)], left, right)

    def unary(self, node: ast.UnaryOp, operand: Any) -> Any:
        """A unary operator on a compile-time value."""
        return self.computed(node, UNARY[type(node.op)], operand)

    def bool_op(self, node: ast.BoolOp, values: list[Any]) -> Any:
        """`and` / `or`, all operands already evaluated."""
        stop_at = isinstance(node.op, ast.Or)
        return next((value for value in values[:-1] if bool(value) is stop_at), values[-1])

    def compare(self, node: ast.Compare, left: Any, right: Any) -> Any:
        """One comparison of compile-time values."""
        return self.computed(node, COMPARE[type(node.ops[0])], left, right)

    def choose(self, node: ast.IfExp, test: Any) -> Any:
        """`a if test else b` with a compile-time test."""
        return self.evaluate(node.body if test else node.orelse)

    def subscript(self, node: ast.Subscript, base: Any) -> Any:
        """`base[index]`, of compile-time objects."""
        return self.computed(node, operator.getitem, base, self.evaluate(node.slice))

    def call(self, node: ast.Call, function: Any) -> Any:
        """A call that happens while the kernel is read."""
        if not is_compile_time_callable(function):
            raise self.not_callable(node, function)
        arguments = self.items(node.args)
        return self.computed(node, function, *arguments, **self.keywords(node))

    def keywords(self, node: ast.Call) -> dict[str, Any]:
        """Keyword arguments of a call, by name."""
        named: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value)
            named.update(value if keyword.arg is None else {keyword.arg: value})
        return named

    def computed(self, node: Located, function: Any, *args: Any, **kwargs: Any) -> Any:
        """The result of running `function` now; what it raises is reported at `node`."""
        try:
            return function(*args, **kwargs)
        except InternalError:
            raise
        except TilewrightError as error:
            error.locate(self.span(node))
            raise
        except Exception as error:
            raise ParserError(
                f"Cannot evaluate '{ast.unparse(node)}': {type(error).__name__}: {error}",
                self.span(node),
            ) from error

    # Refusals

    def undefined(self, node: ast.Name) -> UndefinedVariableError:
        """The error for a name without a value."""
        hint = self.names.hints.get(node.id) or room.suggestions.did_you_mean(
            node.id, self.known_names()
        )
        note = None
        if node.id in self.names.empty:
            note = f"The enclosing function has not given '{node.id}' a value yet."
        return UndefinedVariableError(
            f"Undefined variable '{node.id}'", self.span(node), hint, note
        )

    def no_attribute(self, base: Any, node: ast.Attribute) -> InvalidOperationError:
        """The error for an attribute that does not exist."""
        hint = room.suggestions.did_you_mean(
            node.attr, [name for name in dir(base) if not name.startswith("_")]
        )
        return InvalidOperationError(
            f"'{ast.unparse(node.value)}' has no attribute '{node.attr}'", self.span(node), hint
        )

    def not_callable(self, node: ast.Call, function: Any) -> InvalidOperationError:
        """The error for a call of something that a kernel cannot call."""
        what = ast.unparse(node.func)
        return InvalidOperationError(
            f"'{what}' cannot be called in a kernel (it is {_described(function)})",
            self.span(node.func),
            "Call operations of 'pl', functions decorated with @pl.function or @pl.inline, "
            "or compute the value outside and use it by name.",
        )

    def unsupported_expression(self, node: ast.expr) -> UnsupportedFeatureError:
        """The error for a kind of expression that the language does not have."""
        if isinstance(node, ast.Constant):
            return UnsupportedFeatureError("'...' is not supported here", self.span(node))
        return UnsupportedFeatureError(
            f"Unsupported expression type: {type(node).__name__}",
            self.span(node),
            "Use names, constants, arithmetic, comparisons, subscripts, lists, tuples and calls.",
        )


def _described(value: Any) -> str:
    if callable(value) and hasattr(value, "__name__"):
        kind = "class" if isinstance(value, type) else "function"
        return f"the Python {kind} '{value.__name__}'"
    return f"of type '{type(value).__name__}'"


def is_compile_time_callable(function: Any) -> bool:
    """True for what may run while a kernel is read: registered callables, `math`, dtype methods."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, (DType, Enum, int, float, str, list, tuple, dict)):
        return True
    if getattr(function, "__module__", None) == math.__name__:
        return True
    try:
        return function in _RUNS_NOW
    except TypeError:
        return False


def _handlers_of(cls: type[Evaluator]) -> dict[type[ast.AST], _Handler]:
    names = [name for name in dir(cls) if name.startswith("eval_")]
    return {getattr(ast, name.removeprefix("eval_")): getattr(cls, name) for name in names}


Evaluator._handlers = _handlers_of(Evaluator)  # pyright: ignore[reportPrivateUsage]


def never(message: str) -> NoReturn:
    """A defect of ours, found while reading a kernel."""
    raise InternalError(message)
