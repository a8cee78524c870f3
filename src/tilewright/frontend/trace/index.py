"""Index objects (`nl.arange`, `nl.mgrid`, `nl.ds`) and the masks that their comparisons give."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, cast

from tilewright.dataclass import dataclass
from tilewright.errors.nki_control import CONDITION_ON_ARANGE, EXPECTED_CONSTANT
from tilewright.errors.nki_tensors import (
    ARANGE_SUBSCRIPT,
    CANNOT_ASSIGN_TO_INDEX,
    INDEX_ADD_NON_INTEGER,
    INDEX_DIVISOR,
    INDEX_OPERATOR,
    INDICES_SHAPE,
    MASK_EXPRESSION,
    MASK_NOT_EQUAL,
    UNEXPECTED_OPERAND,
)
from tilewright.frontend.trace.ambient import nki_ctx, refusal
from tilewright.frontend.trace.predicates import (
    ALWAYS,
    COMPARISONS,
    DIVISIONS,
    NEVER,
    DynamicScalar,
    ScalarPredicateUnion,
    Terms,
    both,
    complement,
    either,
    refusing_operators,
    scalar_expr,
    scalar_terms,
)
from tilewright.frontend.trace.sequences import as_entries
from tilewright.ir.affine import Expr, FloorDiv, Symbol, as_expr
from tilewright.ir.affine.constraints import Constraint

Axes = Mapping[Symbol, int]
"""The axis of the tile along which each range symbol runs, counted from the end (last is 1)."""


def broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The common shape of index objects; refuses (`err_indices_shape_mismatch`) otherwise."""
    rank = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    result: list[int] = []
    for extents in zip(*padded):
        largest = max(extents)
        if any(extent not in (1, largest) for extent in extents):
            raise refusal(INDICES_SHAPE, shapes=" and ".join(map(str, shapes)))
        result.append(largest)
    return tuple(result)


class TileIndex:
    """An affine index of a tile: one position for each element of `shape`."""

    __slots__ = ("axes", "expr", "shape")
    __array_ufunc__ = None

    def __init__(self, expr: Expr, axes: Axes, shape: tuple[int, ...]) -> None:
        self.expr = expr
        self.axes = axes
        self.shape = shape

    @property
    def ndim(self) -> int:
        """Rank of the tile it indexes."""
        return len(self.shape)

    def __getitem__(self, subscript: Any) -> TileIndex:
        entries = as_entries(subscript)
        full = [entry for entry in entries if _is_full_slice(entry)]
        if len(full) != self.ndim or any(e is not None and not _is_full_slice(e) for e in entries):
            raise refusal(ARANGE_SUBSCRIPT, given=_subscript_text(entries))
        return self._placed([entry is not None for entry in entries])

    def _placed(self, keeps: list[bool]) -> TileIndex:
        positions = [len(keeps) - place for place, keep in enumerate(keeps) if keep]
        old = iter(self.shape)
        shape = tuple(next(old) if keep else 1 for keep in keeps)
        axes = {symbol: positions[self.ndim - axis] for symbol, axis in self.axes.items()}
        return TileIndex(self.expr, axes, shape)

    def __setitem__(self, subscript: Any, value: Any) -> NoReturn:
        raise refusal(CANNOT_ASSIGN_TO_INDEX)

    def __iter__(self) -> NoReturn:
        raise TypeError("an index object is not a sequence")

    def _combine(self, other: object, name: str, *, reflected: bool = False) -> Any:
        index = as_index(other)
        if index is None:
            if name in DIVISIONS:
                raise refusal(INDEX_DIVISOR, op=name, left=_kind(self), right=_shown(other))
            raise refusal(INDEX_ADD_NON_INTEGER, given=_shown(other))
        left, right = (index, self) if reflected else (self, index)
        self._require_affine(name, left, right)
        expr = getattr(operator, name)(left.expr, right.expr)
        return TileIndex(expr, merged_axes(left, right), broadcast([left.shape, right.shape]))

    @staticmethod
    def _require_affine(name: str, left: TileIndex, right: TileIndex) -> None:
        if name in DIVISIONS and not right.expr.is_constant:
            raise refusal(INDEX_DIVISOR, op=name, left=_kind(left), right=_kind(right))
        if name == "mul" and bool(left.axes) and bool(right.axes):
            raise refusal(INDEX_OPERATOR, op=name, left=_kind(left), right=_kind(right))

    def __neg__(self) -> TileIndex:
        return TileIndex(-self.expr, self.axes, self.shape)

    def __add__(self, other: object) -> Any:
        return self._combine(other, "add")

    def __radd__(self, other: object) -> Any:
        return self._combine(other, "add", reflected=True)

    def __sub__(self, other: object) -> Any:
        return self._combine(other, "sub")

    def __rsub__(self, other: object) -> Any:
        return self._combine(other, "sub", reflected=True)

    def __mul__(self, other: object) -> Any:
        return self._combine(other, "mul")

    def __rmul__(self, other: object) -> Any:
        return self._combine(other, "mul", reflected=True)

    def __floordiv__(self, other: object) -> Any:
        return self._combine(other, "floordiv")

    def __mod__(self, other: object) -> Any:
        return self._combine(other, "mod")

    def _compare(self, other: object, sign: str) -> Any:
        index = as_index(other)
        if index is None:
            return NotImplemented
        constraint = COMPARISONS[sign](self.expr, index.expr)
        require_affine(constraint)
        axes, shape = merged_axes(self, index), broadcast([self.shape, index.shape])
        result = tile_mask(((constraint,),), axes, shape)
        result.index = self
        return result

    def __lt__(self, other: object) -> Any:
        return self._compare(other, "<")

    def __le__(self, other: object) -> Any:
        return self._compare(other, "<=")

    def __gt__(self, other: object) -> Any:
        return self._compare(other, ">")

    def __ge__(self, other: object) -> Any:
        return self._compare(other, ">=")

    def __eq__(self, other: object) -> Any:
        return self._compare(other, "==")

    def __ne__(self, other: object) -> Any:
        if as_index(other) is None:
            return NotImplemented
        raise refusal(MASK_NOT_EQUAL)

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> NoReturn:
        raise refusal(CONDITION_ON_ARANGE)

    def __repr__(self) -> str:
        return f"<TileIndex {self.expr} of shape {self.shape}>"


