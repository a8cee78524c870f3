"""Where the result of an operation is defined, of which an operand is masked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.frontend.trace.access import MASKS
from tilewright.frontend.trace.index import tile_condition
from tilewright.ir.affine import symbols


def carried(given: Any, places: Sequence[int | None], rank: int) -> Any:
    """The mask of a result of `rank` whose axis `places[k]` is axis k of the masked operand.

    Axes without a place are combined away: what the mask says of them has chosen the operand's
    elements, and nothing else is left of it. Conditions that are no masks of tiles stay themselves.
    """
    if not isinstance(given, MASKS):
        return given
    axes: dict[Any, int] = {}
    shape = [1] * rank
    for symbol, from_last in given.axes.items():
        place = places[len(places) - from_last] if from_last <= len(places) else None
        if place is not None:
            axes[symbol] = rank - place
            shape[place] = given.shape[-from_last]
    gone = given.axes.keys() - axes.keys()
    terms = tuple(
        tuple(each for each in conjunction if gone.isdisjoint(symbols(each.expr)))
        for conjunction in given.terms
    )
    return tile_condition(terms, axes, tuple(shape))


def without_axes(given: Any, rank: int, gone: Sequence[int], *, keepdims: bool) -> Any:
    """The mask of a reduction's result: a tile keeps a partition and a free dimension."""
    kept = [axis for axis in range(rank) if axis not in gone]
    places = {axis: axis if keepdims else k for k, axis in enumerate(kept)}
    size = rank if keepdims else max(len(kept), 2)
    return carried(given, [places.get(axis) for axis in range(rank)], size)


def transposed(given: Any) -> Any:
    """The mask of the transpose of a matrix."""
    return carried(given, (1, 0), 2)
