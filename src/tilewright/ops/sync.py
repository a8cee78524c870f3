"""Synchronisation of cores: events, barriers of all participants, caches.

Events are counters by id, of which there are `EVENTS`: a set adds one, a wait takes one.
"""

from __future__ import annotations

from typing import Any

from tilewright.errors import ArgumentTypeMismatch, IndexOutOfBounds, ParserTypeError
from tilewright.ir.builder import Builder
from tilewright.ir.core import Value
from tilewright.ir.enums import Effect, PipeType
from tilewright.ir.opdef import op
from tilewright.ops.adapt import is_number, require_value
from tilewright.ops.extents import constant_of
from tilewright.ops.participant import participant
from tilewright.ops.rules import require_scalar, require_tensor

EVENTS = 64
CORE_TYPES = ("mix", "aic", "aiv", "aic_only", "aiv_only")
MODES = ("hard", "soft")


def as_integer(name: str, argument: str, given: Any) -> Value:
    """A number or integer scalar as an operand."""
    if is_number(given):
        return Builder.current().index(int(given))
    value = require_value(name, argument, given)
    if not require_scalar(name, argument, value).dtype.is_int():
        raise ArgumentTypeMismatch(f"{name}: {argument} is {value.type}, not an integer scalar")
    return value


def require_choice(name: str, argument: str, given: Any, choices: tuple[str, ...]) -> None:
    """Raises ParserTypeError unless `given` is one of the words that an argument takes."""
    if given not in choices:
        wanted = ", ".join(map(repr, choices))
        raise ParserTypeError(f"{name}: {argument} is {given!r}", hint=f"Use one of {wanted}.")


@op("sync.set", effect=Effect.COMM)
def set_(
    event_id: Value, *, pipe: PipeType, ffts_mode: int | None = None, core_type: str | None = None
) -> None:
    """Sets event `event_id`, 0 to 63, for the other cores of the group once `pipe` is done."""


@set_.type_rule
def set_type(
    event_id: Value, *, pipe: PipeType, ffts_mode: int | None, core_type: str | None
) -> None:
    require_event("sync_set", event_id, core_type)


@set_.reference
def set_numpy(
    event_id: Any, *, pipe: PipeType, ffts_mode: int | None, core_type: str | None
) -> tuple[()]:
    participant().set_event(require_number(event_id))
    return ()


def require_event(name: str, event_id: Value, core_type: str | None) -> None:
    """Raises the error that the arguments of an event deserve."""
    if not require_scalar(name, "event_id", event_id).dtype.is_int():
        raise ArgumentTypeMismatch(f"{name}: event_id is {event_id.type}, not an integer scalar")
    known = constant_of(event_id)
    if known is not None and not 0 <= known < EVENTS:
        raise ParserTypeError(
            f"{name}: event_id is {known}", hint=f"Events are numbered 0 to {EVENTS - 1}."
        )
    if core_type is not None:
        require_choice(name, "core_type", core_type, CORE_TYPES)


def require_number(event_id: Any) -> int:
    """The number of an event; raises IndexOutOfBounds."""
    if not 0 <= event_id < EVENTS:
        raise IndexOutOfBounds(f"event {int(event_id)} is outside [0, {EVENTS})")
    return int(event_id)


@set_.spelling("pl.system.sync_set")
def sync_set(
    event_id: Any, *, pipe: PipeType, ffts_mode: int | None = None, core_type: str | None = None
) -> None:
    """Sets an event for the other cores of the group once `pipe` is done."""
    set_(
        as_integer("sync_set", "event_id", event_id),
        pipe=pipe,
        ffts_mode=ffts_mode,
        core_type=core_type,
    )


@op("sync.wait", effect=Effect.COMM)
def wait(event_id: Value, *, pipe: PipeType, core_type: str | None = None) -> None:
    """Waits until another core of the group has set event `event_id`, 0 to 63."""


