"""Index objects and masks as tiles: for instructions whose operands are positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.dtypes import BOOL, INT32
from tilewright.frontend.trace.access import MASKS, mask_terms
from tilewright.frontend.trace.views import placed_axes
from tilewright.ir.affine import Atom, Expr, FloorDiv, Symbol, as_expr, substitute
from tilewright.ir.affine.access import fresh_dims
from tilewright.ir.affine.constraints import Constraint
from tilewright.ir.core import Value
from tilewright.ir.enums import MemorySpace
from tilewright.ops import cast, creation, shape
from tilewright.ops import elementwise as ew

if TYPE_CHECKING:
    from typing import Any

    from tilewright.frontend.trace.index import TileIndex
    from tilewright.frontend.trace.sema import Sema

SPACE = MemorySpace.Sbuf


class Positions:
    """Tiles of expressions over the dims of one iteration domain."""

    def __init__(self, sema: Sema, extents: Sequence[int]) -> None:
        self.sema = sema
        self.extents = tuple(extents)
        self.dims = fresh_dims(self.extents)

    def tile(self, expr: Expr) -> Value:
        """`expr` at every point, as an INT32 tile."""
        value = self._partial(expr)
        return value if self._is_full(value) else shape.broadcast_to(value, shape=self.extents)

    def _is_full(self, value: Value) -> bool:
        return getattr(value.type, "shape", ()) == self.extents

    def _partial(self, expr: Expr) -> Value:
        """`expr` as a tile with extents of 1 along the dims that it does not mention."""
        varying = {atom: c for atom, c in expr.terms.items() if self._mentions_dim(atom)}
        rest = expr - Expr(0, varying)
        parts = [self._term(atom, factor) for atom, factor in varying.items()]
        if not parts:
            return self._constant(rest)
        total = parts[0]
        for part in parts[1:]:
            total = ew.add(total, part)
        return total if rest == 0 else ew.add(total, self._scalar(rest))

    def _mentions_dim(self, atom: Atom) -> bool:
        used = substitute(Expr(0, {atom: 1}), dict.fromkeys(self.dims, 0))
        return used != Expr(0, {atom: 1})

    def _term(self, atom: Atom, factor: int) -> Value:
        if isinstance(atom, Symbol):
            axis = self.dims.index(atom)
            extents = [1] * len(self.extents)
            extents[axis] = self.extents[axis]
            return creation.iota(
                self.sema.constant(0, INT32),
                shape=tuple(extents),
                dtype=INT32,
                axis=axis,
                step=factor,
                space=SPACE,
            )
        assert isinstance(atom, FloorDiv), "index objects have no other atoms"
        quotient = ew.floordiv(self._partial(atom.numerator), self._scalar(as_expr(atom.divisor)))
        return quotient if factor == 1 else ew.mul(quotient, self.sema.constant(factor, INT32))

    def _constant(self, expr: Expr) -> Value:
        extents = (1,) * len(self.extents)
        if expr.is_constant:
            return creation.full(shape=extents, dtype=INT32, value=expr.const, space=SPACE)
        return creation.splat(self._scalar(expr), shape=extents, space=SPACE)

    def _scalar(self, expr: Expr) -> Value:
        if expr.is_constant:
            return self.sema.constant(expr.const, INT32)
        return cast.cast(self.sema.scalar(expr), dtype=INT32)

    def holds(self, constraints: Sequence[Constraint]) -> Value:
        """Whether all `constraints` hold, as a BOOL tile."""
        zero = self.sema.constant(0, INT32)
        total: Value | None = None
        for each in constraints:
            compare = ew.eq if each.is_equality else ew.ge
            link = compare(self._partial(each.expr), zero)
            total = link if total is None else ew.and_(total, link)
        if total is None:
            return creation.full(shape=self.extents, dtype=BOOL, value=True, space=SPACE)
        return total if self._is_full(total) else shape.broadcast_to(total, shape=self.extents)


def index_tile(sema: Sema, index: TileIndex) -> Value:
    """An index object as an INT32 tile of its shape."""
    extents = index.shape if len(index.shape) > 1 else (1, *index.shape)
    positions = Positions(sema, extents)
    mapping = placed_axes(index.axes, positions.dims)
    return positions.tile(substitute(index.expr, mapping))


def mask_tile(sema: Sema, mask: Any, extents: Sequence[int]) -> Value:
    """A mask as a BOOL tile of `extents`; its axes are matched from the last."""
    positions = Positions(sema, extents)
    mapping = placed_axes(mask.axes, positions.dims) if isinstance(mask, MASKS) else {}
    total: Value | None = None
    for conjunction in mask_terms(mask):
        part = positions.holds([c.substitute(mapping) for c in conjunction])
        total = part if total is None else ew.or_(total, part)
    if total is None:
        return creation.full(shape=tuple(extents), dtype=BOOL, value=False, space=SPACE)
    return total
