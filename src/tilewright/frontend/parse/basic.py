"""Simple statements: assignments, calls for their effect, returns, pass."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, cast

from tilewright.dtypes import TASK_ID, DType
from tilewright.errors import ParserError, ParserSyntaxError, ParserTypeError, SSAViolationError
from tilewright.frontend.evaluator import Evaluator
from tilewright.frontend.matching import check_annotation, refined
from tilewright.frontend.namespace import word_called
from tilewright.frontend.parse import indexing
from tilewright.frontend.parse.parser import FunctionParser
from tilewright.frontend.parse.parts import put_back, repeated_write
from tilewright.frontend.parse.rules import statement, word
from tilewright.frontend.parse.state import Yield
from tilewright.frontend.typing import TypeEvaluator
from tilewright.frontend.values import as_number, constant, fitted, is_number
from tilewright.frontend.words import (
    COND,
    CONST,
    FUNC_ATTR,
    LOOPS,
    SCOPES,
    STATIC_ASSERT,
    STATIC_PRINT,
    WHILE,
    YIELD,
)
from tilewright.ir.core import Operation, Value
from tilewright.ir.types import ScalarType, Type
from tilewright.ops.control import tied_pairs


@statement(ast.Pass)
def parse_pass(p: FunctionParser, node: ast.Pass) -> None:
    del p, node


@statement(ast.Assign)
def parse_assign(p: FunctionParser, node: ast.Assign) -> None:
    if is_word_call(p, node.value, "yield_"):
        end_region(p, node, _target_names(p, node.targets[0]), node.value)
        return
    value = p.operand(node.value)
    for target in node.targets:
        assign(p, target, value, node)


@statement(ast.AnnAssign)
def parse_annotated(p: FunctionParser, node: ast.AnnAssign) -> None:
    if node.value is None or not isinstance(node.target, ast.Name):
        raise ParserSyntaxError("An annotation needs a name and a value", p.span(node))
    declared = declared_type(p, node.annotation)
    if is_word_call(p, node.value, "yield_"):
        end_region(p, node, [node.target.id], node.value)
        _annotate_yield(p, node.target, declared, node.value)
        return
    value = annotated_value(p, node.target, declared, p.operand(node.value), node.value)
    _locate(p, value, node)
    p.bind(node.target.id, value, node.target)


def _annotate_yield(p: FunctionParser, target: ast.Name, declared: Type, call: ast.expr) -> None:
    ended = p.yielded
    assert ended is not None
    ended.values = [annotated_value(p, target, declared, v, call) for v in ended.values]


def declared_type(p: FunctionParser, annotation: ast.expr) -> Type:
    """The type that an annotation in the body names."""
    text = p.source.segment(annotation)
    known = p.names.types.get(text) if text else None
    if known is not None and p.scope.keys().isdisjoint(known[1]):
        return known[0]
    types = TypeEvaluator(p.names, p.source, p.parent, scope=p.scope)
    declared = types.type(_as_written(annotation, text, p.source.file))
    if text:
        p.names.types[text] = (declared, types.mentioned)
    return declared


def _as_written(annotation: ast.expr, text: str | None, file: str) -> ast.expr:
    """An annotation, read now where the parse of a text left it as a string without quotes."""
    if not isinstance(annotation, ast.Constant) or not text or text[0] in "\"'":
        return annotation
    padded = f"({text:>{annotation.col_offset - 1 + len(text)}})"
    try:
        read = ast.parse(padded, file, mode="eval").body
    except SyntaxError as error:
        error.lineno = annotation.lineno
        raise SyntaxError(f"Failed to compile code from {file}: {error}") from error
    return ast.increment_lineno(read, annotation.lineno - 1)


def annotated_value(
    p: FunctionParser, target: ast.Name, declared: Type, value: Any, node: ast.expr
) -> Value:
    """A value under its annotation: literals take the dtype, types are checked and refined."""
    if is_number(value):
        return _annotated_literal(p, target, declared, value)
    value = fitted(p.as_value(value, node), declared)
    p.computed(target, check_annotation, target.id, declared, value.type)
    fresh = value.op is not None and not value.name
    if fresh:
        value.type = refined(declared, value.type)
    return value


def _annotated_literal(p: FunctionParser, target: ast.Name, declared: Type, value: Any) -> Value:
    if not isinstance(declared, ScalarType):
        raise ParserTypeError(
            f"Type annotation for '{target.id}' is {declared} but expression is {value!r}",
            p.span(target),
        )
    number = as_number(value)
    if isinstance(number, int) and not isinstance(number, bool) and declared.dtype.is_float():
        raise ParserTypeError(
            f"Type annotation for '{target.id}' is {declared} but {number} is an integer",
            p.span(target),
            f"Write {float(number)}.",
        )
    return p.computed(target, constant, number, declared.dtype)


def assign(p: FunctionParser, target: ast.expr, value: Any, node: ast.stmt) -> None:
    """Gives `value` to a name, to a tuple of names, or to a part of a tensor or tile."""
    if isinstance(target, ast.Name):
        if is_number(value):
            value = constant(as_number(value))
        _locate(p, value, node)
        p.bind(target.id, value, target)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(p, target, value, node)
    elif isinstance(target, ast.Subscript):
        _write_part(p, target, value)
    else:
        raise ParserSyntaxError(f"Cannot assign to '{ast.unparse(target)}'", p.span(target))


def _locate(p: FunctionParser, value: Any, node: ast.stmt) -> None:
    ops = p.builder.block.ops
    if ops and isinstance(value, Value) and value.owner is ops[-1] and not value.name:
        ops[-1].span = p.here or p.span(node)


def _unpack(p: FunctionParser, target: ast.Tuple | ast.List, value: Any, node: ast.stmt) -> None:
    for element in target.elts:
        if isinstance(element, ast.Starred):
            what = f"Cannot assign to '{ast.unparse(element)}'"
            raise ParserSyntaxError(what, p.span(element), "Give every value a name.")
    items = list(cast("Sequence[Any]", value)) if isinstance(value, (tuple, list)) else [value]
    if len(items) != len(target.elts):
        raise ParserTypeError(
            f"Cannot unpack {len(items)} value(s) into {len(target.elts)} name(s)",
            p.span(node),
            f"Name each of the {len(items)} in one row, without inner parentheses."
            if len(items) > 1
            else "It is one value: give it one name.",
        )
    for element, item in zip(target.elts, items):
        assign(p, element, item, node)


def _write_part(p: FunctionParser, target: ast.Subscript, value: Any) -> None:
    base = p.evaluate(target.value)
    if not isinstance(base, Value):
        raise ParserTypeError(f"'{ast.unparse(target.value)}' cannot be written", p.span(target))
    if p.strict_ssa and isinstance(target.value, ast.Name):
        raise SSAViolationError(
            f"A subscript assignment rebinds '{target.value.id}'",
            p.span(target),
            f"Write new_{target.value.id} = pl.assemble({target.value.id}, value, offsets).",
        )
    start = len(p.builder.block.ops)
    index = p.evaluate(target.slice)
    new = p.emitted(target, indexing.write, base, index, value)
    repeated = repeated_write(p)
    if repeated is not None:
        del p.builder.block.ops[-1]
        new = repeated
    p.prune(start, keep=repeated is None)
    if isinstance(target.value, ast.Subscript):
        _write_part(p, target.value, new)
    else:
        p.rebind(base, new)
        put_back(p, base, new)


def _target_names(p: FunctionParser, target: ast.expr) -> list[str]:
    elements = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    for element in elements:
        if not isinstance(element, ast.Name):
            raise ParserSyntaxError("pl.yield_ gives its values to names", p.span(element))
    return [element.id for element in elements if isinstance(element, ast.Name)]


def is_word_call(p: Evaluator, node: ast.expr, name: str) -> bool:
    """True for a call of `pl.<name>`."""
    return word_called(p.names, node) == name


def end_region(p: FunctionParser, node: ast.stmt, names: list[str], call: ast.expr) -> None:
    """Notes the `pl.yield_` that ends a region."""
    assert isinstance(call, ast.Call)
    if p.evaluate(call.func) is not YIELD:
        raise ParserSyntaxError(f"'{ast.unparse(call.func)}' is not pl.yield_", p.span(call))
    values = [p.operand(argument) for argument in call.args]
    p.yielded = Yield(names, values, node)


@statement(ast.Expr)
def parse_expression(p: FunctionParser, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant):
        return
    if is_word_call(p, node.value, "yield_"):
        end_region(p, node, [], node.value)
        return
    start = len(p.builder.block.ops)
    p.evaluate(node.value)
    for op in p.builder.block.ops[start:]:
        rebind_written(p, op)
    if isinstance(node.value, ast.Call):
        refresh_arguments(p, node.value)


def rebind_written(p: FunctionParser, op: Operation) -> None:
    """After a bare write, the destination's names mean its new version."""
    for result, operand in tied_pairs(op):
        p.rebind(operand, result)


