"""What one request compiles: decorated functions, their names as they were, and who calls whom."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any, Literal

from tilewright.dataclass import dataclass
from tilewright.external import Sources
from tilewright.frontend.annotations import Directed, InOut, Out
from tilewright.frontend.capture import annotations_of
from tilewright.frontend.namespace import MISSING
from tilewright.frontend.options import Options
from tilewright.hashes import blake
from tilewright.ir.enums import ParamDirection
from tilewright.jit import _ast_analysis, _source, _specialize_values
from tilewright.jit._arguments import (
    NO_DEFAULT,
    Parameter,
    SignatureInfo,
    constexpr,
    read_signature,
)
from tilewright.jit._ast_analysis import SourceInfo
from tilewright.jit._facts import FactWriter
from tilewright.jit._source import FunctionNames, Resolution
from tilewright.jit._source import Path as NamePath
from tilewright.runtime.variants import Guard

HelperKind = Literal["entry", "host", "incore", "inline", "opaque", "extern", "graph"]


@dataclass(eq=False)
class Definition:
    """A decorated function: what never changes between requests."""

    function: Any  # a FunctionType, which as a field would be taken for a method
    kind: HelperKind
    options: Options
    enclosing: Mapping[str, Any] = field(default_factory=dict[str, Any])
    facts: tuple[tuple[str, str], ...] = ()
    sources: tuple[Sources, ...] = ()

    @property
    def contents(self) -> tuple[str, ...]:
        """Digests of its source files, as they are now; raises ValueError for a missing one."""
        return tuple(source.digest for source in self.sources)

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    @cached_property
    def info(self) -> SourceInfo:
        """The analysis of its source."""
        return _ast_analysis.analyse(self.function)

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """Default values by parameter."""
        spec, function = self.info.node.args, self.function
        positional = [argument.arg for argument in (*spec.posonlyargs, *spec.args)]
        given = function.__defaults__ or ()
        return {**dict(zip(positional[::-1], given[::-1])), **(function.__kwdefaults__ or {})}

    @cached_property
    def evaluated(self) -> dict[str, Any]:
        """Annotations as Python evaluated them when the function was defined."""
        return annotations_of(self.function)

    @property
    def key(self) -> str:
        """Everything of the definition that selects an artifact."""
        o = self.options
        facts = ", ".join(f"{name}={value}" for name, value in self.facts)
        level = o.level.name if o.level else None
        return (
            f"{self.info.digest} {self.kind} {o.func_type.name} {level} "
            f"auto_scope={o.auto_scope} {facts} {' '.join(self.contents)}"
        )


@dataclass(eq=False)
class Member:
    """A definition in one request: its names as they were when the request came."""

    definition: Definition
    names: FunctionNames
    resolutions: dict[NamePath, Resolution] = field(default_factory=dict[NamePath, Resolution])
    helpers: dict[NamePath, Member] = field(default_factory=dict[NamePath, "Member"])

    @property
    def info(self) -> SourceInfo:
        """The analysis of its source."""
        return self.definition.info

    def text(self, path: NamePath) -> str | None:
        """The source text that a path folds to, or None."""
        resolution = self.resolutions.get(path)
        if resolution is None or resolution.value is MISSING or path in self.helpers:
            return None
        return _specialize_values.render_value(resolution.value)

    @cached_property
    def constant_names(self) -> tuple[str, ...]:
        """The parameters annotated `pl.constexpr`."""
        return tuple(a.arg for a in self.info.parameters if self._is_constant(a))

    def _is_constant(self, argument: ast.arg) -> bool:
        if argument.annotation is None:
            return False
        node = _ast_analysis.unquoted(argument.annotation)
        path = _ast_analysis.path_of(node.value if isinstance(node, ast.Subscript) else node)
        return path is not None and self.names.resolve(path).value is constexpr

    @cached_property
    def shells(self) -> tuple[Parameter, ...]:
        """The parameters without their types, which constexpr values may decide."""
        return tuple(map(self._shell, self.info.parameters))

    def _shell(self, argument: ast.arg) -> Parameter:
        kind = "constexpr" if argument.arg in self.constant_names else "bare"
        span = self.info.captured.source.span(argument)
        default = self.definition.defaults.get(argument.arg, NO_DEFAULT)
        return Parameter(argument.arg, kind, self._direction(argument), None, span, default)

    def _direction(self, argument: ast.arg) -> ParamDirection:
        given = self.definition.evaluated.get(argument.arg)
        if isinstance(given, Directed):
            return given.direction
        node = argument.annotation and _ast_analysis.unquoted(argument.annotation)
        path = _ast_analysis.path_of(node.value) if isinstance(node, ast.Subscript) else None
        found = None if path is None else self.names.resolve(path).value
        return _DIRECTIONS.get(found, ParamDirection.In) if isinstance(found, type) else _IN

    def only_enclosing(self, name: str) -> bool:
        """True for a local of the enclosing function that no closure holds."""
        function = self.definition.function
        return (
            name in self.definition.enclosing
            and name not in function.__code__.co_freevars
            and name not in function.__globals__
        )

    def signature(self, constants: Mapping[str, Any]) -> SignatureInfo:
        """The parameters, for these values of constexpr parameters; warns of directions of an
        inline helper, which has none: what it writes is its caller's."""
        found = self._signature(constants)
        for parameter in found.parameters if self.definition.kind == "inline" else ():
            if parameter.direction is not ParamDirection.In:
                warnings.warn_explicit(
                    f"pl.{parameter.direction.name} on parameter '{parameter.name}' of inline "
                    f"helper '{self.definition.name}' is deprecated: it writes what its caller "
                    "gives; leave the direction out",
                    DeprecationWarning,
                    parameter.span.file,
                    parameter.span.line,
                    self.definition.function.__module__,
                )
        return found

    def _signature(self, constants: Mapping[str, Any]) -> SignatureInfo:
        return read_signature(
            self.info,
            self.names.names,
            self.definition.evaluated,
            constants,
            defaults=self.definition.defaults,
            only_enclosing=self.only_enclosing,
        )


