"""Small on-core arrays of scalars. They are values: an update gives a new array."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.errors import ArgumentTypeMismatch, DTypeMismatch, IndexOutOfBounds
from tilewright.ir.affine import less, less_equal
from tilewright.ir.builder import Builder
from tilewright.ir.core import Value
from tilewright.ir.enums import Effect
from tilewright.ir.opdef import op
from tilewright.ir.types import ArrayType, ScalarType, Type
from tilewright.ops.adapt import as_dtype, as_scalar, require_value
from tilewright.ops.extents import as_dim
from tilewright.ops.words import Array

ELEMENT_KINDS = ("int", "uint", "bool", "task")


def array_type(name: str, array: Value) -> ArrayType:
    """The type of an array operand; raises ArgumentTypeMismatch."""
    if not isinstance(array.type, ArrayType):
        raise ArgumentTypeMismatch(f"{name}: array is {array.type}, not a pl.Array")
    return array.type


def require_element(name: str, type_: ArrayType, index: Value) -> None:
    """Raises ArgumentTypeMismatch where the index is certainly outside the array."""
    at = as_dim(index)
    if less_equal(0, at) is False or less(at, type_.extent) is False:
        raise ArgumentTypeMismatch(f"{name}: index {at} of an array of {type_.extent} elements")


@op("array.create")
def create(*, extent: int, dtype: DType) -> Value:
    """An array of `extent` elements of an integer type, BOOL or TASK_ID, all 0 (no task)."""
    ...


@create.type_rule
def create_type(*, extent: int, dtype: DType) -> Type:
    if dtype.kind not in ELEMENT_KINDS:
        raise DTypeMismatch(f"array.create: {dtype} is not an integer, BOOL or TASK_ID type")
    if extent < 0:
        raise ArgumentTypeMismatch(f"array.create: the extent {extent} is negative")
    return ArrayType(extent, dtype)


@create.reference
def create_numpy(*, extent: int, dtype: DType) -> Array:
    return np.zeros(extent, dtype.numpy)


@op("array.get_element")
def get_element(array: Value, index: Value) -> Value:
    """Element `index` of an array, as a scalar."""
    ...


@get_element.type_rule
def get_element_type(array: Value, index: Value) -> Type:
    type_ = array_type("array.get_element", array)
    require_element("array.get_element", type_, index)
    return ScalarType(type_.dtype)


def checked_index(index: Any, extent: int) -> int:
    """The index as an int; raises IndexOutOfBounds."""
    if not 0 <= index < extent:
        raise IndexOutOfBounds(f"element {int(index)} of an array of {extent}")
    return int(index)


@get_element.reference
def get_element_numpy(array: Any, index: Any) -> Any:
    return array[checked_index(index, len(array))]


@op("array.update_element", effect=Effect.WRITE, tied={0: 0})
def update_element(array: Value, index: Value, value: Value) -> Value:
    """The array with the scalar `value` at `index`."""
    ...


@update_element.type_rule
def update_element_type(array: Value, index: Value, value: Value) -> Type:
    type_ = array_type("array.update_element", array)
    require_element("array.update_element", type_, index)
    if value.type != ScalarType(type_.dtype):
        raise DTypeMismatch(f"array.update_element: value is {value.type}, not {type_.dtype}")
    return type_


@update_element.reference
def update_element_numpy(array: Any, index: Any, value: Any) -> Array:
    array[checked_index(index, len(array))] = value
    return array


@create.spelling("pl.array.create")
def create_spelling(extent: int, dtype: Any) -> Value:
    """An array of `extent` elements of an integer type, BOOL or TASK_ID, all 0 (no task)."""
    return create(extent=int(as_dim(extent)), dtype=as_dtype(dtype))


@get_element.spelling("pl.array.get_element")
def get_element_spelling(array: Any, index: Any) -> Value:
    """Element `index` of an array, as a scalar."""
    return get_element(require_value("array.get_element", "array", array), as_index_value(index))


def as_index_value(index: Any) -> Value:
    """A number or scalar as an index operand."""
    return Builder.current().index(index)


@update_element.spelling("pl.array.update_element")
def update_element_spelling(array: Any, index: Any, value: Any) -> Value:
    """The array with the scalar `value` at `index`."""
    target = require_value("array.update_element", "array", array)
    dtype = array_type("array.update_element", target).dtype
    scalar = value if dtype.kind == "task" else as_scalar("array", "value", value, dtype)
    return update_element(target, as_index_value(index), scalar)
