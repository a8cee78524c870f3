"""Loops: `for` over pl.range and its relatives, `while`, and pl.while_."""

from __future__ import annotations

import ast

from tilewright.dtypes import INDEX
from tilewright.errors import ParserSyntaxError, UnsupportedFeatureError
from tilewright.frontend.parse.basic import is_word_call
from tilewright.frontend.parse.carries import (
    Loop,
    close_loop,
    drop_unchanged,
    finish_loop,
    read_loop,
)
from tilewright.frontend.parse.desugar import TASK_NAME
from tilewright.frontend.parse.heads import (
    index_range,
    init_values,
    loop_arguments,
    loop_attributes,
    loop_targets,
    not_a_loop,
    require_rules,
)
from tilewright.frontend.parse.parser import FunctionParser
from tilewright.frontend.parse.regions import emit_region_op
from tilewright.frontend.parse.rules import statement
from tilewright.frontend.parse.state import Blocks
from tilewright.frontend.parse.tasks import blocks_unless, emit_task_around, task_ids
from tilewright.frontend.surface import LoopWord
from tilewright.frontend.words import WHILE
from tilewright.ir.affine import Symbol
from tilewright.ir.core import Value
from tilewright.ir.types import ScalarType
from tilewright.ops import control


@statement(ast.For)
def parse_for(p: FunctionParser, node: ast.For) -> None:
    """`for i in pl.range(...)`, with or without carries, and its relatives."""
    if node.orelse:
        raise UnsupportedFeatureError("A loop cannot have an else clause", p.span(node))
    head = node.iter
    function = p.evaluate(head.func) if isinstance(head, ast.Call) else None
    if function is WHILE:
        parse_explicit_while(p, node)
        return
    if not isinstance(function, LoopWord) or not isinstance(head, ast.Call):
        raise not_a_loop(p, node, function)
    bounds, inits, options = loop_arguments(p, head, function)
    index, headers = loop_targets(p, node, len(inits))
    require_rules(p, head, function, bounds, inits)
    deps = task_ids(p, options.pop("deps", None), head)
    bounds[1] = blocks_unless(p, options.pop("predicate", None), bounds[1], head)
    lo, hi, step = (p.as_value(bound) for bound in bounds)
    symbol = index_range(lo, hi, step)

    def variable() -> Value:
        value = Value(ScalarType(INDEX), index)
        value.bind_symbol(Symbol(index, *symbol))
        p.state.blocks[-1].index = value
        return value

    facts = p.live.facts(node.body)
    loop = Loop(node, node.body, facts, facts.reads, headers, inits, index, variable)
    p.state.blocks.append(Blocks(function, None, hi, options))
    reading = read_loop(p, loop)
    p.state.blocks.pop()
    drop_unchanged(p, reading)
    close_loop(p, reading)
    attrs = loop_attributes(function, options)
    operands = (lo, hi, step, tuple(carry.init for carry in reading.carries))
    op = emit_region_op(p, control.for_, operands, attrs, (reading.block,), node)
    results, name = op.results, getattr(node, TASK_NAME, None)
    if deps or name is not None:
        results = emit_task_around(p, op, deps, name, node)
    finish_loop(p, loop, reading, results)


@statement(ast.While)
def parse_while(p: FunctionParser, node: ast.While) -> None:
    """`while cond:` carries the names that it rebinds."""
    if node.orelse:
        raise UnsupportedFeatureError("A loop cannot have an else clause", p.span(node))
    facts = p.live.facts(node.body)
    reads = p.live.statement(node).reads
    loop = Loop(node, node.body, facts, reads | facts.reads, [], [], condition=node.test)
    _finish_while(p, loop)


def parse_explicit_while(p: FunctionParser, node: ast.For) -> None:
    """`for (x,) in pl.while_(init_values=(x0,)):` with pl.cond before the body."""
    assert isinstance(node.iter, ast.Call)
    given = [k.value for k in node.iter.keywords if k.arg == "init_values"]
    inits = init_values(p, given[0]) if given else []
    elements = node.target.elts if isinstance(node.target, ast.Tuple) else []
    headers = [element.id for element in elements if isinstance(element, ast.Name)]
    if len(headers) != len(inits):
        raise ParserSyntaxError(
            f"Mismatch: {len(headers)} iter_args but {len(inits)} init_values", p.span(node.target)
        )
    split = next((k for k, child in enumerate(node.body) if _is_condition(p, child)), None)
    if split is None or (split and not p.state.is_text):
        raise ParserSyntaxError(
            "A pl.while_ loop must begin with pl.cond(...)", p.span(node), "Add 'pl.cond(i < n)'."
        )
    facts = p.live.facts(node.body)
    head, body = node.body[: split + 1], node.body[split + 1 :]
    loop = Loop(node, body, facts, facts.reads, headers, inits, condition=head)
    _finish_while(p, loop)


def _is_condition(p: FunctionParser, node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and is_word_call(p, node.value, "cond")


def _finish_while(p: FunctionParser, loop: Loop) -> None:
    reading = read_loop(p, loop)
    drop_unchanged(p, reading)
    close_loop(p, reading)
    assert reading.before is not None
    operands = (tuple(carry.init for carry in reading.carries),)
    regions = (reading.before, reading.block)
    op = emit_region_op(p, control.while_, operands, {}, regions, loop.node)
    finish_loop(p, loop, reading, op.results)
