"""Views: the memory of a tensor under another shape or another layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import (
    ArgumentTypeMismatch,
    RankMismatch,
    RuntimeShapeMismatch,
    ShapeMismatch,
)
from tilewright.ir.affine import as_expr
from tilewright.ir.core import Operation, Value
from tilewright.ir.enums import TensorLayout
from tilewright.ir.opdef import op, spelled
from tilewright.ir.structure import Read, Structure, domain
from tilewright.ir.types import Shape, TensorType, Type, render_dims
from tilewright.ops import memory
from tilewright.ops.adapt import Variant, as_shape
from tilewright.ops.extents import same_dims
from tilewright.ops.rules import is_fully_valid, require_tensor, tensor_type, valid_of, with_layout
from tilewright.ops.sampling import fails, sample, tensor, tile
from tilewright.ops.shape import (
    rearrangement,
    require_count,
    reshaped_map,
    reshaped_valid,
    set_valid,
)
from tilewright.ops.words import Array

ND, DN = TensorLayout.ND, TensorLayout.DN


def turned_dims(dims: Sequence[Any]) -> tuple[Any, ...]:
    """`dims` with the last two exchanged: ND memory as DN, and back."""
    *lead, rows, columns = dims
    return (*lead, columns, rows)


def layout_of(type_: TensorType) -> TensorLayout:
    """ND (row-major) unless the type says otherwise."""
    return ND if type_.view is None else type_.view.layout


@op("shape.view")
def view(x: Value, *, shape: Shape, layout: TensorLayout = ND, turned: bool = False) -> Value:
    """The memory of tensor x under `shape` and `layout`: ND is row-major, DN column-major.

    With `turned` the layout is the other one of the two, and the last two axes are exchanged: the
    element [.., j, i] of the result is x[.., i, j]. Else the layout is that of x, and an ND tensor
    may have another shape of as many elements, in row-major order. What is written into a view of
    a tensor is written into the tensor.
    """
    ...


@view.type_rule
def view_type(x: Value, *, shape: Shape, layout: TensorLayout, turned: bool) -> Type:
    type_ = require_tensor("view", "tensor", x)
    was = layout_of(type_)
    if layout not in (ND, DN) or was not in (ND, DN):
        block = layout if layout not in (ND, DN) else was
        raise ArgumentTypeMismatch(
            f"view: layout {block} stores blocks of elements one after the other (fractals), "
            "which no shape and strides describe; ND and DN are accepted",
            hint="copy the elements with pl.reshape and pl.transpose",
        )
    if turned is (layout is was):
        raise ArgumentTypeMismatch(f"view: a tensor of layout {was} is viewed as {layout}")
    if turned:
        return with_layout(turned_type(type_, shape), layout)
    if was is ND:
        require_count("view", type_.shape, shape)
        return tensor_type(shape, type_.dtype, reshaped_valid(type_, shape))
    require_seen(type_.shape, shape, layout)
    return with_layout(tensor_type(type_.shape, type_.dtype, valid_of(type_)), layout)


def turned_type(type_: TensorType, shape: Shape) -> TensorType:
    """The type of `type_` with the last two axes exchanged, which must give `shape`."""
    if type_.rank < 2:
        raise RankMismatch(f"view: {type_} has no two axes that another layout exchanges")
    require_seen(turned_dims(type_.shape), shape, DN if layout_of(type_) is ND else ND)
    return tensor_type(shape, type_.dtype, turned_dims(valid_of(type_)))


def require_seen(seen: Shape, shape: Shape, layout: TensorLayout) -> None:
    """Raises ShapeMismatch unless the memory seen under a layout has the wanted shape."""
    if not same_dims(seen, shape):
        raise ShapeMismatch(
            f"view: under layout {layout} this memory is {render_dims(seen)}, "
            f"not {render_dims(shape)}",
            hint="leave the shape out, or view it as ND under another shape first",
        )


@view.reference
def view_numpy(x: Any, *, shape: tuple[int, ...], layout: TensorLayout, turned: bool) -> Array:
    if turned:
        return np.swapaxes(x, -1, -2)
    if int(np.prod(shape)) != x.size:
        raise RuntimeShapeMismatch(f"view: {x.shape} does not have the elements of {shape}")
    return np.reshape(x, shape)


@view.structure
def view_loops(x: Value, *, shape: Shape, layout: TensorLayout, turned: bool) -> Structure:
    dims = domain(shape)
    assert isinstance(x.type, TensorType)
    source = turned_dims(dims) if turned else reshaped_map(dims, shape, x.type.shape)
    return rearrangement(shape, dims, Read(x, tuple(map(as_expr, source))))


view.samples(
    lambda: [
        sample(tensor(6, 8), shape=(8, 6)),
        sample(tensor(4, 6, valid=(3, 6)), shape=(12, 2)),
        sample(tensor(6, 8), shape=(8, 6), layout=DN, turned=True),
        sample(tensor(2, 3, 5, valid=(2, 3, 4)), shape=(2, 5, 3), layout=DN, turned=True),
        sample(tensor(0, 4), shape=(4, 0), layout=DN, turned=True),
        fails(ShapeMismatch, tensor(4, 8), shape=(4, 9)),
        fails(ShapeMismatch, tensor(4, 8), shape=(4, 8), layout=DN, turned=True),
        fails(RankMismatch, tensor(8), shape=(8,), layout=DN, turned=True),
        fails(ArgumentTypeMismatch, tensor(4, 8), shape=(4, 8), layout=DN),
        fails(ArgumentTypeMismatch, tensor(4, 8), shape=(4, 8), layout=TensorLayout.NZ),
        fails(ArgumentTypeMismatch, tile(4, 8), shape=(8, 4)),
    ]
)


def _arguments(operation: Operation) -> dict[str, Any]:
    (x,), attrs = operation.operands, operation.attrs
    if attrs["turned"]:
        return {"tensor": x, "layout": attrs["layout"]}
    return {"tensor": x, "shape": attrs["shape"]}


def as_layout(given: Any) -> TensorLayout:
    """`given` if it is a layout; raises ArgumentTypeMismatch."""
    if not isinstance(given, TensorLayout):
        raise ArgumentTypeMismatch(f"view: {given!r} is not a layout such as pl.TensorLayout.DN")
    return given


def viewed(
    tensor: Any,
    shape: Sequence[Any] | None = None,
    valid_shape: Sequence[Any] | None = None,
    *,
    layout: Any = None,
) -> Value:
    """The memory of tensor under another shape, valid region or layout; writes go through.

    With the other of the layouts ND (row-major) and DN (column-major), the last two axes are
    exchanged: element [.., j, i] is tensor[.., i, j]. A `shape` given with it must be that one.
    """
    type_ = require_tensor("view", "tensor", tensor)
    was = layout_of(type_)
    wanted = as_layout(layout) if layout is not None else was
    extents = None if shape is None else as_shape(shape)
    if wanted is not was:
        turned = turned_dims(type_.shape) if type_.rank > 1 else type_.shape
        found = view(tensor, shape=extents or turned, layout=wanted, turned=True)
    elif was is DN and extents is not None and not same_dims(extents, type_.shape):
        found = viewed(viewed(viewed(tensor, layout=ND), turned_dims(extents)), layout=DN)
    else:
        found = view(tensor, shape=extents or type_.shape, layout=was)
    return found if valid_shape is None else set_valid(found, list(valid_shape))


viewed.__name__ = "view"
spelled(view, "pl.tensor.view", render=_arguments)(Variant("pl.tensor.view", viewed, kind="tensor"))


# --------------------------------------------------------------------------------- writing into one

VIEWS = (view, set_valid)
"""Operations whose result is all the memory of their operand."""


def restored(operation: Operation, new: Value) -> Value:
    """`new`, contents of the view that `operation` gave, as contents of what it is a view of."""
    whole = operation.operands[0].type
    assert isinstance(whole, TensorType) and isinstance(new.type, TensorType)
    if not is_fully_valid(new.type):
        new = set_valid(new, _extents(new))
    if operation.opdef is set_valid:
        return new
    turned = operation.attrs["turned"]
    return view(new, shape=whole.shape, layout=layout_of(whole), turned=turned)


def _extents(x: Value) -> tuple[Value | int, ...]:
    assert isinstance(x.type, TensorType)
    given = enumerate(x.type.shape)
    return tuple(d if isinstance(d, int) else memory.dim(x, axis=axis) for axis, d in given)
