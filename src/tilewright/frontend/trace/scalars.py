"""Run-time scalars: values of [1, 1] tiles, used as bounds, offsets and loop conditions."""

from __future__ import annotations

from typing import Any

from tilewright.dtypes import BOOL, INDEX
from tilewright.errors.nki_tensors import TILE_SHAPE, UNEXPECTED_OPERAND
from tilewright.frontend.trace.ambient import nki_ctx, refusal
from tilewright.frontend.trace.loops import RuntimeTruth
from tilewright.frontend.trace.predicates import DynamicScalar
from tilewright.frontend.trace.tensors import nki_tensor
from tilewright.ir.affine import Symbol
from tilewright.ir.core import Value
from tilewright.ops import cast as casting
from tilewright.ops import memory


def scalar(given: Any) -> DynamicScalar:
    """The element of a [1, 1] tile as a scalar that the run knows, or the constant True."""
    if given is True:
        return RuntimeTruth(None)
    if not isinstance(given, nki_tensor):
        raise refusal(
            UNEXPECTED_OPERAND,
            op="scalar",
            name="tile",
            given=repr(given),
            wanted="a [1, 1] tile, or True",
        )
    value = element(given)
    if given.root.dtype is BOOL:
        return RuntimeTruth(value)
    sema = nki_ctx().sema
    index = casting.cast(value, dtype=INDEX)
    symbol = sema.bind(index, Symbol(given.name if given.name.isidentifier() else "n"))
    sema.measured.add(symbol)
    return DynamicScalar(symbol)


def element(tile: nki_tensor) -> Value:
    """The only element of a tile, as a scalar value."""
    if any(extent != 1 for extent in tile.shape):
        raise refusal(TILE_SHAPE, op="scalar", given=list(tile.shape), wanted=[1, 1])
    sema = nki_ctx().sema
    value = sema.read(tile)
    zero = sema.constant(0, INDEX)
    return memory.read(value, (zero,) * tile.ndim)
