"""Views by access patterns, as newer releases write them: `tensor.ap([[step, count], ...])`."""

from __future__ import annotations

import math
from typing import Any

from tilewright.errors.nki_control import EXPECTED_CONSTANT
from tilewright.errors.nki_tensors import INDEX_TYPE, UNEXPECTED_OPERAND
from tilewright.frontend.trace.ambient import refusal
from tilewright.frontend.trace.predicates import scalar_expr
from tilewright.frontend.trace.scalars import scalar
from tilewright.frontend.trace.sequences import items_of
from tilewright.frontend.trace.tensors import DataTile, nki_tensor
from tilewright.frontend.trace.views import composed, static_shape
from tilewright.ir.affine import Expr, as_expr
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
    if vector_offset is not None:
        raise refusal(INDEX_TYPE, name=tensor.name, given="a vector_offset of an access pattern")
    place = _integer(offset, "offset")
    if scalar_offset is not None:
        step = math.prod(tensor.shape[indirect_dim + 1 :])
        place = place + _integer(scalar_offset, "scalar_offset") * step
    steps, counts = _steps_and_counts(pattern)
    dims = fresh_dims(counts)
    place = sum((as_expr(dim) * step for dim, step in zip(dims, steps)), place)
    inner = Access(delinearize(place, tensor.shape), counts, dims)
    return DataTile(tensor.root, composed(tensor, inner))


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
