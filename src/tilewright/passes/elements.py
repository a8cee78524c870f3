"""One element of a value, as scalar code: structures composed down to loads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.dtypes import BOOL, DType
from tilewright.errors import InternalError
from tilewright.ir.affine import Expr, Symbol, as_expr
from tilewright.ir.affine.constraints import Constraint
from tilewright.ir.core import Value
from tilewright.ir.structure import Index, Indirect, Read
from tilewright.ir.types import ScalarType, Shape
from tilewright.ops import arith, loop
from tilewright.passes.nodes import Node
from tilewright.passes.scopes import Place, Scope
from tilewright.passes.storage import Storage
from tilewright.passes.traits import (
    Indices,
    Kind,
    Traits,
    compose,
    compose_mask,
    element_dtype,
    index_exprs,
    replaced,
    shaped,
)

if TYPE_CHECKING:
    from tilewright.passes.groups import Group
    from tilewright.passes.lowering import Lowering

Mask = tuple[Constraint, ...]
Point = dict[Symbol, Expr]


class Elements:
    """Evaluates elements for one nest.

    Memory is read in `base`, the scope around the nest, or further in: never outside of it.
    `kept` maps values that an earlier pass over the row has put aside to where they are. What is
    the same for all nodes of a family is found once: in `places` where their elements are at the
    point of the loops, in `points` the point of their domain at a place, and what they read there.
    """

    def __init__(self, lowering: Lowering, base: Scope, group: Group | None = None) -> None:
        self.lowering = lowering
        self.group = group
        self.scopes = lowering.scopes
        self.base = base
        self.kept: dict[Value, tuple[Storage, Indices]] = {}
        self.places: dict[Traits, Place] = {}
        self.points: dict[tuple[Traits, Place], tuple[Point, tuple[Place, ...] | None]] = {}

    def scope_of(self, place: Place) -> Scope:
        """The outermost scope of the nest in which `place` is known."""
        scopes, base = self.scopes, self.base
        home = place.scope if place.moment == scopes.moment else scopes.scope_of(place)
        return home if home.depth > base.depth else base

    def element(self, value: Value, indices: Indices, mask: Mask = ()) -> Value:
        """Element `indices` of `value`; where `mask` does not hold, memory is not touched."""
        return self.at(value, self.scopes.place(indices, mask))

    def own(self, node: Node) -> Value:
        """The element that a `node` of the group gives at the point of its loops."""
        place = self.places.get(node.traits)
        if place is None:
            assert self.group is not None
            element = self.group.element(node)
            assert element is not None
            place = self.places[node.traits] = self.scopes.place(element, ())
        return self.at(node.result, place)

    def at(self, value: Value, place: Place) -> Value:
        """The element of `value` at `place`."""
        if isinstance(value.type, ScalarType):
            return self.lowering.scalar(value)
        if place.mask and self.is_reduced(value):
            place = self.scopes.place(place.indices, ())
        scope = self.scope_of(place)
        key = value, place
        found = scope.memo.get(key)
        if found is None:
            found = scope.memo[key] = self.evaluate(value, place, scope)
        return found

    def is_reduced(self, value: Value) -> bool:
        """True for the result of a reduction of the nest."""
        node = self.lowering.nodes.get(value)
        return node is not None and node.kind is Kind.REDUCE and node.is_pending

    def remember(self, value: Value, indices: Indices, scalar: Value) -> None:
        """`scalar` is element `indices` of `value`."""
        place = self.scopes.place(indices, ())
        self.scope_of(place).memo[value, place] = scalar

    def evaluate(self, value: Value, place: Place, scope: Scope) -> Value:
        """The element of `value` at `place`, loaded or computed in `scope`."""
        kept = self.kept.get(value)
        if kept is not None:
            storage, own = kept
            aside = self.scopes.place(own, place.mask)
            return self.load(storage, aside, self.scope_of(aside))
        storage = self.lowering.stored.get(value)
        if storage is not None:
            return self.load(storage, place, scope)
        node = self.lowering.nodes.get(value)
        if node is None or not (node.is_view or node.group is self.group):
            raise InternalError(f"{value.name or 'a value'} of type {value.type} is not computed")
        return self.compute(node, place, scope)

    def load(self, storage: Storage, place: Place, scope: Scope) -> Value:
        """One load."""
        index = self.scopes.indices(place.indices)
        condition = self.scopes.condition(place.mask)
        with self.scopes.at(scope):
            return loop.load(storage.buffer, index, condition)

    def compute(self, node: Node, place: Place, scope: Scope) -> Value:
        """The element of the result of a pointwise `node` at `place`."""
        key = node.traits, place
        found = self.points.get(key)
        if found is None:
            point = point_of(node, place.indices)
            found = self.points[key] = point, self.plain_places(node, point, place.mask)
        point, places = found
        if places is None or node.unproven:
            scalars = self.reads(node, point, place.mask)
        else:
            given = zip(node.structure.reads, places, strict=True)
            scalars = [self.at(read.value, where) for read, where in given]
        return self.apply(node, point, scalars, scope)[0]

    def plain_places(self, node: Node, point: Point, mask: Mask) -> tuple[Place, ...] | None:
        """What `node` reads at `point`; None where that is more than elements of known index."""
        structure = node.structure
        exprs = [index_exprs(read) for read in structure.reads if not read.mask]
        known = [indices for indices in exprs if indices is not None]
        if structure.tests or len(known) < len(structure.reads):
            return None
        return tuple([self.scopes.place(compose(indices, point), mask) for indices in known])

    def reads(self, node: Node, point: Point, mask: Mask = ()) -> list[Value]:
        """The scalars that the body of `node` takes at `point`: its reads, then its tests."""
        scalars: list[Value] = []
        for number, read in enumerate(node.structure.reads):
            checks = number in node.unproven
            scalars.append(self.read(read, point, mask, scalars, checks=checks))
        for test in node.structure.tests:
            scalars.append(self._test(compose_mask(test, point)))
        return scalars

    def apply(
        self, node: Node, point: Point, scalars: list[Value], scope: Scope
    ) -> tuple[Value, ...]:
        """What the body of `node` gives for `scalars` at `point`."""
        structure, index = node.structure, ()
        if node.traits.body.uses_index:
            index = self.scopes.indices([point[dim] for dim in structure.dims])
        builder = self.scopes.builder
        before = builder.block, builder.span
        builder.block = scope.block
        if node.op is not None:
            builder.span = node.op.span or builder.span
        results = structure.body(tuple(scalars), index)
        builder.block, builder.span = before
        return results

    def contributions(self, node: Node, point: Point) -> tuple[Value, ...]:
        """What the body of `node` gives at `point`, in the innermost scope."""
        return self.apply(node, point, self.reads(node, point), self.scopes.current)

    def _test(self, test: Mask) -> Value:
        condition = self.scopes.condition(test)
        return self.scopes.constant(True, BOOL) if condition is None else condition

    def read(
        self,
        read: Read,
        point: Point,
        mask: Mask,
        scalars: list[Value],
        *,
        checks: bool = False,
    ) -> Value:
        """The element of one read at `point`."""
        own = compose_mask(read.mask, point)
        whole = (*own, *mask)
        indices = self.indices(read.indices, point, whole, scalars)
        if checks:
            indices = self.checked(indices, shaped(read.value).shape, point, whole)
        found = self.element(read.value, indices, whole)
        condition = self.scopes.condition(own)
        if condition is None or self._is_masked(read.value):
            return found
        zero = self.zero(element_dtype(read.value))
        with self.scopes.at(self.scope_of(self.scopes.place(indices, whole))):
            return arith.select(condition, found, zero)

    def indices(
        self,
        given: Sequence[Index],
        point: Point,
        mask: Mask,
        scalars: Sequence[Value],
    ) -> Indices:
        """Indices at `point`; those that are data are checked."""
        return tuple(
            [
                self.indirect(index, axis, scalars, point, mask)
                if isinstance(index, Indirect)
                else replaced(index, point)
                for axis, index in enumerate(given)
            ]
        )

    def _is_masked(self, value: Value) -> bool:
        """True when a masked element of `value` is 0 already: it is loaded."""
        return value in self.lowering.stored and value not in self.kept

    def zero(self, dtype: DType) -> Value:
        """The zero of `dtype`."""
        return self.scopes.constant(zero_of(dtype), dtype)

    def indirect(
        self,
        index: Indirect,
        axis: int,
        scalars: Sequence[Value],
        point: Point,
        mask: Mask,
    ) -> Expr:
        """A checked data-dependent index, as an expression of a fresh symbol."""
        bound = replaced(as_expr(index.bound), point)
        return self.check(scalars[index.read], bound, axis, point, mask)

    def checked(self, indices: Indices, shape: Shape, point: Point, mask: Mask) -> Indices:
        """`indices`, each after a check."""
        return tuple(
            self.check(self.scopes.index(index), as_expr(bound), axis, point, mask)
            for axis, (index, bound) in enumerate(zip(indices, shape, strict=True))
        )

    def check(self, given: Value, bound: Expr, axis: int, point: Point, mask: Mask) -> Expr:
        """An index after a check, as an expression of a fresh symbol."""
        scope = self.scope_of(self.scopes.place(tuple(point.values()), mask))
        limit = self.scopes.index(bound)
        condition = self.scopes.condition(mask)
        key = (given, limit, condition, axis)
        found = scope.memo.get(key)
        if found is None:
            with self.scopes.at(scope):
                found = loop.check_index(given, limit, condition, axis=axis)
            scope.memo[key] = found
            self.scopes.define_in(scope, found.symbol, found)
        return as_expr(found.symbol)


def zero_of(dtype: DType) -> int | float | bool:
    """The zero of a dtype as a Python number."""
    if dtype.kind == "bool":
        return False
    return 0.0 if dtype.is_float() else 0


def point_of(node: Node, indices: Indices) -> Point:
    """The point of the domain at which a pointwise `node` gives element `indices`."""
    (write,) = node.structure.writes
    point: Point = {}
    for index, given in zip(write, indices, strict=True):
        if isinstance(index, Expr) and len(index.terms) == 1 and not index.const:
            [(atom, factor)] = index.terms.items()
            if isinstance(atom, Symbol) and factor == 1:
                point[atom] = given
    for dim, extent in zip(node.structure.dims, node.structure.extents, strict=True):
        if extent == 1:
            point.setdefault(dim, as_expr(0))
    if len(point) != len(node.structure.dims):
        raise InternalError(f"{node.op} writes {write}, which has no inverse")
    return point
