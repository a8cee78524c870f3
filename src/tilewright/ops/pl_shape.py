"""`pl` names of rearrangements: reshape, transpose, slice, concat, padding, expansion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import copysign
from typing import Any

from tilewright.dtypes import DType
from tilewright.errors import RankMismatch, ShapeMismatch
from tilewright.ir.core import Operation, Value
from tilewright.ir.enums import MemorySpace, PadValue
from tilewright.ir.types import Dim, ShapedType, TileType
from tilewright.ops import creation, shape
from tilewright.ops import elementwise as E
from tilewright.ops.adapt import (
    Build,
    Render,
    Target,
    as_dtype,
    as_fill,
    as_scalar,
    as_shape,
    described,
    is_number,
    never,
    paired,
    publish,
    publish_tile,
    renamed,
    require_one_kind,
    require_shaped_value,
)
from tilewright.ops.extents import constant_of, same_dims
from tilewright.ops.pl_elementwise import require_vector
from tilewright.ops.rules import normal_axis, valid_of
from tilewright.ops.words import dtype_of


def shaped_type(name: str, argument: str, given: Any) -> ShapedType:
    """The type of a tensor or tile argument."""
    type_ = require_shaped_value(name, argument, given).type
    assert isinstance(type_, ShapedType)
    return type_


def publish_both(
    target: Target,
    name: str,
    build: Build,
    first: str,
    render: Render,
    tile_without: Iterable[str] = (),
) -> None:
    """Publishes a build whose parameter `first` is called tensor or tile in its namespaces."""
    publish(
        target,
        name,
        build,
        tensor={first: "tensor"},
        tile={first: "tile"},
        tile_without=tile_without,
        render=render,
    )


def reshape(input: Any, shape: Sequence[Any]) -> Value:
    """The elements of input, in row-major order, under another shape."""
    return _reshape(require_shaped_value("reshape", "input", input), shape=as_shape(shape))


_reshape = shape.reshape
publish_both(shape.reshape, "reshape", reshape, first="input", render=renamed(x="input"))


def reinterpret_view(data: Any, dtype: Any, *, shape: Sequence[Any] | None = None) -> Value:
    """The bytes of data as `dtype`; without `shape` the last axis takes up the change of width."""
    type_, wanted = shaped_type("reinterpret_view", "data", data), as_dtype(dtype)
    return _reinterpret(
        data, dtype=wanted, shape=as_shape(shape) if shape is not None else rescaled(type_, wanted)
    )


def rescaled(type_: ShapedType, dtype: DType) -> tuple[Dim, ...]:
    """The shape of `type_` with its last axis counted in elements of `dtype`."""
    last = type_.shape[-1] * type_.dtype.nbytes
    if isinstance(last, int) and last % dtype.nbytes:
        raise ShapeMismatch(f"reinterpret_view: rows of {last} bytes hold no whole {dtype}")
    return (*type_.shape[:-1], last // dtype.nbytes)


_reinterpret = shape.reinterpret
publish(
    shape.reinterpret,
    "reinterpret_view",
    reinterpret_view,
    tensor={},
    tile={},
    render=renamed(x="data"),
)


def transpose(input: Any, axis1: int, axis2: int) -> Value:
    """input with two axes exchanged."""
    rank = shaped_type("transpose", "input", input).rank
    first, second = (normal_axis("transpose", int(axis), rank) for axis in (axis1, axis2))
    perm = list(range(rank))
    perm[first], perm[second] = second, first
    return shape.transpose(input, perm=tuple(perm))


def transpose_tile(tile: Any, axis1: int, axis2: int, tmp_tile: Any = None) -> Value:
    """tile with two axes exchanged; scratch memory is not needed."""
    return transpose(tile, axis1, axis2)


def _exchanged_axes(operation: Operation) -> dict[str, Any] | None:
    perm: tuple[int, ...] = operation.attrs["perm"]
    moved = [axis for axis, source in enumerate(perm) if axis != source]
    if len(moved) != 2:
        return None
    return {"input": operation.operands[0], "axis1": moved[0], "axis2": moved[1]}


publish(shape.transpose, "transpose", transpose, tensor={"input": "tensor"}, render=_exchanged_axes)
publish(
    shape.transpose,
    "transpose",
    described(transpose_tile, "transpose", transpose_tile),
    top=False,
    tile={},
)


def transpose_view(tile: Any) -> Value:
    """The tile with its two axes exchanged."""
    return transpose(tile, -2, -1)


publish_tile(shape.transpose, "transpose_view", transpose_view)


def concat(src0: Any, src1: Any) -> Value:
    """src0 and src1 side by side, along the last axis."""
    left = require_shaped_value("concat", "src0", src0)
    right = require_shaped_value("concat", "src1", src1)
    require_one_kind("concat", left, right)
    return shape.concat((left, right))


def _two_parts(operation: Operation) -> dict[str, Any] | None:
    (parts,) = operation.operands
    if len(parts) != 2 or operation.attrs["axis"] != -1:
        return None
    return {"src0": parts[0], "src1": parts[1]}


publish(shape.concat, "concat", concat, tensor={}, tile={}, render=_two_parts)


# ------------------------------------------------------------------------------- slice and padding


def slice(
    input: Any,
    shape: Sequence[Any],
    offset: Sequence[Any],
    valid_shape: Sequence[Any] | None = None,
    drop_dims: Sequence[Any] | None = None,
    pad_value: Any = None,
    clamp: bool = False,
) -> Value:
    """The part of input of extents `shape` that starts at `offset`.

    It is valid inside `valid_shape`; `drop_dims` removes unit axes; with `clamp` it may leave the
    input, and is valid only inside; `pad_value` is written outside the valid region.
    """
    value = require_shaped_value("slice", "input", input)
    dropped = tuple(
        int(constant_of(axis) or 0) if isinstance(axis, Value) else int(axis)
        for axis in drop_dims or ()
    )
    part = _slice(
        value,
        list(offset),
        None if valid_shape is None else list(valid_shape),
        shape=as_shape(shape),
        drop_dims=dropped,
        clamp=clamp,
    )
    return part if pad_value in (None, PadValue.null) else padded(part, pad_value)


def padded(x: Value, pad_value: Any) -> Value:
    """x with its padding set and its valid region kept."""
    type_ = shaped_type("slice", "input", x)
    valid = valid_of(type_)
    if same_dims(valid, type_.shape):
        return x
    return _fillpad(x, fill=as_fill(pad_value, type_.dtype), valid=valid, keep_valid=True)


_fillpad = shape.fillpad
_slice = shape.slice_
publish_both(
    shape.slice_, "slice", slice, first="input", tile_without=("clamp",), render=renamed(x="input")
)


def fillpad(value: Any, pad_value: Any = PadValue.zero) -> Value:
    """value with its padding set to zero, to the least or greatest value, or to a number."""
    type_ = shaped_type("fillpad", "value", value)
    return shape.fillpad(value, fill=as_fill(pad_value, type_.dtype), valid=valid_of(type_))


def _fill_argument(operation: Operation) -> dict[str, Any] | None:
    (x,) = operation.operands
    if operation.attrs["keep_valid"]:
        return None
    fill = operation.attrs["fill"]
    for known in (PadValue.zero, PadValue.min, PadValue.max):
        number = as_fill(known, dtype_of(x))
        if number == fill and copysign(1, number) == copysign(1, fill):
            return {"value": x, "pad_value": known}
    return {"value": x, "pad_value": fill}


publish_both(shape.fillpad, "fillpad", fillpad, first="value", render=_fill_argument)


def fillpad_inplace(tile: Any, pad_value: Any = PadValue.zero) -> Value:
    """tile with its padding filled, under the same name."""
    return fillpad(tile, pad_value)


publish_tile(shape.fillpad, "fillpad_inplace", fillpad_inplace)


def fillpad_expand(value: Any, shape: Sequence[Any], pad_value: Any = PadValue.zero) -> Value:
    """value at the origin of a larger shape, with the padding around it filled."""
    rank = shaped_type("fillpad_expand", "value", value).rank
    if len(shape) != rank:
        raise RankMismatch(f"fillpad_expand: {len(shape)} extents for {rank} axes")
    grown = _slice(value, [0] * rank, shape=as_shape(shape), clamp=True)
    return fillpad(grown, pad_value)


publish_both(shape.fillpad, "fillpad_expand", fillpad_expand, first="value", render=never)


def set_validshape(input: Any, valid_rows: Any, valid_cols: Any) -> Value:
    """input with the valid region [valid_rows, valid_cols]; no element changes."""
    value = require_shaped_value("set_validshape", "input", input)
    return shape.set_valid(value, [valid_rows, valid_cols])


def _valid_arguments(operation: Operation) -> dict[str, Any] | None:
    x, valid = operation.operands
    return {"input": x, "valid_rows": valid[0], "valid_cols": valid[1]} if len(valid) == 2 else None


publish_both(
    shape.set_valid, "set_validshape", set_validshape, first="input", render=_valid_arguments
)


# --------------------------------------------------------------------------------------- expansion


def _expanded(name: str, target: Any, vector: Any, axis: int) -> Value:
    type_ = shaped_type(name, "target", target)
    require_vector(name, vector, axis)
    require_one_kind(name, target, vector)
    return shape.broadcast_to(vector, shape=type_.shape)


def row_expand(lhs: Any, rhs: Any) -> Value:
    """rhs, of shape [R, 1], repeated to the shape of lhs."""
    return _expanded("row_expand", lhs, rhs, -1)


def col_expand(lhs: Any, rhs: Any) -> Value:
    """rhs, of shape [1, C], repeated to the shape of lhs."""
    return _expanded("col_expand", lhs, rhs, -2)


def row_expand_expdif(lhs: Any, rhs: Any) -> Value:
    """exp(lhs - rhs), rhs of shape [R, 1] repeated along the rows."""
    require_vector("row_expand_expdif", rhs, -1)
    return E.exp(E.sub(*paired("row_expand_expdif", lhs, rhs)))


def col_expand_expdif(lhs: Any, rhs: Any) -> Value:
    """exp(lhs - rhs), rhs of shape [1, C] repeated along the columns."""
    require_vector("col_expand_expdif", rhs, -2)
    return E.exp(E.sub(*paired("col_expand_expdif", lhs, rhs)))


for way in ("row", "col"):
    publish(
        shape.broadcast_to,
        f"{way}_expand",
        row_expand if way == "row" else col_expand,
        tensor={"lhs": "target" if way == "row" else "tensor", "rhs": f"{way}_vec"},
        tile={"lhs": "target", "rhs": f"{way}_vec"},
        render=never,
    )
    publish(
        E.exp,
        f"{way}_expand_expdif",
        row_expand_expdif if way == "row" else col_expand_expdif,
        tensor={"lhs": "tensor", "rhs": f"{way}_vec"},
        tile={"lhs": "tile", "rhs": f"{way}_vec"},
        render=never,
    )


def expand_clone(src: Any, target: Any) -> Value:
    """A fresh value: src broadcast to the shape of target."""
    wanted = shaped_type("expand_clone", "target", target).shape
    return shape.broadcast_to(require_shaped_value("expand_clone", "src", src), shape=wanted)


publish(shape.broadcast_to, "expand_clone", expand_clone, tensor={}, render=never)


def expands(target: Any, scalar: Any) -> Value:
    """The scalar at every element of the shape of target, in its dtype."""
    type_ = shaped_type("expands", "target", target)
    space = type_.space or MemorySpace.Vec if isinstance(type_, TileType) else MemorySpace.DDR
    known = scalar if is_number(scalar) else constant_of(scalar)
    if known is not None:
        number = float(known) if type_.dtype.is_float() else int(known)
        return creation.full(shape=type_.shape, dtype=type_.dtype, value=number, space=space)
    value = as_scalar("expands", "scalar", scalar, type_.dtype)
    return creation.splat(value, shape=type_.shape, space=space)


publish(creation.splat, "expands", expands, tensor={}, tile={}, render=never)
