"""Calls of helpers in a body: arguments to parameters, constexpr variants, and the contract of
declared types."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from typing import Any

from tilewright.errors import (
    InvalidOperationError,
    ParserTypeError,
    ShapeMismatch,
    StrideMismatch,
    TilewrightError,
)
from tilewright.frontend.annotations import Tensor, Tile
from tilewright.frontend.capture import CapturedFunction
from tilewright.frontend.inline import InlineFunction, expand
from tilewright.frontend.matching import Matcher
from tilewright.frontend.operations import as_attr
from tilewright.frontend.parse.basic import refresh_arguments
from tilewright.frontend.parse.calls import FRAMEWORK_KEYWORDS, emit_function_call
from tilewright.frontend.parse.parser import FunctionParser
from tilewright.frontend.parse.rules import callee, word
from tilewright.frontend.parse.state import Silenced
from tilewright.frontend.parse.tasks import call_submit
from tilewright.frontend.values import constant, is_number, literal_of
from tilewright.frontend.words import SPMD_SUBMIT, SUBMIT
from tilewright.ir.affine import Symbol, equal, substitute, symbols
from tilewright.ir.conformance import described
from tilewright.ir.core import Value
from tilewright.ir.types import (
    Dim,
    ScalarType,
    Shape,
    ShapedType,
    TileType,
    TileView,
    TupleType,
    Type,
)
from tilewright.jit._arguments import Parameter, SignatureInfo
from tilewright.jit._graph import Stranger
from tilewright.jit._source_text import method
from tilewright.jit._tensor_meta import parameter_type
from tilewright.jit.specializer import Helper, Specializer, Variant
from tilewright.ops.extents import as_dim
from tilewright.source import Span


@callee(Helper)
def call_helper(p: FunctionParser, node: ast.Call, helper: Helper) -> Any:
    """A helper of the specialized program: expanded in place, or called."""
    given = match_call(p, node, helper)
    constants = {name: p.evaluate(given.pop(name)) for name in helper.member.constant_names}
    variant = _variant(p, node, helper, constants)
    arguments = {name: p.operand(expression) for name, expression in given.items()}
    call = ast.copy_location(ast.Call(node.func, list(given.values()), []), node)
    if helper.member.definition.kind == "inline":
        result = _expand(p, call, variant, arguments)
        helper.specializer.note(variant, {}, variant.name)
        helper.specializer.record.note_call(p.span(node), variant.name, node, call.args)
        helper.specializer.declare_inline(variant)
    else:
        result = _call(p, node, call, helper.specializer, variant, arguments)
    refresh_arguments(p, call)
    return result


@callee(Stranger)
def call_stranger(p: FunctionParser, node: ast.Call, stranger: Stranger) -> Any:
    """An entry inside an entry."""
    raise InvalidOperationError(
        f"'{stranger.name}' is an entry, which '{stranger.caller}' cannot call",
        p.span(node),
        f"Decorate '{stranger.name}' with @pl.jit.incore, .opaque or .inline, or "
        f"'{stranger.caller}' with @pl.jit.host.",
    )


@word(SUBMIT, SPMD_SUBMIT)
def submit_helper(p: FunctionParser, node: ast.Call, function: Any) -> Any:
    """`pl.submit(helper, *args)`: the helper becomes the function that is submitted."""
    helper = p.evaluate(node.args[0]) if node.args else None
    if not isinstance(helper, Helper):
        return call_submit(p, node, function)
    own = {argument.arg for argument in helper.member.info.parameters}
    keywords = [k for k in node.keywords if k.arg in own]
    inner = ast.copy_location(ast.Call(node.args[0], node.args[1:], keywords), node)
    given = match_call(p, inner, helper)
    constants = {name: p.evaluate(given.pop(name)) for name in helper.member.constant_names}
    variant = _variant(p, node, helper, constants)
    types = argument_types(p, variant, {n: p.operand(e) for n, e in given.items()})
    target = ast.copy_location(ast.Name(f"{variant.name} submitted", ast.Load()), node)
    submitted = p.scope[target.id] = helper.specializer.typed(variant, types)
    rest = [k for k in node.keywords if k.arg not in own]
    call = ast.copy_location(ast.Call(node.func, [target, *given.values()], rest), node)
    text = ast.Call(node.func, [method(submitted.name), *given.values()], rest)
    helper.specializer.record.calls[p.span(node).called_from(None)] = text
    return call_submit(p, call, function)


def _variant(
    p: FunctionParser, node: ast.Call, helper: Helper, constants: Mapping[str, Any]
) -> Variant:
    try:
        return helper.specializer.variant(helper.member, constants)
    except TilewrightError as error:
        raise error.locate(p.span(node)) from None


# ---- arguments -----------------------------------------------------------------------------------


def match_call(p: FunctionParser, node: ast.Call, helper: Helper) -> dict[str, ast.expr]:
    """The expression of each parameter, in parameter order; defaults are constants."""
    names = [argument.arg for argument in helper.member.info.parameters]
    given = dict(zip(names, node.args))
    if len(node.args) > len(names):
        raise _wrong_count(p, node, helper, len(node.args))
    for keyword in node.keywords:
        if keyword.arg in FRAMEWORK_KEYWORDS and keyword.arg not in names:
            continue
        if keyword.arg is None or keyword.arg not in names or keyword.arg in given:
            raise ParserTypeError(
                f"Function '{helper.name}' does not take the keyword '{keyword.arg}' here",
                p.span(keyword),
                f"Its parameters are {', '.join(names)}.",
            )
        given[keyword.arg] = keyword.value
    defaults = helper.member.definition.defaults
    for name in names:
        if name not in given and name in defaults:
            given[name] = ast.copy_location(ast.Constant(defaults[name]), node)
    if len(given) < len(names):
        raise _wrong_count(p, node, helper, len(given))
    return {name: given[name] for name in names}


def _wrong_count(p: FunctionParser, node: ast.Call, helper: Helper, count: int) -> ParserTypeError:
    names = [argument.arg for argument in helper.member.info.parameters]
    return ParserTypeError(
        f"Function '{helper.name}' expects {len(names)} argument(s), got {count}",
        p.span(node),
        f"Its parameters are {', '.join(names)}.",
    )


# ---- expansion and calls -------------------------------------------------------------------------


def _expand(
    p: FunctionParser, call: ast.Call, variant: Variant, arguments: Mapping[str, Any]
) -> Any:
    site = p.span(call)
    _require_metadata(p, call, variant, arguments)
    fitted = {name: _fitted(variant.signature[name], value) for name, value in arguments.items()}
    known = {name: _type_of(value) for name, value in fitted.items()}
    types = {name: type_ for name, type_ in known.items() if type_ is not None}
    scalars = {name: _scalar_value(value) for name, value in fitted.items()}
    check_contract(variant.name, variant.signature, types, scalars, site)
    known = len(p.state.errors)
    result = expand(p.state, _inline_function(variant), list(fitted.values()), site)
    if len(p.state.errors) > known:
        raise Silenced  # what the helper gives is not known, and why has been said
    return result


def _require_metadata(
    p: FunctionParser, call: ast.Call, variant: Variant, arguments: Mapping[str, Any]
) -> None:
    """Raises ParserTypeError where a bare `pl.Tensor` or `pl.Tile` is given what has no shape."""
    for name, value in arguments.items():
        bare = variant.signature[name].annotation
        if bare in (Tensor, Tile) and not isinstance(getattr(value, "type", None), ShapedType):
            raise ParserTypeError(
                f"Function '{variant.name}': missing inferred tensor metadata for parameter "
                f"'{name}': pl.{bare.__name__} is given {described(value)}",
                p.span(call),
            )


def _inline_function(variant: Variant) -> InlineFunction:
    """The helper without annotations: `check_contract` has compared the types."""
    node, spec = copy.copy(variant.node), copy.copy(variant.node.args)
    spec.args = [ast.copy_location(ast.arg(a.arg), a) for a in spec.args]
    node.args = spec
    captured = CapturedFunction(node, variant.captured.source)
    types = {p.name: p.type for p in variant.signature.runtime if p.kind == "typed"}
    return InlineFunction(variant.name, captured, variant.names, checked=types)


def _fitted(parameter: Parameter, value: Any) -> Any:
    """A number as a constant of the declared scalar type."""
    if parameter.kind == "typed" and isinstance(parameter.type, ScalarType) and is_number(value):
        return constant(value, parameter.type.dtype)
    return value


def _type_of(value: Any) -> Type | None:
    """The type of an argument; of a tuple, that of its items; None for compile-time values."""
    if isinstance(value, Value):
        return value.type
    if not isinstance(value, tuple):
        return None
    items = [_type_of(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return TupleType(tuple(t for t in items if t is not None)) if all(items) else None


def _scalar_value(value: Any) -> Dim | None:
    """The extent that an integer scalar argument is, or None."""
    if isinstance(value, Value):
        literal = literal_of(value)
        if isinstance(literal, int) and not isinstance(literal, bool):
            return literal
        is_integer = isinstance(value.type, ScalarType) and value.type.dtype.is_int()
        return as_dim(value) if is_integer else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _call(
    p: FunctionParser,
    node: ast.Call,
    call: ast.Call,
    specializer: Specializer,
    variant: Variant,
    arguments: Mapping[str, Any],
) -> Any:
    _require_metadata(p, call, variant, arguments)
    function = specializer.typed(variant, argument_types(p, variant, arguments))
    specializer.record.note_call(p.span(node), function.name, node, call.args)
    attrs = tuple(
        (str(keyword.arg), as_attr(p.evaluate(keyword.value)))
        for keyword in node.keywords
        if keyword.arg in FRAMEWORK_KEYWORDS
    )
    results = emit_function_call(p, call, function, list(arguments.values()), attrs)
    return results[0] if len(results) == 1 else tuple(results) or None


def argument_types(
    p: FunctionParser, variant: Variant, arguments: Mapping[str, Any]
) -> dict[str, Type]:
    """The type of each parameter: declared, or its argument's."""
    types: dict[str, Type] = {}
    for name, value in arguments.items():
        parameter = variant.signature[name]
        if parameter.kind == "typed":
            types[name] = parameter.type
        else:
            types[name] = parameter_type(p.as_value(value).type, name)
    return types