@dataclass(eq=False)
class Graph:
    """The functions of one request, the entry first, and what they were when it came.

    `facts` are the functions and the names they inherit, as text; `guards` is None when some name
    cannot be guarded; `is_portable` says that the facts mean the same in another process.
    """

    members: list[Member]
    facts: tuple[tuple[str, str], ...]
    guards: tuple[Guard, ...] | None
    is_portable: bool
    sources: tuple[tuple[Sources, str], ...] = ()
    signatures: dict[str, SignatureInfo] = field(default_factory=dict[str, SignatureInfo])

    @cached_property
    def digest(self) -> str:
        """One hash of the facts."""
        state = blake()
        for name, text in self.facts:
            state.update(f"{len(name)}:{name}{len(text)}:{text}".encode())
        return state.hexdigest()

    @property
    def entry(self) -> Member:
        """The function that is called."""
        return self.members[0]

    def signature(self, constants: Mapping[str, Any]) -> SignatureInfo:
        """The entry's parameters for these constexpr values; read once."""
        key = repr({n: _specialize_values.render_value(v) for n, v in constants.items()})
        if key not in self.signatures:
            self.signatures[key] = self.entry.signature(constants)
        return self.signatures[key]

    def is_current(self) -> bool:
        """True while every name still means what it meant, and no source file has changed."""
        if self.guards is None or not all(map(_source.holds, self.guards)):
            return False
        return self.has_same_sources()

    def has_same_sources(self) -> bool:
        """True while no source file of another language has changed."""
        return all(source.digest == digest for source, digest in self.sources)


_IN = ParamDirection.In
_DIRECTIONS: dict[Any, ParamDirection] = {Out: ParamDirection.Out, InOut: ParamDirection.InOut}

Discover = Callable[[Any], "Definition | Stranger | None"]
"""Gives the definition that an object stands for in a body, or None: it is no helper."""


def build_graph(entry: Definition, discover: Discover) -> Graph:
    """Finds every helper that `entry` may call, in one snapshot of the names."""
    request = _source.RequestNamespace()
    members: dict[int, Member] = {}

    def visit(definition: Definition) -> Member:
        known = members.get(id(definition))
        if known is not None:
            return known
        names = request.of(definition.function, definition.enclosing)
        member = members[id(definition)] = Member(definition, names)
        for path in definition.info.reads:
            for prefix in _prefixes(path):
                found = names.resolve(prefix)
                member.resolutions[prefix] = found
                helper = discover(found.value)
                if isinstance(helper, Stranger):
                    found.value = helper
                    break
                if helper is not None:
                    member.helpers[prefix] = visit(helper)
                    break
                if _specialize_values.render_value(found.value) is not None:
                    break
        return member

    visit(entry)
    return _finished(list(members.values()))


def _prefixes(path: NamePath) -> Iterable[NamePath]:
    """A path, then ever shorter beginnings of it."""
    return (path[:length] for length in range(len(path), 0, -1))


def _finished(members: list[Member]) -> Graph:
    titles = _titles(members)
    writer = FactWriter()
    facts: list[tuple[str, str]] = []
    guards: list[Guard] | None = []
    for member in members:
        title = titles[id(member)]
        facts.append((f"source of {title}", member.definition.key))
        facts += writer.declared(title, member.definition.defaults, member.definition.evaluated)
        for path, resolution in member.resolutions.items():
            if guards is not None:
                guards = None if resolution.guards is None else [*guards, *resolution.guards]
            helper = member.helpers.get(path)
            text = f"helper {titles[id(helper)]}" if helper else writer.text(resolution.value)
            if text is not None:
                facts.append((f"{'.'.join(path)} in {title}", text))
    unique = None if guards is None else _source.merged(guards)
    return Graph(members, tuple(facts), unique, writer.is_portable, _contents(members))


def _titles(members: list[Member]) -> dict[int, str]:
    """A name for each function by its place in the graph; a number tells like names apart."""
    made: dict[int, str] = {}
    for member in members:
        name = member.definition.name
        count = sum(known.partition("#")[0] == name for known in made.values())
        made[id(member)] = f"{name}#{count + 1}" if count else name
    return made


def _contents(members: list[Member]) -> tuple[tuple[Sources, str], ...]:
    """The source files in another language, with what they contain now."""
    return tuple((s, s.digest) for member in members for s in member.definition.sources)


@dataclass(eq=False)
class Stranger:
    """A @pl.jit function that may not be called here; the parser's rule for it refuses."""

    name: str
    caller: str
