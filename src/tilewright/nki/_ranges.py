"""`nl`: loops, program ids and index objects."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tilewright.errors.nki_control import PROGRAM_ID_AXIS, SEVERAL_DIRECTIVES
from tilewright.frontend.trace.ambient import nki_ctx, refusal
from tilewright.frontend.trace.index import DynamicSlice, Grid, MGrid, TileIndex, constant_int
from tilewright.frontend.trace.index import arange as make_arange
from tilewright.frontend.trace.loops import AffineRange, DynamicRange, SequentialRange, range_bounds
from tilewright.frontend.trace.ops import nki_op
from tilewright.frontend.trace.predicates import DynamicScalar, ProgramId
from tilewright.frontend.trace.sequences import as_items


def require_directives(keywords: Mapping[str, Any]) -> None:
    """Refuses a loop that says twice how many generations of its tensors are kept."""
    given = as_items(keywords.get("directives") or ())
    count = sum(getattr(each, "name", "") == "multi_buffer" for each in given)
    if count > 1:
        raise refusal(SEVERAL_DIRECTIVES, count=count)


@nki_op("nl.affine_range")
def affine_range(*args: Any, **kwargs: Any) -> AffineRange:
    """Iterations of a device loop that are independent of each other; the body is traced once."""
    require_directives(kwargs)
    return AffineRange(*args, **kwargs)


@nki_op("nl.sequential_range")
def sequential_range(*args: Any, **kwargs: Any) -> SequentialRange:
    """Iterations of a device loop in order; the body is traced once."""
    require_directives(kwargs)
    return SequentialRange(*args, **kwargs)


@nki_op("nl.dynamic_range")
def dynamic_range(*args: Any, **kwargs: Any) -> DynamicRange:
    """Iterations of a device loop whose bounds the run knows."""
    require_directives(kwargs)
    return DynamicRange(*args, **kwargs)


@nki_op("nl.static_range")
def static_range(*args: Any, **kwargs: Any) -> range:
    """Python ints: the loop is unrolled while the kernel is traced."""
    given = range_bounds(*args, **kwargs)
    bounds = (constant_int(bound, "a bound of static_range") for bound in given)
    return range(*bounds)


@nki_op("nl.program_id")
def program_id(axis: int = 0) -> ProgramId:
    """The index of the running program along `axis` of the launch grid, a symbolic scalar."""
    return nki_ctx().kernel.program_id(constant_int(axis, "the axis"))


@nki_op("nl.num_programs")
def num_programs(axes: Any = None) -> int:
    """Number of programs along `axes` of the launch grid: one axis, several, or all of them."""
    grid = nki_ctx().kernel.grid
    if axes is None:
        return math.prod(dim.size for dim in grid)
    sizes = [dim.size for dim in grid] or [1]
    chosen = [constant_int(axis, "an axis") for axis in as_items(axes)]
    for axis in chosen:
        if not -len(sizes) <= axis < len(sizes):
            raise refusal(PROGRAM_ID_AXIS, axis=axis, ndim=len(grid))
    return math.prod(sizes[axis] for axis in chosen)


@nki_op("nl.program_ndim")
def program_ndim() -> int:
    """Number of axes of the launch grid; 0 for a launch without one."""
    return len(nki_ctx().kernel.grid)


@nki_op("nl.arange")
def arange(*args: Any) -> TileIndex:
    """An index range; `[:, None]` puts it on the partition axis, `[None, :]` on the free axis."""
    return make_arange(*args)


@nki_op("nl.ds")
def ds(start: int | DynamicScalar, size: int) -> DynamicSlice:
    """`size` elements from `start`, which may be symbolic."""
    return DynamicSlice(start, constant_int(size, "the size of nl.ds"))


mgrid = MGrid()
__all__ = [
    "Grid",
    "affine_range",
    "arange",
    "ds",
    "dynamic_range",
    "mgrid",
    "num_programs",
    "program_id",
    "program_ndim",
    "sequential_range",
    "static_range",
]
