"""Definitions of helpers: functions as `capture` finds them, and lambdas by their place."""

from __future__ import annotations

import ast
import dis
import functools
import linecache
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from tilewright.errors import ParserSyntaxError
from tilewright.frontend.capture import CapturedFunction, capture_function
from tilewright.source import SourceText, Span

LAMBDA = "<lambda>"


def capture_helper(function: FunctionType) -> CapturedFunction:
    """The definition of a function or lambda; raises ParserSyntaxError when there is none."""
    if function.__code__.co_name != LAMBDA:
        return capture_function(_itself(function))
    found = _find_lambda(function.__code__)
    if found is None:
        raise ParserSyntaxError(f"Cannot find the lambda of {function.__code__.co_filename}")
    node, source = found
    return CapturedFunction(_as_definition(node), source)


def _itself(function: FunctionType) -> FunctionType:
    """The function without its claim to wrap another one, which `capture` would follow."""
    if not hasattr(function, "__wrapped__"):
        return function
    code, around = function.__code__, function.__globals__
    return FunctionType(code, around, code.co_name, None, function.__closure__)


def _as_definition(node: ast.Lambda) -> ast.FunctionDef:
    """The lambda as a function with one return statement."""
    value = ast.copy_location(ast.Return(node.body), node.body)
    definition = ast.FunctionDef(LAMBDA, node.args, [value], [], None, None)
    if "type_params" in definition._fields:
        setattr(definition, "type_params", [])  # noqa: B010 - a field of later versions
    return ast.copy_location(definition, node)


def _find_lambda(code: CodeType) -> tuple[ast.Lambda, SourceText] | None:
    linecache.checkcache(code.co_filename)
    text = "".join(linecache.getlines(code.co_filename))
    source, lambdas = _lambdas_of(code.co_filename, text)
    here = lambdas.get(code.co_firstlineno, [])
    same = here if len(here) == 1 else _those_of(here, code)
    return (same[0], source) if same else None


def _those_of(nodes: list[ast.Lambda], code: CodeType) -> list[ast.Lambda]:
    """Which of the lambdas of one line compile to `code`: by its place, or by its instructions."""
    if not hasattr(code, "co_positions"):
        return [node for node in nodes if _is_code_of(node, code)]
    first, last = _extent_of(code)
    around = [node for node in nodes if _start(node.body) <= first and last <= _end(node.body)]
    return sorted(around, key=_start, reverse=True)[:1]


Place = tuple[int, int]


def _extent_of(code: Any) -> tuple[Place, Place]:
    """The first and the last place (line, column) that a code object is written at."""
    known = [each for each in code.co_positions() if None not in each and each[2] < each[3]]
    starts = [(line, column) for line, _, column, _ in known]
    return min(starts), max((line, column) for _, line, _, column in known)


def _start(node: ast.expr) -> Place:
    return node.lineno, node.col_offset


def _end(node: ast.expr) -> Place:
    return node.end_lineno or 0, node.end_col_offset or 0


@functools.lru_cache(maxsize=64)
def _lambdas_of(file: str, text: str) -> tuple[SourceText, dict[int, list[ast.Lambda]]]:
    found: dict[int, list[ast.Lambda]] = {}
    try:
        tree = ast.parse(text, file)
    except (SyntaxError, ValueError):
        return SourceText(file, text), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            found.setdefault(node.lineno, []).append(node)
    return SourceText(file, text), found


def _is_code_of(node: ast.Lambda, code: CodeType) -> bool:
    """True when the lambda compiles to code like `code`, apart from what it closes over."""
    module = compile(ast.fix_missing_locations(ast.Expression(node)), "<lambda>", "eval")
    made = next(const for const in module.co_consts if isinstance(const, CodeType))
    return (made.co_varnames, _words(made)) == (code.co_varnames, _words(code))


def _words(code: CodeType) -> list[Any]:
    """The instructions, in which a name is a name wherever it is found."""
    names = ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME")
    return [
        ("name" if each.opname in names else each.opname, _word(each.argval))
        for each in dis.get_instructions(code)
    ]


def _word(value: Any) -> Any:
    return _words(value) if isinstance(value, CodeType) else repr(value)


def return_span(function: FunctionType) -> Span | None:
    """Where a function returns, if it does so in one place; else its definition, if it is found."""
    captured = _found(function)
    if captured is None:
        return None
    own = [node for node in _own_nodes(captured.node) if isinstance(node, ast.Return)]
    return captured.source.span(own[0]) if len(own) == 1 else captured.span


def parameter_span(function: FunctionType, name: str = "") -> Span | None:
    """Where a parameter (or, without one, the `def`) stands, if the definition is found."""
    captured = _found(function)
    if captured is None:
        return None
    spec = captured.node.args
    given = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]
    found = next((each for each in given if each.arg == name), None)
    return captured.span if found is None else captured.source.span(found)


def _found(function: FunctionType) -> CapturedFunction | None:
    try:
        return capture_helper(function)
    except ParserSyntaxError:
        return None


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of functions in it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            yield child
            yield from _own_nodes(child)
