"""An inline helper of the parsed style as part of a trace: tiles go in, tiles come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from tilewright.errors import InvalidOperationError
from tilewright.frontend.trace import access
from tilewright.frontend.trace.spans import current_span
from tilewright.frontend.trace.tensors import nki_tensor
from tilewright.ir.core import Value

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
