"""Asynchronous prefetch of global memory: hints that a CPU need not follow, with their types."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import INT32
from tilewright.errors import ArgumentTypeMismatch
from tilewright.ir.core import Value
from tilewright.ir.enums import Effect
from tilewright.ir.opdef import op
from tilewright.ir.types import HandleType, ScalarType, Type
from tilewright.ops.adapt import require_value
from tilewright.ops.rules import require_tensor

CONTEXT = HandleType("PrefetchAsyncContext")
EVENT = HandleType("AsyncEvent")
SESSION = HandleType("AsyncSession")


def require_handle(name: str, argument: str, value: Value, wanted: HandleType) -> None:
    """Raises ArgumentTypeMismatch unless `value` is a handle of the wanted kind."""
    if value.type != wanted:
        raise ArgumentTypeMismatch(f"{name}: {argument} is {value.type}, not {wanted}")


@op("prefetch.context", effect=Effect.READ)
def context() -> Value:
    """A context in which prefetches run."""
    ...


@context.type_rule
def context_type() -> Type:
    return CONTEXT


@context.reference
def context_numpy() -> Any:
    return None


@context.spelling("pl.prefetch.make_context")
def make_context() -> Value:
    """A context in which prefetches run."""
    return context()


@op("prefetch.start", effect=Effect.READ)
def start(src: Value, ctx: Value) -> Value:
    """Begins to bring `src` nearer; the event says when that is done."""
    ...


@start.type_rule
def start_type(src: Value, ctx: Value) -> Type:
    require_tensor("async_prefetch", "src", src)
    require_handle("async_prefetch", "ctx", ctx, CONTEXT)
    return EVENT


@start.reference
def start_numpy(src: Any, ctx: Any) -> Any:
    return None


@start.spelling("pl.prefetch.async_prefetch")
def async_prefetch(src: Any, ctx: Any) -> Value:
    """Begins to bring the tensor `src` nearer; gives an event to wait for."""
    return start(
        require_value("async_prefetch", "src", src), require_value("async_prefetch", "ctx", ctx)
    )


@op("prefetch.session", effect=Effect.READ)
def session(ctx: Value) -> Value:
    """The session of a context, in which its events complete."""
    ...


@session.type_rule
def session_type(ctx: Value) -> Type:
    require_handle("session", "ctx", ctx, CONTEXT)
    return SESSION


@session.reference
def session_numpy(ctx: Any) -> Any:
    return None


@session.spelling("pl.prefetch.session")
def session_spelling(ctx: Any) -> Value:
    """The session of a prefetch context."""
    return session(require_value("session", "ctx", ctx))


@op("prefetch.wait", effect=Effect.READ)
def wait(event: Value, session_handle: Value) -> Value:
    """Waits until `event` is done; gives 0."""
    ...


@wait.type_rule
def wait_type(event: Value, session_handle: Value) -> Type:
    require_handle("wait", "event", event, EVENT)
    require_handle("wait", "session_handle", session_handle, SESSION)
    return ScalarType(INT32)


@wait.reference
def wait_numpy(event: Any, session_handle: Any) -> Any:
    return np.int32(0)


@wait.spelling("pl.prefetch.wait")
def wait_spelling(event: Any, session_handle: Any) -> Value:
    """Waits until a prefetch is done; gives 0, as INT32."""
    return wait(
        require_value("wait", "event", event),
        require_value("wait", "session_handle", session_handle),
    )
