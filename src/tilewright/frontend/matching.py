"""Types against types: annotations with values, parameters with arguments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

from tilewright.errors import (
    DTypeMismatch,
    ParserTypeError,
    RankMismatch,
    ShapeMismatch,
    TilewrightError,
)
from tilewright.ir.affine import Expr, Symbol, equal, less_equal, solve_for, substitute, symbols
from tilewright.ir.rewrite import substitute_type
from tilewright.ir.types import (
    ArrayType,
    Dim,
    ScalarType,
    ShapedType,
    TensorType,
    TileType,
    TupleType,
    Type,
    render_dims,
)


def kind_name(type_: Type) -> str:
    """`Tensor`, `Tile`, `Scalar`, ... for messages."""
    return type(type_).__name__.removesuffix("Type")


def check_annotation(name: str, declared: Type, actual: Type) -> None:
    """Raises ParserTypeError when an annotation contradicts the type of its value."""
    problem = _contradiction(declared, actual)
    if problem:
        raise ParserTypeError(
            f"Type annotation for '{name}' {problem}", hint=f"Change annotation to: {actual}"
        )


def _contradiction(declared: Type, actual: Type) -> str | None:
    if kind_name(declared) != kind_name(actual):
        return f"is {kind_name(declared)} but expression has type {actual}"
    if isinstance(declared, ShapedType) and isinstance(actual, ShapedType):
        return _shape_contradiction(declared, actual)
    if isinstance(declared, TupleType) and isinstance(actual, TupleType):
        pairs = zip(declared.items, actual.items)
        inner = [p for p in (_contradiction(a, b) for a, b in pairs) if p]
        return inner[0] if inner else None
    if isinstance(declared, (ScalarType, ArrayType)) and declared != actual:
        return f"is {declared} but expression has type {actual}"
    return None


def _shape_contradiction(declared: ShapedType, actual: ShapedType) -> str | None:
    if declared.dtype is not actual.dtype:
        return f"has dtype {declared.dtype} but expression has dtype {actual.dtype}"
    if declared.rank != actual.rank:
        return f"has rank {declared.rank} but expression has rank {actual.rank}"
    for axis, (wanted, given) in enumerate(zip(declared.shape, actual.shape)):
        if wanted != given and equal(wanted, given) is False:
            return (
                f"has shape dimension {axis} = {wanted} "
                f"but expression has shape dimension {axis} = {given}"
            )
    return _region_contradiction(declared, actual)


def _region_contradiction(declared: ShapedType, actual: ShapedType) -> str | None:
    """An annotation may narrow the region that is valid, and not enlarge one that is a part."""
    wanted, given = (getattr(type_, "valid_shape", type_.shape) for type_ in (declared, actual))
    view = getattr(declared, "view", None)
    if view is None or view.valid_shape is None or given == actual.shape:
        return None
    if all(less_equal(a, b) is True for a, b in zip(wanted, given)):
        return None
    return f"has valid_shape {render_dims(wanted)} but expression is valid in {render_dims(given)}"


def refined(declared: Type, actual: Type) -> Type:
    """The actual type with what an annotation adds: a view, a memory reference, a space."""
    if not isinstance(declared, (TensorType, TileType)) or declared == actual:
        return actual
    assert isinstance(actual, (TensorType, TileType))
    changes: dict[str, Any] = {}
    for name in ("view", "memref", "space"):
        added = getattr(declared, name, None)
        if added is not None:
            changes[name] = added
    return replace(actual, **changes) if changes else actual


class Matcher:
    """Matches declared parameter types with argument types, binding dynamic dimensions.

    Dimensions that only physical extents of tiles mention are bound by each tile on its own (see
    `separate_tiles`); all others are shared by the parameters.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.bound: dict[Symbol, Dim] = {}
        self.separate: frozenset[Symbol] = frozenset()

    def separate_tiles(self, declared: Iterable[Type], scalars: Iterable[Symbol] = ()) -> None:
        """Lets each tile bind the dimensions that nothing but tiles' extents mentions. `scalars`
        stand for scalar parameters: they, and what an extent adds to them, are shared."""
        physical: set[Symbol] = set()
        shared: set[Symbol] = {*self.bound, *scalars}
        known = frozenset(shared)
        for type_ in declared:
            _sort_symbols(type_, physical, shared, known)
        self.separate = frozenset(physical - shared)

    def match(self, name: str, declared: Type, actual: Type) -> None:
        """Raises an argument error naming the parameter unless `actual` fits `declared`."""
        for symbol in self.separate:
            self.bound.pop(symbol, None)
        try:
            self._match(declared, actual)
        except TilewrightError as error:
            error.message = f"{self.what}: parameter '{name}': {error.message}"
            error.args = (error.message,)
            raise

    def _match(self, declared: Type, actual: Type) -> None:
        if not _same_kind(declared, actual):
            raise ParserTypeError(f"expects {declared}, got {actual}")
        if isinstance(declared, ShapedType) and isinstance(actual, ShapedType):
            self._match_shaped(declared, actual)
        elif isinstance(declared, TupleType) and isinstance(actual, TupleType):
            if len(declared.items) != len(actual.items):
                raise ParserTypeError(f"expects {declared}, got {actual}")
            for left, right in zip(declared.items, actual.items):
                self._match(left, right)
        elif isinstance(declared, ScalarType) and declared != actual:
            raise DTypeMismatch(f"expects {declared}, got {actual}", hint="Convert with pl.cast.")

    def _match_shaped(self, declared: ShapedType, actual: ShapedType) -> None:
        if declared.dtype is not actual.dtype:
            raise DTypeMismatch(f"expects dtype {declared.dtype}, got {actual.dtype} ({actual})")
        if declared.rank != actual.rank:
            raise RankMismatch(f"expects rank {declared.rank}, got {actual.rank} ({actual})")
        for axis, (wanted, given) in enumerate(zip(declared.shape, actual.shape)):
            if not self.match_dim(wanted, given):
                raise ShapeMismatch(
                    f"expects shape dimension {axis} = {wanted}, got {given} ({actual})"
                )
        self._match_space(declared, actual)

    def _match_space(self, declared: ShapedType, actual: ShapedType) -> None:
        if isinstance(declared, TileType) and isinstance(actual, TileType):
            spaces = {declared.space, actual.space} - {None}
            if len(spaces) > 1:
                raise ParserTypeError(f"expects memory space {declared.space}, got {actual.space}")

    def match_dim(self, wanted: Dim, given: Dim) -> bool:
        """True unless the extents provably differ; binds the dimension that is left open."""
        if isinstance(wanted, int):
            return wanted == given or equal(wanted, given) is not False
        free = [symbol for symbol in symbols(wanted) if symbol not in self.bound]
        known = substitute(wanted, self.bound)
        if not free:
            return self._agrees(substitute(known, self.bound), given)
        if len(free) == 1:
            solution = solve_for(known, free[0], given)
            if solution is None:
                return not (isinstance(given, int) and _is_affine_in(known, free[0]))
            if isinstance(solution, int) and solution < free[0].interval()[0]:
                return False
            self.bound[free[0]] = solution
        return True

    def _agrees(self, known: Dim, given: Dim) -> bool:
        """True unless two extents provably differ; of a run-time number, what one extent says of it
        holds for the next."""
        verdict = known == given or equal(known, given)
        unknown = [*symbols(known)] if isinstance(known, Expr) else []
        if verdict is None and len(unknown) == 1 and isinstance(given, int):
            solution = solve_for(known, unknown[0], given)
            if solution is not None:
                self.bound[unknown[0]] = solution
        return verdict is not False

    def result(self, type_: Type) -> Type:
        """A declared result type with the bound dimensions put in."""
        if not self.bound:
            return type_
        return substitute_type(type_, {s: d + Expr(0, {}) for s, d in self.bound.items()})


def _sort_symbols(
    type_: Type, physical: set[Symbol], shared: set[Symbol], known: frozenset[Symbol]
) -> None:
    if isinstance(type_, TupleType):
        for item in type_.items:
            _sort_symbols(item, physical, shared, known)
    elif isinstance(type_, TileType):
        for found in map(_symbols_of, type_.shape):
            (shared if found & known else physical).update(found)
        if type_.view is not None:
            shared.update(_symbols_of((type_.view.valid_shape, type_.view.stride)))
            shared.update(_symbols_of(type_.view.start_offset))
    elif isinstance(type_, ShapedType):
        shared.update(_symbols_of(type_.shape))


def _symbols_of(part: Any) -> set[Symbol]:
    if isinstance(part, Expr):
        return set(symbols(part))
    items = cast("tuple[Any, ...]", part if isinstance(part, tuple) else ())
    return set[Symbol]().union(*map(_symbols_of, items))


def _is_affine_in(expr: Expr, symbol: Symbol) -> bool:
    return set(expr.terms) == {symbol}


def _same_kind(declared: Type, actual: Type) -> bool:
    if isinstance(declared, TensorType) and isinstance(actual, TensorType):
        return True
    return type(declared) is type(actual)
