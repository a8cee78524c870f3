"""From the AST of a function to a Function of the IR: the parsed style's entry point."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any

from tilewright.errors import ParserSyntaxError, ParserTypeError, TilewrightError
from tilewright.frontend.annotations import DynVar
from tilewright.frontend.attributes import Prologue
from tilewright.frontend.capture import FunctionNode, refuse_deep_nesting
from tilewright.frontend.inline import NoCallees
from tilewright.frontend.matching import check_annotation
from tilewright.frontend.namespace import Namespace
from tilewright.frontend.options import Options
from tilewright.frontend.parse import (
    access,
    basic,
    branches,
    calls,
    loops,
    scopes,
    tasks,
    traced,
)
from tilewright.frontend.parse.desugar import prepared_body
from tilewright.frontend.parse.liveness import Liveness
from tilewright.frontend.parse.parser import FunctionParser, Self, collected
from tilewright.frontend.parse.ranks import misplaced
from tilewright.frontend.parse.regions import drop_unused_results
from tilewright.frontend.parse.state import Callees, State
from tilewright.frontend.signature import Signature, SignatureReader
from tilewright.frontend.values import fitted
from tilewright.ir.builder import Builder
from tilewright.ir.conformance import conforms, hints_of
from tilewright.ir.core import Block, BodyText, Function, Rebinding, Undeclared, Value
from tilewright.ir.enums import ParamDirection
from tilewright.ir.types import ArrayType, TensorType, Type
from tilewright.ops import control
from tilewright.source import SourceText, Span

STATEMENT_MODULES = (
    access,
    basic,
    branches,
    calls,
    loops,
    scopes,
    tasks,
    traced,
)
"""Imported for what they register."""


def parse_function(
    node: FunctionNode,
    names: Namespace,
    source: SourceText,
    *,
    callees: Callees | None = None,
    options: Options | None = None,
    evaluated: Mapping[str, Any] | None = None,
    param_types: Mapping[str, Type] | None = None,
    declare: dict[str, DynVar] | None = None,
    is_method: bool = False,
    name: str | None = None,
) -> Function:
    """Reads one `def` and gives its Function.

    `names` is what the body may refer to, `source` the text that positions of `node` are in.
    `evaluated` are annotations that Python evaluated already, `param_types` the types of
    parameters whose annotation is bare or missing, and `declare` collects unknown names that
    stand for dimensions (text parsing). Raises author errors, several of one body together.
    """
    options = options or Options()
    check_options(options, source.span(node))
    reader = SignatureReader(
        names, source, evaluated=evaluated, param_types=param_types, declare=declare
    )
    around = callees or NoCallees()

    def read(unwritten: set[Value] | None) -> Function:
        signature = reader.read(node, skip=1 if is_method else 0)
        is_text, kind = declare is not None, options.func_type
        state = State(Builder(), around, params=signature.params, is_text=is_text, kind=kind)
        state.auto_scope = options.auto_scope and not is_text
        state.unwritten = unwritten
        for param in signature.params:
            if isinstance(param.type, TensorType):
                state.versions.own(param)
        prologue = Prologue(names, source, signature.params, declare)
        with state.builder:
            return _Reader(node, prologue, state, signature, options, name or node.name).read()

    with refuse_deep_nesting(node, source):
        if declare is not None:
            with suppress(HandWritten):
                return read(set())
        return read(None)


class HandWritten(Exception):
    """A text that leaves it to us to write parts back, as authors do and printed programs never."""


def check_options(options: Options, span: Span) -> None:
    """Raises ParserTypeError for an argument of a decorator that is of another type."""
    for name, hint in hints_of(Options).items():
        given = getattr(options, name)
        if not conforms(given, hint):
            word = "type" if name == "func_type" else name
            wanted = Options.__annotations__[name]
            raise ParserTypeError(f"pl.function: {word} is {given!r}; {wanted} is accepted", span)


class _Reader:
    """Reads the body of one function."""

    def __init__(
        self,
        node: FunctionNode,
        prologue: Prologue,
        state: State,
        signature: Signature,
        options: Options,
        name: str,
    ) -> None:
        self.node = node
        self.state = state
        self.signature = signature
        self.options = options
        self.name = name
        body = prepared_body(node, prologue.names, prologue.source)
        self.prologue = prologue
        self.p = FunctionParser(
            state,
            prologue.names,
            prologue.source,
            live=Liveness(body),
            strict_ssa=options.strict_ssa,
            function=name,
        )
        self.p.scope.update({param.name: param for param in signature.params})
        self.p.outputs = {
            param.name: param
            for param, direction in zip(signature.params, signature.directions)
            if direction is not ParamDirection.In
        }
        self.p.scope["self"] = Self()
        self.p.around = body
        self.body = body

    def read(self) -> Function:
        """Reads the function. Raises HandWritten for a text that does not say all that it writes,
        and author errors."""
        state = self.state
        try:
            return self._read()
        except (HandWritten, TilewrightError) as error:
            if state.has_deferred:
                state.said.clear()
                raise HandWritten from error
            raise
        finally:
            state.say()

    def _read(self) -> Function:
        p, state = self.p, self.state
        self._keep_arrays_inside()
        attrs, body = self.prologue.read(self.options.attrs, self.body, self._span())
        block = Block(self.signature.params)
        with state.builder.inside(block):
            p.block(body)
            if p.yielded is not None:
                at = p.span(p.yielded.node)
                p.report(ParserSyntaxError("pl.yield_ outside a loop or branch", at))
            values = self._returned()
            state.errors += misplaced(block, self.options.func_type, self.options.level)
            if state.errors:
                raise collected(state.errors)
            if state.unwritten:
                raise HandWritten
            directions = self._directions()
            finals = self._finals(directions)
            span = p.span(p.returned[1]) if p.returned else self._span()
            state.builder.emit(control.return_, (tuple(values), tuple(finals)), span=span)
        drop_unused_results(block, state.implied)
        function = Function(
            self.name,
            directions,
            block,
            tuple(value.type for value in values),
            func_type=self.options.func_type,
            level=self.options.level,
            role=self.options.role,
            attrs=attrs,
            doc=ast.get_docstring(self.node),
            span=self._span(),
        )
        function.rebound = [
            Rebinding(p.outputs[name], value, p.span(node))
            for node, (name, value) in p.rebound.items()
        ]
        function.undeclared = self._undeclared(directions)
        function.body_text = self._body_text()
        return function

    def _span(self) -> Span:
        """The name of the function in its `def` line."""
        span = self.p.span(self.node)
        start = span.col + len("def ")
        return span._replace(col=start, end_line=span.line, end_col=start + len(self.node.name))

    def _returned(self) -> list[Value]:
        p = self.p
        given, node = p.returned or ([], None)
        declared = self.signature.returns or ()
        try:
            given = [fitted(g, t) for g, t in zip_longest(given, declared[: len(given)])]
            values = [p.versions.newest(p.as_value(value)) for value in given]
            self._check_returns(values, node)
        except TilewrightError as error:
            p.report(error.locate(p.span(node) if node else self._span()))
            return []
        return values

    def _keep_arrays_inside(self) -> None:
        nodes = _arguments(self.node)
        for param in self.signature.params:
            if isinstance(param.type, ArrayType) and not self.state.is_text:
                what = f"Parameter '{param.name}' is {param.type}: arrays do not cross functions"
                hint = "Pass its elements as scalars, or a pl.Tensor."
                self.p.report(ParserTypeError(what, self.p.span(nodes[param.name]), hint))

    def _check_returns(self, values: Sequence[Value], node: ast.Return | None) -> None:
        for value in values:
            if isinstance(value.type, ArrayType) and not self.state.is_text:
                what = f"Function '{self.name}' returns {value.type}: arrays do not cross functions"
                hint = "Return its elements as scalars, or write them to a pl.Tensor."
                raise ParserTypeError(what, hint=hint)
        declared = self.signature.returns
        if declared is None or (self.state.errors and node is None):
            return
        if len(declared) != len(values):
            raise ParserTypeError(
                f"Function '{self.name}' declares {len(declared)} return value(s) "
                f"but returns {len(values)}"
            )
        for position, (type_, value) in enumerate(zip(declared, values)):
            check_annotation(f"return value {position}", type_, value.type)

    def _directions(self) -> tuple[ParamDirection, ...]:
        return tuple(map(self._direction, self.signature.params, self.signature.directions))

    def _direction(self, param: Value, declared: ParamDirection) -> ParamDirection:
        written = self.state.versions.newest(param) is not param
        return ParamDirection.InOut if written and declared is ParamDirection.In else declared

    def _body_text(self) -> BodyText:
        node = self.node
        header = (*node.args.args[-1:], *node.args.kwonlyargs[-1:], node.returns)
        end = max([node.lineno, *(part.end_lineno or 0 for part in header if part is not None)])
        return BodyText(self.p.source, end + 1, node.end_lineno or end)

    def _undeclared(self, directions: Sequence[ParamDirection]) -> list[Undeclared]:
        nodes = _arguments(self.node)
        given = zip(self.signature.params, self.signature.directions, directions)
        return [
            Undeclared(param, self.p.span(nodes[param.name]))
            for param, declared, found in given
            if declared is not found
        ]

    def _finals(self, directions: Sequence[ParamDirection]) -> list[Value]:
        pairs = zip(self.signature.params, directions)
        return [
            self.state.versions.newest(param)
            for param, direction in pairs
            if direction is not ParamDirection.In
        ]


def _arguments(node: FunctionNode) -> Mapping[str, ast.arg]:
    given = node.args
    return {a.arg: a for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
