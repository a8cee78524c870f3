"""Blocks, tasks and their dependencies: which block runs, and what waits for what.

A submitted call is a scope of kind "submit" around it, which gives its task id as well. Functions
are compiled in program order, which is a legal order of every set of dependencies.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, cast

from tilewright.dtypes import INDEX, TASK_ID
from tilewright.errors import (
    ParserSyntaxError,
    ParserTypeError,
    UnsupportedFeatureError,
)
from tilewright.frontend.parse.basic import refresh_arguments
from tilewright.frontend.parse.calls import emit_function_call, returned_parameters
from tilewright.frontend.parse.operators import as_condition
from tilewright.frontend.parse.options import option_attr, require_options
from tilewright.frontend.parse.parser import FunctionParser
from tilewright.frontend.parse.regions import emit_region_op
from tilewright.frontend.parse.rules import word
from tilewright.frontend.values import constant, convert, dtype_of, literal_of
from tilewright.frontend.words import (
    AIC_GATHER,
    AIV_SHARD,
    BLOCK_IDX,
    BLOCK_NUM,
    DUMP_TAG,
    NO_DEP,
    SPLIT_AIV,
    SPMD,
    SPMD_SUBMIT,
    SUBBLOCK_IDX,
    SUBMIT,
)
from tilewright.ir.affine import Symbol
from tilewright.ir.core import Block, Function, Operation, Value
from tilewright.ir.enums import ForKind, SplitMode
from tilewright.ir.types import ArrayType, ScalarType
from tilewright.ops import arith, control, pipe, task
from tilewright.source import Span

OUTSIDE = {
    BLOCK_IDX: task.block_index,
    BLOCK_NUM: task.block_count,
    SUBBLOCK_IDX: task.lane_index,
}
"""What asks the caller which block or lane runs, where no loop of this function says so."""


@word(BLOCK_IDX, BLOCK_NUM, SUBBLOCK_IDX)
def block_word(p: FunctionParser, node: ast.Call, function: Any) -> Any:
    """The index, or the count, of the innermost loop over blocks or lanes around this place."""
    wanted = SPLIT_AIV if function is SUBBLOCK_IDX else SPMD
    for around in reversed(p.state.blocks):
        if around.word is wanted and around.index is not None:
            if function is not BLOCK_NUM:
                return around.index
            known = literal_of(around.count)
            return convert(around.count, INDEX) if known is None else known
    return p.emitted(node, OUTSIDE[function])


@word(AIV_SHARD, AIC_GATHER)
def crossing(p: FunctionParser, node: ast.Call, function: Any) -> Value:
    """A value that crosses between cube core and vector lanes; the lanes' loop says how."""
    arguments = [*p.items(node.args), *p.keywords(node).values()]
    if len(arguments) != 1:
        raise ParserSyntaxError(f"{function.path} takes one value", p.span(node))
    emit = pipe.shard if function is AIV_SHARD else pipe.gather
    for around in reversed(p.state.blocks):
        if around.word is SPLIT_AIV and around.index is not None:
            mode = around.options.get("mode", SplitMode.NONE)
            return p.emitted(node, emit, p.as_value(arguments[0]), around.index, mode=mode)
    raise ParserSyntaxError(
        f"{function.path} stands outside pl.split_aiv",
        p.span(node),
        "Use it in 'for lane in pl.split_aiv(2, mode=...)', which says how values are divided.",
    )


@word(NO_DEP, DUMP_TAG)
def marked_argument(p: FunctionParser, node: ast.Call, function: Any) -> Any:
    """The argument itself; the call that takes it notes the mark."""
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


def task_ids(p: FunctionParser, given: Any, node: ast.expr) -> tuple[Value, ...]:
    """The task ids of a deps= list; None stands for no task."""
    check_task_ids(p, given, node)
    items = cast("Sequence[Any]", given if isinstance(given, (list, tuple)) else [given])
    return tuple(p.as_value(item, node) for item in items if item is not None)


# ---------------------------------------------------------------------------------------- submit