# ---- the contract of an inline helper ------------------------------------------------------------


def check_contract(
    name: str,
    signature: SignatureInfo,
    types: Mapping[str, Type],
    scalars: Mapping[str, Dim | None],
    site: Span | None,
) -> None:
    """Compares argument types with declared ones; raises argument errors naming the parameter.

    Known scalars are substituted first; dimensions left open are solved from physical extents,
    in parameter order, and shared by all parameters, except those that only extents of tiles
    mention: each tile binds them on its own.
    """
    matcher = Matcher(f"inline helper '{name}'")
    typed = [p for p in signature.runtime if p.kind == "typed" and p.name in types]
    for placeholder, value in _placeholders(signature, scalars):
        matcher.bound[placeholder] = value
    declared = [p.type for p in signature.runtime if p.kind == "typed"]
    matcher.separate_tiles(declared, signature.placeholders.values())
    for parameter in typed:
        try:
            matcher.match(parameter.name, parameter.type, types[parameter.name])
        except TilewrightError as error:
            raise error.locate(site) from None
    for parameter in typed:
        try:
            _check_views(matcher, parameter.type, types[parameter.name])
        except TilewrightError as error:
            error.message = f"inline helper '{name}': parameter '{parameter.name}': {error.message}"
            error.args = (error.message,)
            raise error.locate(site) from None