def refresh_arguments(p: FunctionParser, call: ast.Call) -> None:
    """Names given to a call that wrote their tensors mean the newest version after it."""
    for argument in call.args:
        if not isinstance(argument, ast.Name):
            continue
        bound = p.scope.get(argument.id)
        if isinstance(bound, Value) and p.versions.is_stale(bound):
            p.scope[argument.id] = p.versions.newest(bound)


@statement(ast.Return)
def parse_return(p: FunctionParser, node: ast.Return) -> None:
    elements = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    given = [p.operand(element) for element in elements if element is not None]
    values = [] if given == [None] else given
    p.returned = (values, node)


@word(YIELD, COND, FUNC_ATTR)
def misplaced_word(p: FunctionParser, node: ast.Call, function: Any) -> Any:
    """These words are statements with a fixed place."""
    places = {
        "pl.yield_": "is the last statement of a loop body or an arm of an if",
        "pl.cond": "must be the first statement of a pl.while_ loop",
        "pl.func_attr": "must appear before every other statement of a function",
    }
    raise ParserSyntaxError(f"{function.path} {places[function.path]}", p.span(node))


@word(*LOOPS, *SCOPES, WHILE)
def heading_word(p: FunctionParser, node: ast.Call, function: Any) -> Any:
    """These words head a statement."""
    head = "with" if function in SCOPES else "for i in"
    raise ParserSyntaxError(
        f"{function.path} is no value: it heads a statement",
        p.span(node),
        f"Write '{head} {function.path}(...):'.",
    )


