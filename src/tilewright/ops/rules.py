"""What type rules share: kinds of operands, broadcasting, valid regions, axes, results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from tilewright.dtypes import DType
from tilewright.errors import ArgumentTypeMismatch, DTypeMismatch, RankMismatch, ShapeMismatch
from tilewright.ir.core import Value
from tilewright.ir.enums import MemorySpace, TensorLayout
from tilewright.ir.opdef import OpDef
from tilewright.ir.types import (
    Dim,
    ScalarType,
    Shape,
    ShapedType,
    TensorType,
    TensorView,
    TileType,
    TileView,
    Type,
    render_dims,
)
from tilewright.ops.extents import same_dim, same_dims

S = TypeVar("S", bound=ShapedType)
T = TypeVar("T")

Offsets = Sequence[Value | int]
"""What a variadic integer operand accepts: a Python int becomes an INDEX constant."""


class ByTypes(Generic[T]):
    """A rule whose answer depends on the types of the operands alone: applied once for each.

    Types are told apart by identity, which is quicker than most rules: a program has few types in
    many values. Those met are kept, so that an id remains that of one type.
    """

    MOST = 1024

    def __init__(self, rule: Callable[..., T]) -> None:
        self.rule = rule
        self.known: dict[tuple[int, ...], tuple[list[Type], T]] = {}

    def __call__(self, *values: Value) -> T:
        """What the rule gives for `values`; raises what it raises."""
        key = tuple([id(value.type) for value in values])
        found = self.known.get(key)
        if found is None:
            found = [value.type for value in values], self.rule(*values)
            if len(self.known) >= self.MOST:
                self.known.clear()
            self.known[key] = found
        return found[1]


GLOBAL_SPACES = (MemorySpace.DDR, MemorySpace.Hbm, MemorySpace.SharedHbm)
TRACED_SPACES = (MemorySpace.Sbuf, MemorySpace.Psum)


def meaning_of(opdef: OpDef[..., Any]) -> Callable[..., Any]:
    """The numpy meaning of an op that has one."""
    assert opdef.evaluate is not None, f"{opdef.name} has no reference"
    return opdef.evaluate


def label(name: str) -> str:
    """The last word of an op's name, as messages show it."""
    return name.rpartition(".")[2].rstrip("_")


def require_kind(name: str, argument: str, value: Value, kind: type[S], wanted: str) -> S:
    """The type of `value` if it is of `kind`; raises ArgumentTypeMismatch."""
    type_ = getattr(value, "type", None)  # authors also pass numbers and strings
    if not isinstance(type_, kind):
        raise ArgumentTypeMismatch(f"{name}: {argument} is {type_ or repr(value)}, not {wanted}")
    return type_


def require_shaped(name: str, argument: str, value: Value) -> ShapedType:
    """The type of a tensor or tile operand; raises ArgumentTypeMismatch."""
    return require_kind(name, argument, value, ShapedType, "a tensor or a tile")


def require_tensor(name: str, argument: str, value: Value) -> TensorType:
    """The type of a tensor operand; raises ArgumentTypeMismatch."""
    return require_kind(name, argument, value, TensorType, "a tensor")


def require_tile(name: str, argument: str, value: Value) -> TileType:
    """The type of a tile operand; raises ArgumentTypeMismatch."""
    return require_kind(name, argument, value, TileType, "a tile")


def require_scalar(name: str, argument: str, value: Value) -> ScalarType:
    """The type of a scalar operand; raises ArgumentTypeMismatch."""
    if not isinstance(value.type, ScalarType):
        raise ArgumentTypeMismatch(f"{name}: {argument} is {value.type}, not a scalar")
    return value.type


def require_length(name: str, argument: str, given: Sequence[Any], rank: int) -> None:
    """Raises RankMismatch unless `given` has one entry per axis."""
    if len(given) != rank:
        raise RankMismatch(f"{name}: {argument} has {len(given)} entries for {rank} axes")


