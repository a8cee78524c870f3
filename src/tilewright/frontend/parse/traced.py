"""Calls of traced kernels in programs: the kernel is traced for the types of its arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import ParserTypeError
from tilewright.frontend.calls import KernelBase
from tilewright.frontend.operations import emit_call
from tilewright.frontend.parse.basic import refresh_arguments
from tilewright.frontend.parse.calls import emit_function_call
from tilewright.frontend.parse.parser import FunctionParser
from tilewright.frontend.parse.rules import callee
from tilewright.ir.core import Function, Value
from tilewright.ir.enums import ParamDirection
from tilewright.ir.types import ShapedType, TensorType
from tilewright.ops import control
from tilewright.source import Span

if TYPE_CHECKING:
    from tilewright.frontend.trace.kernel import TraceKernel


@callee(KernelBase)
def call_traced_kernel(p: FunctionParser, node: ast.Call, kernel: TraceKernel) -> Any:
    """The results of the kernel: tensors made here, and parameters that it updates."""
    given = list(p.items(node.args))
    samples = [_sample(p, node, each) for each in given]
    made = kernel.specialize(*samples, **p.keywords(node))
    if made.constants or made.prints:
        raise ParserTypeError(
            f"'{kernel.__name__}' has constant tensors or prints, which only a launch provides",
            p.span(node),
        )
    function = made.program[made.entry]
    p.state.callees.use(function)
    passed = [(where, each) for where, each in zip(node.args, given) if isinstance(each, Value)]
    passed += [(node.func, output) for output in _outputs(p, node, function)]
    whole = ast.copy_location(ast.Call(node.func, [where for where, _ in passed], []), node)
    latest = [each for _, each in passed]
    written = [k for k, each in enumerate(function.directions) if each is not ParamDirection.In]

    def launch(values: Sequence[Value], details: dict[str, Any], span: Span) -> list[Value]:
        call = p.builder.emit(control.call, (tuple(values),), details, span=span)
        for place, version in zip(written, call.results, strict=True):
            latest[place] = version
        return list(call.results)

    emit_function_call(p, whole, function, list(latest), (), launch)
    refresh_arguments(p, node)
    results = tuple(latest[place] for place in made.results)
    return results if made.returns_tuple else (results[0] if results else None)


def _outputs(p: FunctionParser, node: ast.Call, function: Function) -> Iterator[Value]:
    """A tensor for each result that the kernel makes."""
    for param, direction in zip(function.params, function.directions):
        if direction is ParamDirection.Out:
            assert isinstance(param.type, ShapedType)
            extents, how = list(param.type.shape), {"dtype": param.type.dtype}
            yield p.emitted(node, emit_call, "pl.create_tensor", [extents], how)


def _sample(p: FunctionParser, node: ast.Call, given: Any) -> Any:
    """An array of a tensor's shape and type, which takes no memory; a constant as it is."""
    if not isinstance(given, Value):
        return given
    type_ = given.type
    if isinstance(type_, TensorType) and all(isinstance(e, int) for e in type_.shape):
        extents = tuple(int(extent) for extent in type_.shape)
        return np.broadcast_to(np.zeros((), type_.dtype.numpy), extents)
    raise ParserTypeError(
        f"a traced kernel takes tensors of known extents and constants, not {type_}", p.span(node)
    )
