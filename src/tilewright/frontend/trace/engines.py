"""Where on the chip engines reach: the partitions at which the operands of instructions start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors.nki_memory import START_PARTITION
from tilewright.frontend.trace.ambient import current_api, refusal
from tilewright.frontend.trace.tensors import nki_tensor
from tilewright.ir.affine import Expr, as_expr, bounds, substitute, symbols, with_ranges
from tilewright.ir.affine.enumeration import points_of

if TYPE_CHECKING:
    from tilewright.frontend.trace.sema import Sema

ENUMERATED = 1 << 12
"""Values of loop variables that are tried."""
VIEWS = ("broadcast_to", "expand_dims", "zeros_like", "empty_like")
REGISTERS = ("register_load", "register_store", "device_print")
TRANSFERS = ("load", "store", "load_transpose2d", "atomic_rmw", "dma_copy", "dma_transpose")
ELSEWHERE = frozenset((*VIEWS, *REGISTERS, *TRANSFERS))
"""Functions in which no engine takes the operands: they reach any partition."""


def require_reachable(sema: Sema, *operands: Any, mask: Any = None) -> None:
    """Refuses tiles among the operands of an instruction that start where no engine can.

    What only the run knows is let pass. An instruction under a mask may take fewer partitions.
    """
    for given in operands:
        if isinstance(given, nki_tensor) and not given.root.is_hbm:
            _require_start(sema, given, mask is not None)


def require_assignable(sema: Sema, target: nki_tensor, value: Any) -> None:
    """Refuses `target[...] = value` where an engine writes what it cannot reach.

    A tile that has just been transferred is transferred to the target.
    """
    if isinstance(value, nki_tensor) and value.root.is_transferred:
        return
    require_reachable(sema, target, value)


def _require_start(sema: Sema, tile: nki_tensor, is_masked: bool) -> None:
    root = tile.root
    if (tile.is_whole and not root.places) or tile.partition_axis:
        return
    bases = {place.partition for place in root.places} or {0}
    first, count = _partitions(tile)
    is_masked = is_masked or (tile.window is None and bool(tile.access.constraints))
    wanted = sema.ctx.device.starts_of(1 if is_masked else count)
    for start in _values(sema, first):
        if not any(base + start in wanted for base in bases):
            *others, last = map(str, wanted)
            where = f"{', '.join(others)} or {last}" if others else last
            found = {"start": min(bases) + start, "count": count, "supported": where}
            raise refusal(START_PARTITION, op=current_api(), name=root.label, **found)


def _partitions(tile: nki_tensor) -> tuple[Expr, int]:
    """The first partition of a tile, and how many there are from it."""
    axis, window = tile.root.partition_axis, tile.window
    if window is not None:
        return as_expr(window.offsets[axis]), window.extents[axis]
    access = tile.access
    first = substitute(access.map[axis], dict.fromkeys(access.dims, 0))
    low, high = bounds(access.map[axis] - first)
    used = symbols(access.map[axis])
    places = [int(n) for dim, n in zip(access.dims, access.domain) if dim in used]
    count = int(np.prod(places))
    return first, count if low is None or high is None else min(count, high - low + 1)


def _values(sema: Sema, expr: Expr) -> Iterable[int]:
    """The values of `expr` under the guards around it; none where only the run knows them."""
    if expr.is_constant:
        return (expr.const,)
    points = points_of(with_ranges(symbols(expr)), ENUMERATED)
    if points is None:
        return ()
    facts = [fact for fact in sema.ctx.facts() if {*symbols(fact.expr)} <= points.columns.keys()]
    return map(int, np.unique(points.where(facts).value_of(expr)))
