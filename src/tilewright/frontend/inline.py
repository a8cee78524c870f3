"""Inline helpers: functions whose statements are read again at each call, in place."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, cast

from tilewright.dataclass import dataclass
from tilewright.dtypes import DType
from tilewright.errors import InvalidOperationError, ParserSyntaxError, ParserTypeError
from tilewright.frontend.annotations import BARE, Directed, as_type, require_direction
from tilewright.frontend.capture import CapturedFunction
from tilewright.frontend.matching import Matcher, kind_name
from tilewright.frontend.namespace import MISSING, Callee, Namespace
from tilewright.frontend.operations import require_kernel
from tilewright.frontend.parse.desugar import prepared_body
from tilewright.frontend.parse.liveness import Liveness
from tilewright.frontend.parse.parser import FunctionParser, Self
from tilewright.frontend.parse.state import State
from tilewright.frontend.trace.ambient import nki_ctx_or_none
from tilewright.frontend.trace.readings import Source
from tilewright.frontend.typing import TypeEvaluator
from tilewright.frontend.values import (
    constant,
    convert,
    is_number,
    is_passed_as,
    is_scalar,
)
from tilewright.ir.core import Function, Value
from tilewright.ir.enums import ParamDirection
from tilewright.ir.types import ScalarType, TupleType, Type
from tilewright.source import Span

if TYPE_CHECKING:
    from tilewright.frontend.trace.context import TraceContext

MAX_DEPTH = 64


class NoCallees:
    """The functions that a helper called outside any program may call: none of its own."""

    def method(self, name: str) -> Function | None:
        """There is no `self`."""
        del name

    def method_names(self) -> list[str]:
        """Nothing to suggest."""
        return []

    def use(self, function: Function) -> None:
        """Calls of functions need a program."""
        raise InvalidOperationError(
            f"'{function.name}' is called outside a program", hint="Call it from a @pl.program."
        )


@dataclass
class InlineFunction(Callee, Source):
    """A function decorated with @pl.inline. Calling it while a kernel is built expands it.

    `checked` are types of parameters that arguments are known to fit.
    """

    name: str
    captured: CapturedFunction
    names: Namespace
    evaluated: dict[str, Any] = field(default_factory=dict[str, Any])
    checked: dict[str, Type] = field(default_factory=dict[str, Type])

    def __call__(self, *arguments: Any) -> Any:
        """Expands the helper into what is being built, a trace included."""
        ctx = nki_ctx_or_none()
        if ctx is not None:
            ctx.watch.enter(self)
            return self.expand_into(ctx, arguments)
        return self._expanded(*arguments)

    def expand_into(self, ctx: TraceContext, arguments: Sequence[Any]) -> Any:
        """Expands the helper into a trace: tiles go in, tiles come out."""
        return ctx.call_with_tiles(self.name, self._expanded, arguments)

    def _expanded(self, *arguments: Any) -> Any:
        state = State(require_kernel(f"inline function '{self.name}'"), NoCallees())
        for argument in arguments:
            if isinstance(argument, Value):
                state.params = (*state.params, argument)
        result = expand(state, self, arguments, state.builder.span)
        state.say()
        if state.errors:
            raise state.errors[0]
        return result

    @property
    def parameters(self) -> list[ast.arg]:
        """The parameters of the `def`, without `self`."""
        spec = self.captured.node.args
        given = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]
        return given[1:] if given and given[0].arg == "self" else given

    @property
    def mentioned(self) -> tuple[str, ...]:
        """The names and attributes in its text."""
        parts = list(ast.walk(self.captured.node))
        names = [part.id for part in parts if isinstance(part, ast.Name)]
        names += [part.attr for part in parts if isinstance(part, ast.Attribute)]
        return tuple(dict.fromkeys(names))

    def readings(self) -> Iterator[tuple[str, Any]]:
        """What the names in its text mean."""
        found = ((name, self.names.lookup(name)) for name in self.mentioned)
        return ((name, value) for name, value in found if value is not MISSING)

    def __repr__(self) -> str:
        return f"<inline function {self.name}>"


def expand(
    state: State, function: InlineFunction, arguments: Sequence[Any], site: Span | None
) -> Any:
    """Reads the helper's statements into the current block; gives what it returns."""
    params = function.parameters
    if len(arguments) != len(params):
        raise ParserTypeError(
            f"Inline function '{function.name}' expects {len(params)} argument(s), "
            f"got {len(arguments)}",
            site,
        )
    if state.depth >= MAX_DEPTH:
        raise ParserSyntaxError(
            f"Inline function '{function.name}' expands itself",
            site and site.called_from(None),  # not by way of every expansion
            "Write the repetition as a loop, or end it by a pl.constexpr parameter.",
        )
    node, source = function.captured.node, function.captured.source
    body = prepared_body(node, function.names, source)
    live = Liveness(body, (param.arg for param in params))
    p = FunctionParser(state, function.names, source, site, live=live, function=function.name)
    p.around = body
    _bind_arguments(p, function, arguments, site)
    p.scope["self"] = Self()
    state.depth += 1
    saved, names = state.builder.span, {v: v.name for v in arguments if isinstance(v, Value)}
    try:
        p.block(body)
    finally:
        state.depth -= 1
        state.builder.span = saved
    for value, name in names.items():
        value.name = name
    return _returned(p)


