"""Lowering of what ranks do with each other: signals in windows, parts of others, barriers, locks.

A window is one memory: each version of it is that, and shows what is there now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.abi import WAIT_VALUES
from tilewright.dtypes import INDEX, INT64
from tilewright.errors import UnsupportedFeatureError
from tilewright.ir.affine import Expr, as_expr, less, less_equal
from tilewright.ir.core import Operation, Value
from tilewright.ir.enums import WaitCmp
from tilewright.ir.types import ScalarType
from tilewright.ops import arith, comm, loop, meeting, rank_words, shape
from tilewright.ops.cast import cast
from tilewright.ops.extents import constant_of, expr_of
from tilewright.ops.participant import GateRow
from tilewright.passes.blocks import flush, lowers, structure_of
from tilewright.passes.contract import slot as matrix_slot
from tilewright.passes.contract import strided
from tilewright.passes.guards import guard
from tilewright.passes.lowering import Lowering
from tilewright.passes.meetings import settle
from tilewright.passes.nodes import element_dtype, make_node, shaped
from tilewright.passes.storage import Storage
from tilewright.passes.traits import direct_reads, index_exprs

INDEX_TYPE = ScalarType(INDEX)


def as_index(lowering: Lowering, given: Value) -> Value:
    """An integer scalar as an index."""
    value = lowering.scalar(given)
    return value if value.type == INDEX_TYPE else cast(value, dtype=INDEX)


def window(lowering: Lowering, value: Value) -> Storage:
    """The memory of a window; raises UnsupportedFeatureError for what has none."""
    storage = lowering.storage_of(value)
    if storage is None:
        raise UnsupportedFeatureError(f"{value.name or 'a value'} is no memory of a window")
    return storage


def part(lowering: Lowering, value: Value, peer: Value) -> Storage:
    """The memory of the same window on another rank."""
    buffer = meeting.peer(window(lowering, value).buffer, as_index(lowering, peer))
    lowering.has_remote = True
    return Storage(buffer, is_global=True, is_remote=True)


@lowers(shape.slice_)
def lower_window_part(lowering: Lowering, op: Operation) -> None:
    """The memory of a part of a window under a name of its own."""
    structure = structure_of(op)
    assert structure is not None
    guard(lowering, make_node(op, structure, op.result, lowering.plan.position))
    flush(lowering)
    (read,) = direct_reads(structure)
    index = index_exprs(read)
    extents = shaped(op.result).shape
    whole = window(lowering, read.value)
    place = None if index is None else strided(whole, index, extents, structure.dims)
    assert place is not None
    buffer = matrix_slot(lowering, place, ())
    lowering.hold(op.result, Storage(buffer, is_global=True, is_remote=True))


# ----------------------------------------------------------------------------------------- who runs


@lowers(comm.context)
def lower_context(lowering: Lowering, op: Operation) -> None:
    """Nothing: every kernel knows its communicator."""


@lowers(comm.rank)
def lower_rank(lowering: Lowering, op: Operation) -> None:
    """From the communicator."""
    define(lowering, op, meeting.rank())


@lowers(comm.nranks, comm.world_size)
def lower_ranks(lowering: Lowering, op: Operation) -> None:
    """From the communicator."""
    define(lowering, op, meeting.ranks())


def define(lowering: Lowering, op: Operation, value: Value) -> None:
    """The result of `op` is `value` in its own type."""
    lowering.define_scalar(op.result, cast(value, dtype=element_dtype(op.result)))


@lowers(meeting.require)
def lower_require(lowering: Lowering, op: Operation) -> None:
    """As it is."""
    condition, values = op.operands
    given = tuple(map(lowering.scalar, values))
    meeting.require(lowering.scalar(condition), given, what=op.attrs["what"])


# ----------------------------------------------------------------------------------------- signals


@lowers(rank_words.part)
def lower_part(lowering: Lowering, op: Operation) -> None:
    """Another rank's memory under a name of its own."""
    target, peer = op.operands
    settle(lowering)
    lowering.hold(op.result, part(lowering, target, peer))


@lowers(comm.notify)
def lower_notify(lowering: Lowering, op: Operation) -> None:
    """A signal on the peer, once everything before it is written."""
    target, peer, offsets, value = op.operands
    settle(lowering)
    place = slot(lowering, target, offsets)
    signals = part(lowering, target, peer).buffer
    meeting.signal(signals, place, lowering.scalar(value), op=op.attrs["op"])
    keep_version(lowering, op.result, target)


