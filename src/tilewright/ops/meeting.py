"""Loop level: what participants that run at the same time do with each other.

`control.for` of kind Together runs its iterations at the same time, a thread each, on the same
memory; its attribute `crew` says what they are called ("block", "lane", or "side": iteration 0 is
the cube core, the others are vector lanes). A signal releases what its participant has written
before it, and a wait that it satisfies acquires that. Everything else that waits, such as rings of
tiles and barriers, is made of these words on buffers of counters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.abi import WAIT_VALUES
from tilewright.dtypes import BOOL, INDEX, INT32, INT64
from tilewright.errors import DTypeMismatch, RuntimeShapeMismatch
from tilewright.ir.core import Value
from tilewright.ir.enums import Effect, NotifyOp, WaitCmp
from tilewright.ir.opdef import op
from tilewright.ir.types import ScalarType, Type, buffer_of
from tilewright.ops.loop import buffer_type, require_rank
from tilewright.ops.participant import GATE_SHAPE, participant

COUNTERS = (INT32, INT64)


def require_counter(name: str, buffer: Value, indices: Sequence[Value], number: Value) -> Type:
    """The type of one counter of a buffer, which `number` has too; raises DTypeMismatch."""
    type_ = buffer_type(buffer)
    require_rank(name, indices, type_)
    if type_.dtype not in COUNTERS or number.type != ScalarType(type_.dtype):
        raise DTypeMismatch(f"{name}: a {number.type} for a buffer of {type_.dtype}")
    return ScalarType(type_.dtype)


@op("loop.signal", effect=Effect.COMM)
def signal(
    buffer: Value, indices: Sequence[Value], number: Value, *, op: NotifyOp = NotifyOp.AtomicAdd
) -> Value:
    """Adds `number` to a counter, or sets it, in one step; gives what it held before."""
    ...


@signal.type_rule
def signal_type(buffer: Value, indices: Sequence[Value], number: Value, *, op: NotifyOp) -> Type:
    return require_counter("loop.signal", buffer, indices, number)


@op("loop.wait", effect=Effect.COMM)
def wait(
    buffer: Value,
    indices: Sequence[Value],
    number: Value,
    shown: Sequence[Value],
    *,
    what: str,
    cmp: WaitCmp = WaitCmp.Ge,
) -> None:
    """Waits until a counter is at least `number`, or equals it.

    `what` says what for, where nobody will ever signal it: `{0}` in it is the number, `{1}` and
    `{2}` are the values of `shown`, which are INDEX.
    """


@wait.type_rule
def wait_type(
    buffer: Value,
    indices: Sequence[Value],
    number: Value,
    shown: Sequence[Value],
    *,
    what: str,
    cmp: WaitCmp,
) -> None:
    require_counter("loop.wait", buffer, indices, number)
    if len(shown) > WAIT_VALUES or any(value.type != ScalarType(INDEX) for value in shown):
        raise DTypeMismatch(f"loop.wait: what is shown are {WAIT_VALUES} INDEX at most")


@op("loop.require", effect=Effect.WRITE)
def require(condition: Value, values: Sequence[Value], *, what: str) -> None:
    """A fault RuntimeShapeMismatch unless `condition` holds; `{0}` in `what` is the first value."""


@require.type_rule
def require_type(condition: Value, values: Sequence[Value], *, what: str) -> None:
    if condition.type != ScalarType(BOOL):
        raise DTypeMismatch(f"loop.require: the condition is {condition.type}, not a BOOL")


@require.reference
def require_numpy(condition: Any, values: Any, *, what: str) -> tuple[()]:
    if not condition:
        raise RuntimeShapeMismatch(what.format(*map(int, values)))
    return ()


@op("loop.rank", effect=Effect.READ)
def rank() -> Value:
    """Which rank runs this, as INDEX."""
    ...


@rank.type_rule
def rank_type() -> Type:
    return ScalarType(INDEX)


@rank.reference
def rank_numpy() -> Any:
    return int(participant().rank)


@op("loop.ranks", effect=Effect.READ)
def ranks() -> Value:
    """How many ranks there are, as INDEX."""
    ...


@ranks.type_rule
def ranks_type() -> Type:
    return ScalarType(INDEX)


@ranks.reference
def ranks_numpy() -> Any:
    return int(participant().size)


@op("loop.peer", effect=Effect.READ)
def peer(buffer: Value, rank: Value) -> Value:
    """What `buffer`, memory in a window, is on rank `rank`; a fault if there is no such rank."""
    ...


@peer.type_rule
def peer_type(buffer: Value, rank: Value) -> Type:
    if rank.type != ScalarType(INDEX):
        raise DTypeMismatch(f"loop.peer: the rank is {rank.type}, not an INDEX")
    return buffer_type(buffer)


@op("loop.gate", effect=Effect.READ)
def gate() -> Value:
    """Counters that all ranks share, zero at first, a row for each use (see `GateRow`)."""
    ...


@gate.type_rule
def gate_type() -> Type:
    return buffer_of(GATE_SHAPE, INT64)


@gate.reference
def gate_numpy() -> Any:
    return np.asarray(participant().gate)