class Submission:
    """How a submitted call is emitted: inside a scope that gives the task id too."""

    def __init__(self, p: FunctionParser, node: ast.Call, function: Function, kind: Any) -> None:
        self.p = p
        self.node = node
        self.function = function
        options = p.keywords(node)
        require_options(p, kind, options, node)
        self.deps = task_ids(p, options.pop("deps", None), node)
        self.cores: Value | None = None
        if kind is SPMD_SUBMIT:
            self.cores = p.as_value(options.pop("core_num"), node)
        predicate = options.pop("predicate", None)
        self.predicate = None if predicate is None else p.emitted(node, as_condition, predicate)
        self.attrs = tuple((name, option_attr(given)) for name, given in options.items())
        self.task: Value | None = None

    def launch(self, values: Sequence[Value], details: dict[str, Any], span: Span) -> list[Value]:
        """Emits the call; gives its results as they are outside the scope."""
        builder = self.p.builder
        with builder.inside(Block()) as block:
            current = task.current()
            results = self.skippable(values, details, span)
            control.yield_([*results, current])
        attrs = {"kind": "submit", "attrs": self.attrs}
        op = builder.emit(control.scope, (self.deps,), attrs, (block,), span=span)
        *given, self.task = op.results
        return given

    def skippable(
        self, values: Sequence[Value], details: dict[str, Any], span: Span
    ) -> list[Value]:
        """The call, under a branch where it has a predicate."""
        if self.predicate is None:
            return self.blocks(values, details, span)
        builder = self.p.builder
        with builder.inside(Block()) as then:
            control.yield_(self.blocks(values, details, span))
        with builder.inside(Block()) as otherwise:
            control.yield_(self.unchanged(values, details))
        op = builder.emit(control.if_, (self.predicate,), {}, (then, otherwise), span=span)
        return list(op.results)

    def unchanged(self, values: Sequence[Value], details: dict[str, Any]) -> list[Value]:
        """What a call that does not happen gives: what it would have written, as it was."""
        tied: tuple[int, ...] = details["tied_args"]
        written = [values[position] for position in tied]
        return [*self.aliases(values), *written]

    def aliases(self, values: Sequence[Value]) -> list[Value]:
        """The arguments that the function returns; it must return nothing else."""
        positions = returned_parameters(self.function)
        if None in positions:
            raise UnsupportedFeatureError(
                f"'{self.function.name}' returns a tensor of its own, which blocks and skipped "
                "tasks cannot give",
                self.p.span(self.node),
                "Write it into a parameter declared pl.Out[...] and return that.",
            )
        return [values[position] for position in positions if position is not None]

    def blocks(self, values: Sequence[Value], details: dict[str, Any], span: Span) -> list[Value]:
        """The call itself, once per block where there is a number of them."""
        if self.cores is None:
            return list(self.call(values, details, span).results)
        self.aliases(values)
        builder = self.p.builder
        tied: tuple[int, ...] = details["tied_args"]
        inits = tuple(values[position] for position in tied)
        index = Value(ScalarType(INDEX), "block")
        index.bind_symbol(Symbol("block", 0))
        carried = tuple(Value(value.type, value.name) for value in inits)
        with builder.inside(Block((index, *carried))) as body:
            inside = dict(zip(tied, carried))
            given = [inside.get(k, value) for k, value in enumerate(values)]
            finals = self.call(given, details, span).results[len(details["result_types"]) :]
            control.yield_(list(finals))
        bounds = (builder.index(0), convert(self.cores, INDEX), builder.index(1))
        attrs = {"kind": ForKind.Spmd, "combine": (), "stage": 0, "attrs": ()}
        op = builder.emit(control.for_, (*bounds, inits), attrs, (body,), span=span)
        news = dict(zip(tied, op.results))
        returned = returned_parameters(self.function)
        return [*(news[position] for position in returned if position is not None), *op.results]

    def call(self, values: Sequence[Value], details: dict[str, Any], span: Span) -> Operation:
        """The operation that calls."""
        return self.p.builder.emit(control.call, (tuple(values),), details, span=span)


@word(SUBMIT, SPMD_SUBMIT)
def call_submit(p: FunctionParser, node: ast.Call, function: Any) -> Any:
    """`res, tid = pl.submit(self.kernel, *args, deps=[...])`."""
    kernel, *arguments = p.items(node.args) or [None]
    if not isinstance(kernel, Function):
        raise ParserTypeError(f"{function.path} takes a function first", p.span(node))
    submission = Submission(p, node, kernel, function)
    call = ast.Call(node.func, node.args[1:], [])
    ast.copy_location(call, node)
    results = emit_function_call(p, call, kernel, arguments, (), submission.launch)
    refresh_arguments(p, call)
    assert submission.task is not None
    return (*results, submission.task)


# ------------------------------------------------------------------------------- scopes and loops


def begin_task(p: FunctionParser, block: Block, name: ast.expr) -> Value:
    """The id of the task that a scope makes, as the first operation of its region."""
    with p.builder.inside(Block()) as head:
        current = task.current()
    current.name = name.id if isinstance(name, ast.Name) else ""
    block.ops[:0] = head.ops
    return current


def emit_task_around(
    p: FunctionParser, loop: Operation, deps: tuple[Value, ...], name: Any, node: ast.stmt
) -> tuple[Value, ...]:
    """Moves a loop over blocks into a scope with its dependencies; gives the loop's results."""
    block = p.builder.block
    assert block.ops[-1] is loop
    block.ops.pop()
    with p.builder.inside(Block()) as region:
        current = task.current()
        region.ops.append(loop)
        control.yield_([*loop.results, *([current] if name is not None else [])])
    attrs = {"kind": "task", "attrs": ()}
    op = emit_region_op(p, control.scope, (deps,), attrs, (region,), node)
    if isinstance(name, ast.Name):
        p.bind(name.id, op.results[-1], name)
    return op.results[: len(loop.results)]


def refuse_predicate(p: FunctionParser, keywords: dict[str, Any], node: ast.expr) -> None:
    """Only submitted calls and loops over blocks may be skipped."""
    if keywords.get("predicate") is not None:
        raise UnsupportedFeatureError(
            "predicate= is not supported here", p.span(node), "Put the scope into an 'if'."
        )


def blocks_unless(p: FunctionParser, predicate: Any, count: Any, node: ast.expr) -> Value:
    """The number of blocks: none when the predicate is false."""
    if predicate is None:
        return p.as_value(count)
    cond = p.emitted(node, as_condition, predicate)
    return p.emitted(node, _selected, cond, p.as_value(count))


def _selected(cond: Value, count: Value) -> Value:
    return arith.select(cond, count, constant(0, dtype_of(count)))
