"""A function's definition with every inherited name folded: a changed copy, spans kept."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from tilewright.frontend.capture import FunctionNode
from tilewright.jit import _specialize_values
from tilewright.jit._ast_analysis import SourceInfo, dynamic_axis, dynamic_symbol, path_of, unquoted
from tilewright.jit._source import Path

Fold = Callable[[Path], "str | None"]
"""Gives the text that stands for a path, or None where the name stays."""


def specialize_definition(
    info: SourceInfo, fold: Fold, constants: Mapping[str, Any], name: str
) -> FunctionNode:
    """The definition called `name`, without its constexpr parameters, inherited names folded.

    `constants` are the values of the constexpr parameters.
    """
    node = info.node
    rewriter = _Rewriter(info, fold, constants)
    spec = copy.copy(node.args)
    kept = [argument for argument in info.parameters if argument.arg not in constants]
    spec.args = [rewriter.argument(argument) for argument in kept]
    spec.posonlyargs, spec.kwonlyargs, spec.defaults, spec.kw_defaults = [], [], [], []
    made = copy.copy(node)
    made.name, made.args, made.decorator_list = name, spec, []
    made.returns = None if node.returns is None else rewriter.copied(unquoted(node.returns))
    body = [statement for statement in node.body if not _is_declaration(statement)]
    made.body = rewriter.statements(body) or [ast.copy_location(ast.Pass(), node.body[0])]
    made.body[:0] = _rebound_constants(constants, node)
    return made


def _is_declaration(statement: ast.stmt) -> bool:
    """Statements that specialization has already obeyed."""
    return dynamic_symbol(statement) is not None or dynamic_axis(statement) is not None


def _rebound_constants(constants: Mapping[str, Any], node: FunctionNode) -> list[ast.stmt]:
    """First assignments of constexpr parameters that the body assigns again."""
    made: list[ast.stmt] = []
    for name in sorted(stored_names(node) & constants.keys()):
        text = _specialize_values.render_value(constants[name])
        assert text is not None
        at = ast.copy_location(ast.Constant(None), node.body[0])
        target = ast.copy_location(ast.Name(name, ast.Store()), at)
        value = _specialize_values.expression_of(text, at)
        made.append(ast.copy_location(ast.Assign([target], value), at))
    return made


def stored_names(node: FunctionNode) -> set[str]:
    """Names that a statement of the body binds."""
    return {
        child.id
        for statement in node.body
        for child in ast.walk(statement)
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)
    }


class _Rewriter:
    """Copies statements, replacing names that fold. Names bound in the body are left alone."""

    def __init__(self, info: SourceInfo, fold: Fold, constants: Mapping[str, Any]) -> None:
        self.fold = fold
        stored = stored_names(info.node)
        self.constants = {n: value for n, value in constants.items() if n not in stored}
        self.local = (info.local_names | stored) - info.dynamic_symbols.keys()

    def argument(self, argument: ast.arg) -> ast.arg:
        """A copy of a parameter with its annotation folded."""
        made = copy.copy(argument)
        if argument.annotation is not None:
            made.annotation = self.copied(unquoted(argument.annotation))
        return made

    def statements(self, body: Iterable[ast.stmt]) -> list[ast.stmt]:
        """A copy of a list of statements."""
        return [self.copied(statement) for statement in body]

    def copied(self, node: Any) -> Any:
        """A copy of a tree with its inherited names folded."""
        if isinstance(node, (ast.Name, ast.Attribute)):
            folded = self._folded(node)
            if folded is not None:
                return folded
        if isinstance(node, list):
            return [self.copied(item) for item in cast("list[Any]", node)]
        if not isinstance(node, ast.AST):
            return node
        made = copy.copy(node)
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, (ast.AST, list)):
                setattr(made, name, self.copied(value))
        return made

    def _folded(self, node: ast.Name | ast.Attribute) -> ast.expr | None:
        path = path_of(node)
        if path is None:
            return None
        if path in {(name,) for name in self.constants}:
            text = _specialize_values.render_value(self.constants[path[0]])
        else:
            text = None if path[0] in self.local else self.fold(path)
        return None if text is None else _specialize_values.expression_of(text, node)