def _refused(name: str) -> Any:
    def method(self: TileIndex, other: object) -> NoReturn:
        index = as_index(other)
        right = _shown(other) if index is None else _kind(index)
        raise refusal(INDEX_OPERATOR, op=name, left=_kind(self), right=right)

    return method


for _name, _method in refusing_operators(_refused).items():
    setattr(TileIndex, _name, _method)


def _shown(given: object) -> object:
    """A number as it is, the kind of anything else."""
    return given if isinstance(given, (bool, float)) else f"a {type(given).__name__}"


def as_index(given: object) -> TileIndex | None:
    """An index object, or a scalar as one that does not vary; None for anything else."""
    if isinstance(given, TileIndex):
        return given
    expr = scalar_expr(given)
    return None if expr is None else TileIndex(expr, {}, ())


def merged_axes(*indices: TileIndex | mask | TileMaskUnion) -> dict[Symbol, int]:
    """The axes of the range symbols of all `indices`."""
    return {symbol: axis for index in indices for symbol, axis in index.axes.items()}


def _is_full_slice(entry: object) -> bool:
    return isinstance(entry, slice) and entry == slice(None)


def _subscript_text(entries: Sequence[object]) -> str:
    return f"[{', '.join(':' if _is_full_slice(e) else repr(e) for e in entries)}]"


def _kind(index: TileIndex) -> str:
    return "an index object" if index.axes else f"`{index.expr}`"


def require_affine(constraint: Constraint) -> None:
    """Refuses quotients and remainders in masks."""
    if any(isinstance(atom, FloorDiv) for atom in constraint.expr.terms):
        raise refusal(MASK_EXPRESSION, given=f"`{constraint}` is not affine")


# ---------------------------------------------------------------------------- masks


class mask:
    """Which elements of a tile an operation touches. Abstract: comparisons of indices give masks.

    A mask is nki data. `&` gives the elements of both; it has no truth value.
    """

    __slots__ = ("axes", "index", "shape", "terms")

    def __init__(
        self, terms: Terms = ALWAYS, axes: Axes | None = None, shape: tuple[int, ...] = ()
    ) -> None:
        if type(self) in (mask, TileMask):
            raise TypeError("mask is an abstract class")
        self.index: TileIndex | None = None
        self.terms = terms
        self.axes = axes or {}
        self.shape = shape

    def __and__(self, other: object) -> TileCondition:
        return combined(self, other, both)

    __rand__ = __and__

    def __or__(self, other: object) -> TileCondition:
        return combined(self, other, either)

    __ror__ = __or__

    def __invert__(self) -> TileCondition:
        return tile_condition(complement(self.terms), self.axes, self.shape)

    def __bool__(self) -> NoReturn:
        raise refusal(CONDITION_ON_ARANGE)

    def __str__(self) -> str:
        return " or ".join(" and ".join(map(str, c)) or "True" for c in self.terms) or "False"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"


class TileMask(mask):
    """A mask of a tile; abstract."""

    __slots__ = ()


class TileMaskIntersection(TileMask):
    """A conjunction; ordered comparisons give it."""

    __slots__ = ()


class EQTileMask(TileMask):
    """One equality."""

    __slots__ = ()


class AlwaysTrueMask(TileMask):
    """Every element."""

    __slots__ = ()

    def __init__(
        self, terms: Terms = ALWAYS, axes: Axes | None = None, shape: tuple[int, ...] = ()
    ) -> None:
        super().__init__(terms, axes or {}, shape)


class AlwaysFalseMask(TileMask):
    """No element."""

    __slots__ = ()

    def __init__(
        self, terms: Terms = NEVER, axes: Axes | None = None, shape: tuple[int, ...] = ()
    ) -> None:
        super().__init__(terms, axes or {}, shape)