@lowers(comm.wait)
def lower_wait(lowering: Lowering, op: Operation) -> None:
    """A wait for the local slot."""
    signal, offsets, expected = op.operands
    cmp: WaitCmp = op.attrs["cmp"]
    flush(lowering)
    place = slot(lowering, signal, offsets)
    buffer = window(lowering, signal).buffer
    number = lowering.scalar(expected)
    what, shown = described(lowering, offsets, cmp)
    meeting.wait(buffer, place, number, shown, cmp=cmp, what=what)
    keep_version(lowering, op.result, signal)


@lowers(comm.defer_wait)
def lower_defer(lowering: Lowering, op: Operation) -> None:
    """Notes the number that a slot has to reach before the task ends."""
    signal, offsets, expected = op.operands
    flush(lowering)
    place = slot(lowering, signal, offsets)
    awaited = lowering.deferrals[-1].note(lowering.scopes, op, window(lowering, signal))
    before = loop.load(awaited, place, None)
    loop.store(awaited, place, arith.max_(before, lowering.scalar(expected)), None)
    keep_version(lowering, op.result, signal)


def keep_version(lowering: Lowering, new: Value, old: Value) -> None:
    """`new` is the window `old`."""
    lowering.hold(new, window(lowering, old))


def described(
    lowering: Lowering, offsets: Sequence[Value], cmp: WaitCmp
) -> tuple[str, tuple[Value, ...]]:
    """What a wait is for, as `meeting.wait` has it: the slot and the number it is compared with."""
    shown: list[Value] = []
    texts: list[str] = []
    for offset in offsets:
        known = constant_of(offset)
        if known is None:
            shown.append(lowering.scopes.index(expr_of(offset)))
        texts.append(f"{{{len(shown)}}}" if known is None else str(int(known)))
    place = f" [{', '.join(texts)}]" if len(shown) <= WAIT_VALUES else ""
    what = f"signal{place} {'==' if cmp is WaitCmp.Eq else '>='} {{0}}"
    return what, tuple(shown) if place else ()


def slot(lowering: Lowering, target: Value, offsets: Sequence[Value]) -> tuple[Value, ...]:
    """The indices of a slot, checked where they may lie outside."""
    places: list[Value] = []
    for axis, (offset, extent) in enumerate(zip(offsets, shaped(target).shape, strict=True)):
        expr = expr_of(offset)
        index = lowering.scopes.index(expr)
        if not is_inside(expr, extent):
            index = loop.check_index(index, lowering.scopes.index(extent), None, axis=axis)
        places.append(index)
    return tuple(places)


def is_inside(expr: Expr, extent: Any) -> bool:
    """True when an index is known to be one."""
    return less_equal(0, expr) is True and less(expr, as_expr(extent)) is True


# ---------------------------------------------------------------------------------------- all ranks


def counter(lowering: Lowering, row: GateRow) -> tuple[Value, tuple[Value, ...]]:
    """One of the counters that all ranks share."""
    return meeting.gate(), lowering.scopes.indices((int(row), 0))


def one(lowering: Lowering) -> Value:
    """1, as counters hold it."""
    return lowering.scopes.constant(1, INT64)


@lowers(rank_words.meet)
def lower_meet(lowering: Lowering, op: Operation) -> None:
    """A barrier: arrival n goes on when its round is complete."""
    settle(lowering)
    gate, place = counter(lowering, GateRow.ARRIVALS)
    arrived = meeting.signal(gate, place, one(lowering))
    expected = cast(meeting.ranks(), dtype=INT64)
    rounds = arith.add(arith.floordiv(arrived, expected), one(lowering))
    what = "every rank to be at the barrier"
    meeting.wait(gate, place, arith.mul(rounds, expected), (), what=what)


@lowers(rank_words.lock)
def lower_lock(lowering: Lowering, op: Operation) -> None:
    """A ticket, and a wait for its turn."""
    settle(lowering)
    gate, tickets = counter(lowering, GateRow.TICKETS)
    served = lowering.scopes.indices((int(GateRow.SERVED), 0))
    ticket = meeting.signal(gate, tickets, one(lowering))
    meeting.wait(gate, served, ticket, (), what="its turn to write")


@lowers(rank_words.unlock)
def lower_unlock(lowering: Lowering, op: Operation) -> None:
    """The next turn."""
    settle(lowering)
    gate, served = counter(lowering, GateRow.SERVED)
    meeting.signal(gate, served, one(lowering))
