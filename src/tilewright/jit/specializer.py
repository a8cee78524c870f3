"""Specialization: one request's functions, folded and typed, become a program.

The specialized program is an AST with the author's spans, handed to the parser; its text, made by
`source_text`, is for display and hashing only.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from tilewright.dataclass import dataclass
from tilewright.errors import ParserError, ParserSyntaxError, TilewrightError
from tilewright.frontend.annotations import Directed, DynVar
from tilewright.frontend.capture import CapturedFunction, FunctionNode, refuse_deep_nesting
from tilewright.frontend.external import read_external
from tilewright.frontend.function import parse_function
from tilewright.frontend.namespace import MISSING, Namespace
from tilewright.frontend.program import FunctionSource
from tilewright.frontend.vocabulary import pl_namespace, pld_namespace
from tilewright.ir.affine import Symbol, symbols
from tilewright.ir.builder import finish_program
from tilewright.ir.core import Function, Program, Value
from tilewright.ir.enums import ParamDirection
from tilewright.ir.types import TupleType, Type
from tilewright.jit import _specialize_body, _specialize_values
from tilewright.jit._arguments import Parameter, SignatureInfo, dims_of
from tilewright.jit._facts import is_callee
from tilewright.jit._graph import Graph, Member, Stranger
from tilewright.jit._hints import find_hints
from tilewright.jit._source import Path as NamePath
from tilewright.jit._source_text import Reading, Record
from tilewright.jit._specialize_types import DynDim, ShapeDim, TensorMeta
from tilewright.source import SourceText, Span


@dataclass(eq=False)
class Helper:
    """What a helper's name means in a specialized body: the parser's rule for it is in
    `_call_binding`."""

    member: Member
    specializer: Specializer

    @property
    def name(self) -> str:
        """The helper's name."""
        return self.member.definition.name


@dataclass(eq=False)
class Variant:
    """A helper for one set of constexpr values."""

    member: Member
    name: str
    node: FunctionNode
    names: Namespace
    signature: SignatureInfo
    constants: Mapping[str, Any]

    @property
    def captured(self) -> CapturedFunction:
        """Its definition, folded."""
        return CapturedFunction(self.node, self.member.info.captured.source)


