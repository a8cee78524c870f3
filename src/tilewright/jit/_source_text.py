"""The specialized program as text: one `@pl.program` class that reads back as the same program."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any

from tilewright.dataclass import dataclass
from tilewright.frontend.annotations import DynVar
from tilewright.frontend.capture import FunctionNode
from tilewright.frontend.evaluator import BINARY
from tilewright.frontend.options import Options
from tilewright.ir.affine import symbols
from tilewright.ir.enums import FunctionType, ParamDirection
from tilewright.ir.types import TupleType, Type
from tilewright.jit._arguments import SignatureInfo, dims_of
from tilewright.jit._specialize_values import render_value
from tilewright.source import Span

SpanOf = Callable[[ast.Call], "Span | None"]
SpansOf = Callable[["Reading", ast.Call], "Span | None"]

_HEADER = "import tilewright.language as pl\nimport tilewright.language.distributed as pld\n"


@dataclass(frozen=True)
class Reading:
    """A definition that was read: under which name, with which parameter types."""

    name: str
    node: FunctionNode
    options: Options
    signature: SignatureInfo
    types: Mapping[str, Type]
    is_inline: bool = False


@dataclass
class Record:
    """What a specialization read, in order, and which function each call site meant."""

    readings: dict[str, Reading] = field(default_factory=dict[str, Reading])
    calls: dict[Span, ast.Call] = field(default_factory=dict[Span, ast.Call])

    def note(self, reading: Reading) -> None:
        """A definition, after those that it calls."""
        self.readings.setdefault(reading.name, reading)

    def note_call(self, site: Span, name: str, node: ast.Call, args: Sequence[ast.expr]) -> None:
        """A call of the function `name`; `args` are its run-time arguments, in order."""
        site = site.called_from(None)
        self.calls[site] = ast.Call(method(name), [*args], _framework_keywords(node))

    def text(self, title: str, spans: SpansOf) -> str:
        """The program; `spans(reading, node)` says where a node stands in its author's file."""
        lines = [_HEADER]
        lines += [f'{s.name} = pl.dynamic("{s.name}")' for s in self._symbols()]
        body = [self._definition(each, spans) for each in self.readings.values()]
        program = ast.ClassDef(title, [], [], [*body], [_path("pl", "program")])
        if "type_params" in ast.ClassDef._fields:
            program.type_params = []  # pyright: ignore[reportAttributeAccessIssue]
        return "\n".join([*lines, "", ast.unparse(ast.fix_missing_locations(program))]) + "\n"

    def _symbols(self) -> Iterable[DynVar]:
        found: dict[str, DynVar] = {}
        for reading in self.readings.values():
            declared = (p.annotation for p in reading.signature.runtime)
            for type_ in (*reading.types.values(), *declared):
                for symbol in _symbols_of(type_):
                    found.setdefault(symbol.name, symbol)
        return found.values()

    def _definition(self, reading: Reading, spans: SpansOf) -> ast.stmt:
        made = copy.deepcopy(reading.node)
        made.name = reading.name
        made.decorator_list = [_decorator(reading)]
        for argument in made.args.args:
            annotation = _annotation(reading, argument.arg)
            argument.annotation = annotation or argument.annotation
        made.args.args.insert(0, ast.arg("self"))
        writer = _CallWriter(self.calls, partial(spans, reading))
        made.body = [*_facts(reading), *map(writer.visit, made.body)]
        return made


class _CallWriter(ast.NodeTransformer):
    """Writes calls of helpers as calls of the program's functions, and constants as one number.

    (Read as text, `2.5 * 3` would be two numbers and a multiplication.)
    """

    def __init__(self, calls: Mapping[Span, ast.Call], span: SpanOf) -> None:
        self.calls = calls
        self.span = span

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        left, right = _number(node.left), _number(node.right)
        if left is None or right is None:
            return node
        text = render_value(BINARY[type(node.op)](left, right))
        return node if text is None else _expression(text)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        site = self.span(node)
        meant = None if site is None else self.calls.get(site)
        return self.generic_visit(node if meant is None else copy.deepcopy(meant))


def _number(node: ast.expr) -> int | float | None:
    """The number that an expression is written as."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _framework_keywords(node: ast.Call) -> list[ast.keyword]:
    return [k for k in node.keywords if k.arg in ("deps", "device", "core_num")]


def _symbols_of(type_: Any) -> list[DynVar]:
    if isinstance(type_, TupleType):
        return [symbol for item in type_.items for symbol in _symbols_of(item)]
    found = (symbol for dim in dims_of(type_) for symbol in symbols(dim))
    return [symbol for symbol in found if isinstance(symbol, DynVar)]


def _decorator(reading: Reading) -> ast.expr:
    if reading.is_inline:
        return _path("pl", "inline")
    options, given = reading.options, dict[str, str]()
    if options.func_type is not FunctionType.Opaque:
        given["type"] = f"pl.FunctionType.{options.func_type.name}"
    if options.level is not None:
        given["level"] = f"pl.Level.{options.level.name}"
    if options.role is not None:
        given["role"] = f"pl.Role.{options.role.name}"
    if not options.auto_scope:
        given["auto_scope"] = "False"
    if options.external_source is not None:
        given["external_source"] = repr(options.external_source)
    keywords = [ast.keyword(name, _expression(text)) for name, text in given.items()]
    return ast.Call(_path("pl", "function"), [], keywords)


def _facts(reading: Reading) -> list[ast.stmt]:
    """What the decorator of a function in C++ has no argument for."""
    if reading.options.external_source is None:
        return []
    facts = dict(reading.options.attrs or {})
    if reading.name != reading.node.name:
        facts["external_name"] = reading.node.name
    return [ast.Expr(_expression(f"pl.func_attr({facts!r})"))] if facts else []


def _annotation(reading: Reading, name: str) -> ast.expr | None:
    """The declared or inferred type of a parameter; None where its own annotation says it."""
    type_ = reading.types.get(name)
    if type_ is None or any(s in reading.signature.placeholders.values() for s in _all(type_)):
        return None
    text = type_.as_python()
    direction = reading.signature[name].direction
    if direction is not ParamDirection.In:
        text = f"pl.{direction.name}[{text}]"
    return _expression(text)


def _all(type_: Any) -> Iterable[Any]:
    return (symbol for dim in dims_of(type_) for symbol in symbols(dim))


def method(name: str) -> ast.expr:
    """`self.<name>`."""
    return _path("self", name)


def _path(*names: str) -> ast.expr:
    return _expression(".".join(names))


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
