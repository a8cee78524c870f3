"""Views whose rows are chosen by a tile of indices: reading gathers, writing scatters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.dtypes import INDEX, INT32
from tilewright.errors.nki_tensors import (
    INDEX_TYPE,
    INDICES_SHAPE,
    INDIRECT_COPY,
    INDIRECT_FREE_DIM,
    INDIRECT_SBUF,
)
from tilewright.frontend.trace import access as trace_access
from tilewright.frontend.trace import views
from tilewright.frontend.trace.ambient import refusal
from tilewright.frontend.trace.index import TileIndex, mask
from tilewright.frontend.trace.loops import SequentialRange, trace_arms
from tilewright.frontend.trace.predicates import DynamicScalar, both, predicate
from tilewright.frontend.trace.scalars import scalar
from tilewright.frontend.trace.tensors import DataTile, nki_tensor
from tilewright.frontend.trace.views import expanded, selected
from tilewright.ir.affine import Symbol, as_expr, coefficient
from tilewright.ir.affine.access import Access
from tilewright.ir.affine.constraints import Constraint
from tilewright.ir.core import Value
from tilewright.ir.enums import MemorySpace
from tilewright.ops import access as access_ops
from tilewright.ops import cast as casting
from tilewright.ops import elementwise as ew
from tilewright.ops import gather, memory
from tilewright.ops.nki_math import number
from tilewright.ops.shape import broadcast_to

if TYPE_CHECKING:
    from tilewright.frontend.trace.sema import Sema

ROW = Symbol("row")
"""Stands, in the access of an indirect view, for the index that is read from the tile."""


class IndirectTile(DataTile):
    """A view `x[index_tile, ...]`: `axis` of the root is indexed, along `dim` of the view."""

    __slots__ = ("axis", "dim", "index", "skips")

    def __init__(
        self, tensor: nki_tensor, access: Access, index: nki_tensor, axis: int, dim: int
    ) -> None:
        super().__init__(tensor.root, access)
        self.index = index
        self.axis = axis
        self.dim = dim
        self.skips = False

    @property
    def is_indirect(self) -> bool:
        return True


class DynamicTile(DataTile):
    """A view `t[p, n, f]` of an on-chip tensor at an index `n` that the run reads from a tile.

    Instructions with dynamic addresses take it, as `direct`; nothing else does.
    """

    __slots__ = ("direct",)

    def __init__(self, direct: nki_tensor) -> None:
        super().__init__(direct.root, direct.access)
        self.direct = direct

    @property
    def is_indirect(self) -> bool:
        return True


def subscript(tensor: nki_tensor, key: Any) -> DataTile:
    """The view `tensor[key]`: indirect where an entry is a tile of indices."""
    entries = expanded(tensor, key)
    if not any(isinstance(entry, nki_tensor) for entry in entries):
        return views.subscript(tensor, entries)
    if tensor.root.is_hbm:
        return indirect_view(tensor, entries)
    return DynamicTile(views.subscript(tensor, [_read_index(tensor, e) for e in entries]))


def _read_index(tensor: nki_tensor, entry: Any) -> Any:
    """An index of one element as a scalar."""
    if not isinstance(entry, nki_tensor):
        return entry
    if any(extent != 1 for extent in entry.shape):
        raise refusal(INDIRECT_COPY, name=tensor.name)
    return scalar(entry)


def direct_tile(given: Any) -> Any:
    """What an instruction with dynamic addresses reads or writes."""
    return given.direct if isinstance(given, DynamicTile) else given


def indirect_view(tensor: nki_tensor, entries: Sequence[Any]) -> DataTile:
    """`tensor[entries]`, where one entry is a tile of indices with one element per partition.

    An index of one element that others broadcast stands for all of them, as a scalar does.
    """
    places = [k for k, entry in enumerate(entries) if isinstance(entry, nki_tensor)]
    (place, *more) = places
    index: nki_tensor = entries[place]
    if more:
        raise refusal(INDEX_TYPE, name=tensor.name, given="two tiles of indices")
    others = [e.shape for e in entries if isinstance(e, (TileIndex, mask))]
    shape = _result_shape(tensor, entries, index, others)
    if index.size == 1 != shape[-index.ndim]:
        _require_index(tensor, index, place)
        return views.subscript(tensor, [scalar(e) if e is index else e for e in entries])
    direct = [DynamicScalar(ROW) if k == place else entry for k, entry in enumerate(entries)]
    return rows_of(tensor, selected(tensor, direct, shape), index, place, len(shape) - index.ndim)


def rows_of(
    tensor: nki_tensor, inner: Access, index: nki_tensor, place: int, dim: int
) -> IndirectTile:
    """The view by an access of `tensor` where ROW, in dimension `place`, runs along `dim`."""
    _require_index(tensor, index, place)
    access = tensor.access.compose(inner)
    axes = [k for k, expr in enumerate(access.map) if coefficient(expr, ROW) == 1]
    if not axes:
        raise refusal(INDEX_TYPE, name=tensor.name, given="a tile of indices into this view")
    return IndirectTile(tensor, access, index, axes[0], dim)


def _require_index(tensor: nki_tensor, index: nki_tensor, place: int) -> None:
    if index.root.space is not MemorySpace.Sbuf:
        raise refusal(INDIRECT_SBUF, memory=index.root.memory)
    if (tensor.ndim > 1 and place == tensor.ndim - 1) or any(e != 1 for e in index.shape[1:]):
        raise refusal(INDIRECT_FREE_DIM, name=tensor.name, axis=place)


def _result_shape(
    tensor: nki_tensor, entries: Sequence[Any], index: nki_tensor, others: Sequence[Any]
) -> tuple[int, ...]:
    """The shape of the view: the index tile broadcast with the other index objects."""
    rank = max([index.ndim, *(len(shape) for shape in others)])
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in (*others, index.shape)]
    result = tuple(max(extents) for extents in zip(*padded))
    if any(e not in (1, r) for shape in padded for e, r in zip(shape, result)):
        raise refusal(INDICES_SHAPE, shapes=" and ".join(map(str, (*others, index.shape))))
    return result


# ---------------------------------------------------------------------------- reading


def fetch_rows(sema: Sema, view: nki_tensor, given: Any, space: MemorySpace) -> Value:
    """The elements of an indirect view; rows that are skipped or masked out are undefined."""
    if not isinstance(view, IndirectTile):
        raise refusal(INDIRECT_COPY, name=view.name)
    root = view.root
    extent = root.shape[view.axis]
    rows = index_values(sema, view.index)
    if view.skips or given is not None:
        rows = ew.min_(ew.max_(rows, number(rows, 0)), number(rows, extent - 1))
    taken = gather.take(sema.version_of(root), rows, axis=view.axis, space=space)
    local = direct_access(view, as_expr(view.access.dims[view.dim]))
    local = trace_access.single_access(local, given)
    if trace_access.is_whole_access(local, taken):
        return taken
    scalars = sema.values_of(local.free_symbols)
    return access_ops.access_load(taken, scalars, access=local, space=space)


def rows_inside(sema: Sema, view: Any) -> Value | None:
    """Which elements of a view that skips rows are read at all; None: all of any view."""
    if not isinstance(view, IndirectTile) or not view.skips:
        return None
    rows = index_values(sema, view.index)
    extent = view.root.shape[view.axis]
    inside = ew.and_(ew.ge(rows, number(rows, 0)), ew.lt(rows, number(rows, extent)))
    column = [view.shape[k] if k == view.dim else 1 for k in range(view.ndim)]
    return broadcast_to(trace_access.reshaped_to(inside, tuple(column)), shape=view.shape)


def index_values(sema: Sema, index: nki_tensor) -> Value:
    """The indices as a vector of INT32."""
    value = ew.cast(trace_access.read(sema, index), dtype=INT32)
    return trace_access.reshaped_to(value, (index.shape[0],))


def direct_access(view: IndirectTile, row: Any) -> Access:
    """The access of the view with `row` for the index that is read."""
    return view.access.substitute({ROW: row})


# ---------------------------------------------------------------------------- writing


def put_rows(sema: Sema, view: nki_tensor, value: Value, given: Any, combine: Any = None) -> None:
    """Writes `value` row by row, in order, to the rows that the index tile names.

    Rows whose index lies outside are dropped if the view skips them. `combine(old, new)` says what
    is written where something is there.
    """
    if not isinstance(view, IndirectTile):
        raise refusal(INDIRECT_COPY, name=view.name)
    ctx = sema.ctx
    source = sema.tile(value)
    for place in SequentialRange(view.index.shape[0]):
        index = casting.cast(element_of(sema, view.index, place), dtype=INDEX)
        row = DynamicScalar(sema.bind(index, Symbol("row")))
        guard = _row_guard(view, given, place, row)
        if guard is None:
            _put_row(sema, view, source, given, place, row, combine)
            continue
        for taken in trace_arms(ctx, predicate(guard)):
            if taken:
                _put_row(sema, view, source, given, place, row, combine)


def element_of(sema: Sema, index: nki_tensor, place: DynamicScalar) -> Value:
    """One index, as a scalar."""
    at = [sema.scalar(place.expr), *[sema.index(0)] * (index.ndim - 1)]
    return memory.read(trace_access.read(sema, index), tuple(at))


def _row_guard(view: IndirectTile, given: Any, place: DynamicScalar, row: DynamicScalar) -> Any:
    """When a row is written at all: its index is inside, and the mask holds for the row."""
    terms = None
    if view.skips:
        extent = view.root.shape[view.axis]
        inside = (Constraint.less_equal(0, row.expr), Constraint.less(row.expr, extent))
        terms = (inside,)
    if isinstance(given, mask):
        rank = len(view.access.dims) - view.dim
        rows = {symbol: place.expr for symbol, axis in given.axes.items() if axis == rank}
        of_row = tuple(
            tuple(c.substitute(rows) for c in conjunction if _speaks_of(c, rows, given))
            for conjunction in given.terms
        )
        terms = of_row if terms is None else both(terms, of_row)
    return terms


def _speaks_of(constraint: Constraint, rows: Any, given: mask) -> bool:
    others = {symbol for symbol in given.axes if symbol not in rows}
    return not any(coefficient(constraint.expr, symbol) for symbol in others)


def _put_row(
    sema: Sema,
    view: IndirectTile,
    source: nki_tensor,
    given: Any,
    place: DynamicScalar,
    index: DynamicScalar,
    combine: Any,
) -> None:
    access = direct_access(view, index.expr)
    access = trace_access.single_access(access, given)
    access = access.drop_dims([view.dim], place.expr)
    target = DataTile(view.root, access)
    row = DataTile(source.root, source.access.drop_dims([view.dim], place.expr))
    value = trace_access.read(sema, row)
    if combine is not None:
        value = combine(trace_access.fetch(sema, target, None, MemorySpace.Sbuf), value)
    trace_access.write(sema, target, value)
