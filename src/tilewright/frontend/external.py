"""Functions whose body is not in the language: C++ sources and host Python."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tilewright.errors import ParserSyntaxError, ParserTypeError
from tilewright.frontend.attributes import Prologue, directive
from tilewright.frontend.signature import Signature, SignatureReader
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Value
from tilewright.ir.enums import FunctionType, ParamDirection
from tilewright.ir.types import ScalarType, ShapedType, Type
from tilewright.ops import control, external, host

if TYPE_CHECKING:
    from tilewright.frontend.program import FunctionSource

_CORES = (FunctionType.AIC, FunctionType.AIV)


def read_external(source: FunctionSource) -> Function:
    """A function implemented in C++: its signature, and the path of its source.

    Raises ParserSyntaxError unless it is an AIC or AIV function with the body `...`,
    ParserTypeError for a parameter that C++ cannot take, and ValueError when the file does not
    exist. A relative path counts from the defining file. Without a return annotation it gives the
    written parameters.
    """
    options = source.options
    if options.func_type not in _CORES:
        raise ParserSyntaxError(
            "external_source is for AIC and AIV functions only",
            source.source.span(source.node),
            "Add type=pl.FunctionType.AIV.",
        )
    if not _is_bare(source):
        raise ParserSyntaxError(
            "The body of a function with external_source is '...'", source.source.span(source.node)
        )
    home = os.path.dirname(os.path.abspath(source.source.file))
    path = os.path.normpath(os.path.join(home, options.external_source or ""))
    if not os.path.isfile(path):
        raise ValueError(f"external_source of '{source.title}' does not exist: {path}")
    facts: dict[str, object] = {"external_source": path}
    if source.title != source.node.name:
        facts["external_name"] = source.node.name
    function = _function(source, lambda _: external.body(), facts, returns_all=True)
    for param in function.params:
        if not isinstance(param.type, (ShapedType, ScalarType)):
            raise ParserTypeError(
                f"parameter '{param.name}' of '{source.title}' is a {param.type}; a kernel in C++ "
                "takes tensors, tiles and scalars",
                function.span,
            )
    return function


def read_sub_worker(source: FunctionSource) -> Function:
    """A host callback: its Python body is kept as text, without pl.func_attr directives."""
    if _is_bare(source):
        return read_declaration(source)
    kept = [child for child in source.node.body if not directive(source.names, child)]
    return _function(source, _emit_python(ast.unparse(ast.Module(kept, []))))


def is_declaration(source: FunctionSource) -> bool:
    """True for the body `...` where a value is to be returned: nothing says how."""
    return source.node.returns is not None and _is_bare(source)


def read_declaration(source: FunctionSource) -> Function:
    """A function that is only declared: it can be called and printed, and not run."""
    return _function(source, _emit_python(None), doc=ast.get_docstring(source.node))


def _emit_python(body: str | None) -> Callable[[tuple[Type, ...]], object]:
    return lambda types: host.python(body=body, types=types)


def _is_bare(source: FunctionSource) -> bool:
    """True for the body `...`, after a docstring and directives."""
    body = source.node.body[ast.get_docstring(source.node) is not None :]
    rest = [c for c in body if not isinstance(c, ast.Pass) and not directive(source.names, c)]
    if len(rest) != 1 or not isinstance(rest[0], ast.Expr):
        return False
    return isinstance(rest[0].value, ast.Constant) and rest[0].value.value is Ellipsis


def _attributes(source: FunctionSource, params: Sequence[Value]) -> dict[str, object]:
    """The attributes of the function; raises ParserSyntaxError for a directive in its body."""
    node, names = source.node, source.names
    prologue = Prologue(names, source.source, params)
    of_names = partial(directive, names)
    body = node.body[ast.get_docstring(node) is not None :]
    attrs, rest = prologue.read(source.options.attrs, body, source.source.span(node))
    late = [call for child in rest for call in map(of_names, ast.walk(child)) if call]
    if late:
        raise ParserSyntaxError(
            "pl.func_attr must appear before every other statement of a function",
            source.source.span(late[0]),
        )
    return attrs


def require_whole_groups(functions: Mapping[str, Function]) -> None:
    """Raises ParserSyntaxError for a Group of which only some functions are in C++."""
    for group in functions.values():
        if group.func_type is not FunctionType.Group:
            continue
        calls = [op for op in group.body.walk() if op.opdef is control.call]
        called = [functions.get(op.attrs["callee"]) for op in calls]
        foreign = [f.name for f in called if f is not None and external.is_external(f)]
        own = [f.name for f in called if f is not None and not external.is_external(f)]
        if foreign and own:
            raise ParserSyntaxError(
                f"Group '{group.name}' calls '{foreign[0]}', which is in C++, and '{own[0]}', "
                "which is not",
                group.span,
                "Write all functions of a Group in C++, or none.",
            )


def _function(
    source: FunctionSource,
    emit_body: Callable[[tuple[Type, ...]], object],
    facts: Mapping[str, object] | None = None,
    *,
    doc: str | None = None,
    returns_all: bool = False,
) -> Function:
    reader = SignatureReader(source.names, source.source, evaluated=source.evaluated)
    signature = reader.read(source.node, skip=1 if source.is_method else 0)
    attrs = _attributes(source, signature.params)
    builder = Builder()
    block = Block(signature.params)
    with builder, builder.inside(block), builder.located(source.source.span(source.node)):
        finals = _written(signature)
        if signature.returns is None and returns_all:
            returned: Sequence[Value] = finals
        else:
            returned = finals[: len(signature.returns or ())]
        emit_body((signature.returns or ())[len(finals) :])
        returned = [*returned, *block.ops[0].results]
        builder.emit(control.return_, (tuple(returned), tuple(finals)))
    return Function(
        source.title,
        signature.directions,
        block,
        tuple(value.type for value in returned),
        func_type=source.options.func_type,
        level=source.options.level,
        role=source.options.role,
        attrs={**attrs, **(facts or {})},
        doc=doc,
        span=source.source.span(source.node),
    )


def _written(signature: Signature) -> list[Value]:
    pairs = zip(signature.params, signature.directions)
    return [param for param, direction in pairs if direction is not ParamDirection.In]