class TileMaskUnion(ScalarPredicateUnion):
    """Alternatives of tile masks, on the scalar side, with the axes along which they vary."""

    __slots__ = ("axes", "shape")

    def __init__(self, terms: Terms, axes: Axes, shape: tuple[int, ...]) -> None:
        super().__init__(terms)
        self.axes = axes
        self.shape = shape

    def __and__(self, other: object) -> Any:
        return combined(self, other, both)

    __rand__ = __and__

    def __or__(self, other: object) -> Any:
        return combined(self, other, either)

    __ror__ = __or__

    def __invert__(self) -> Any:
        return tile_condition(complement(self.terms), self.axes, self.shape)


TileCondition = mask | TileMaskUnion


def combined(
    left: TileCondition, right: object, combine: Callable[[Terms, Terms], Terms]
) -> TileCondition:
    """Two conditions of a tile, or one and a condition of scalars, by `both` or `either`."""
    terms = condition_terms(right)
    if terms is None:
        return NotImplemented
    axes, shape = dict(left.axes), left.shape
    if isinstance(right, (mask, TileMaskUnion)):
        axes, shape = merged_axes(left, right), broadcast([left.shape, right.shape])
    return tile_condition(combine(left.terms, terms), axes, shape)


def tile_condition(terms: Terms, axes: Axes, shape: tuple[int, ...]) -> TileCondition:
    """The condition of a tile; alternatives have no tile form and stay on the scalar side."""
    return (TileMaskUnion if len(terms) > 1 else tile_mask)(terms, axes, shape)


def tile_mask(terms: Terms, axes: Axes, shape: tuple[int, ...]) -> mask:
    """The mask of the class that fits a conjunction."""
    if not terms:
        return AlwaysFalseMask(terms, axes, shape)
    assert len(terms) == 1, "tile masks are conjunctions"
    if not terms[0]:
        return AlwaysTrueMask(terms, axes, shape)
    single = len(terms[0]) == 1 and terms[0][0].is_equality
    return (EQTileMask if single else TileMaskIntersection)(terms, axes, shape)


def condition_terms(given: object) -> Terms | None:
    """The condition of a mask, predicate, bool or number; None for anything else."""
    return given.terms if isinstance(given, (mask, TileMaskUnion)) else scalar_terms(given)


# ---------------------------------------------------------------------------- constructors


def constant_int(given: object, what: str) -> int:
    """`given` as a Python int; refuses what only the run knows."""
    if hasattr(given, "__index__"):
        return operator.index(given)  # type: ignore[call-overload, no-any-return]
    raise refusal(EXPECTED_CONSTANT, what=what, given=repr(given))


def arange(*args: object) -> TileIndex:
    """Positions 0..stop-1, or start..stop-1; subscript it with `[:, None]` or `[None, :]`."""
    bounds = [constant_int(arg, "a bound of nl.arange") for arg in args]
    if len(bounds) not in (1, 2):
        raise TypeError(f"arange takes (stop) or (start, stop), got {len(bounds)} arguments")
    start, stop = bounds if len(bounds) == 2 else (0, bounds[0])
    size = stop - start
    symbol = Symbol("i", 0, max(size - 1, 0))
    return TileIndex(as_expr(symbol) + start, {symbol: 1}, (size,))


class Grid:
    """The index objects of a dense grid, one per axis: unpack them, or take `.p` and `.x`."""

    __slots__ = ("indices",)

    def __init__(self, indices: tuple[TileIndex, ...]) -> None:
        self.indices = indices

    def __iter__(self) -> Iterator[TileIndex]:
        return iter(self.indices)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, axis: int) -> TileIndex:
        return self.indices[axis]

    def __getattr__(self, name: str) -> TileIndex:
        place = "pxyz".find(name) if len(name) == 1 else -1
        if not 0 <= place < len(self.indices):
            raise AttributeError(f"a grid of {len(self.indices)} axes has no index {name!r}")
        return self.indices[place]


class MGrid:
    """`nl.mgrid[0:4, 0:8]`: the index objects of a dense grid."""

    def __getitem__(self, subscript: Any) -> Grid:
        nki_ctx()
        ranges = [self._range(each) for each in as_entries(subscript)]
        shape = tuple(map(len, ranges))
        return Grid(tuple(self._axis(axis, each, shape) for axis, each in enumerate(ranges)))

    @staticmethod
    def _range(given: Any) -> range:
        if not isinstance(given, slice):
            found = {"given": repr(given), "wanted": "a slice"}
            raise refusal(UNEXPECTED_OPERAND, op="mgrid", name="subscript", **found)
        part = cast(Any, given)
        start = 0 if part.start is None else part.start
        bounds = (start, part.stop, 1 if part.step is None else part.step)
        return range(*(constant_int(each, "a bound of nl.mgrid") for each in bounds))

    @staticmethod
    def _axis(axis: int, places: range, shape: tuple[int, ...]) -> TileIndex:
        symbol = Symbol("i", 0, max(shape[axis] - 1, 0))
        expr = as_expr(symbol) * places.step + places.start
        return TileIndex(expr, {symbol: len(shape) - axis}, shape)


@dataclass(frozen=True)
class DynamicSlice:
    """`nl.ds(start, size)`: `size` elements from a start that may be symbolic."""

    start: int | DynamicScalar
    size: int