def _returned(p: FunctionParser) -> Any:
    if p.returned is None:
        return None
    values = [p.versions.newest(v) if isinstance(v, Value) else v for v in p.returned[0]]
    return values[0] if len(values) == 1 else tuple(values) or None


def _bind_arguments(
    p: FunctionParser, function: InlineFunction, arguments: Sequence[Any], site: Span | None
) -> None:
    params = function.parameters
    for param, argument in zip(params, arguments):
        p.scope[param.arg] = argument
        p.defined[param.arg] = ast.copy_location(ast.Name(param.arg, ast.Load()), param)
    types = TypeEvaluator(p.names, p.source, site, scope=p.scope)
    declared = {param.arg: _declared(types, function, param) for param in params}
    matcher = Matcher(f"inline function '{function.name}'")
    matcher.separate_tiles(type_ for type_ in declared.values() if type_ is not None)
    for param in params:
        given, wanted = p.scope[param.arg], declared[param.arg]
        if isinstance(wanted, ScalarType) and is_number(given):
            given = p.scope[param.arg] = constant(given, wanted.dtype)
        elif isinstance(wanted, ScalarType):
            given = p.scope[param.arg] = _as_passed(given, wanted.dtype)
        if wanted is not None and isinstance(given, Value):
            types.computed(param, matcher.match, param.arg, wanted, given.type)
        type_ = wanted or function.checked.get(param.arg)
        if type_ is not None:
            p.declared = (*p.declared, *_declarations(type_, given))
        if isinstance(given, Value) and given not in p.state.params:
            p.state.params = (*p.state.params, given)


def _declarations(wanted: Type, given: Any) -> Iterator[tuple[Type, Value]]:
    """What a parameter declares of each tensor and tile that it is given."""
    if isinstance(given, Value):
        yield wanted, given
    elif isinstance(wanted, TupleType) and isinstance(given, tuple):
        for type_, item in zip(wanted.items, cast("tuple[Any, ...]", given)):
            yield from _declarations(type_, item)


def _as_passed(given: Any, dtype: DType) -> Any:
    """A scalar as it is passed for one of `dtype`: integers may change their type."""
    if is_scalar(given) and is_passed_as(dtype, given.type.dtype):
        return convert(given, dtype)
    return given


def _declared(types: TypeEvaluator, function: InlineFunction, param: ast.arg) -> Type | None:
    if param.annotation is None:
        return None
    given = function.evaluated.get(param.arg)
    if given is None or isinstance(given, str):
        given = types.annotation(param.annotation)
    direction = ParamDirection.In
    if isinstance(given, Directed):
        direction, given = given.direction, given.inner
    if given not in BARE:
        type_ = types.computed(param, as_type, given)
        types.computed(param, require_direction, param.arg, direction, type_)
        return type_
    argument = types.scope[param.arg]
    kind = given.__name__.removeprefix("Distributed")
    if isinstance(argument, Value) and not kind_name(argument.type).endswith(kind):
        raise ParserTypeError(
            f"inline function '{function.name}': parameter '{param.arg}': expects a "
            f"pl.{kind}, got {argument.type}",
            types.span(param),
        )
    return None
