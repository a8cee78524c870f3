"""Programs as text: what the printer writes, read without running it."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.boundary import public_entry
from tilewright.errors import ParserSyntaxError
from tilewright.frontend.annotations import DynVar
from tilewright.frontend.capture import CapturedFunction, FunctionNode, require_plain
from tilewright.frontend.decorators import function, inline, program
from tilewright.frontend.evaluator import Evaluator
from tilewright.frontend.inline import InlineFunction
from tilewright.frontend.namespace import Namespace
from tilewright.frontend.options import Options
from tilewright.frontend.program import (
    FunctionSource,
    ProgramReader,
    Standalone,
    read_function,
    require_plain_body,
)
from tilewright.frontend.vocabulary import pl_namespace, pld_namespace
from tilewright.garbage import without_collections
from tilewright.ir.conformance import hints_of
from tilewright.ir.core import Function, Program
from tilewright.source import Located, SourceText, Span, remember, split_lines

SourceMap = Mapping[int, tuple[str, int, int]]
_HEADER = re.compile(r"^# pypto\.program: *(\w+)", re.MULTILINE)
_DECORATORS = {id(function): "function", id(inline): "inline", id(program): "program"}


class MappedText(SourceText):
    """A generated text whose lines stem from an author's file."""

    __slots__ = ("_map",)

    def __init__(self, file: str, text: str, source_map: SourceMap) -> None:
        super().__init__(file, text)
        self._map = source_map

    def span(self, node: Located, parent: Span | None = None) -> Span:
        origin = self._map.get(node.lineno)
        if origin is None:
            return super().span(node, parent)
        file, line, col = origin
        return Span(file, line, col, line, col + 1, parent)


@public_entry
def parse(
    code: str, filename: str = "<string>", source_map: SourceMap | None = None
) -> Function | Program:
    """The one function or program that a text defines.

    Nothing in the text runs: it may import `tilewright.language`, bind constants and dimensions,
    and define. Names that only extents use become dynamic dimensions. Raises SyntaxError for text
    that is not Python, ValueError when it defines nothing or several things, and author errors.
    """
    with without_collections():
        found = _TextReader(code, filename, source_map).read()
    if len(found) != 1:
        raise ValueError(
            f"{filename} defines {len(found)} functions and programs; exactly one is expected"
        )
    return found[0]


@public_entry
def loads(path: str | Path) -> Function | Program:
    """The one function or program of a file, in the encoding that Python finds there; raises as
    `parse`, and OSError."""
    try:
        with tokenize.open(path) as file:
            code = file.read()
    except (UnicodeDecodeError, SyntaxError) as error:
        raise SyntaxError(f"Failed to compile code from {path}: {error}") from error
    return parse(code, str(path))


def parse_program(
    code: str, filename: str = "<string>", source_map: SourceMap | None = None
) -> Program:
    """As `parse`, for a text that defines a program; raises ValueError otherwise."""
    return require_program(parse(code, filename, source_map), filename)


def require_program(found: Function | Program, filename: str) -> Program:
    """What a text defines, if it is a program; raises ValueError."""
    if not isinstance(found, Program):
        raise ValueError(f"{filename} defines function '{found.name}', not a program")
    return found


def loads_program(path: str | Path) -> Program:
    """The program of a file; raises as `loads`, and ValueError for another thing than a program."""
    return require_program(loads(path), str(path))


_ANNOTATION = re.compile(
    r"^( +\w+: )(pl(?:\.\w+)+\[(?:pl(?:\.\w+)+|[\d\[\], ])+\])(?= = )", re.MULTILINE
)
"""A type without a name of the body, in a statement as we print them."""


def _parsed(code: str, filename: str) -> ast.Module:
    """The tree of a text. Types that stand alone are left in it as strings: `declared_type` reads
    each distinct one once, whereas parsing them all would take most of the time."""
    if not isinstance(code, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"the text of a program is expected, not {code!r}")
    is_plain = code.isascii() and not any(mark in code for mark in ('"""', "'''", "\\\n"))
    if is_plain:
        try:
            return ast.parse(_ANNOTATION.sub(lambda m: f"{m[1]}'{m[2][1:-1]}'", code), filename)
        except (SyntaxError, RecursionError, MemoryError):
            pass  # The text as it is has an error that its author knows.
    try:
        return ast.parse(code, filename)
    except SyntaxError as error:
        raise SyntaxError(f"Failed to compile code from {filename}: {error}") from error
    except (RecursionError, MemoryError):
        raise _too_deep(code, filename) from None


def _too_deep(code: str, filename: str) -> ParserSyntaxError:
    """The error for a text that Python itself cannot read; its longest line is the likely place."""
    lines = split_lines(code)
    number, line = max(enumerate(lines, 1), key=lambda each: len(each[1]))
    start = len(line) - len(line.lstrip()) + 1
    return ParserSyntaxError(
        "An expression nests deeper than Python can read",
        Span(remember(filename, code), number, start, number, len(line) + 1),
        "Give parts of it names, or write a helper for them.",
    )