def require_rank(name: str, argument: str, type_: ShapedType, *ranks: int) -> None:
    """Raises RankMismatch unless the rank is one of `ranks`."""
    if type_.rank not in ranks:
        wanted = " or ".join(map(str, ranks))
        raise RankMismatch(f"{name}: {argument} is {type_}, of rank {type_.rank}, not {wanted}")


def require_equal_dtypes(name: str, *types: ShapedType | ScalarType) -> DType:
    """The dtype that all `types` share; raises DTypeMismatch."""
    first = types[0].dtype
    for type_ in types[1:]:
        if type_.dtype is not first:
            raise DTypeMismatch(
                f"{name}: operands have different dtypes, {first} and {type_.dtype}",
                hint="convert one of them with pl.cast",
            )
    return first


def require_same_shape(name: str, what: str, given: Shape, wanted: Shape) -> None:
    """Raises ShapeMismatch unless the shapes are known to be equal."""
    if not same_dims(given, wanted):
        raise ShapeMismatch(
            f"{name}: {what} is {render_dims(given)}, where {render_dims(wanted)} is needed"
        )


def require_static(name: str, argument: str, shape: Shape) -> tuple[int, ...]:
    """`shape` if all its extents are ints; raises ShapeMismatch."""
    for extent in shape:
        if not isinstance(extent, int):
            raise ShapeMismatch(
                f"{name}: {argument} {render_dims(shape)} is not static: `{extent}` is not an int",
                hint="a tile has a fixed size; say how much of it is used with valid_shape=",
            )
        if extent < 0:
            raise ShapeMismatch(f"{name}: {argument} {render_dims(shape)} has a negative extent")
    return tuple(map(int, shape))


def normal_axis(name: str, axis: int, rank: int) -> int:
    """`axis` counted from the front; raises RankMismatch."""
    if not -rank <= axis < rank:
        raise RankMismatch(f"{name}: axis {axis} of an array of rank {rank}")
    return axis % rank


def shapes_of(types: Iterable[ShapedType]) -> str:
    """`[4, 8], [4, 1]` for a message."""
    return " and ".join(render_dims(type_.shape) for type_ in types)


def broadcast_shapes(name: str, types: Sequence[ShapedType]) -> Shape:
    """The numpy broadcast of the shapes; raises ShapeMismatch where extents may differ."""
    first = types[0].shape
    if all(type_.shape == first for type_ in types):
        return first
    rank = max(type_.rank for type_ in types)
    return tuple(_broadcast_extent(name, axis, types) for axis in range(-rank, 0))


def _extents(axis: int, types: Sequence[ShapedType]) -> list[Dim]:
    return [type_.shape[axis] for type_ in types if -axis <= type_.rank]


def _broadcast_extent(name: str, axis: int, types: Sequence[ShapedType]) -> Dim:
    wide = [extent for extent in _extents(axis, types) if extent != 1]
    for extent in wide[1:]:
        if not same_dim(extent, wide[0]):
            raise ShapeMismatch(
                f"{name}: operands of shapes {shapes_of(types)} do not agree on axis {axis}: "
                f"{wide[0]} and {extent}",
                hint="extents must be equal, or one of them 1",
            )
    return wide[0] if wide else 1


def valid_of(type_: ShapedType) -> Shape:
    """Extents of the valid region of a tensor or tile."""
    return type_.valid_shape if isinstance(type_, (TensorType, TileType)) else type_.shape


def is_fully_valid(type_: ShapedType) -> bool:
    """True when no element lies outside the valid region."""
    return same_dims(valid_of(type_), type_.shape)


def require_fully_valid(name: str, argument: str, type_: ShapedType) -> None:
    """Raises ShapeMismatch when the operand may have padding."""
    if not is_fully_valid(type_):
        raise ShapeMismatch(
            f"{name}: {argument} is valid only in {render_dims(valid_of(type_))} of "
            f"{render_dims(type_.shape)}",
            hint="fill the padding first, for example with pl.fillpad",
        )


