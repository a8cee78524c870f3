"""Calls: of operations, of functions of the program or of elsewhere, and of inline helpers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from tilewright.errors import InvalidOperationError, ParserTypeError, TilewrightError
from tilewright.frontend.inline import InlineFunction, expand
from tilewright.frontend.matching import Matcher
from tilewright.frontend.operations import as_attr, emit_call, usage_of
from tilewright.frontend.parse.basic import is_word_call, refresh_arguments
from tilewright.frontend.parse.kinds import meant
from tilewright.frontend.parse.parser import FunctionParser
from tilewright.frontend.parse.parts import put_back, repeated_write, write_back
from tilewright.frontend.parse.rules import callee
from tilewright.frontend.parse.state import Silenced
from tilewright.frontend.surface import OpName, OpNamespace
from tilewright.frontend.values import (
    as_number,
    constant,
    convert,
    is_number,
    is_passed_as,
    is_scalar,
)
from tilewright.frontend.words import DUMP_TAG, NO_DEP
from tilewright.ir.core import Function, Value
from tilewright.ir.enums import ParamDirection
from tilewright.ir.types import ScalarType, Type
from tilewright.ops import control, shape
from tilewright.ops.extents import as_dim
from tilewright.source import Span

FRAMEWORK_KEYWORDS = frozenset({"deps", "device"})
"""What a call says about the launch, rather than gives to the function."""

Launch = Callable[[Sequence[Value], dict[str, Any], Span], list[Value]]


@callee(OpName)
def call_operation(p: FunctionParser, node: ast.Call, function: OpName) -> Any:
    """An operation by its public name."""
    start = len(p.builder.block.ops)
    arguments = p.items(node.args)
    keywords = p.keywords(node)
    for number, given in enumerate((*arguments, *keywords.values())):
        if type(given) is not Value and _is_foreign(given):
            raise _foreign(p, node, number, given)
    path = meant(p, function.path, node)
    try:
        result = p.emitted(node, emit_call, path, arguments, keywords)
    except TilewrightError as error:
        error.hint = error.hint or usage_of(path)
        raise
    repeated = repeated_write(p)
    if repeated is not None:
        del p.builder.block.ops[-1]
        repeated.name = ""
        result = repeated
    if len(p.builder.block.ops) > start + 1 or repeated is not None:
        p.prune(start, _several(result), keep=repeated is None)
    if repeated is None:
        write_back(p)
    return result


def _several(result: Any) -> Sequence[Value]:
    """The values that an operation of several results gave."""
    return cast("tuple[Value, ...]", result) if isinstance(result, tuple) else ()


def _is_foreign(given: Any) -> bool:
    return type(given) is object or isinstance(given, (OpName, OpNamespace, Function))


def _foreign(p: FunctionParser, node: ast.Call, number: int, given: Any) -> InvalidOperationError:
    expressions = [*node.args, *(keyword.value for keyword in node.keywords)]
    where = expressions[number] if number < len(expressions) else node
    return InvalidOperationError(
        f"'{ast.unparse(where)}' is {given!r}, which a kernel cannot use", p.span(where)
    )


@callee(Function)
def call_function(p: FunctionParser, node: ast.Call, function: Function) -> Any:
    """A function of this program, or one defined elsewhere, which joins the program."""
    if _is_external(node):
        p.computed(node.func, p.state.callees.use, function)
    _require_positions(p, node, function)
    start = len(p.builder.block.ops)
    attrs = tuple((name, as_attr(given)) for name, given in p.keywords(node).items())
    results = emit_function_call(p, node, function, p.items(node.args), attrs)
    p.prune(start)
    refresh_arguments(p, node)
    return results[0] if len(results) == 1 else tuple(results) or None


def _require_positions(p: FunctionParser, node: ast.Call, function: Function) -> None:
    named = [keyword.arg for keyword in node.keywords if keyword.arg not in FRAMEWORK_KEYWORDS]
    if named:
        names = ", ".join(param.name for param in function.params)
        raise ParserTypeError(
            f"Function '{function.name}' takes its arguments by position, not '{named[0]}='",
            p.span(node),
            f"Write {ast.unparse(node.func)}({names}).",
        )


def _is_external(node: ast.Call) -> bool:
    home = node.func.value if isinstance(node.func, ast.Attribute) else None
    return not (isinstance(home, ast.Name) and home.id == "self")


def emit_function_call(
    p: FunctionParser,
    node: ast.Call,
    function: Function,
    arguments: Sequence[Any],
    attrs: tuple[tuple[str, Any], ...],
    launch: Launch | None = None,
) -> list[Value]:
    """Emits a call; gives what the function returns, written arguments as their new versions.

    `launch` emits the call in its own way and gives what would be the results of the plain one.
    """
    values, matcher = match_arguments(p, node, function, arguments)
    written = _written_positions(function)
    for position in written:
        _name_part(values[position], function.params[position].name)
    values = [p.versions.newest(v) if k in written else v for k, v in enumerate(values)]
    for value in values:
        if p.versions.is_stale(value):
            raise p.stale_read(value, p.span(node))
    types: tuple[Type, ...] = tuple(matcher.result(type_) for type_ in function.return_types)
    details = {
        "callee": function.name,
        "result_types": types,
        "tied_args": written,
        "attrs": attrs,
    }
    details["attrs"] = (*attrs, *marks(p, node))
    results = (launch or _emit_call(p))(values, details, p.span(node))
    tied = dict(zip(written, results[len(types) :]))
    for position in written:
        p.require_writable(values[position], p.span(node))
    for position, result in tied.items():
        root = p.versions.root(values[position])
        if root is not None:
            p.versions.advance(root, result)
        elif values[position] in p.versions.parts:
            p.versions.parts.add(result)
        result.name = values[position].name
        p.rebind(values[position], result)
        put_back(p, values[position], result)
    aliases = returned_parameters(function)
    returned = zip(results, aliases)
    given = {**dict(enumerate(values)), **tied}
    return [result if alias is None else given[alias] for result, alias in returned]


def _emit_call(p: FunctionParser) -> Launch:
    def emit(values: Sequence[Value], details: dict[str, Any], span: Span) -> list[Value]:
        return list(p.builder.emit(control.call, (tuple(values),), details, span=span).results)

    return emit


def marks(p: FunctionParser, node: ast.Call) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Which arguments are marked pl.no_dep(...) or pl.dump_tag(...)."""
    for mark in (NO_DEP, DUMP_TAG):
        name = mark.path.rpartition(".")[2]
        calls = [k for k, given in enumerate(node.args) if is_word_call(p, given, name)]
        if calls:
            yield name, tuple(calls)


