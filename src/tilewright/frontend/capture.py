"""From a live function or class to its AST, in the coordinates of the author's file.

A file is read and parsed once, however many kernels it holds; the cached tree is shared and must
not be changed. Sources that `exec` or a notebook leaves in `linecache` work like files, and so do
those that the loader of a module has, such as an archive's.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import sys
import textwrap
import tokenize
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType
from typing import Any, TypeVar

from tilewright.dataclass import dataclass
from tilewright.errors import ParserSyntaxError, SourceUnavailable
from tilewright.source import SourceText, Span

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_Node = TypeVar("_Node", bound=ast.AST)


@dataclass(frozen=True)
class CapturedFunction:
    """A function's definition and the text it stands in."""

    node: FunctionNode
    source: SourceText

    @property
    def span(self) -> Span:
        """The range of the `def` statement's name line."""
        return self.source.span(self.node)._replace(end_line=self.node.lineno)


@dataclass(frozen=True)
class CapturedClass:
    """A class definition and the text it stands in."""

    node: ast.ClassDef
    source: SourceText


@dataclass(frozen=True)
class ParsedFile:
    """A file parsed as a whole, with its function and class statements by line."""

    source: SourceText
    functions: dict[int, list[FunctionNode]]
    classes: dict[str, list[ast.ClassDef]]


@functools.lru_cache(maxsize=128)
def _parse_file(file: str, text: str) -> ParsedFile | None:
    try:
        tree = ast.parse(text, file)
    except (SyntaxError, ValueError):
        return None
    functions: dict[int, list[FunctionNode]] = {}
    classes: dict[str, list[ast.ClassDef]] = {}
    for node in _definitions(tree.body):
        if isinstance(node, ast.ClassDef):
            classes.setdefault(node.name, []).append(node)
        else:
            functions.setdefault(first_line(node), []).append(node)
    return ParsedFile(SourceText(file, text), functions, classes)