def broadcast_valid(name: str, types: Sequence[ShapedType], shape: Shape) -> Shape:
    """The valid region of an elementwise result: that of every operand, provably the same one."""
    if all(type_.shape is valid_of(type_) for type_ in types):
        return shape
    return tuple(
        _valid_extent(name, axis - len(shape), extent, types) for axis, extent in enumerate(shape)
    )


def _valid_extent(name: str, axis: int, extent: Dim, types: Sequence[ShapedType]) -> Dim:
    aligned = [type_ for type_ in types if -axis <= type_.rank]
    wide = [type_ for type_ in aligned if extent == 1 or type_.shape[axis] != 1]
    found = [valid_of(type_)[axis] for type_ in wide]
    for other in found[1:]:
        if not same_dim(found[0], other):
            raise ShapeMismatch(
                f"{name}: operands are valid in different regions: {found[0]} and {other} "
                f"elements of axis {axis}",
                hint="make the regions equal with pl.fillpad, pl.slice or pl.set_validshape",
            )
    return found[0]


def computed_in(space: MemorySpace | None) -> MemorySpace | None:
    """Where the result of computing on a tile in `space` lives."""
    if space is None:
        return None
    return MemorySpace.Sbuf if space in TRACED_SPACES else MemorySpace.Vec


def tensor_type(shape: Shape, dtype: DType, valid: Shape | None = None) -> TensorType:
    """A tensor, with a view only when it is not fully valid."""
    if valid is None or same_dims(valid, shape):
        return TensorType(shape, dtype)
    return TensorType(shape, dtype, TensorView(valid_shape=valid))


def tile_type(
    shape: Shape, dtype: DType, space: MemorySpace | None, valid: Shape | None = None
) -> TileType:
    """A tile, with a view only when it is not fully valid."""
    if valid is None or same_dims(valid, shape):
        return TileType(shape, dtype, space)
    return TileType(shape, dtype, space, TileView(valid_shape=valid))


def computed_type(
    types: Sequence[ShapedType], shape: Shape, dtype: DType, valid: Shape | None = None
) -> Type:
    """The type of a value computed from `types`: a tile if any of them is one."""
    for type_ in types:
        if isinstance(type_, TileType):
            return tile_type(shape, dtype, computed_in(type_.space), valid)
    return tensor_type(shape, dtype, valid)


def moved_type(type_: ShapedType, shape: Shape, dtype: DType, valid: Shape | None = None) -> Type:
    """The type of a rearrangement of a value of `type_`: same kind, same memory space."""
    if isinstance(type_, TileType):
        return tile_type(shape, dtype, type_.space, valid)
    return tensor_type(shape, dtype, valid)


def placed_type(shape: Shape, dtype: DType, space: MemorySpace) -> Type:
    """A fresh tensor in a global space, a fresh tile in any other."""
    if space in GLOBAL_SPACES:
        return tensor_type(shape, dtype)
    return tile_type(require_static("tile", "shape", shape), dtype, space)


def with_valid(type_: Type, valid: Shape | None) -> Type:
    """`type_` with another valid region, keeping the rest of its view."""
    if isinstance(type_, TileType):
        valid = None if valid is None or same_dims(valid, type_.shape) else valid
        view = replace(type_.view or TileView(), valid_shape=valid)
        return replace(type_, view=None if view == TileView() else view)
    assert isinstance(type_, TensorType)
    valid = None if valid is None or same_dims(valid, type_.shape) else valid
    tensor_view = replace(type_.view or TensorView(), valid_shape=valid)
    return replace(type_, view=None if tensor_view == TensorView() else tensor_view)


def with_layout(type_: Type, layout: TensorLayout) -> Type:
    """The type of a tensor with another layout, keeping the rest of its view."""
    assert isinstance(type_, TensorType)
    view = replace(type_.view or TensorView(), layout=layout)
    return replace(type_, view=None if view == TensorView() else view)
