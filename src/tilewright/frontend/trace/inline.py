"""Functions of the parsed style as part of a trace: tiles go in, tiles come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from tilewright.errors import InvalidOperationError
from tilewright.frontend.trace import access
from tilewright.frontend.trace.spans import current_span
from tilewright.frontend.trace.tensors import nki_tensor
from tilewright.ir.core import Function, Value
from tilewright.ir.enums import ParamDirection
from tilewright.ir.rewrite import Cloner
from tilewright.ir.types import ScalarType, ShapedType, TensorType, TileType
from tilewright.ops import control

if TYPE_CHECKING:
    from tilewright.frontend.trace.context import TraceContext


def call_with_tiles(
    ctx: TraceContext, name: str, function: Callable[..., Any], arguments: Sequence[Any]
) -> Any:
    """What `function` gives for the values of tiles; a value that it returns is a new tile."""
    return _tiles(ctx, function(*(_value(ctx, name, each) for each in arguments)))


def _value(ctx: TraceContext, name: str, given: Any) -> Any:
    if not isinstance(given, nki_tensor):
        return given
    if given.root.is_hbm:
        raise InvalidOperationError(
            f"inline function '{name}' is given a tensor in HBM; in a traced kernel it takes tiles",
            current_span(),
            "Load it with nl.load first.",
        )
    return access.read(ctx.sema, given)


def _tiles(ctx: TraceContext, result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(_tiles(ctx, each) for each in cast("tuple[Any, ...]", result))
    return ctx.sema.tile(result) if isinstance(result, Value) else result


# ---------------------------------------------------------------------------- whole functions


def call_function(
    ctx: TraceContext, function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """The operations of `function`, copied into the trace.

    Tile parameters take tiles, tensor parameters whole tensors in HBM, scalars numbers; Out and
    InOut tensors are updated. A value that it returns is a new tile.
    """
    params = function.params
    if kwargs or len(args) != len(params):
        raise _refused(function, f"takes {len(params)} arguments by position, got {len(args)}")
    given = [_argument(ctx, function, p, a) for p, a in zip(params, args, strict=True)]
    cloner = Cloner(ctx.sema, dict(zip(params, given)), fresh_symbols=True)
    for param, value in zip(params, given):
        cloner.bind(param, value)
    for op in function.body.ops[:-1]:
        if op.opdef is control.call:
            raise _refused(function, "calls another function, which a trace cannot hold")
        cloner.clone(op)
    values, finals = function.body.terminator.operands
    directions = zip(args, function.directions)
    written = [tensor for tensor, direction in directions if direction is not ParamDirection.In]
    for tensor, final in zip(written, finals, strict=True):
        ctx.sema.advance(tensor.root, cloner.value(final))
    updated = dict(zip(finals, written, strict=True))
    results = tuple(
        updated[value] if value in updated else _result(ctx, function, cloner.value(value))
        for value in values
    )
    return results[0] if len(results) == 1 else results or None


def _argument(ctx: TraceContext, function: Function, param: Value, given: Any) -> Value:
    type_ = param.type
    if isinstance(type_, ScalarType):
        number = access.host_number(given)
        if number is None:
            raise _refused(function, f"takes a number as '{param.name}'")
        return ctx.sema.constant(number, type_.dtype)
    wants_hbm = isinstance(type_, TensorType)
    if not isinstance(given, nki_tensor) or given.root.is_hbm != wants_hbm:
        wanted = "a tensor in HBM" if wants_hbm else "a tile"
        raise _refused(function, f"takes {wanted} as '{param.name}'")
    if wants_hbm and not given.is_whole:
        raise _refused(function, f"takes a whole tensor as '{param.name}', not part of one")
    if function.directions[function.params.index(param)] is not ParamDirection.In:
        access.require_writable(given.root)
    assert isinstance(type_, ShapedType)
    if given.shape != tuple(type_.shape) or given.root.dtype is not type_.dtype:
        shown = f"{list(given.shape)} of {given.dtype}"
        raise _refused(function, f"takes {type_} as '{param.name}', got {shown}")
    return ctx.sema.version_of(given.root) if wants_hbm else access.read(ctx.sema, given)


def _result(ctx: TraceContext, function: Function, value: Value) -> nki_tensor:
    if not isinstance(value.type, TileType):
        raise _refused(function, f"returns {value.type}; in a trace it gives tiles, and its Outs")
    return ctx.sema.tile(value)


def _refused(function: Function, reason: str) -> InvalidOperationError:
    return InvalidOperationError(f"'{function.name}' {reason}", current_span())