class _TextReader:
    def __init__(self, code: str, filename: str, source_map: SourceMap | None) -> None:
        self.tree = _parsed(code, filename)
        if not source_map:
            filename = remember(filename, code)
        self.source = (
            MappedText(filename, code, source_map) if source_map else SourceText(filename, code)
        )
        header = _HEADER.search(code)
        self.title = header.group(1) if header else None
        self.bound: dict[str, Any] = {"pl": pl_namespace(), "pld": pld_namespace()}
        self.dims: dict[str, DynVar] = {}
        self.names = Namespace(self.bound, self.dims)
        self.evaluator = Evaluator(self.names, self.source)
        self.functions: list[FunctionSource] = []
        self.programs: list[Program] = []

    def read(self) -> list[Function | Program]:
        for node in self.tree.body:
            self.statement(node)
        if self.title and self.functions and not self.programs:
            return [ProgramReader(self.title, self.functions, declare=self.dims).read()]
        return [*self.programs, *(self.standalone(source) for source in self.functions)]

    def standalone(self, source: FunctionSource) -> Function:
        return read_function(source, callees=Standalone(), declare=self.dims)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    self.bind_module(alias)
            case ast.ImportFrom():
                self.import_names(node)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.bound[name] = self.evaluator.evaluate(value)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.define_function(node)
            case ast.ClassDef():
                self.define_program(node)
            case ast.Expr(value=ast.Constant()):
                return
            case _:
                raise self.refuse(node)

    def refuse(self, node: ast.stmt) -> ParserSyntaxError:
        return ParserSyntaxError(
            f"A text cannot contain '{ast.unparse(node).splitlines()[0]}' here",
            self.source.span(node),
            "It may import tilewright.language, bind constants, and define functions and programs.",
        )

    def module(self, name: str) -> Any:
        last = name.rpartition(".")[2]
        if last == "distributed":
            return self.bound["pld"]
        return self.bound["pl"] if last == "language" else None

    def bind_module(self, alias: ast.alias) -> None:
        module = self.module(alias.name)
        if module is not None and alias.asname:
            self.bound[alias.asname] = module

    def import_names(self, node: ast.ImportFrom) -> None:
        module = self.module(node.module or "")
        for alias in node.names:
            name = alias.asname or alias.name
            found = self.module(alias.name) if module is None else getattr(module, alias.name, None)
            if found is not None:
                self.bound[name] = found

    def decorator(self, nodes: list[ast.expr]) -> tuple[str, dict[str, Any]]:
        """The word of the last decorator that we know, and its arguments."""
        for node in nodes:
            call = node if isinstance(node, ast.Call) else None
            found = self.evaluator.evaluate(call.func if call else node)
            word = _DECORATORS.get(id(found))
            if word is not None:
                return word, self.evaluator.keywords(call) if call else {}
        return "", {}

    def function_source(
        self, node: FunctionNode, given: dict[str, Any], **facts: Any
    ) -> FunctionSource:
        fields = {"type" if name == "func_type" else name: name for name in hints_of(Options)}
        unknown = given.keys() - fields.keys()
        if unknown:
            raise ParserSyntaxError(
                f"pl.function does not take {', '.join(map(repr, sorted(unknown)))}",
                self.source.span(node.decorator_list[0]),
                f"It takes {', '.join(fields)}.",
            )
        options = Options(**{fields[name]: value for name, value in given.items()})
        return FunctionSource(node, self.names, self.source, options, **facts)

    def define_function(self, node: FunctionNode) -> None:
        word, given = self.decorator(node.decorator_list)
        if word == "inline":
            self.bound[node.name] = self.inline(node)
            return
        source = self.function_source(node, given)
        self.functions.append(source)

    def inline(self, node: FunctionNode) -> InlineFunction:
        require_plain(node, self.source)
        return InlineFunction(node.name, CapturedFunction(node, self.source), self.names)

    def define_program(self, node: ast.ClassDef) -> None:
        word, given = self.decorator(node.decorator_list)
        if word != "program":
            raise self.refuse(node)
        require_plain_body(node, self.source)
        sources: list[FunctionSource] = []
        inlines: dict[str, InlineFunction] = {}
        for item in node.body:
            if isinstance(item, FunctionNode):
                kind, options = self.decorator(item.decorator_list)
                if kind == "inline":
                    inlines[item.name] = self.inline(item)
                    continue
                options.setdefault("strict_ssa", given.get("strict_ssa", False))
                is_method = bool(item.args.args) and item.args.args[0].arg == "self"
                sources.append(self.function_source(item, options, is_method=is_method))
        reader = ProgramReader(node.name, sources, inlines=inlines, declare=self.dims)
        self.programs.append(reader.read())
