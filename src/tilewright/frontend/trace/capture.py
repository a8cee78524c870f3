"""Definitions of helpers: functions as `capture` finds them, and lambdas by their place."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterator
from types import CodeType, FunctionType

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
    same = here if len(here) == 1 else [node for node in here if _is_code_of(node, code)]
    return (same[0], source) if same else None


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
    (made, *_) = list(_codes(module))
    return (made.co_varnames, _words(made)) == (code.co_varnames, _words(code))


def _codes(code: CodeType) -> Iterator[CodeType]:
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield const


def _words(code: CodeType) -> tuple[object, ...]:
    names = sorted({*code.co_names, *code.co_freevars})
    plain = [const for const in code.co_consts if not isinstance(const, CodeType)]
    return (*names, *map(repr, plain), *(_words(each) for each in _codes(code)))


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