def _placeholders(
    signature: SignatureInfo, scalars: Mapping[str, Dim | None]
) -> list[tuple[Symbol, Dim]]:
    """What the scalar parameters that occur in declared extents are given."""
    given: list[tuple[Symbol, Dim]] = []
    for name, placeholder in signature.placeholders.items():
        value = scalars.get(name)
        if value is not None:
            given.append((placeholder, value))
    return given


def _check_views(matcher: Matcher, declared: Type, actual: Type) -> None:
    if isinstance(declared, TupleType) and isinstance(actual, TupleType):
        for left, right in zip(declared.items, actual.items):
            _check_views(matcher, left, right)
    if not (isinstance(declared, TileType) and isinstance(actual, TileType)):
        return
    if declared.view is None:
        return
    view = actual.view or TileView()
    if declared.view.valid_shape is not None:
        _match_extents(
            matcher, "valid extent", declared.view.valid_shape, view.valid_shape or actual.shape
        )
    if declared.view.stride is not None:
        if view.stride is None and any(_has_symbols(dim) for dim in declared.view.stride):
            raise StrideMismatch(
                f"its declared strides {list(map(str, declared.view.stride))} depend on scalars; "
                "the argument has no explicit strides",
                hint="Give the argument a pl.TileView with stride=[...].",
            )
        if view.stride is not None:
            _match_extents(matcher, "stride", declared.view.stride, view.stride)
    if declared.view.start_offset is not None:
        _match_extents(
            matcher,
            "start offset",
            (declared.view.start_offset,),
            (0 if view.start_offset is None else view.start_offset,),
        )


def _match_extents(matcher: Matcher, what: str, wanted: Shape, given: Shape) -> None:
    if len(wanted) != len(given):
        raise ShapeMismatch(f"expects {len(wanted)} {what}s, got {len(given)}")
    for axis, (left, right) in enumerate(zip(wanted, given)):
        known = left if isinstance(left, int) else substitute(left, dict(matcher.bound))
        if not (known == right or equal(known, right) is not False):
            raise ShapeMismatch(f"expects {what} {axis} = {known}, got {right}")
        if not matcher.match_dim(left, right):
            raise ShapeMismatch(f"expects {what} {axis} = {left}, got {right}")


def _has_symbols(dim: Dim) -> bool:
    return not isinstance(dim, int) and any(True for _ in symbols(dim))


__all__ = ["call_helper", "check_contract", "match_call"]
