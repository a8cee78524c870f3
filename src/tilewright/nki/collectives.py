"""`nki.collectives`: what ranks do together, for a kernel whose group is one rank.

A launch of a traced kernel is one rank. A replica group that holds it alone runs: what it gives and
what it gets are the same. A larger group is refused at the author's line; ranks that work together
are written in the parsed style (`tilewright.language.distributed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.errors.nki_control import METADATA_LAYOUT, REPLICA_GROUP
from tilewright.errors.nki_tensors import SHAPE_MISMATCH
from tilewright.frontend.trace.access import fetch
from tilewright.frontend.trace.ambient import current_api, nki_ctx, refusal
from tilewright.frontend.trace.ops import nki_op
from tilewright.frontend.trace.sequences import as_items
from tilewright.frontend.trace.tensors import nki_tensor
from tilewright.ir.enums import MemorySpace
from tilewright.nki import isa
from tilewright.nki._memory import require_tensor
from tilewright.nki._operands import operation_name
from tilewright.ops.nki_alu import apply

Tensors = Sequence[nki_tensor]
REDUCTIONS = ("add", "maximum", "minimum", "multiply")


def _require_alone(replica_group: Any) -> None:
    groups = getattr(replica_group, "groups", replica_group)
    ranks = [rank for group in as_items(groups) for rank in as_items(group)]
    if ranks != [0]:
        raise refusal(REPLICA_GROUP, op=current_api(), given=ranks)


def _exchange(srcs: Tensors, dsts: Tensors) -> None:
    """Each of `dsts` gets the elements of its source."""
    nki_ctx().has_collectives = True
    if len(srcs) != len(dsts):
        shapes = {"left": f"{len(srcs)} sources", "right": f"{len(dsts)} destinations"}
        raise refusal(SHAPE_MISMATCH, op=current_api(), **shapes)
    for src, dst in zip(srcs, dsts):
        given, target = require_tensor(src, "srcs"), require_tensor(dst, "dsts")
        if given.shape != target.shape:
            shapes = {"left": list(given.shape), "right": list(target.shape)}
            raise refusal(SHAPE_MISMATCH, op=current_api(), **shapes)
        isa.dma_copy.nki_func(dst=target, src=given)


@nki_op("nki.collectives.all_reduce")
def all_reduce(srcs: Tensors, dsts: Tensors, replica_group: Any, op: Any) -> None:
    """Each of `dsts` becomes its source combined by `op` over the ranks of the group."""
    operation_name(op, REDUCTIONS)
    _require_alone(replica_group)
    _exchange(srcs, dsts)


@nki_op("nki.collectives.all_gather")
def all_gather(srcs: Tensors, dsts: Tensors, replica_group: Any, collective_dim: int) -> None:
    """Each of `dsts` becomes its sources of all ranks, joined along `collective_dim`."""
    _require_alone(replica_group)
    _exchange(srcs, dsts)


@nki_op("nki.collectives.reduce_scatter")
def reduce_scatter(
    srcs: Tensors, dsts: Tensors, replica_group: Any, collective_dim: int, op: Any
) -> None:
    """Each of `dsts` becomes this rank's part, along `collective_dim`, of the combined sources."""
    operation_name(op, REDUCTIONS)
    _require_alone(replica_group)
    _exchange(srcs, dsts)


@nki_op("nki.collectives.all_to_all")
def all_to_all(srcs: Tensors, dsts: Tensors, replica_group: Any, collective_dim: int) -> None:
    """Part k of each source goes to rank k, along `collective_dim`."""
    _require_alone(replica_group)
    _exchange(srcs, dsts)


@nki_op("nki.collectives.collective_permute")
def collective_permute(
    srcs: Tensors, dsts: Tensors, source_target_pairs: Sequence[tuple[int, int]]
) -> None:
    """The sources of rank a become the `dsts` of rank b, for each pair (a, b)."""
    for pair in source_target_pairs:
        _require_alone(tuple(dict.fromkeys(pair)))
    _exchange(srcs, dsts)


@nki_op("nki.collectives.collective_permute_implicit")
def collective_permute_implicit(
    srcs_by_channel: Sequence[Tensors],
    dsts_by_channel: Sequence[Tensors],
    replica_group: Any,
    channel_ids: Sequence[int] = (0,),
) -> None:
    """The sources of each channel go to the next rank of the group."""
    _require_alone(replica_group)
    for srcs, dsts in zip(srcs_by_channel, dsts_by_channel, strict=True):
        _exchange(srcs, dsts)


def _combined(name: str, *srcs: nki_tensor) -> nki_tensor:
    """Two tensors of any memory, combined."""
    sema = nki_ctx().sema
    given = [require_tensor(src, "srcs") for src in srcs]
    left, right = (fetch(sema, each, None, MemorySpace.Sbuf) for each in given)
    return sema.tile(apply(name, left, right))


@nki_op("nki.collectives.collective_permute_implicit_reduce")
def collective_permute_implicit_reduce(
    srcs0_by_channel: Sequence[Tensors],
    srcs1_by_channel: Sequence[Tensors],
    dsts_by_channel: Sequence[Tensors],
    replica_group: Any,
    op: Any,
    channel_ids: Sequence[int] = (0,),
) -> None:
    """The two sources of each channel, combined by `op`, go to the next rank of the group."""
    name = operation_name(op, REDUCTIONS)
    _require_alone(replica_group)
    channels = zip(srcs0_by_channel, srcs1_by_channel, dsts_by_channel, strict=True)
    for firsts, seconds, dsts in channels:
        for first, second, dst in zip(firsts, seconds, dsts, strict=True):
            _exchange([_combined(name, first, second)], [dst])


@nki_op("nki.collectives.collective_permute_implicit_current_processing_rank_id")
def collective_permute_implicit_current_processing_rank_id(
    iteration_id: int, replica_group: Any, channel_id: int = 0, name: str | None = None
) -> int:
    """The rank whose data arrives in an iteration of a ring: of one rank, its own."""
    _require_alone(replica_group)
    return rank_id(name)


@nki_op("nki.collectives.all_gather_v")
def all_gather_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: Any,
    metadata_tensor: nki_tensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
) -> None:
    """Refused: nothing public says how `metadata_tensor` holds the counts of the ranks."""
    raise refusal(METADATA_LAYOUT, op="all_gather_v")


@nki_op("nki.collectives.all_to_all_v")
def all_to_all_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: Any,
    metadata_tensor: nki_tensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
) -> None:
    """Refused: nothing public says how `metadata_tensor` holds the counts of the ranks."""
    raise refusal(METADATA_LAYOUT, op="all_to_all_v")


@nki_op("nki.collectives.rank_id")
def rank_id(name: str | None = None) -> int:
    """The number of this rank: 0."""
    return 0


__all__ = [
    "all_gather",
    "all_gather_v",
    "all_reduce",
    "all_to_all",
    "all_to_all_v",
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
    "reduce_scatter",
]