def _definitions(body: Sequence[ast.AST]) -> Iterator[FunctionNode | ast.ClassDef]:
    """Every function and class statement at and below some statements, in order."""
    waiting = [*reversed(body)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node
        for part in reversed(_blocks(type(node))):
            waiting += reversed(getattr(node, part))


@functools.cache
def _blocks(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a kind of statement that hold other statements."""
    return tuple(
        name
        for name in kind._fields
        if name in ("body", "handlers", "cases", "orelse", "finalbody")
    )


def parse_file(file: str, names: dict[str, Any] | None = None) -> ParsedFile | None:
    """The shared, read-only parse of a file; None when it has no source or does not parse.

    `names` are the globals of its module, whose loader may have a source that is in no file.
    """
    linecache.checkcache(file)
    text = "".join(linecache.getlines(file, names))
    return _parse_file(file, text) if text else None


def require_plain(node: FunctionNode, source: SourceText) -> None:
    """Raises ParserSyntaxError for a coroutine, for a variable number of parameters, and for
    defaults: calls in the IR give every argument."""
    if isinstance(node, ast.AsyncFunctionDef):
        raise ParserSyntaxError(
            f"'{node.name}' is a coroutine", source.span(node), "Write 'def', without 'async'."
        )
    star = node.args.vararg or node.args.kwarg
    if star is not None:
        raise ParserSyntaxError("A kernel takes a fixed number of parameters", source.span(star))
    for param, default in _defaults(node.args):
        raise ParserSyntaxError(
            f"Parameter '{param.arg}' of '{node.name}' has a default: calls give every argument",
            source.span(default),
            f"Drop '= {ast.unparse(default)}' and pass it; kernels and helpers of pl.jit take "
            "defaults.",
        )


def _defaults(spec: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr]]:
    """The parameters with a default, and what it is."""
    positional = [*spec.posonlyargs, *spec.args]
    first = len(positional) - len(spec.defaults)
    yield from zip(positional[first:], spec.defaults)
    for param, default in zip(spec.kwonlyargs, spec.kw_defaults):
        if default is not None:
            yield param, default


def first_line(node: FunctionNode) -> int:
    """The line a code object reports: that of the first decorator, if there is one."""
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def capture_function(function: Callable[..., Any]) -> CapturedFunction:
    """The definition of `function`; raises SourceUnavailable without its source."""
    plain = inspect.unwrap(function)
    if not isinstance(plain, FunctionType):
        raise ParserSyntaxError(
            f"Cannot read the source of {function!r}: it is not a Python function",
            hint="Decorate a function written with 'def'.",
        )
    code = plain.__code__
    found = _find_in_file(code, plain.__globals__) or _find_block(plain)
    if found is None:
        raise _no_source(plain.__name__, code.co_filename, code.co_firstlineno)
    return found


def _find_in_file(code: CodeType, names: dict[str, Any]) -> CapturedFunction | None:
    parsed = parse_file(code.co_filename, names)
    if parsed is None:
        return None
    candidates = parsed.functions.get(code.co_firstlineno, [])
    named = [node for node in candidates if node.name == code.co_name]
    return CapturedFunction(named[0], parsed.source) if len(named) == 1 else None


def _find_block(function: FunctionType) -> CapturedFunction | None:
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError, IndentationError, SyntaxError):
        return None
    block = "".join(lines)
    text = textwrap.dedent(block)
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return None
    if not body or not isinstance(body[0], FunctionNode):
        return None
    indent = len(lines[0]) - len(lines[0].lstrip())
    file = function.__code__.co_filename
    return CapturedFunction(body[0], SourceText(file, text, first_line=first, indent=indent))


def _no_source(name: str, file: str, line: int | None = None) -> SourceUnavailable:
    return SourceUnavailable(
        f"cannot retrieve source code of '{name}' (defined in {file})",
        hint=_why_no_source(name, file, line),
    )


def _why_no_source(name: str, file: str, line: int | None) -> str:
    if file.startswith("<"):
        return (
            "Kernels are read from source: define them in a file or a notebook cell, not at an "
            "interactive prompt, behind 'python -c' or in a bare exec()."
        )
    try:
        with tokenize.open(file) as opened:
            opened.read()
    except OSError as error:
        return f"Kernels are read from source: keep the file where it was ({error.strerror})."
    except (SyntaxError, ValueError) as error:
        return f"Save the file as UTF-8, or name its encoding in its first line ({error})."
    place = "" if line is None else f" in line {line}"
    return f"There is no such definition{place} any more: import the file anew after changing it."


@contextmanager
def refuse_deep_nesting(node: ast.AST, source: SourceText) -> Generator[None]:
    """While a definition is read: what outgrows Python's stack is refused where it is deepest."""
    try:
        yield
    except RecursionError:
        place, depth = _deepest(node)
        raise ParserSyntaxError(
            f"{depth} nested expressions and statements are more than can be read",
            source.span(place),
            "Give parts of it names, or write a helper for them.",
        ) from None


def _deepest(node: ast.AST) -> tuple[Any, int]:
    """The statement in which `node` nests deepest, and how deep that is."""
    found, waiting = (node, 0), [(node, node, 0)]
    while waiting:
        each, statement, depth = waiting.pop()
        statement = each if isinstance(each, ast.stmt) else statement
        found = max(found, (statement, depth), key=lambda place: place[1])
        waiting += [(child, statement, depth + 1) for child in ast.iter_child_nodes(each)]
    return found


def capture_class(
    cls: type, methods: list[FunctionType], frame: FrameType | None = None
) -> CapturedClass:
    """The class statement that made `cls`, found by the lines of the functions in its body.

    `frame` is where a class without functions stands. Raises ParserSyntaxError naming every
    candidate line when several definitions fit equally well.
    """
    home = _file_name(cls, methods, frame)
    parsed = _file_of_class(cls, methods, home)
    if parsed is None:
        raise _no_source(cls.__name__, home)
    candidates = _candidates(cls, methods, parsed)
    if not candidates:
        raise _no_source(cls.__name__, parsed.source.file)
    if len(candidates) > 1:
        raise _ambiguous(cls, candidates, parsed.source)
    return CapturedClass(candidates[0], parsed.source)


def _file_name(cls: type, methods: list[FunctionType], frame: FrameType | None) -> str:
    if methods:
        return methods[0].__code__.co_filename
    if frame is not None:
        return frame.f_code.co_filename
    try:
        return inspect.getfile(cls)
    except (TypeError, OSError):
        return "<unknown>"


def _file_of_class(cls: type, methods: list[FunctionType], home: str) -> ParsedFile | None:
    names = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else None
    files = dict.fromkeys([method.__code__.co_filename for method in methods])
    for file in [*files, home]:
        parsed = parse_file(file, names)
        if parsed is not None and cls.__name__ in parsed.classes:
            return parsed
    return None


def _candidates(cls: type, methods: list[FunctionType], parsed: ParsedFile) -> list[ast.ClassDef]:
    named = parsed.classes.get(cls.__name__, [])
    known_line: int | None = getattr(cls, "__firstlineno__", None)
    if known_line is not None:
        at_line = [node for node in named if _first_class_line(node) == known_line]
        named = at_line or named
    lines = {method.__code__.co_firstlineno for method in methods}
    holding = [node for node in named if lines and lines <= _function_lines(node)]
    return holding or [node for node in named if not lines & _function_lines(node)] or named


def _first_class_line(node: ast.ClassDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _function_lines(node: ast.ClassDef) -> set[int]:
    return {first_line(item) for item in node.body if isinstance(item, FunctionNode)}


def _ambiguous(cls: type, nodes: list[ast.ClassDef], source: SourceText) -> ParserSyntaxError:
    spans = [source.span(node) for node in nodes]
    lines = ", ".join(str(span.line) for span in spans)
    error = ParserSyntaxError(
        f"Cannot tell which definition of class '{cls.__name__}' is meant: "
        f"candidates at lines {lines} of {source.file}",
        spans[0],
        "Give the classes distinct names, or define the class once and vary it "
        "through a closure variable.",
    )
    for span in spans[1:]:
        error.with_note("another candidate is here", span)
    return error


def enclosing_locals(frame: FrameType | None) -> dict[str, Any]:
    """Locals of the functions around a decorator's call: class bodies and the function they run in.

    They give meaning to names that stand only in postponed annotations, which no closure holds.
    """
    names: dict[str, Any] = {}
    for scope in _local_frames(frame):
        names = {**scope.f_locals, **names}
    return names


def _local_frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None and frame.f_locals is not frame.f_globals:
        yield frame
        is_class_body = "__qualname__" in frame.f_locals and "__module__" in frame.f_locals
        frame = frame.f_back if is_class_body else None


def is_method(function: FunctionType) -> bool:
    """True when `function` was defined directly in a class body."""
    parent = function.__qualname__.rpartition(".")[0]
    return bool(parent) and not parent.endswith("<locals>")


def annotations_of(function: FunctionType) -> dict[str, Any]:
    """Annotations that Python has evaluated; {} where it postpones or cannot evaluate them."""
    try:
        return dict(function.__annotations__)
    except NameError:
        return {}
