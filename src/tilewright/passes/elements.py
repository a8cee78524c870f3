"""One element of a value, as scalar code: structures composed down to loads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.dtypes import BOOL, DType
from tilewright.errors import InternalError
from tilewright.ir.affine import Expr, Symbol, as_expr
from tilewright.ir.affine.constraints import Constraint
from tilewright.ir.core import Value
from tilewright.ir.structure import Indirect, Read
from tilewright.ir.types import ScalarType
from tilewright.ops import arith, loop
from tilewright.passes.nodes import Indices, Kind, Node, compose, compose_mask, element_dtype
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
        home = self.scopes.home((*indices, *(c.expr for c in mask)))
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
        for read in node.structure.reads:
            scalars.append(self.read(read, point, mask, scalars))
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
        with self.scopes.at(scope), self.scopes.builder.located(node.op and node.op.span):
            return structure.body(tuple(scalars), index)

    def contributions(self, node: Node, point: dict[Symbol, Expr]) -> tuple[Value, ...]:
        """What the body of `node` gives at `point`, in the innermost scope."""
        return self.apply(node, point, self.reads(node, point), self.scopes.current)

    def _test(self, test: Mask) -> Value:
        condition = self.scopes.condition(test)
        return self.scopes.constant(True, BOOL) if condition is None else condition

    def read(
        self, read: Read, point: dict[Symbol, Expr], mask: Mask, scalars: list[Value]
    ) -> Value:
        """The element of one read at `point`."""
        own = compose_mask(read.mask, point)
        whole = (*own, *mask)
        indices = tuple(
            self.indirect(index, axis, scalars, point, whole)
            if isinstance(index, Indirect)
            else compose((index,), point)[0]
            for axis, index in enumerate(read.indices)
        )
        found = self.element(read.value, indices, whole)
        condition = self.scopes.condition(own)
        if condition is None or self._is_masked(read.value):
            return found
        zero = self.zero(element_dtype(read.value))
        with self.scopes.at(self.scope_of(indices, whole)):
            return arith.select(condition, found, zero)

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
        scalars: list[Value],
        point: dict[Symbol, Expr],
        mask: Mask,
    ) -> Expr:
        """A checked data-dependent index, as an expression of a fresh symbol."""
        given = scalars[index.read]
        scope = self.scope_of(tuple(point.values()), mask)
        bound = self.scopes.index(compose((as_expr(index.bound),), point)[0])
        condition = self.scopes.condition(mask)
        key = (given, bound, condition, axis)
        checked = scope.memo.get(key)
        if checked is None:
            with self.scopes.at(scope):
                checked = loop.check_index(given, bound, condition, axis=axis)
            scope.memo[key] = checked
            self.scopes.define_in(scope, checked.symbol, checked)
        return as_expr(checked.symbol)


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
