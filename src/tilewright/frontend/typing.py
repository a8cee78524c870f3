"""Annotations in the source, evaluated to types."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from tilewright.errors import ParserTypeError
from tilewright.frontend.annotations import DynVar, as_dim, as_type
from tilewright.frontend.evaluator import Evaluator
from tilewright.frontend.namespace import MISSING, Namespace
from tilewright.ir.affine import Expr, Symbol, maximum, minimum
from tilewright.ir.core import Value
from tilewright.ir.types import ScalarType, Type
from tilewright.source import SourceText, Span


class TypeEvaluator(Evaluator):
    """Evaluates annotations: integer scalars in scope stand for their extents.

    `scope` gives the names of the body or the parameters. With `declare`, an unknown name becomes
    a dynamic dimension, kept there (the text parser).
    """

    def __init__(
        self,
        names: Namespace,
        source: SourceText,
        parent: Span | None = None,
        *,
        scope: Mapping[str, Any] | None = None,
        declare: dict[str, DynVar] | None = None,
    ) -> None:
        super().__init__(names, source, parent)
        self.scope: Mapping[str, Any] = {} if scope is None else scope
        self.declare = declare
        self.mentioned: set[str] = set()

    def type(self, node: ast.expr) -> Type:
        """The type that an annotation names; raises ParserTypeError at it."""
        return self.computed(node, as_type, self.annotation(node))

    def annotation(self, node: ast.expr) -> Any:
        """The object that an annotation evaluates to; quoted annotations are read."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self._quoted(node, node.value)
        return self.evaluate(node)

    def _quoted(self, node: ast.Constant, text: str) -> Any:
        try:
            inner = ast.parse(text, mode="eval").body
        except SyntaxError:
            raise ParserTypeError(f"{text!r} is not an annotation", self.span(node)) from None
        for child in ast.walk(inner):
            ast.copy_location(child, node)
        return self.evaluate(inner)

    def eval_Name(self, node: ast.Name) -> Any:
        self.mentioned.add(node.id)
        found = self.scope.get(node.id, MISSING)
        if found is MISSING:
            found = self.names.lookup(node.id)
        if found is MISSING:
            return self._declared(node)
        if isinstance(found, Value) and isinstance(found.type, ScalarType):
            return as_dim(found) if found.type.dtype.is_int() else found
        return found

    def _declared(self, node: ast.Name) -> Any:
        if self.declare is None:
            raise self.undefined(node)
        return self.declare.setdefault(node.id, DynVar(node.id, 0))

    def attribute(self, base: Any, node: ast.Attribute) -> Any:
        if isinstance(base, Value):
            return super().attribute(base.type, node)
        return super().attribute(base, node)

    def call(self, node: ast.Call, function: Any) -> Any:
        if function in (min, max):
            arguments = self.items(node.args)
            if any(isinstance(a, (Expr, Symbol)) for a in arguments):
                extremum = minimum if function is min else maximum
                return self.computed(node, extremum, *arguments)
        return super().call(node, function)
