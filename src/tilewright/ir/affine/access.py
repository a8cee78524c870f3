"""Which elements of a tensor are touched: an index map over an iteration domain, under a mask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.dataclass import dataclass
from tilewright.ir.affine.constraints import Constraint
from tilewright.ir.affine.expr import Dim, Expr, Operand, Symbol, as_expr, simplify
from tilewright.ir.affine.queries import substitute, symbols


@dataclass(frozen=True)
class Access:
    """For every `dims` in `domain` that meets `constraints`: the element at `map`.

    `map`: one expression per axis of the tensor, over `dims` and free symbols (loop variables, grid
    ids, extents), which have one value at a time. `domain`: one extent per dim, int or Expr.
    """

    map: tuple[Expr, ...]
    domain: tuple[Dim, ...]
    dims: tuple[Symbol, ...]
    constraints: tuple[Constraint, ...] = ()

    @staticmethod
    def full(shape: Sequence[Operand]) -> Access:
        """Every element of a tensor of `shape`, each under its own index."""
        return Access.window([0] * len(shape), shape)

    @staticmethod
    def window(
        offsets: Sequence[Operand],
        extents: Sequence[Operand],
        strides: Sequence[Operand] | None = None,
    ) -> Access:
        """offset + stride * d for 0 <= d < extent, on each axis. Strides are 1 if not given."""
        dims = fresh_dims(extents)
        steps = strides if strides is not None else [1] * len(dims)
        index = tuple(as_expr(o) + as_expr(s) * d for o, s, d in zip(offsets, steps, dims))
        return Access(index, tuple(simplify(e) for e in extents), dims)

    @property
    def free_symbols(self) -> tuple[Symbol, ...]:
        """The symbols of map, domain and constraints that are not dims, oldest first."""
        parts = [*self.map, *self.domain, *(c.expr for c in self.constraints)]
        found = {s for part in parts for s in symbols(part)} - set(self.dims)
        return tuple(sorted(found, key=lambda s: s.serial))

    @property
    def facts(self) -> list[Constraint]:
        """What holds at every element: dims are in the domain, and the mask."""
        low = [Constraint.less_equal(0, d) for d in self.dims]
        high = [Constraint.less(d, extent) for d, extent in zip(self.dims, self.domain)]
        return [*low, *high, *self.constraints]

    def substitute(self, mapping: Mapping[Symbol, Operand]) -> Access:
        """The access with free symbols replaced."""
        return Access(
            tuple(substitute(e, mapping) for e in self.map),
            tuple(simplify(substitute(e, mapping)) for e in self.domain),
            self.dims,
            tuple(c.substitute(mapping) for c in self.constraints),
        )

    def shift(self, offsets: Sequence[Operand]) -> Access:
        """The same pattern `offsets` further on, one offset per axis of the tensor."""
        moved = tuple(e + as_expr(o) for e, o in zip(self.map, offsets))
        return Access(moved, self.domain, self.dims, self.constraints)

    def masked(self, *constraints: Constraint) -> Access:
        """Only the elements that meet `constraints` as well."""
        return Access(self.map, self.domain, self.dims, (*self.constraints, *constraints))

    def compose(self, inner: Access) -> Access:
        """An access of the view that `self` makes, as an access of the tensor below.

        The coordinates of `inner` are the dims of `self`; the result ranges over those of `inner`.
        """
        outer, inner = self.with_fresh_dims(), inner.with_fresh_dims()
        mapping = dict(zip(outer.dims, inner.map))
        return Access(
            tuple(substitute(e, mapping) for e in outer.map),
            inner.domain,
            inner.dims,
            (*inner.constraints, *(c.substitute(mapping) for c in outer.constraints)),
        )

    def drop_dims(self, axes: Sequence[int], at: Operand = 0) -> Access:
        """The dims in `axes` fixed `at` one index: what an integer subscript does."""
        kept = [k for k in range(len(self.dims)) if k not in axes]
        mapping: dict[Symbol, Operand] = {self.dims[k]: at for k in axes}
        return Access(
            tuple(substitute(e, mapping) for e in self.map),
            tuple(self.domain[k] for k in kept),
            tuple(self.dims[k] for k in kept),
            tuple(c.substitute(mapping) for c in self.constraints),
        )

    def linear(self, strides: Sequence[Operand]) -> Access:
        """The access of flat memory: one coordinate, the dot product with `strides`."""
        address = sum((e * as_expr(s) for e, s in zip(self.map, strides)), as_expr(0))
        return Access((address,), self.domain, self.dims, self.constraints)

    def with_fresh_dims(self) -> Access:
        """The same elements; dims that no other access has, each with the range of its extent."""
        dims = fresh_dims(self.domain, [d.name for d in self.dims])
        mapping = dict(zip(self.dims, dims))
        return Access(
            tuple(substitute(e, mapping) for e in self.map),
            self.domain,
            dims,
            tuple(c.substitute(mapping) for c in self.constraints),
        )

    def __str__(self) -> str:
        index = ", ".join(map(str, self.map))
        loops = ", ".join(f"{d} < {extent}" for d, extent in zip(self.dims, self.domain))
        mask = " and ".join(map(str, self.constraints))
        return f"[{index}]" + (f" for {loops}" if loops else "") + (f" if {mask}" if mask else "")


def fresh_dims(extents: Sequence[Operand], names: Sequence[str] = ()) -> tuple[Symbol, ...]:
    """One new symbol per extent, in the range [0, extent - 1]; named d0, d1, … if not told."""
    given = names or [f"d{k}" for k in range(len(extents))]
    return tuple(Symbol(name, 0, as_expr(e) - 1) for name, e in zip(given, extents))
