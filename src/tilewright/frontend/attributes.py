"""Attributes of functions: the pl.func_attr directives that stand first in a body."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, cast

from tilewright.dtypes import DType
from tilewright.errors import ParserError, ParserSyntaxError, ParserTypeError
from tilewright.frontend.annotations import DynVar
from tilewright.frontend.namespace import Namespace, word_called
from tilewright.frontend.typing import TypeEvaluator
from tilewright.frontend.values import as_number, is_number
from tilewright.ir import enums
from tilewright.ir.affine import Expr, Symbol
from tilewright.ir.core import Value
from tilewright.ir.hints import Optimization
from tilewright.ir.types import MemRef, TensorView, TileView, Type
from tilewright.source import SourceText, Span

_WHOLE = (str, DType, Type, TensorView, TileView, MemRef, Optimization, Expr, Value)


def attribute(name: str, given: Any) -> Any:
    """What the attribute `name` holds for `given`: lists, at any depth, as tuples, numbers as
    Python's. Raises ParserTypeError for what has no text that reads back."""
    if given is None or isinstance(given, _WHOLE) or _is_member(given):
        return given
    if is_number(given) and not isinstance(given, Enum):
        return as_number(given)
    if isinstance(given, Symbol):
        return given + 0
    if isinstance(given, (list, tuple)):
        return tuple(attribute(name, item) for item in cast("Sequence[Any]", given))
    raise ParserTypeError(
        f"Attribute '{name}' is {given!r}, which is not a constant of the language",
        hint="Write numbers, strings, None, dtypes, enumerations, types, parameters, or lists.",
    )


def _is_member(given: Any) -> bool:
    """True for a member of an enumeration of the language."""
    kind = cast("type[Any]", type(given))
    return issubclass(kind, Enum) and getattr(enums, kind.__name__, None) is kind


def attributes(given: Mapping[Any, Any] | None) -> dict[str, Any]:
    """The attributes of `attrs=`; raises ParserSyntaxError and ParserTypeError."""
    for name in given or {}:
        if not isinstance(name, str):
            raise ParserSyntaxError(f"The keys of attrs are strings, not {name!r}")
    return {name: attribute(name, value) for name, value in (given or {}).items()}


def directive(names: Namespace, node: ast.AST) -> ast.Call | None:
    """The call in the statement `pl.func_attr(...)`; None for anything else."""
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and word_called(names, call) == "func_attr":
        return call
    return None


class Prologue(TypeEvaluator):
    """Reads the attributes that the author gives a function."""

    def __init__(
        self,
        names: Namespace,
        source: SourceText,
        params: Sequence[Value],
        declare: dict[str, DynVar] | None = None,
    ) -> None:
        super().__init__(names, source, scope={p.name: p for p in params}, declare=declare)

    def read(
        self, given: Mapping[Any, Any] | None, body: Sequence[ast.stmt], span: Span
    ) -> tuple[dict[str, Any], Sequence[ast.stmt]]:
        """The attributes of the decorator, at `span`, with those of the directives that stand first
        in `body`; and the statements after them."""
        try:
            attrs = attributes(given)
        except ParserError as error:
            error.locate(span)
            raise
        count = 0
        for node in body:
            call = directive(self.names, node)
            if call is None:
                break
            self._directive(call, attrs)
            count += 1
        return attrs, body[count:]

    def _directive(self, call: ast.Call, attrs: dict[str, Any]) -> None:
        given = call.args[0] if len(call.args) == 1 and not call.keywords else None
        if not isinstance(given, ast.Dict):
            raise ParserSyntaxError("pl.func_attr takes one dictionary", self.span(call))
        for key, value in zip(given.keys, given.values):
            name = None if key is None else self.evaluate(key)
            if key is None or not isinstance(name, str):
                raise ParserSyntaxError("The keys of pl.func_attr are strings", self.span(call))
            if name in attrs:
                raise ParserSyntaxError(f"Duplicate function attribute '{name}'", self.span(key))
            attrs[name] = self.computed(value, attribute, name, self.whole(value))

    def whole(self, node: ast.expr) -> Any:
        """The value of an attribute: the name of a parameter means the parameter."""
        if isinstance(node, ast.Name) and node.id in self.scope:
            return self.scope[node.id]
        if isinstance(node, (ast.List, ast.Tuple)):
            return tuple(map(self.whole, node.elts))
        return self.evaluate(node)
