"""Programs: functions by name, read when first called, so that callees come before callers."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from tilewright.dataclass import dataclass
from tilewright.errors import ParserSyntaxError
from tilewright.frontend.annotations import DynVar
from tilewright.frontend.capture import FunctionNode
from tilewright.frontend.external import (
    is_declaration,
    read_declaration,
    read_external,
    read_sub_worker,
    require_whole_groups,
)
from tilewright.frontend.function import check_options, parse_function
from tilewright.frontend.inline import InlineFunction
from tilewright.frontend.namespace import Namespace
from tilewright.frontend.options import Options
from tilewright.ir.builder import finish_program
from tilewright.ir.core import Function, Program
from tilewright.ir.enums import Role
from tilewright.ir.types import Type
from tilewright.source import SourceText


@dataclass
class FunctionSource:
    """A function that has not been read yet: its definition and what it may refer to."""

    node: FunctionNode
    names: Namespace
    source: SourceText
    options: Options = field(default_factory=Options)
    evaluated: Mapping[str, Any] = field(default_factory=dict[str, Any])
    param_types: Mapping[str, Type] = field(default_factory=dict[str, Type])
    is_method: bool = False
    name: str | None = None

    @property
    def title(self) -> str:
        """The name under which the program holds it."""
        return self.name or self.node.name


class ProgramReader:
    """Reads the functions of one program; it is what `self` and outside functions mean to them."""

    def __init__(
        self,
        name: str,
        sources: Iterable[FunctionSource],
        *,
        inlines: Mapping[str, InlineFunction] | None = None,
        declare: dict[str, DynVar] | None = None,
    ) -> None:
        self.name = name
        self.sources: dict[str, FunctionSource] = {}
        for source in sources:
            self._add_source(source)
        self.inlines: Mapping[str, InlineFunction] = inlines or {}
        self.declare = declare
        self.functions: dict[str, Function] = {}
        self.externals: dict[str, Function] = {}
        self._reading: list[str] = []

    def _add_source(self, source: FunctionSource) -> None:
        if source.title in self.sources:
            raise ParserSyntaxError(
                f"Function '{source.title}' is defined twice in program '{self.name}'",
                source.source.span(source.node),
            )
        self.sources[source.title] = source

    def read(self) -> Program:
        """The program, all its functions read."""
        for name in self.sources:
            self.method(name)
        require_whole_groups(self.functions)
        return finish_program(self.name, self.functions)

    # What the bodies may call

    def method(self, name: str) -> Any:
        """The function `self.name`, read now if it has not been; None when there is none."""
        if name in self.inlines:
            return self.inlines[name]
        if name in self.functions and name not in self.externals:
            return self.functions[name]
        source = self.sources.get(name)
        return None if source is None else self._read(source)

    def method_names(self) -> Iterable[str]:
        """Names of the program's functions."""
        return [*self.sources, *self.inlines]

    def use(self, function: Function) -> None:
        """A function defined elsewhere joins the program under its own name, once."""
        name = function.name
        if name in self.sources:
            raise ParserSyntaxError(
                f"External function '{name}' conflicts with program function '{name}'",
                hint="Rename one of them.",
            )
        known = self.externals.get(name)
        if known is not None and known is not function:
            raise ParserSyntaxError(
                f"Conflicting external functions: two different functions are named '{name}'",
                hint="Rename one of them.",
            )
        if known is None:
            self.externals[name] = function
            for inner in function.callees.values():
                self.use(inner)
            self.functions[name] = function

    def _read(self, source: FunctionSource) -> Function:
        name = source.title
        if name in self._reading:
            cycle = " -> ".join((*self._reading[self._reading.index(name) :], name))
            raise ParserSyntaxError(
                f"Functions call each other in a circle: {cycle}", source.source.span(source.node)
            )
        self._reading.append(name)
        try:
            self.functions[name] = read_function(source, callees=self, declare=self.declare)
        finally:
            self._reading.pop()
        return self.functions[name]


class Standalone:
    """What a function outside any program may call: other such functions, which it remembers."""

    def __init__(self) -> None:
        self.externals: dict[str, Function] = {}

    def method(self, name: str) -> Function | None:
        """There is no `self`."""
        del name

    def method_names(self) -> Iterable[str]:
        """Nothing to suggest."""
        return ()

    def use(self, function: Function) -> None:
        """Remembers a callee; raises ParserSyntaxError when another one has its name."""
        if self.externals.setdefault(function.name, function) is not function:
            raise ParserSyntaxError(
                f"Conflicting external functions: two different functions are named "
                f"'{function.name}'",
                hint="Rename one of them.",
            )


def read_function(
    source: FunctionSource,
    *,
    callees: ProgramReader | Standalone | None = None,
    declare: dict[str, DynVar] | None = None,
) -> Function:
    """Reads one function: its body, or what stands in for it (external source, sub-worker)."""
    if source.options.external_source is not None or source.options.role is Role.SubWorker:
        check_options(source.options, source.source.span(source.node))
    if source.options.external_source is not None:
        return read_external(source)
    if source.options.role is Role.SubWorker:
        return read_sub_worker(source)
    if is_declaration(source):
        return read_declaration(source)
    around = callees or Standalone()
    function = parse_function(
        source.node,
        source.names,
        source.source,
        callees=around,
        options=source.options,
        evaluated=source.evaluated,
        param_types=source.param_types,
        declare=declare,
        is_method=source.is_method,
        name=source.name,
    )
    if isinstance(around, Standalone):
        function.callees = around.externals
    return function


def require_plain_body(node: ast.ClassDef, source: SourceText) -> None:
    """Raises ParserSyntaxError for anything in a program's class body but functions."""
    for base in node.bases:
        if ast.unparse(base) != "object":
            raise ParserSyntaxError(
                f"Program '{node.name}' derives from '{ast.unparse(base)}'",
                source.span(base),
                "A program has the functions of its own class only.",
            )
    seen: set[str] = set()
    for item in node.body:
        if isinstance(item, FunctionNode):
            if item.name in seen:
                what = f"Function '{item.name}' is defined twice in program '{node.name}'"
                raise ParserSyntaxError(what, source.span(item))
            seen.add(item.name)
        is_text = isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)
        if not isinstance(item, (FunctionNode, ast.Pass)) and not is_text:
            raise ParserSyntaxError(
                f"A program holds functions only, not '{ast.unparse(item).splitlines()[0]}'",
                source.span(item),
                "Bind constants outside the class.",
            )