@wait.type_rule
def wait_type(event_id: Value, *, pipe: PipeType, core_type: str | None) -> None:
    require_event("sync_wait", event_id, core_type)


@wait.reference
def wait_numpy(event_id: Any, *, pipe: PipeType, core_type: str | None) -> tuple[()]:
    participant().wait_event(require_number(event_id))
    return ()


@wait.spelling("pl.system.sync_wait")
def sync_wait(event_id: Any, *, pipe: PipeType, core_type: str | None = None) -> None:
    """Waits until another core of the group has set an event."""
    wait(as_integer("sync_wait", "event_id", event_id), pipe=pipe, core_type=core_type)


@op("sync.set_ffts", effect=Effect.COMM)
def set_ffts_(workspace: Value) -> None:
    """Names the workspace of cross-core events; a CPU needs none."""


@set_ffts_.type_rule
def set_ffts_type(workspace: Value) -> None:
    require_tensor("set_ffts", "workspace", workspace)


@set_ffts_.reference
def set_ffts_numpy(workspace: Any) -> tuple[()]:
    return ()


@set_ffts_.spelling("pl.system.set_ffts")
def set_ffts(workspace: Any) -> None:
    """Names the workspace of cross-core events."""
    set_ffts_(require_value("set_ffts", "workspace", workspace))


@op("sync.all", effect=Effect.COMM)
def all_(
    gm_workspace: Value | None = None,
    used_cores: Value | None = None,
    *,
    core_type: str = "mix",
    mode: str = "hard",
) -> None:
    """Waits until all participants (blocks, and their cube and vector sides) are here."""


@all_.type_rule
def all_type(
    gm_workspace: Value | None, used_cores: Value | None, *, core_type: str, mode: str
) -> None:
    require_choice("syncall", "core_type", core_type, CORE_TYPES)
    require_choice("syncall", "mode", mode, MODES)
    if gm_workspace is not None:
        require_tensor("syncall", "gm_workspace", gm_workspace)
    elif mode == "soft":
        raise ArgumentTypeMismatch("syncall: mode='soft' needs gm_workspace=")


@all_.reference
def all_numpy(gm_workspace: Any, used_cores: Any, *, core_type: str, mode: str) -> tuple[()]:
    participant().meet(None if used_cores is None else int(used_cores))
    return ()


@all_.spelling("pl.system.syncall")
def syncall(
    *,
    core_type: str = "mix",
    mode: str = "hard",
    gm_workspace: Any = None,
    used_cores: Any = None,
) -> None:
    """A barrier of all blocks, or of the first `used_cores` of them."""
    cores = None if used_cores is None else as_integer("syncall", "used_cores", used_cores)
    all_(gm_workspace, cores, core_type=core_type, mode=mode)


@op("sync.invalidate", effect=Effect.COMM)
def invalidate(
    tensor: Value | None = None,
    shapes: tuple[Value, ...] | None = None,
    offsets: tuple[Value, ...] | None = None,
) -> None:
    """Drops a window of `tensor` (or all of global memory) from the cache; a CPU's is coherent."""


@invalidate.type_rule
def invalidate_type(
    tensor: Value | None, shapes: tuple[Value, ...] | None, offsets: tuple[Value, ...] | None
) -> None:
    if tensor is not None:
        require_tensor("cacheinvalid", "tensor", tensor)
    elif shapes is not None or offsets is not None:
        raise ArgumentTypeMismatch("cacheinvalid: shapes and offsets need a tensor")


@invalidate.reference
def invalidate_numpy(tensor: Any, shapes: Any, offsets: Any) -> tuple[()]:
    return ()


@invalidate.spelling("pl.system.cacheinvalid")
def cacheinvalid(tensor: Any = None, shapes: Any = None, offsets: Any = None) -> None:
    """Drops one addressed window, or all of global memory, from the cache."""
    as_list = [None if given is None else list(given) for given in (shapes, offsets)]
    invalidate(tensor, *as_list)  # type: ignore[arg-type]
