"""Views by access patterns, as newer releases write them: `tensor.ap([[step, count], ...])`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilewright.errors.nki_control import EXPECTED_CONSTANT
from tilewright.errors.nki_tensors import (
    INDEX_TYPE,
    INDICES_SHAPE,
    INDIRECT_COPY,
    UNEXPECTED_OPERAND,
)
from tilewright.frontend.trace.ambient import nki_ctx, refusal
from tilewright.frontend.trace.indirect import ROW, rows_of
from tilewright.frontend.trace.predicates import DynamicScalar, scalar_expr
from tilewright.frontend.trace.scalars import scalar
from tilewright.frontend.trace.sequences import items_of
from tilewright.frontend.trace.tensors import DataTile, nki_tensor
from tilewright.frontend.trace.views import composed, static_shape
from tilewright.ir.affine import Expr, Symbol, as_expr, simplify, symbols
from tilewright.ir.affine.access import Access, fresh_dims
from tilewright.ops.shape import delinearize


def strided(
    tensor: nki_tensor,
    pattern: Any,
    offset: Any = 0,
    scalar_offset: Any = None,
    vector_offset: Any = None,
    indirect_dim: int = 0,
) -> DataTile:
    """The elements at `offset` plus the steps of `pattern`, in row-major order of `tensor`."""
    place = _integer(offset, "offset")
    if scalar_offset is not None:
        step = math.prod(tensor.shape[indirect_dim + 1 :])
        place = place + _integer(scalar_offset, "scalar_offset") * step
    steps, counts = _steps_and_counts(pattern)
    dims = fresh_dims(counts)
    if vector_offset is not None:
        if scalar_offset is not None or indirect_dim != 0:
            given = "a vector_offset with a scalar_offset, or along a dimension after the first"
            raise refusal(INDEX_TYPE, name=tensor.name, given=given)
        place = _moved(place, dims[1:], steps[1:])
        return _scattered(tensor, place, vector_offset, counts, dims)
    place = _moved(place, dims, steps)
    inner = Access(delinearize(place, tensor.shape), counts, dims)
    return DataTile(tensor.root, composed(tensor, inner))


def _moved(place: Expr, dims: Sequence[Symbol], steps: Sequence[int]) -> Expr:
    return sum((as_expr(dim) * step for dim, step in zip(dims, steps)), place)


def _scattered(
    tensor: nki_tensor,
    place: Expr,
    index: Any,
    counts: tuple[int, ...],
    dims: tuple[Symbol, ...],
) -> DataTile:
    """The elements at `place` of the rows that a tile of indices names, one for each partition."""
    if not isinstance(index, nki_tensor):
        wanted = {"given": repr(index), "wanted": "a tile of integers"}
        raise refusal(UNEXPECTED_OPERAND, op="ap", name="vector_offset", **wanted)
    if not tensor.root.is_hbm:
        raise refusal(INDIRECT_COPY, name=tensor.name)
    if index.shape != (counts[0], 1):
        raise refusal(INDICES_SHAPE, shapes=f"{index.shape} and the pattern's {(counts[0], 1)}")
    row, *rest = delinearize(place, tensor.shape)
    row = as_expr(simplify(row))
    if not {*symbols(row)}.isdisjoint(dims):
        given = "a pattern that leaves the row which its vector_offset names"
        raise refusal(INDEX_TYPE, name=tensor.name, given=given)
    rows = index if row == 0 else nki_ctx().sema.operator("add", index, DynamicScalar(row))
    return rows_of(tensor, Access((as_expr(ROW), *rest), counts, dims), rows, 0, 0)


def _steps_and_counts(pattern: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    pairs = [static_shape(pair, "a step or a count") for pair in items_of(pattern) or ()]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise refusal(EXPECTED_CONSTANT, what="a pattern of [step, count]", given=repr(pattern))
    return tuple(step for step, _ in pairs), tuple(count for _, count in pairs)


def _integer(given: Any, name: str) -> Expr:
    found = scalar_expr(scalar(given) if isinstance(given, nki_tensor) else given)
    if found is None:
        wanted = {"given": repr(given), "wanted": "an integer or a scalar of the run"}
        raise refusal(UNEXPECTED_OPERAND, op="ap", name=name, **wanted)
    return found
