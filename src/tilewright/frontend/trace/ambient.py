"""The accessor of the trace in flight, and how anything below it refuses the author's program."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

from tilewright import errors
from tilewright.errors import ErrorPage, TilewrightError
from tilewright.frontend.trace.spans import current_span

if TYPE_CHECKING:
    from tilewright.frontend.trace.context import TraceContext


class ContextType(Protocol):
    """The class that holds the process-wide cell."""

    global_ctx: TraceContext | None


_CONTEXT_TYPE: list[ContextType] = []
IN_FLIGHT: dict[str, bool] = {"trace": False}
"""Whether any thread traces; native launches watch it, for no kernel is launched meanwhile."""


def install_context_type(cls: ContextType) -> None:
    """Called once by the module of TraceContext, the class whose `global_ctx` is read here."""
    _CONTEXT_TYPE[:] = [cls]


def nki_ctx_or_none() -> TraceContext | None:
    """The context of this thread's trace, or None; never raises."""
    ctx = _CONTEXT_TYPE[0].global_ctx if _CONTEXT_TYPE else None
    return ctx if ctx is not None and ctx.thread == threading.get_ident() else None


def nki_ctx() -> TraceContext:
    """the (thread local) global context of IR construction during NKI tracing

    Raises NKIRuntimeError (`err_nki_api_outside_of_nki_kernel`) when this thread traces nothing.
    """
    ctx = nki_ctx_or_none()
    if ctx is None:
        raise errors.nki_control.OUTSIDE_KERNEL()
    return ctx


def refusal(page: ErrorPage, **fields: Any) -> TilewrightError:
    """The error of `page` at the author's expression, to be raised."""
    return page(span=current_span(), **fields)


def current_api() -> str:
    """Name of the language function that runs now, for messages."""
    ctx = nki_ctx_or_none()
    return (ctx.cur_api if ctx is not None else None) or "expression"
