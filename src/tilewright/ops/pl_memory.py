"""`pl` names of memory ops: creation, load and store, assemble, single elements, extents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.dtypes import BF16, FP16, FP32, INT32, DType
from tilewright.errors import ArgumentTypeMismatch, ShapeMismatch
from tilewright.ir.builder import Builder
from tilewright.ir.core import Operation, Value
from tilewright.ir.enums import AtomicType, MemorySpace, TensorLayout, TileLayout
from tilewright.ir.opdef import op_arguments, spelled
from tilewright.ir.types import Shape, ShapedType, TileType
from tilewright.ops import arith, creation, memory, shape
from tilewright.ops import elementwise as E
from tilewright.ops.adapt import (
    as_dtype,
    as_index,
    as_scalar,
    as_shape,
    is_number,
    is_tile,
    never,
    publish,
    publish_tile,
    require_shaped_value,
    require_value,
)
from tilewright.ops.extents import constant_of, same_dims
from tilewright.ops.pl_shape import shaped_type
from tilewright.ops.rules import (
    GLOBAL_SPACES,
    normal_axis,
    require_static,
    require_tensor,
    valid_of,
)

Given = Any
FROM_ACCUMULATOR = (INT32, FP32, FP16, BF16)


def is_global(operation: Operation) -> bool:
    """True when a creating op makes a tensor."""
    return operation.attrs["space"] in GLOBAL_SPACES


# ---------------------------------------------------------------------------------------- creation


def create_tensor(
    shape: Sequence[Given],
    dtype: Given,
    layout: TensorLayout = TensorLayout.ND,
    manual_dep: bool = False,
    init_value: int | float | None = None,
) -> Value:
    """A tensor in global memory; uninitialised unless `init_value` is given.

    With `manual_dep` its dependencies are never tracked.
    """
    if init_value is not None:
        return full_in(MemorySpace.DDR, shape, dtype, init_value)
    return creation.create(
        shape=as_shape(shape), dtype=as_dtype(dtype), layout=layout, manual_dep=manual_dep
    )


def _tensor_arguments(operation: Operation) -> dict[str, Any] | None:
    given = op_arguments(operation)
    return given if given.pop("space") is MemorySpace.DDR else None


spelled(creation.create, "pl.create_tensor", render=_tensor_arguments)(create_tensor)
spelled(creation.create, "pl.tensor.create", render=never)(create_tensor)


def create_tile(
    shape: Sequence[Given],
    dtype: Given,
    target_memory: MemorySpace = MemorySpace.Vec,
    transpose: bool | None = None,
    *,
    flat_layout: bool | None = None,
    valid_shape: Sequence[Given] | None = None,
) -> Value:
    """An uninitialised tile in `target_memory`; layout hints concern the device only."""
    extents = require_static("create_tile", "shape", as_shape(shape))
    tile = creation.create(shape=extents, dtype=as_dtype(dtype), space=target_memory)
    return tile if valid_shape is None else _set_valid(tile, list(valid_shape))


_set_valid = shape.set_valid


def _tile_arguments(operation: Operation) -> dict[str, Any] | None:
    if is_global(operation) or operation.attrs["manual_dep"]:
        return None
    attrs = operation.attrs
    return {"shape": attrs["shape"], "dtype": attrs["dtype"], "target_memory": attrs["space"]}


spelled(creation.create, "pl.create_tile", render=_tile_arguments)(create_tile)
spelled(creation.create, "pl.tile.create", render=never)(create_tile)


def create_l1(shape: Sequence[Given], dtype: Given, transpose: bool = False) -> Value:
    """An uninitialised on-chip buffer in the matrix memory."""
    return create_tile(shape, dtype, MemorySpace.Mat)


spelled(creation.create, "pl.create_l1", "pl.tensor.create_l1", render=never)(create_l1)


def full_in(space: MemorySpace, shape: Sequence[Given], dtype: Given, value: Given) -> Value:
    """A number (or constant scalar) at every element."""
    wanted = as_dtype(dtype)
    known = value if is_number(value) else constant_of(value)
    if known is None:
        scalar = as_scalar("full", "value", value, wanted)
        return creation.splat(scalar, shape=as_shape(shape), space=space)
    number = float(known) if wanted.is_float() else known
    return creation.full(shape=as_shape(shape), dtype=wanted, value=number, space=space)


def full_tile(shape: Sequence[Given], dtype: Given, value: Given) -> Value:
    """A tile with `value` at every element."""
    return full_in(MemorySpace.Vec, shape, dtype, value)


def full_tensor(shape: Sequence[Given], dtype: Given, value: Given) -> Value:
    """A tensor with `value` at every element."""
    return full_in(MemorySpace.DDR, shape, dtype, value)


def in_space(space: MemorySpace) -> Any:
    """Renders an op that creates in `space`."""

    def render(operation: Operation) -> dict[str, Any] | None:
        given = op_arguments(operation)
        return given if given.pop("space") is space else None

    return render


spelled(creation.full, "pl.tile.full", "pl.full", render=in_space(MemorySpace.Vec))(full_tile)
spelled(creation.full, "pl.tensor.full", render=in_space(MemorySpace.DDR))(full_tensor)


def ci_in(
    space: MemorySpace, start: Given, shape: Sequence[Given], dtype: Given, descending: bool
) -> Value:
    """Consecutive integers along the last axis of [1, N], from `start` up or down."""
    wanted, extents = as_dtype(dtype), as_shape(shape)
    if any(extent != 1 for extent in extents[:-1]):
        raise ShapeMismatch(f"ci: shape {list(extents)} has more than one row", hint="use [1, N]")
    first = as_scalar("ci", "start", start, wanted)
    return creation.iota(
        first, shape=extents, dtype=wanted, step=-1 if descending else 1, space=space
    )


def ci_tile(
    start: Given, shape: Sequence[Given], dtype: Given = INT32, descending: bool = False
) -> Value:
    """A tile [1, N] of consecutive integers from `start`, ascending or descending."""
    return ci_in(MemorySpace.Vec, start, shape, dtype, descending)


def ci_tensor(
    start: Given, shape: Sequence[Given], dtype: Given = INT32, descending: bool = False
) -> Value:
    """A tensor [1, N] of consecutive integers from `start`, ascending or descending."""
    return ci_in(MemorySpace.DDR, start, shape, dtype, descending)


def _ci_arguments(space: MemorySpace) -> Any:
    def render(operation: Operation) -> dict[str, Any] | None:
        given = op_arguments(operation)
        axis, step = given.pop("axis"), given.pop("step")
        row = all(extent == 1 for extent in given["shape"][:-1])
        if given.pop("space") is not space or axis != -1 or step not in (1, -1) or not row:
            return None
        return {**given, "descending": step == -1}

    return render


for path_ in ("pl.tile.ci", "pl.ci", "pl.arange", "pl.tile.arange"):
    spelled(creation.iota, path_, render=_ci_arguments(MemorySpace.Vec))(ci_tile)
for path_ in ("pl.tensor.ci", "pl.tensor.arange"):
    spelled(creation.iota, path_, render=_ci_arguments(MemorySpace.DDR))(ci_tensor)


# --------------------------------------------------------------------------------- load and store


def load(
    tensor: Given,
    offsets: Sequence[Given],
    shapes: Sequence[Given],
    valid_shape: Sequence[Given] | None = None,
    target_memory: MemorySpace = MemorySpace.Vec,
    clamp: bool = False,
) -> Value:
    """A tile of extents `shapes` with the window of `tensor` that starts at `offsets`.

    It is valid inside `valid_shape`; with `clamp` the window may leave the tensor. The rest is 0.
    """
    return memory.load(
        require_value("load", "tensor", tensor),
        list(offsets),
        None if valid_shape is None else list(valid_shape),
        shapes=as_shape(shapes),
        target_memory=target_memory,
        clamp=clamp,
    )


spelled(memory.load, "pl.load", "pl.tile.load")(load)


def valid_attr(value: Value) -> Shape | None:
    """The valid region of a value when it is not all of it, as write ops want it."""
    type_ = value.type
    assert isinstance(type_, ShapedType)
    return None if same_dims(valid_of(type_), type_.shape) else valid_of(type_)


def store(
    tile: Given,
    offsets: Sequence[Given],
    output_tensor: Given,
    shapes: Sequence[Given] | None = None,
    *,
    atomic: AtomicType = AtomicType.None_,
) -> Value:
    """output_tensor with the valid region of `tile` written at `offsets`; gives its new version.

    An accumulator is narrowed to the tensor's dtype. With `shapes` only that much is written.
    """
    source = require_value("store", "tile", tile)
    if shapes is not None and is_tile(source):
        source = leading_part(source, as_shape(shapes))
    source = from_accumulator(source, require_tensor("store", "output_tensor", output_tensor).dtype)
    valid = valid_attr(source) if is_tile(source) else None
    return memory.store(source, list(offsets), output_tensor, valid=valid, atomic=atomic)


def leading_part(tile: Value, extents: Shape) -> Value:
    """The first elements of `tile`, or the tile itself when that is all of it."""
    type_ = tile.type
    assert isinstance(type_, TileType)
    extents = extents[len(extents) - type_.rank :]
    if same_dims(extents, type_.shape):
        return tile
    return shape.slice_(tile, [0] * type_.rank, shape=extents)


def from_accumulator(tile: Value, dtype: DType) -> Value:
    """An accumulator tile narrowed to `dtype` where hardware does so when it stores."""
    type_ = tile.type
    narrows = isinstance(type_, TileType) and type_.space is MemorySpace.Acc
    if not narrows or dtype not in FROM_ACCUMULATOR:
        return tile
    assert isinstance(type_, TileType)
    return tile if type_.dtype is dtype else E.cast(tile, dtype=dtype)


def _store_arguments(operation: Operation) -> dict[str, Any]:
    given = op_arguments(operation)
    del given["valid"]
    return given


spelled(memory.store, "pl.store", "pl.tile.store", render=_store_arguments)(store)


def assemble(
    target: Given,
    source: Given,
    offset: Sequence[Given],
    *,
    atomic: AtomicType = AtomicType.None_,
) -> Value:
    """target with source written at `offset`; `AtomicType.Add` adds to what is there."""
    value = require_shaped_value("assemble", "source", source)
    whole = require_shaped_value("assemble", "target", target)
    value = from_accumulator(value, shaped_type("assemble", "target", whole).dtype)
    return memory.assemble(whole, value, list(offset), valid=valid_attr(value), atomic=atomic)


publish(
    memory.assemble,
    "assemble",
    assemble,
    tensor={},
    tile={},
    tile_without=("atomic",),
    render=_store_arguments,
)


def move(
    tile: Given,
    target_memory: MemorySpace,
    blayout: TileLayout | None = None,
    slayout: TileLayout | None = None,
) -> Value:
    """A copy of tile in another memory space, optionally in another layout."""
    return memory.move(
        require_value("move", "tile", tile),
        target_memory=target_memory,
        blayout=blayout,
        slayout=slayout,
    )


publish_tile(memory.move, "move", move, render=op_arguments)


def extract(
    src: Given,
    index_row: Given,
    index_col: Given,
    shape: Sequence[Given],
    *,
    target_memory: MemorySpace,
) -> Value:
    """The part of src of extents `shape` that starts at (row, col), in another memory space."""
    part = _slice(
        require_value("extract", "src", src), [index_row, index_col], shape=as_shape(shape)
    )
    return memory.move(part, target_memory=target_memory)


_slice = shape.slice_
publish_tile(memory.move, "extract", extract)


# ----------------------------------------------------------------------- single elements, extents


def element_index(name: str, value: Value, offset: Given) -> list[Given]:
    """One index per axis; a single index counts the elements in row-major order."""
    given = as_index(offset)
    type_ = shaped_type(name, "src", value)
    if len(given) == 1 and type_.rank > 1:
        extents = require_static(name, "the shape", type_.shape)
        return unflattened(given[0], extents)
    return given


def unflattened(position: Given, extents: tuple[int, ...]) -> list[Given]:
    """The index of the element at a row-major position."""
    found: list[Given] = []
    for extent in reversed(extents[1:]):
        found.append(_split(position, extent, arith.mod))
        position = _split(position, extent, arith.floordiv)
    return [position, *reversed(found)]


def _split(position: Given, extent: int, word: Any) -> Given:
    if isinstance(position, int):
        return position % extent if word is arith.mod else position // extent
    return word(position, Builder.current().constant(extent, position.type.dtype))


def read(src: Given, offset: Given) -> Value:
    """The element of src at `offset`, as a scalar."""
    value = require_shaped_value("read", "src", src)
    return memory.read(value, element_index("read", value, offset))


def write(dst: Given, offset: Given, value: Given) -> Value:
    """dst with the scalar `value` at `offset`."""
    target = require_shaped_value("write", "dst", dst)
    dtype = shaped_type("write", "dst", target).dtype
    index = element_index("write", target, offset)
    return memory.write(target, index, as_scalar("write", "value", value, dtype))


def _element_arguments(operation: Operation) -> dict[str, Any]:
    x, indices, *value = operation.operands
    if value:
        return {"dst": x, "offset": indices, "value": value[0]}
    return {"src": x, "offset": indices}


publish(
    memory.read,
    "read",
    read,
    tensor={"src": "tensor", "offset": "indices"},
    tile={"src": "tile", "offset": "indices"},
    render=_element_arguments,
)
publish(
    memory.write,
    "write",
    write,
    tensor={"dst": "tensor", "offset": "indices"},
    tile={"dst": "tile", "offset": "indices"},
    render=_element_arguments,
)


def known_axis(name: str, value: Value, axis: Given) -> int:
    """A constant axis that the value has."""
    known = constant_of(axis) if isinstance(axis, Value) else axis
    if not isinstance(known, int):
        raise ArgumentTypeMismatch(f"{name}: axis is {axis!r}, not a constant integer")
    normal_axis(name, known, shaped_type(name, "tensor", value).rank)
    return known


def dim(tensor: Given, axis: Given) -> Value:
    """Extent `axis` of a tensor, as an INDEX scalar."""
    value = require_shaped_value("dim", "tensor", tensor)
    return memory.dim(value, axis=known_axis("dim", value, axis))


spelled(memory.dim, "pl.dim", "pl.tensor.dim")(dim)


def valid_dim(tensor: Given, axis: Given) -> Value:
    """Extent `axis` of the valid region, as an INDEX scalar."""
    value = require_shaped_value("valid_dim", "tensor", tensor)
    at = known_axis("valid_dim", value, axis)
    extent = valid_of(shaped_type("valid_dim", "tensor", value))[at]
    return memory.valid_dim(value, axis=at, extent=extent)


def _valid_dim_arguments(operation: Operation) -> dict[str, Any]:
    return {"tensor": operation.operands[0], "axis": operation.attrs["axis"]}


spelled(memory.valid_dim, "pl.valid_dim", render=_valid_dim_arguments)(valid_dim)
