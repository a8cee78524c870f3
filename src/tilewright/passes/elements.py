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
from tilewright.passes.nodes import (
    Indices,
    Kind,
    Node,
    compose_mask,
    element_dtype,
    replaced,
    shaped,
)
from tilewright.passes.scopes import Scope
from tilewright.passes.storage import Storage

if TYPE_CHECKING:
    from tilewright.passes.groups import Group
    from tilewright.passes.lowering import Lowering

Mask = tuple[Constraint, ...]


class Elements:
    """Evaluates elements for one nest.

    Memory is read in `base`, the scope around the nest, or further in: never outside of it.
    `kept` maps values that an earlier pass over the row has put aside to where they are.
    """

    def __init__(self, lowering: Lowering, base: Scope, group: Group | None = None) -> None:
        self.lowering = lowering
        self.group = group
        self.scopes = lowering.scopes
        self.base = base
        self.kept: dict[Value, tuple[Storage, Indices]] = {}

    def scope_of(self, indices: Indices, mask: Mask) -> Scope:
        """The outermost scope of the nest in which `indices` and `mask` are known."""
        home = self.scopes.home((*indices, *(c.expr for c in mask)) if mask else indices)
        return home if home.depth > self.base.depth else self.base

    def element(self, value: Value, indices: Indices, mask: Mask = ()) -> Value:
        """Element `indices` of `value`; where `mask` does not hold, memory is not touched."""
        if isinstance(value.type, ScalarType):
            return self.lowering.scalar(value)
        node = self.lowering.nodes.get(value)
        if node is not None and node.kind is Kind.REDUCE and node.is_pending:
            mask = ()
        scope = self.scope_of(indices, mask)
        key = (value, indices, mask)
        found = scope.memo.get(key)
        if found is None:
            found = scope.memo[key] = self._element(value, indices, mask, scope)
        return found

    def remember(self, value: Value, indices: Indices, scalar: Value) -> None:
        """`scalar` is element `indices` of `value`."""
        self.scope_of(indices, ()).memo[value, indices, ()] = scalar

    def _element(self, value: Value, indices: Indices, mask: Mask, scope: Scope) -> Value:
        kept = self.kept.get(value)
        if kept is not None:
            storage, own = kept
            return self.load(storage, own, mask, self.scope_of(own, mask))
        storage = self.lowering.stored.get(value)
        if storage is not None:
            return self.load(storage, indices, mask, scope)
        node = self.lowering.nodes.get(value)
        if node is None or not (node.is_view or node.group is self.group):
            raise InternalError(f"{value.name or 'a value'} of type {value.type} is not computed")
        return self.compute(node, point_of(node, indices), mask, scope)

    def load(self, storage: Storage, indices: Indices, mask: Mask, scope: Scope) -> Value:
        """One load."""
        index = self.scopes.indices(indices)
        condition = self.scopes.condition(mask)
        with self.scopes.at(scope):
            return loop.load(storage.buffer, index, condition)

    def compute(self, node: Node, point: dict[Symbol, Expr], mask: Mask, scope: Scope) -> Value:
        """The scalar that a pointwise `node` gives at `point`."""
        return self.apply(node, point, self.reads(node, point, mask), scope)[0]

    def reads(self, node: Node, point: dict[Symbol, Expr], mask: Mask = ()) -> list[Value]:
        """The scalars that the body of `node` takes at `point`: its reads, then its tests."""
        scalars: list[Value] = []
        for number, read in enumerate(node.structure.reads):
            checks = number in node.unproven
            scalars.append(self.read(read, point, mask, scalars, checks=checks))
        for test in node.structure.tests:
            scalars.append(self._test(compose_mask(test, point)))
        return scalars

    def apply(
        self, node: Node, point: dict[Symbol, Expr], scalars: list[Value], scope: Scope
    ) -> tuple[Value, ...]:
        """What the body of `node` gives for `scalars` at `point`."""
        structure = node.structure
        dims = tuple(point[dim] for dim in structure.dims)
        index = self.scopes.indices(dims) if node.uses_index else ()
        with self.scopes.at(scope, node.op.span if node.op else None):
            return structure.body(tuple(scalars), index)

    def contributions(self, node: Node, point: dict[Symbol, Expr]) -> tuple[Value, ...]:
        """What the body of `node` gives at `point`, in the innermost scope."""
        return self.apply(node, point, self.reads(node, point), self.scopes.current)

    def _test(self, test: Mask) -> Value:
        condition = self.scopes.condition(test)
        return self.scopes.constant(True, BOOL) if condition is None else condition

    def read(
        self,
        read: Read,
        point: dict[Symbol, Expr],
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
        with self.scopes.at(self.scope_of(indices, whole)):
            return arith.select(condition, found, zero)

    def indices(
        self,
        given: Sequence[Index],
        point: dict[Symbol, Expr],
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
        point: dict[Symbol, Expr],
        mask: Mask,
    ) -> Expr:
        """A checked data-dependent index, as an expression of a fresh symbol."""
        bound = replaced(as_expr(index.bound), point)
        return self.check(scalars[index.read], bound, axis, point, mask)

    def checked(
        self, indices: Indices, shape: Shape, point: dict[Symbol, Expr], mask: Mask
    ) -> Indices:
        """`indices`, each after a check."""
        return tuple(
            self.check(self.scopes.index(index), as_expr(bound), axis, point, mask)
            for axis, (index, bound) in enumerate(zip(indices, shape, strict=True))
        )

    def check(
        self, given: Value, bound: Expr, axis: int, point: dict[Symbol, Expr], mask: Mask
    ) -> Expr:
        """An index after a check, as an expression of a fresh symbol."""
        scope = self.scope_of(tuple(point.values()), mask)
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


def point_of(node: Node, indices: Indices) -> dict[Symbol, Expr]:
    """The point of the domain at which a pointwise `node` gives element `indices`."""
    (write,) = node.structure.writes
    point: dict[Symbol, Expr] = {}
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
