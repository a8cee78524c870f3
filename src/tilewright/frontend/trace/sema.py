"""The semantic builder of a trace (`ctx.sema`): the IR builder, located at the author's expression.

It knows the value behind every affine symbol and the current version of every root buffer.
Everything that language functions and tensors do is reached through it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from tilewright.dtypes import INDEX
from tilewright.errors import TilewrightError
from tilewright.errors.nki_control import OUT_OF_SCOPE
from tilewright.frontend.trace import access, engines, indirect, patterns, views
from tilewright.frontend.trace import arith as trace_arith
from tilewright.frontend.trace.ambient import refusal
from tilewright.frontend.trace.block_places import Touch
from tilewright.frontend.trace.ops import LANGUAGE
from tilewright.frontend.trace.predicates import DynamicScalar, Terms
from tilewright.frontend.trace.roots import Root
from tilewright.frontend.trace.spans import current_span
from tilewright.frontend.trace.tensors import nki_tensor, whole_tensor
from tilewright.ir.affine import Atom, Expr, FloorDiv, Product, Symbol, as_expr
from tilewright.ir.affine.access import Access
from tilewright.ir.affine.constraints import Constraint
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import MemorySpace
from tilewright.ir.opdef import OpDef
from tilewright.ir.stops import Part
from tilewright.ir.types import ScalarType, TileType, Type
from tilewright.ops import arith
from tilewright.ops import cast as casting
from tilewright.ops.nki_alu import SYNONYMS
from tilewright.source import Span

if TYPE_CHECKING:
    from tilewright.frontend.trace.context import TraceContext


class Sema(Builder):
    """Emits the operations of one trace."""

    def __init__(self, ctx: TraceContext) -> None:
        super().__init__()
        self.ctx = ctx
        self.symbol_values: dict[Symbol, Value] = {}
        self.measured: set[Symbol] = set()
        self.consumed: list[Operation] = []

    def emit(
        self,
        opdef: OpDef[..., Any],
        operands: tuple[Any, ...],
        attrs: Mapping[str, Any] | None = None,
        regions: tuple[Block, ...] = (),
        *,
        names: Sequence[str] = (),
        span: Span | None = None,
        types: tuple[Type, ...] | None = None,
    ) -> Operation:
        """`Builder.emit`, located at the author's expression unless told otherwise."""
        place = span or self.span or current_span()
        return super().emit(opdef, operands, attrs, regions, names=names, span=place, types=types)

    def dispatch(self, func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Runs a language function (`nl.add`), which emits; errors in it are attributed to it."""
        target = cast("Any", func).nki_func
        implementation = target if callable(target) else func
        name = getattr(implementation, "__name__", getattr(func, "__name__", "call"))
        ctx = self.ctx
        outer, ctx.cur_api = ctx.cur_api, name
        try:
            if outer is None and name not in engines.ELSEWHERE:
                given = (*args, *kwargs.values())
                engines.require_reachable(self, *given, mask=kwargs.get("mask"))
            return implementation(*args, **kwargs)
        except TilewrightError as error:
            raise error.locate(current_span()) from error.__cause__
        finally:
            ctx.cur_api = outer

    # ------------------------------------------------------------------ symbols and scalars

    def bind(self, value: Value, symbol: Symbol) -> Symbol:
        """Makes `symbol` stand for an integer scalar."""
        value.bind_symbol(symbol)
        self.symbol_values[symbol] = value
        return symbol

    def values_of(self, symbols: Sequence[Symbol]) -> tuple[Value, ...]:
        """The values that symbols stand for."""
        return tuple(self.symbol_values[symbol] for symbol in symbols)

    def is_affine(self, terms: Terms) -> bool:
        """True for a condition that is affine in loop variables and program ids."""
        known = self.symbol_values.keys() - self.measured
        atoms = (a for conjunction in terms for each in conjunction for a in each.expr.terms)
        return all(isinstance(atom, Symbol) and atom in known for atom in atoms)

    def scalar(self, expr: Expr) -> Value:
        """An affine expression as an INDEX scalar."""
        total: Value | None = None
        for atom, factor in expr.terms.items():
            term = self._scaled(atom, factor)
            total = term if total is None else arith.add(total, term)
        if total is None:
            return self.constant(expr.const, INDEX)
        return arith.add(total, self.constant(expr.const, INDEX)) if expr.const else total

    def _scaled(self, atom: Atom, factor: int) -> Value:
        value = self._atom(atom)
        return value if factor == 1 else arith.mul(value, self.constant(factor, INDEX))

    def _atom(self, atom: Atom) -> Value:
        if isinstance(atom, Symbol):
            return self.as_index(self.symbol_values[atom])
        if isinstance(atom, FloorDiv):
            divisor = as_expr(atom.divisor)
            return arith.floordiv(self.scalar(atom.numerator), self.scalar(divisor))
        assert isinstance(atom, Product), "traced expressions have no other atoms"
        first, *rest = (self._atom(factor) for factor in atom.factors)
        total = first
        for value in rest:
            total = arith.mul(total, value)
        return total

    def as_index(self, value: Value) -> Value:
        """An integer scalar as INDEX."""
        if value.type == ScalarType(INDEX):
            return value
        return casting.cast(value, dtype=INDEX)

    # ------------------------------------------------------------------ roots

    def version_of(self, root: Root) -> Value:
        """The version of `root` to be read now; notes the use in every region it is outside of."""
        self.require_alive(root)
        if root.is_mutable:
            for region in self.ctx.regions[root.depth :]:
                region.touch(root)
        return root.version

    def note_read(self, view: nki_tensor) -> None:
        """Remembers that an allocated tensor is read, where overlaps are looked for."""
        if view.root.places and self.ctx.uses is not None:
            self.ctx.uses.read(view.root, self.ctx.regions, current_span())
            self._touch(view, is_write=False)

    def note_write(self, view: nki_tensor) -> None:
        """Remembers which blocks of an allocated tensor are written."""
        if view.root.places and self.ctx.uses is not None:
            self._touch(view, is_write=True)

    def _touch(self, view: nki_tensor, *, is_write: bool) -> None:
        root, regions = view.root, tuple(self.ctx.regions)
        if len(root.places) > 1:
            self.ctx.touches.append(Touch(root, view.access, regions, current_span(), is_write))

    def advance(self, root: Root, version: Value) -> None:
        """Makes `version` the current one."""
        if root.places and self.ctx.uses is not None:
            self.ctx.uses.write(root, self.ctx.regions, current_span())
        version.name = version.name or root.version.name
        root.version = version
        root.is_written = True
        root.mask = None

    def require_alive(self, root: Root) -> None:
        """Refuses a tensor whose scope has ended."""
        if not root.scope.is_alive:
            scope = root.scope.describe()
            raise refusal(OUT_OF_SCOPE, name=root.label, scope=scope)

    def new_root(self, version: Value, space: MemorySpace, **facts: Any) -> Root:
        """A root in the current scope."""
        ctx = self.ctx
        return Root(version, space, ctx.cur_scope, depth=len(ctx.regions), **facts)

    def tile(self, value: Value, space: MemorySpace = MemorySpace.Sbuf, **facts: Any) -> nki_tensor:
        """The tensor of a fresh on-chip value in `space`; `mask` is where it is defined.

        It is what an author gives as `mask=`, or truth values that only the run knows.
        """
        if not isinstance(facts.get("mask"), (Value, type(None))):
            access.mask_terms(facts["mask"])
        assert isinstance(value.type, TileType), f"{value.type} is not a tile"
        return whole_tensor(self.new_root(value, space, **facts))

    # ------------------------------------------------------------------ what tensors do

    def subscript(self, tensor: nki_tensor, key: Any) -> nki_tensor:
        """`tensor[key]`."""
        return indirect.subscript(tensor, key)

    def reshaped(self, tensor: nki_tensor, shape: Any) -> nki_tensor:
        """`tensor.reshape(shape)`."""
        return views.reshaped(tensor, shape)

    def strided(self, tensor: nki_tensor, pattern: Any, **offsets: Any) -> nki_tensor:
        """`tensor.ap(pattern, ...)`."""
        return patterns.strided(tensor, pattern, **offsets)

    def broadcast(self, tensor: nki_tensor, shape: Any) -> nki_tensor:
        """`tensor.broadcast_to(shape)`."""
        return views.broadcast_view(tensor, shape)

    def assign_item(self, tensor: nki_tensor, key: Any, value: Any) -> None:
        """`tensor[key] = value`."""
        target = indirect.subscript(tensor, key)
        engines.require_assignable(self, target, value)
        access.assign(self, target, value)

    def converted(self, tensor: nki_tensor, dtype: Any) -> nki_tensor:
        """`tensor.astype(dtype)`."""
        return trace_arith.converted(self, tensor, dtype)

    def reinterpreted(self, tensor: nki_tensor, dtype: Any) -> nki_tensor:
        """`tensor.view(dtype)`."""
        return access.reinterpreted(self, tensor, dtype)

    def operator(self, name: str, left: Any, right: Any) -> Any:
        """`left <op> right`, where one of them is a tensor."""
        return trace_arith.operator(self, name, left, right)

    def unary(self, name: str, x: nki_tensor) -> nki_tensor:
        """`<op> x`."""
        return trace_arith.unary(self, name, x)

    def ufunc(self, name: str, inputs: Sequence[Any]) -> Any:
        """A function of numpy applied to tensors and numbers, or NotImplemented."""
        name = SYNONYMS.get(name, name)
        if len(inputs) == 2 and name in trace_arith.BINARY:
            return self.operator(name, *inputs)
        function = LANGUAGE.get(f"nl.{name}")
        return NotImplemented if function is None or len(inputs) != 1 else function(*inputs)

    def negated(self, x: nki_tensor) -> nki_tensor:
        """`~x`."""
        return trace_arith.negated(self, x)

    def update_in_place(self, name: str, target: nki_tensor, other: Any) -> nki_tensor:
        """`target <op>= other`."""
        return trace_arith.update_in_place(self, name, target, other)

    def read(self, tensor: nki_tensor, mask: Any = None) -> Value:
        """The elements of a view, as a value."""
        return access.read(self, tensor, mask)

    def write(self, tensor: nki_tensor, value: Value, mask: Any = None) -> None:
        """New elements for a view."""
        access.write(self, tensor, value, mask)

    def fetch_rows(self, tensor: nki_tensor, mask: Any, space: MemorySpace) -> Value:
        """The elements of an indirect view."""
        return indirect.fetch_rows(self, tensor, mask, space)

    def put_rows(self, tensor: nki_tensor, value: Value, mask: Any) -> None:
        """New elements for an indirect view."""
        indirect.put_rows(self, tensor, value, mask)

    def shown(self, given: Any) -> Any:
        """What stands for an author's local where he looks at it: values, an extent, or itself."""
        if isinstance(given, nki_tensor) and given.root.scope.is_alive and not given.is_indirect:
            version = self.version_of(given.root)
            return version if given.is_whole else Part(version, inside(given))
        return given.expr if isinstance(given, DynamicScalar) else given

    def name_tensor(self, tensor: nki_tensor, name: str) -> None:
        """Gives the author's name to a tensor that has none."""
        root = tensor.root
        if tensor.is_whole and not root.name:
            root.name = name
            for version in (root.first, root.version):
                version.name = version.name or name


def inside(view: nki_tensor) -> Access:
    """The elements of a view that its tensor has."""
    pairs = zip(view.access.map, view.root.shape)
    kept = [c for at, n in pairs for c in (Constraint.less_equal(0, at), Constraint.less(at, n))]
    return view.access.masked(*kept)
