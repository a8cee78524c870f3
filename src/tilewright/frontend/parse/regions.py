"""What flows into and out of a region: carries of loops, results of branches and scopes."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from tilewright.dataclass import dataclass
from tilewright.errors import ScopeIsolationError, TilewrightError
from tilewright.frontend.parse.parser import FunctionParser
from tilewright.frontend.parse.state import Poison
from tilewright.frontend.values import is_number
from tilewright.ir.core import Block, Operation, Value
from tilewright.ops import control
from tilewright.source import Span


def can_flow(bound: Any) -> bool:
    """True for what a loop can carry: a value of the IR or a number."""
    return isinstance(bound, Value) or is_number(bound)


def isolated(name: str, where: str, hint: str) -> Poison:
    """The binding of a name that did not leave its region."""

    def reason(span: Span) -> TilewrightError:
        return ScopeIsolationError(f"'{name}' is bound only {where}", span, hint)

    return Poison(reason)


def end_block(p: FunctionParser, block: Block, values: Sequence[Any]) -> list[Value]:
    """Yields `values` at the end of `block`; numbers become constants there."""
    with p.builder.inside(block):
        given = [p.as_value(value) for value in values]
        p.builder.emit(control.yield_, (tuple(given),))
    return given


@dataclass
class Position:
    """Where in a block each value is defined: the order in which a scope gives its results."""

    order: dict[Operation, int]

    @staticmethod
    def of(block: Block) -> Position:
        """Positions of the operations of `block`."""
        return Position({op: number for number, op in enumerate(block.ops)})

    def defines(self, value: Any) -> bool:
        """True when `value` is a result of an operation of the block itself."""
        return isinstance(value, Value) and value.op in self.order

    def sorted(self, values: Iterable[Value]) -> list[Value]:
        """Distinct values in the order of their definition."""
        return sorted(dict.fromkeys(values), key=self._key)

    def _key(self, value: Value) -> tuple[int, int]:
        op = value.op
        assert op is not None
        return self.order[op], op.results.index(value)


def emit_region_op(
    p: FunctionParser,
    opdef: Any,
    operands: tuple[Any, ...],
    attrs: dict[str, Any],
    regions: tuple[Block, ...],
    node: ast.stmt,
) -> Operation:
    """One operation with regions, located at the first line of its statement."""
    return p.builder.emit(opdef, operands, attrs, regions, span=header_span(p, node))


def header_span(p: FunctionParser, node: ast.stmt) -> Span:
    """The range of a compound statement's header: its first line."""
    span = p.span(node)
    first = node.body[0] if isinstance(node, (ast.For, ast.While, ast.If, ast.With)) else None
    if first is None or first.lineno == node.lineno:
        return span
    header = _header_end(node)
    end = p.span(header) if header is not None else span
    return span._replace(end_line=end.end_line, end_col=end.end_col)


def _header_end(node: ast.stmt) -> ast.expr | None:
    match node:
        case ast.For(iter=header) | ast.While(test=header) | ast.If(test=header):
            return header
        case ast.With(items=[*_, item]):
            return item.context_expr
        case _:
            return None


TASKS = ("submit", "task")
"""Scopes whose text names all that they give."""


def drop_unused_results(body: Block, implied: Collection[Operation]) -> None:
    """Makes scopes give only what is used: a name read after one may have been read for its type.

    Printed text shows no results of scopes, so unused ones would not be read back; nor do `implied`
    operations stay that nobody uses, which reading a text would add.
    """
    uses = Counter(value for op in body.walk() for value in op.inputs)
    _drop_unused(body, uses, implied)


def _drop_unused(block: Block, uses: Counter[Value], implied: Collection[Operation]) -> None:
    for op in reversed(block.ops):
        if op in implied and not uses[op.result]:
            block.ops.remove(op)
            uses.subtract(op.inputs)
            continue
        if op.opdef is control.scope and op.results and op.attrs["kind"] not in TASKS:
            _drop_results(op, uses)
        for region in op.regions:
            _drop_unused(region, uses, implied)


def _drop_results(op: Operation, uses: Counter[Value]) -> None:
    ending = op.regions[0].terminator
    kept: list[tuple[Value, Value]] = []
    for result, given in zip(op.results, ending.operands[0]):
        if uses[result] or result.has_symbol:
            kept.append((result, given))
        else:
            uses[given] -= 1
    op.results = tuple(result for result, _ in kept)
    ending.operands = (tuple(given for _, given in kept),)
