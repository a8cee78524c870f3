"""Blocks, tasks and their dependencies: which block runs, and what waits for what.

Functions are compiled in program order, which is a legal order of every set of dependencies, so
task ids carry no value.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, cast

from tilewright.dtypes import INDEX, TASK_ID
from tilewright.errors import (
    InvalidOperationError,
    ParserSyntaxError,
    ParserTypeError,
    UnsupportedFeatureError,
)
from tilewright.frontend.parse_basic import refresh_arguments
from tilewright.frontend.parse_calls import emit_function_call
from tilewright.frontend.parser import FunctionParser, word
from tilewright.frontend.surface import as_attr, emit_call
from tilewright.frontend.values import constant, convert, literal_of
from tilewright.frontend.words import (
    BLOCK_IDX,
    BLOCK_NUM,
    DUMP_TAG,
    NO_DEP,
    SPLIT_AIV,
    SPMD,
    SPMD_SUBMIT,
    SUBBLOCK_IDX,
    SUBMIT,
    TASK_DUMMY,
    TASK_INVALID,
)
from tilewright.ir.core import Function, Value
from tilewright.ir.opdef import SPELLINGS
from tilewright.ir.types import ArrayType, ScalarType


@word(BLOCK_IDX, BLOCK_NUM, SUBBLOCK_IDX)
def block_word(p: FunctionParser, node: ast.Call, function: Any) -> Any:
    """The index, or the count, of the innermost loop over blocks or lanes around this place."""
    wanted = SPLIT_AIV if function is SUBBLOCK_IDX else SPMD
    for around in reversed(p.state.blocks):
        if around.word is wanted and around.index is not None:
            return _count(around.count) if function is BLOCK_NUM else around.index
    if function.path in SPELLINGS:
        return p.emitted(node, emit_call, function.path, p.items(node.args), p.keywords(node))
    raise InvalidOperationError(
        f"{function.path} stands outside {wanted.path}",
        p.span(node),
        f"Use it in the body of {wanted.path}, or pass the index as a scalar argument.",
    )


def _count(count: Value) -> Any:
    literal = literal_of(count)
    return convert(count, INDEX) if literal is None else literal


@word(TASK_INVALID, TASK_DUMMY)
def task_word(p: FunctionParser, node: ast.Call, function: Any) -> Value:
    """A task id of no task, or of one that only waits for `deps`."""
    del function
    check_task_ids(p, p.keywords(node).get("deps"), node)
    return constant(0, TASK_ID)


@word(NO_DEP, DUMP_TAG)
def marked_argument(p: FunctionParser, node: ast.Call, function: Any) -> Any:
    """The argument itself: program order needs no marks."""
    if len(node.args) != 1:
        raise ParserSyntaxError(f"{function.path} takes one tensor", p.span(node))
    return p.operand(node.args[0])


def check_task_ids(p: FunctionParser, given: Any, node: ast.expr) -> None:
    """Raises ParserTypeError unless `given` is a list of task ids, arrays of them and None."""
    items = cast("Sequence[Any]", given if isinstance(given, (list, tuple)) else [given])
    for item in items:
        type_ = item.type if isinstance(item, Value) else None
        is_id = isinstance(type_, (ScalarType, ArrayType)) and type_.dtype is TASK_ID
        if item is not None and not is_id:
            shown = type_ or repr(item)
            raise ParserTypeError(f"deps= takes task ids, not {shown}", p.span(node))


@word(SUBMIT, SPMD_SUBMIT)
def call_submit(p: FunctionParser, node: ast.Call, function: Any) -> Any:
    """`res, tid = pl.submit(self.kernel, *args, deps=[...])`."""
    kernel, *arguments = p.items(node.args) or [None]
    if not isinstance(kernel, Function):
        raise ParserTypeError(f"{function.path} takes a function first", p.span(node))
    keywords = p.keywords(node)
    if function is SPMD_SUBMIT and "core_num" not in keywords:
        raise ParserSyntaxError("pl.spmd_submit needs core_num=", p.span(node))
    refuse_predicate(p, keywords, node)
    check_task_ids(p, keywords.pop("deps", None), node)
    attrs = (("submit", True), *((name, as_attr(given)) for name, given in keywords.items()))
    call = ast.Call(node.func, node.args[1:], [])
    ast.copy_location(call, node)
    results = emit_function_call(p, call, kernel, arguments, attrs)
    refresh_arguments(p, call)
    return (*results, constant(0, TASK_ID))


def refuse_predicate(p: FunctionParser, keywords: dict[str, Any], node: ast.expr) -> None:
    """A task that may be skipped at run time needs a branch."""
    if keywords.get("predicate") is not None:
        raise UnsupportedFeatureError(
            "predicate= is not supported", p.span(node), "Put the call into an 'if'."
        )