class Specializer:
    """One request on its way from a graph to a program; it is what bodies may call."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.name = graph.entry.definition.name
        self.functions: dict[str, Function] = {}
        self.externals: dict[str, Function] = {}
        self.variants: dict[tuple[int, str], Variant] = {}
        self.record = Record()
        self.sources: dict[str, SourceText] = {}
        self._typed: dict[tuple[str, tuple[Type, ...]], Function] = {}
        self._names: dict[int, str] = {}
        self._active: list[str] = []
        self._taken = {"pl", "pld", "self"}.union(*(m.info.local_names for m in graph.members))

    def program(
        self, constants: Mapping[str, Any], types: Mapping[str, Type], signature: SignatureInfo
    ) -> Program:
        """The specialized program; raises the author errors of its functions."""
        entry = self.graph.entry
        variant = self._make(entry, constants, self.name, signature)
        function = self.read(variant, types)
        self.functions.pop(self.name, None)
        self.functions[self.name] = function
        return finish_program(self.name, self.functions)

    # Names

    def fold(self, member: Member, path: NamePath) -> str | None:
        """The text of an inherited name: a constant, or the name of what stays an object."""
        resolution = member.resolutions.get(path)
        if resolution is None or resolution.value is MISSING:
            return None
        kept = self._kept_object(member, path, resolution.value)
        return member.text(path) if kept is None else self.unique_name(*kept)

    def _kept_object(self, member: Member, path: NamePath, value: Any) -> tuple[Any, str] | None:
        helper = member.helpers.get(path)
        if helper is not None:
            return helper, helper.definition.name
        if isinstance(value, DynVar):
            return value, value.name
        return (value, value.name) if is_callee(value) or isinstance(value, Stranger) else None

    def unique_name(self, owner: Any, label: str) -> str:
        """The one name of an object in the specialized program."""
        if id(owner) not in self._names:
            name, count = label, 1
            while name in self._taken:
                count += 1
                name = f"{label}__{count}"
            self._taken.add(name)
            self._names[id(owner)] = name
        return self._names[id(owner)]

    def namespace(self, member: Member) -> Namespace:
        """What a folded body may refer to."""
        names: dict[str, Any] = {"pl": _PL, "pld": _PLD, **member.info.dynamic_symbols}
        for path, resolution in member.resolutions.items():
            kept = self._kept_object(member, path, resolution.value)
            if kept is not None:
                owner, label = kept
                value = Helper(owner, self) if isinstance(owner, Member) else owner
                names[self.unique_name(owner, label)] = value
        return Namespace(names, hints=find_hints(member))

    # Helpers

    def variant(self, member: Member, constants: Mapping[str, Any]) -> Variant:
        """The helper for these constexpr values; each distinct set has a name of its own."""
        texts = {name: _specialize_values.render_value(value) for name, value in constants.items()}
        for name, text in texts.items():
            if text is None:
                raise _not_constexpr(member.definition.name, name, constants[name])
        key = self.graph.members.index(member), repr(texts)
        if key not in self.variants:
            base = self.unique_name(member, member.definition.name)
            siblings = sum(number == key[0] for number, _ in self.variants)
            name = base if not siblings else f"{base}__{siblings + 1}"
            try:
                signature = member.signature(constants)
            except TilewrightError as error:
                given = ", ".join(f"{name}={text}" for name, text in texts.items())
                if given:
                    error.with_note(f"constexpr parameters of this call: {given}")
                raise
            self.variants[key] = self._make(member, constants, name, signature)
        return self.variants[key]

    def _make(
        self, member: Member, constants: Mapping[str, Any], name: str, signature: SignatureInfo
    ) -> Variant:
        names = self.namespace(member)
        captured = member.info.captured
        with refuse_deep_nesting(captured.node, captured.source):
            node = _specialize_body.specialize_definition(
                member.info, lambda path: self.fold(member, path), constants, name
            )
        return Variant(member, name, node, names, signature, constants)

    def typed(self, variant: Variant, types: Mapping[str, Type]) -> Function:
        """A helper with a body of its own, for arguments of these types."""
        key = variant.name, tuple(types.values())
        if key not in self._typed:
            same = sum(name == variant.name for name, _ in self._typed)
            name = variant.name if not same else f"{variant.name}__{same + 1}"
            while name in self.functions:
                name += "_"
            self._typed[key] = self.functions[name] = self.read(variant, types, name)
        return self._typed[key]

    def read(
        self, variant: Variant, types: Mapping[str, Type], name: str | None = None
    ) -> Function:
        """Parses one folded definition with these parameter types."""
        title = name or variant.name
        definition = variant.member.definition
        if variant.name in self._active:
            raise ParserSyntaxError(f"'{title}' calls itself", variant.signature.parameters[0].span)
        if definition.options.external_source is not None:
            self.note(variant, types, title)
            return self._read_external(variant, types, title)
        self._active.append(variant.name)
        try:
            function = parse_function(
                variant.node,
                variant.names,
                variant.captured.source,
                callees=self,
                options=definition.options,
                evaluated=evaluated_annotations(variant.signature, types),
                param_types=types,
                name=title,
            )
        finally:
            self._active.pop()
        if definition.kind != "inline":
            self.note(variant, types, title)
        return function

    def note(self, variant: Variant, types: Mapping[str, Type], title: str) -> None:
        """Remembers a definition for the program's text."""
        definition = variant.member.definition
        self.sources.setdefault(title, variant.captured.source)
        is_inline = definition.kind == "inline"
        reading = Reading(
            title, variant.node, definition.options, variant.signature, types, is_inline
        )
        self.record.note(reading)

    def _read_external(self, variant: Variant, types: Mapping[str, Type], title: str) -> Function:
        evaluated = evaluated_annotations(variant.signature, types)
        source = FunctionSource(
            variant.node,
            variant.names,
            variant.captured.source,
            variant.member.definition.options,
            evaluated=evaluated,
            name=title,
        )
        return read_external(source)

    def declare_inline(self, variant: Variant) -> None:
        """Shows an inline helper in the program, as a function nothing calls, when it has types."""
        if variant.name in self.functions:
            return
        types = {p.name: p.type for p in variant.signature.runtime if p.kind == "typed"}
        if len(types) != len(variant.signature.runtime):
            return
        try:
            self.functions[variant.name] = self.read(variant, types)
        except TilewrightError:
            return

    # What bodies may call (the parser's `Callees`)

    def method(self, name: str) -> Function | None:
        """There is no `self`."""
        del name

    def method_names(self) -> Sequence[str]:
        """Nothing to suggest."""
        return ()

    def use(self, function: Function) -> None:
        """A function defined elsewhere joins the program; ParserSyntaxError on a clash."""
        if self.functions.get(function.name, function) is not function:
            raise ParserSyntaxError(
                f"Conflicting external functions: two different functions are named "
                f"'{function.name}'",
                hint="Rename one of them.",
            )
        for inner in function.callees.values():
            self.use(inner)
        self.functions[function.name] = function


_PL, _PLD = pl_namespace(), pld_namespace()


def evaluated_annotations(signature: SignatureInfo, types: Mapping[str, Type]) -> dict[str, Any]:
    """The annotations of a definition as the parser takes them."""
    placeholders = set(signature.placeholders.values())
    made: dict[str, Any] = {
        p.name: _directed(p, types[p.name])
        for p in signature.runtime
        if p.name in types and not mentions(types[p.name], placeholders)
    }
    if not any(mentions(each, placeholders) for each in _listed(signature.returns)):
        made["return"] = signature.returns
    return made


def _listed(returns: Any) -> Iterable[Any]:
    return getattr(returns, "__args__", (returns,))


def mentions(type_: Any, found: Container[Symbol]) -> bool:
    """True when an extent of a type mentions one of the symbols."""
    if isinstance(type_, TupleType):
        return any(mentions(item, found) for item in type_.items)
    return any(symbol in found for dim in dims_of(type_) for symbol in symbols(dim))


def _directed(parameter: Parameter, type_: Type) -> Any:
    if parameter.direction is ParamDirection.In:
        return type_
    return Directed(parameter.direction, type_)


def _not_constexpr(helper: str, name: str, given: Any) -> ParserError:
    if isinstance(given, Value):
        what = f"'{given.name or 'what is given'}' is a {given.type} that only run time knows"
    else:
        what = f"{given!r} cannot be written into the specialized program"
    return ParserError(
        f"{helper}: parameter '{name}' is constexpr, and what it is given is not: {what}",
        hint=f"Give a constant, or declare '{name}' as a pl.Scalar.",
    )


def source_text(specializer: Specializer) -> str:
    """The specialized program as Python text; it must have been read."""

    def span(reading: Reading, node: ast.Call) -> Span | None:
        source = specializer.sources[reading.name]
        return source.span(node) if hasattr(node, "lineno") else None

    return specializer.record.text(specializer.name, span)


__all__ = [
    "DynDim",
    "Helper",
    "ShapeDim",
    "Specializer",
    "TensorMeta",
    "Variant",
    "evaluated_annotations",
    "source_text",
]
