"""Subscripts of tensors, tiles and arrays: reads, and writes that give a new version."""

from __future__ import annotations

from typing import Any, cast

from tilewright.dataclass import dataclass
from tilewright.errors import (
    InvalidOperationError,
    ParserTypeError,
    ShapeMismatch,
    UnsupportedFeatureError,
)
from tilewright.frontend.operations import emit_call
from tilewright.frontend.values import is_integer, is_number, is_scalar
from tilewright.ir.affine import equal
from tilewright.ir.conformance import described
from tilewright.ir.core import Value
from tilewright.ir.types import (
    ArrayType,
    Dim,
    Shape,
    ShapedType,
    TensorType,
    TileType,
    render_dims,
)
from tilewright.ops.extents import as_dim

Offset = Any


@dataclass(frozen=True)
class Window:
    """A rectangular part of an array: where it starts, its extents, axes that an index drops."""

    offsets: tuple[Offset, ...]
    shape: Shape
    dropped: tuple[int, ...]

    @property
    def is_element(self) -> bool:
        """True when every axis is indexed by a scalar."""
        return len(self.dropped) == len(self.shape)

    @property
    def kept(self) -> Shape:
        """Extents of the axes that remain."""
        return tuple(d for axis, d in enumerate(self.shape) if axis not in self.dropped)


def read(base: Value, index: Any) -> Any:
    """`base[index]`: a scalar when every axis is indexed, else a part."""
    if isinstance(base.type, ArrayType):
        return emit_call("pl.array.get_element", (base, index), {})
    window = window_of(base, index)
    if window.is_element:
        return emit_call("pl.read", (base, list(window.offsets)), {})
    options = {"drop_dims": list(window.dropped)} if window.dropped else {}
    return emit_call("pl.slice", (base, list(window.shape), list(window.offsets)), options)


def write(base: Value, index: Any, value: Any) -> Value:
    """The version of `base` in which `base[index]` is `value`."""
    if isinstance(base.type, ArrayType):
        return emit_call("pl.array.update_element", (base, index, value), {})
    window = window_of(base, index)
    if window.is_element and (is_number(value) or is_scalar(value)):
        raise InvalidOperationError(
            "An element of a tensor or tile cannot be assigned with a subscript",
            hint="Use pl.write(x, [i, j], value).",
        )
    source = _as_source(base, window, value)
    offsets = list(window.offsets)
    if isinstance(base.type, TensorType) and isinstance(source.type, TileType):
        return emit_call("pl.store", (source, offsets, base), {})
    return emit_call("pl.assemble", (base, source, offsets), {})


def _as_source(base: Value, window: Window, value: Any) -> Value:
    assert isinstance(base.type, ShapedType)
    if is_number(value) or is_scalar(value):
        home = "pl.tensor" if isinstance(base.type, TensorType) else "pl.tile"
        return emit_call(f"{home}.full", (list(window.shape), base.type.dtype, value), {})
    if not (isinstance(value, Value) and isinstance(value.type, ShapedType)):
        raise ParserTypeError(f"{value!r} cannot be written into a tensor or tile")
    if window.dropped and value.type.rank == len(window.kept):
        _require_extents(value.type.shape, window.kept)
        return emit_call("pl.reshape", (value, list(window.shape)), {})
    _require_extents(value.type.shape, window.shape)
    return value


def _require_extents(given: Shape, wanted: Shape) -> None:
    agree = len(given) == len(wanted) and all(
        a == b or equal(a, b) is not False for a, b in zip(given, wanted)
    )
    if not agree:
        raise ShapeMismatch(
            f"a value of shape {render_dims(given)} is written into a window of shape "
            f"{render_dims(wanted)}"
        )


def window_of(base: Value, index: Any) -> Window:
    """The part that a subscript names; raises for steps, ellipses and negative constants."""
    if not isinstance(base.type, ShapedType):
        raise ParserTypeError(f"{base.type} cannot be subscripted")
    parts = cast("tuple[Any, ...]", index) if isinstance(index, tuple) else (index,)
    shape = base.type.shape
    if len(parts) > len(shape):
        raise ParserTypeError(f"{len(parts)} indices for {base.type}, which has {len(shape)} axes")
    padded = [*parts, *[slice(None)] * (len(shape) - len(parts))]
    axes = [_axis(part, extent) for part, extent in zip(padded, shape)]
    dropped = tuple(axis for axis, part in enumerate(padded) if not isinstance(part, slice))
    return Window(tuple(a[0] for a in axes), tuple(a[1] for a in axes), dropped)


def _axis(part: Any, extent: Dim) -> tuple[Offset, Dim]:
    if isinstance(part, slice):
        return _slice_axis(cast("slice[Any, Any, Any]", part), extent)
    if part is None or part is Ellipsis or isinstance(part, bool):
        raise UnsupportedFeatureError(f"{part!r} is not supported in a subscript")
    _require_integer(part)
    return part, 1


def _slice_axis(part: slice[Any, Any, Any], extent: Dim) -> tuple[Offset, Dim]:
    if part.step is not None and part.step != 1:
        raise UnsupportedFeatureError("A slice cannot have a step", hint="Use pl.slice per part.")
    lower: Any = 0 if part.start is None else part.start
    upper: Any = extent if part.stop is None else part.stop
    for bound in (lower, upper):
        _require_integer(bound)
    count = as_dim(as_dim(upper) - as_dim(lower))
    if isinstance(count, int) and count < 0:
        raise ParserTypeError(f"the slice {lower}:{upper} ends before it begins")
    return lower, count


def _require_integer(given: Any) -> None:
    if not is_integer(given):
        raise ParserTypeError(f"an index is an integer, not {described(given)}")
    if is_number(given) and given < 0:
        raise UnsupportedFeatureError(
            f"A negative index ({given}) is not supported", hint="Count from the front."
        )
