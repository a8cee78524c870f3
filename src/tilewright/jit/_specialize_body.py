"""A function's definition with every inherited name folded: a changed copy, spans kept."""

from __future__ import annotations

import ast
import copy
import functools
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

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
    made.body[:0] = _rebound_constants(constants, info)
    return made


def _is_declaration(statement: ast.stmt) -> bool:
    """Statements that specialization has already obeyed."""
    return dynamic_symbol(statement) is not None or dynamic_axis(statement) is not None


def _rebound_constants(constants: Mapping[str, Any], info: SourceInfo) -> list[ast.stmt]:
    """First assignments of constexpr parameters that the body assigns again."""
    made: list[ast.stmt] = []
    for name in sorted(info.stored_names & constants.keys()):
        text = _specialize_values.render_value(constants[name])
        assert text is not None
        at = ast.copy_location(ast.Constant(None), info.node.body[0])
        target = ast.copy_location(ast.Name(name, ast.Store()), at)
        value = _specialize_values.expression_of(text, at)
        made.append(ast.copy_location(ast.Assign([target], value), at))
    return made


class _Rewriter:
    """Copies statements, replacing names that fold. Names bound in the body are left alone."""

    def __init__(self, info: SourceInfo, fold: Fold, constants: Mapping[str, Any]) -> None:
        self._fold = functools.cache(fold)
        self.constants = {n: v for n, v in constants.items() if n not in info.stored_names}
        self.local = info.local_names - info.dynamic_symbols.keys()

    def argument(self, argument: ast.arg) -> ast.arg:
        """A copy of a parameter with its annotation folded."""
        made = copy.copy(argument)
        if argument.annotation is not None:
            made.annotation = self.copied(unquoted(argument.annotation))
        return made

    def statements(self, body: Iterable[ast.stmt]) -> list[ast.stmt]:
        """A list of statements with their inherited names folded."""
        return [self.copied(statement) for statement in body]

    def copied(self, node: Any) -> Any:
        """A tree with its inherited names folded; the parts in which none does are shared."""
        kind = node.__class__
        if kind is ast.Name:
            return self._folded(node, (node.id,)) if node.ctx.__class__ is ast.Load else node
        if kind is ast.Attribute and (path := path_of(node)) is not None:
            return self._folded(node, path)
        if kind is list:
            items = [self.copied(item) for item in node]
            return items if any(map(operator.is_not, items, node)) else node
        made = node
        for name in kind._fields if isinstance(node, ast.AST) else ():
            value = getattr(node, name)
            if value.__class__ not in _PLAIN and (new := self.copied(value)) is not value:
                made = copy.copy(node) if made is node else made
                setattr(made, name, new)
        return made

    def _folded(self, node: ast.Name | ast.Attribute, path: Path) -> ast.expr:
        name = path[0]
        if len(path) == 1 and name in self.constants:
            text = _specialize_values.render_value(self.constants[name])
        else:
            text = None if name in self.local else self._fold(path)
        if text is None or text == ".".join(path):
            return node
        return _specialize_values.expression_of(text, node)


_PLAIN = (ast.Load, ast.Store, ast.Del, str, int, float, type(None))
"""What has no names in it."""
