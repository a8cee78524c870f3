"""What communication of ranks is made of: another rank's part, a barrier, and a lock.

Passes write them in the place of transfers and collectives; authors have no names for them.
"""

from __future__ import annotations

from typing import Any

from tilewright.errors import ArgumentTypeMismatch
from tilewright.ir.core import Value
from tilewright.ir.enums import Effect
from tilewright.ir.opdef import op
from tilewright.ir.types import Type
from tilewright.ops.comm import require_peer, require_window
from tilewright.ops.participant import GateRow, participant
from tilewright.ops.sampling import fails, index, sample, tensor, window


@op("comm.part", effect=Effect.COMM)
def part(target: Value, peer: Value) -> Value:
    """The part of the window `target` that rank `peer` has: that memory itself, no copy."""
    ...


@part.type_rule
def part_type(target: Value, peer: Value) -> Type:
    require_peer("comm.part", peer)
    return require_window("comm.part", "target", target)


@part.reference
def part_numpy(target: Any, peer: Any) -> Any:
    return participant().peer(target, int(peer))


part.samples(
    lambda: [sample(window(4, 8), index(0)), fails(ArgumentTypeMismatch, tensor(4, 8), index(0))]
)


@op("comm.meet", effect=Effect.COMM)
def meet() -> None:
    """Waits until every rank is here."""


@meet.type_rule
def meet_type() -> None:
    return None


@meet.reference
def meet_numpy() -> tuple[()]:
    participant().barrier()
    return ()


meet.samples(lambda: [sample()])


@op("comm.lock", effect=Effect.COMM)
def lock() -> None:
    """Waits until no other rank is between `comm.lock` and `comm.unlock`."""


@lock.type_rule
def lock_type() -> None:
    return None


@lock.reference
def lock_numpy() -> tuple[()]:
    me = participant()
    ticket = int(me.gate[GateRow.TICKETS, 0])
    me.gate[GateRow.TICKETS, 0] += 1
    me.wait(lambda: bool(me.gate[GateRow.SERVED, 0] >= ticket), "its turn to write")
    return ()


lock.samples(lambda: [sample()])


@op("comm.unlock", effect=Effect.COMM)
def unlock() -> None:
    """Lets the next rank that waits in `comm.lock` go on."""


@unlock.type_rule
def unlock_type() -> None:
    return None


@unlock.reference
def unlock_numpy() -> tuple[()]:
    participant().gate[GateRow.SERVED, 0] += 1
    return ()


unlock.samples(lambda: [sample()])