def _name_part(value: Value, name: str) -> None:
    """A written argument has a name of its own, by which later text refers to its new version."""
    if not value.name:
        op = value.op
        whole = op.operands[0].name if op is not None and op.opdef is shape.slice_ else ""
        value.name = f"{whole}_part" if whole else name


def _written_positions(function: Function) -> tuple[int, ...]:
    directions = enumerate(function.directions)
    return tuple(k for k, direction in directions if direction is not ParamDirection.In)


def returned_parameters(function: Function) -> list[int | None]:
    """For each returned value, the Out or InOut parameter whose final contents it is."""
    if not function.body.ops:
        return [None] * len(function.return_types)
    returned, finals = function.body.terminator.operands[:2]
    positions = {param: position for position, param in enumerate(function.params)}
    positions |= dict(zip(finals, _written_positions(function)))
    return [positions.get(value) for value in returned]


def match_arguments(
    p: FunctionParser, node: ast.Call, function: Function, arguments: Sequence[Any]
) -> tuple[list[Value], Matcher]:
    """Arguments as values of the parameters' types; raises ParserTypeError and argument errors."""
    params = function.params
    if len(arguments) != len(params):
        raise ParserTypeError(
            f"Function '{function.name}' expects {len(params)} argument(s), got {len(arguments)}",
            p.span(node),
        )
    matcher = Matcher(f"call of '{function.name}'")
    given = zip(node.args, params, arguments)
    values = [p.computed(where, _fitted, p, param.type, item) for where, param, item in given]
    for param, value in zip(params, values):
        if param.has_symbol and is_scalar(value):
            matcher.bound[param.symbol] = as_dim(value)
    for where, param, value in zip(node.args, params, values):
        p.computed(where, matcher.match, param.name, param.type, value.type)
    return values, matcher


def _fitted(p: FunctionParser, type_: Type, argument: Any) -> Value:
    """An argument as a value; numbers and integer scalars take the parameter's dtype."""
    if isinstance(type_, ScalarType):
        if is_number(argument):
            return constant(as_number(argument), type_.dtype)
        if is_scalar(argument) and is_passed_as(type_.dtype, argument.type.dtype):
            return convert(argument, type_.dtype)
    return p.as_value(argument)


@callee(InlineFunction)
def call_inline(p: FunctionParser, node: ast.Call, function: InlineFunction) -> Any:
    """The statements of an inline helper, in place."""
    if node.keywords:
        raise ParserTypeError(
            f"Inline function '{function.name}' takes no keyword arguments", p.span(node)
        )
    arguments = [p.operand(argument) for argument in node.args]
    errors = len(p.state.errors)
    result = expand(p.state, function, arguments, p.span(node))
    if len(p.state.errors) > errors:
        raise Silenced
    refresh_arguments(p, node)
    return result