@word(STATIC_PRINT)
def static_print(p: FunctionParser, node: ast.Call, function: Any) -> None:
    """Prints its arguments while the kernel is read."""
    del function
    items = p.items(node.args)
    shown = [f"{a.name}: {a.type}" if isinstance(a, Value) else str(a) for a in items]
    p.state.said.append(" ".join(shown))


@word(STATIC_ASSERT)
def static_assert(p: FunctionParser, node: ast.Call, function: Any) -> None:
    """Refuses the kernel when a compile-time condition is false."""
    del function
    saved, p.state.is_text = p.state.is_text, False
    arguments = p.items(node.args)
    p.state.is_text = saved
    message = (arguments[1:] or [p.keywords(node).get("msg", "")])[0]
    if isinstance(arguments[0], Value):
        raise ParserTypeError("pl.static_assert needs a compile-time condition", p.span(node))
    if not arguments[0]:
        detail = f": {message}" if message else f": {ast.unparse(node.args[0])}"
        raise ParserError(f"static_assert failed{detail}", p.span(node))


@word(CONST)
def typed_literal(p: FunctionParser, node: ast.Call, function: Any) -> Value:
    """`pl.const(value, dtype)`."""
    del function
    given = [*p.items(node.args), *p.keywords(node).values()]
    value, dtype = given if len(given) == 2 else (None, None)
    is_task = dtype is TASK_ID and not p.state.is_text
    if not is_number(value) or not isinstance(dtype, DType) or is_task:
        raise ParserTypeError(
            "pl.const takes a literal number and a numeric dtype",
            p.span(node),
            "Write pl.const(1, pl.INT32).",
        )
    return p.emitted(node, constant, as_number(value), dtype)
