"""Accesses: `pl.access(lambda d0, d1: (d0, 2 * d1 + i), [128, 64], where=lambda d0, d1: (...))`.

The lambdas name the iteration dims; other names in them are integer scalars and dimensions in
scope. Conditions have the form `expr >= 0` or `expr == 0`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from tilewright.errors import ParserSyntaxError, ParserTypeError
from tilewright.frontend.evaluator import BINARY
from tilewright.frontend.parse.parser import FunctionParser
from tilewright.frontend.parse.rules import word
from tilewright.frontend.values import is_integer
from tilewright.frontend.words import ACCESS
from tilewright.ir.affine import Access, Constraint, Expr, Symbol, as_expr, maximum, minimum
from tilewright.ir.core import Value
from tilewright.ops.extents import as_dims

EXTREMA = {"min": minimum, "max": maximum}


@word(ACCESS)
def parse_access(p: FunctionParser, node: ast.Call, _: Any) -> Access:
    """The access that a call of `pl.access` spells out."""
    is_known = all(keyword.arg == "where" for keyword in node.keywords)
    if len(node.args) != 2 or not isinstance(node.args[0], ast.Lambda) or not is_known:
        raise _malformed(p, node)
    index = node.args[0]
    domain = as_dims(p.evaluate(node.args[1]))
    dims = _dims(p, index, domain)
    where = [keyword.value for keyword in node.keywords if keyword.arg == "where"]
    constraints = [c for given in where for c in _conditions(p, given, dims)]
    reader = _Affine(p, dims)
    elements = tuple(map(reader.expr, _elements(p, index)))
    return Access(elements, domain, tuple(dims.values()), tuple(constraints))


def _malformed(p: FunctionParser, node: ast.expr) -> ParserSyntaxError:
    return ParserSyntaxError(
        "pl.access takes a lambda over the iteration dims and their extents", p.span(node),
        "Write pl.access(lambda d0, d1: (d0, d1 + i), [128, 64]).",
    )  # fmt: skip


def _dims(p: FunctionParser, node: ast.Lambda, domain: tuple[Any, ...]) -> dict[str, Symbol]:
    names = [arg.arg for arg in node.args.args]
    if len(names) != len(domain):
        raise _malformed(p, node)
    return {name: Symbol(name, 0, as_expr(n) - 1) for name, n in zip(names, domain, strict=True)}


def _elements(p: FunctionParser, node: ast.Lambda) -> list[ast.expr]:
    if not isinstance(node.body, ast.Tuple):
        raise _malformed(p, node)
    return node.body.elts


def _conditions(p: FunctionParser, node: ast.expr, dims: Mapping[str, Symbol]) -> list[Constraint]:
    if not isinstance(node, ast.Lambda):
        raise _malformed(p, node)
    names = [arg.arg for arg in node.args.args]
    if len(names) != len(dims):
        raise _malformed(p, node)
    renamed = dict(zip(names, dims.values(), strict=True))
    reader = _Affine(p, renamed)
    return [reader.constraint(element) for element in _elements(p, node)]


class _Affine:
    """Reads expressions as affine ones; names in `dims` are iteration dims."""

    def __init__(self, p: FunctionParser, dims: Mapping[str, Symbol]) -> None:
        self.p = p
        self.dims = dims

    def expr(self, node: ast.expr) -> Expr:
        """The affine expression that `node` spells out."""
        match node:
            case ast.Name(id=name) if name in self.dims:
                return as_expr(self.dims[name])
            case ast.BinOp(left=left, op=op, right=right):
                operands = self.expr(left), self.expr(right)
                return as_expr(self.p.computed(node, BINARY[type(op)], *operands))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.expr(operand)
            case ast.Call(func=ast.Name(id=name), args=args) if name in EXTREMA:
                return self.p.computed(node, EXTREMA[name], *map(self.expr, args))
            case _:
                return self.leaf(node, self.p.evaluate(node))

    def leaf(self, node: ast.expr, found: Any) -> Expr:
        """An integer, an integer scalar or a dimension; raises ParserTypeError."""
        if not is_integer(found):
            raise ParserTypeError(
                f"'{ast.unparse(node)}' in pl.access is no integer", self.p.span(node),
                "Use integers, integer scalars, dimensions and the names of the lambda.",
            )  # fmt: skip
        return as_expr(found.symbol if isinstance(found, Value) else found)

    def constraint(self, node: ast.expr) -> Constraint:
        """`expr >= 0` or `expr == 0`."""
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            raise _malformed(self.p, node)
        if not isinstance(node.ops[0], (ast.GtE, ast.Eq)):
            raise ParserSyntaxError(
                "a condition of pl.access is 'expr >= 0' or 'expr == 0'", self.p.span(node)
            )
        left, right = self.expr(node.left), self.expr(node.comparators[0])
        return Constraint(left - right, is_equality=isinstance(node.ops[0], ast.Eq))
