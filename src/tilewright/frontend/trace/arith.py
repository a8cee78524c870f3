"""Element-wise arithmetic of tensors and numbers: promotion, type computed in, result type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tilewright.dataclass import dataclass
from tilewright.dtypes import BF16, BOOL, FP32, INT8, INT32, DType
from tilewright.errors.nki_instructions import BITVEC_INTEGER
from tilewright.errors.nki_tensors import NUMPY_SHAPES, PARTITION_MISMATCH, UNEXPECTED_OPERAND
from tilewright.frontend.trace import access
from tilewright.frontend.trace.access import require_dtype
from tilewright.frontend.trace.ambient import current_api, refusal
from tilewright.frontend.trace.engines import require_reachable
from tilewright.frontend.trace.predicates import DynamicScalar
from tilewright.frontend.trace.tensors import nki_tensor
from tilewright.ir.core import Value
from tilewright.ir.enums import Rounding
from tilewright.ir.types import ScalarType, ShapedType
from tilewright.ops import elementwise, matmul
from tilewright.ops.cast import cast as cast_scalar
from tilewright.ops.nki_dtypes import (
    DIRECT,
    FP8,
    compute_dtype,
    dtype_name,
    promote_all,
    weak_dtype,
)
from tilewright.ops.nki_math import shift_right

if TYPE_CHECKING:
    from tilewright.frontend.trace.sema import Sema

Word = Callable[..., Value]
Number = (bool, int, float, np.generic)
HOST_DTYPES = tuple(map(np.dtype, ("int64", "uint64", "float64")))
"""What numpy computes on the host, whose numbers have no type of their own."""


@dataclass(frozen=True)
class Arithmetic:
    """How a named operation computes: the op, and whether it needs or gives special types."""

    op: Word
    floats_only: bool = False
    gives_bool: bool = False
    on_bits: bool = False


BINARY: dict[str, Arithmetic] = {
    "add": Arithmetic(elementwise.add),
    "subtract": Arithmetic(elementwise.sub),
    "multiply": Arithmetic(elementwise.mul),
    "divide": Arithmetic(elementwise.div, floats_only=True),
    "floor_divide": Arithmetic(elementwise.floordiv),
    "maximum": Arithmetic(elementwise.max_),
    "minimum": Arithmetic(elementwise.min_),
    "power": Arithmetic(elementwise.pow_, floats_only=True),
    "mod": Arithmetic(elementwise.mod),
    "fmod": Arithmetic(elementwise.fmod),
    "bitwise_and": Arithmetic(elementwise.and_, on_bits=True),
    "bitwise_or": Arithmetic(elementwise.or_, on_bits=True),
    "bitwise_xor": Arithmetic(elementwise.xor, on_bits=True),
    "left_shift": Arithmetic(elementwise.shl, on_bits=True),
    "right_shift": Arithmetic(shift_right, on_bits=True),
    "equal": Arithmetic(elementwise.eq, gives_bool=True),
    "not_equal": Arithmetic(elementwise.ne, gives_bool=True),
    "less": Arithmetic(elementwise.lt, gives_bool=True),
    "less_equal": Arithmetic(elementwise.le, gives_bool=True),
    "greater": Arithmetic(elementwise.gt, gives_bool=True),
    "greater_equal": Arithmetic(elementwise.ge, gives_bool=True),
}
SHIFTS = (elementwise.shl, shift_right)
COMPARISONS = tuple(name for name, how in BINARY.items() if how.gives_bool)


# ---------------------------------------------------------------------------- operands


def dtype_of(operand: Any) -> DType:
    """The element type of a tensor, or that of a number."""
    if isinstance(operand, nki_tensor):
        return operand.root.dtype
    if isinstance(operand, np.generic):
        number = cast("np.generic[Any]", operand)
        if number.dtype in HOST_DTYPES:
            return weak_dtype(number.item())
        return require_dtype(number.dtype)
    if isinstance(operand, DynamicScalar):
        return INT32
    return weak_dtype(operand)


def require_operand(name: str, operand: Any) -> None:
    """Refuses what is neither a tensor nor a number."""
    if not isinstance(operand, (nki_tensor, DynamicScalar, *Number)):
        given = type(operand).__name__
        wanted = "a tile or a number"
        raise refusal(UNEXPECTED_OPERAND, op=current_api(), name=name, given=given, wanted=wanted)


def value_of(sema: Sema, operand: Any, dtype: DType, mask: Any = None) -> Value:
    """An operand as a value of `dtype`; a number becomes a scalar constant."""
    if isinstance(operand, nki_tensor):
        return converted_value(access.read_operand(sema, operand, mask), dtype)
    if isinstance(operand, DynamicScalar):
        return cast_scalar(sema.scalar(operand.expr), dtype=dtype)
    number = access.host_number(operand)
    assert number is not None, "operands are checked"
    if dtype is BOOL:
        return sema.constant(bool(number), dtype)
    if dtype.is_float():
        return sema.constant(number, dtype)
    require_representable(int(number), "number", dtype)
    return sema.constant(int(number), dtype)


def require_representable(number: int, name: str, dtype: DType) -> None:
    """Refuses an integer that no bits of an integer type stand for, signed or not."""
    if not -(1 << (dtype.bits - 1)) <= number < 1 << dtype.bits:
        found = {"given": str(number), "wanted": f"a number that {dtype_name(dtype)} has"}
        raise refusal(UNEXPECTED_OPERAND, op=current_api(), name=name, **found)


def converted_value(value: Value, dtype: DType) -> Value:
    """`value` as elements of `dtype`; to integers it rounds to nearest even and saturates."""
    assert isinstance(value.type, (ShapedType, ScalarType))
    if value.type.dtype is dtype:
        return value
    return elementwise.cast(value, dtype=dtype, mode=Rounding.RINT)


def held_dtype(sema: Sema, dtype: DType) -> DType:
    """The element type of what a tile of `dtype` on the chip holds."""
    is_wide = sema.ctx.opts.dtype_policy == "legacy" and dtype in (BF16, *FP8)
    return FP32 if is_wide else dtype


def new_tile(sema: Sema, value: Value, dtype: DType, **facts: Any) -> nki_tensor:
    """A new tile of `dtype` on the chip; `facts` are those of its root."""
    return sema.tile(converted_value(value, held_dtype(sema, dtype)), **facts)


def broadcast_shape(left: Sequence[int], right: Sequence[int]) -> tuple[int, ...]:
    """The common shape of two operands; refuses shapes that do not broadcast."""
    try:
        return np.broadcast_shapes(tuple(left), tuple(right))
    except ValueError:
        raise refusal(NUMPY_SHAPES, op=current_api(), left=list(left), right=list(right)) from None


def require_same_partitions(op: str, left: Any, right: Any) -> None:
    """Refuses tiles with different numbers of partitions, which only functions broadcast."""
    tiles = isinstance(left, nki_tensor) and isinstance(right, nki_tensor)
    if tiles and left.shape[:1] != right.shape[:1]:
        shown = [f"'{each.name}' {list(each.shape)}" for each in (left, right)]
        raise refusal(PARTITION_MISMATCH, op=op, left=shown[0], right=shown[1])


# ---------------------------------------------------------------------------- operations


def binary(
    sema: Sema, name: str, x: Any, y: Any, dtype: Any = None, mask: Any = None
) -> nki_tensor:
    """`x <name> y` in the promoted type, or `dtype`; numbers are wide, and operands broadcast."""
    for place, operand in (("x", x), ("y", y)):
        require_operand(place, operand)
    how = BINARY[name]
    if isinstance(x, nki_tensor) and isinstance(y, nki_tensor):
        broadcast_shape(x.shape, y.shape)
    given = [dtype_of(x), dtype_of(y)]
    if how.on_bits:
        require_bits(given)
    promoted = promote_all(given)
    if how.on_bits and promoted.is_float():
        both = " and ".join(map(dtype_name, given))
        raise refusal(BITVEC_INTEGER, op=current_api(), name="x, y", given=f"float32 of {both}")
    result = require_dtype(dtype) if dtype is not None else (BOOL if how.gives_bool else promoted)
    inside = _inner_dtype(how, given, promoted, result)
    value = how.op(value_of(sema, x, inside, mask), value_of(sema, y, inside, mask))
    return new_tile(sema, value, result, mask=mask)


def require_bits(dtypes: Sequence[DType]) -> None:
    """Refuses operands whose bits are not integers."""
    for name, dtype in zip(("x", "y"), dtypes):
        if dtype.is_float():
            given = dtype_name(dtype)
            raise refusal(BITVEC_INTEGER, op=current_api(), name=name, given=given)


def _inner_dtype(how: Arithmetic, given: Sequence[DType], promoted: DType, result: DType) -> DType:
    if how.on_bits:
        is_truth = set(given) == {BOOL} and how.op not in SHIFTS
        return BOOL if is_truth else promoted
    if how.gives_bool:
        return promoted if promoted in DIRECT or promoted.is_int() else FP32
    inside = compute_dtype(given, result)
    return FP32 if how.floats_only and not inside.is_float() else inside


def operator(sema: Sema, name: str, x: Any, y: Any) -> Any:
    """A Python operator: comparisons give int8 tiles of 0 and 1; free dimensions broadcast.

    Objects with operators of their own are left to those; Python's own types have none for tiles.
    """
    with sema.ctx.nki_api_scope(name):
        for place, operand in (("x", x), ("y", y)):
            if not isinstance(operand, (nki_tensor, DynamicScalar, *Number)):
                if type(operand).__module__ == "builtins" and name not in ("equal", "not_equal"):
                    require_operand(place, operand)
                return NotImplemented
        require_same_partitions(name, x, y)
        require_reachable(sema, x, y)
        return binary(sema, name, x, y, INT8 if name in COMPARISONS else None)


def pointwise(sema: Sema, op: Word, x: Any, dtype: Any = None, mask: Any = None) -> nki_tensor:
    """`op(x)` for a float op: computed in FP32 unless x has a type that serves; result as x."""
    require_operand("x", x)
    result = require_dtype(dtype) if dtype is not None else dtype_of(x)
    inside = dtype_of(x) if dtype_of(x) in DIRECT and result is dtype_of(x) else FP32
    value = op(value_of(sema, x, inside, mask))
    return new_tile(sema, value, result, mask=mask)


def exact_unary(sema: Sema, op: Word, x: Any, dtype: Any = None, mask: Any = None) -> nki_tensor:
    """`op(x)` for an op that integers have too; result as x. Complements are of x's own bits."""
    require_operand("x", x)
    result = require_dtype(dtype) if dtype is not None else dtype_of(x)
    given = dtype_of(x)
    inside = given if op is elementwise.not_ else compute_dtype([given], result)
    return new_tile(sema, op(value_of(sema, x, inside, mask)), result, mask=mask)


def logical(
    sema: Sema, op: Word, operands: Sequence[Any], dtype: Any, mask: Any = None
) -> nki_tensor:
    """`op` on whether the operands are nonzero."""
    for operand in operands:
        require_operand("x", operand)
    value = op(*(truth(sema, operand, mask) for operand in operands))
    return new_tile(sema, value, require_dtype(dtype), mask=mask)


def truth(sema: Sema, operand: Any, mask: Any = None) -> Value:
    """Whether the elements of an operand, or a number, are nonzero."""
    if isinstance(operand, nki_tensor):
        return converted_value(access.read_operand(sema, operand, mask), BOOL)
    return sema.constant(bool(operand), BOOL)


def where(
    sema: Sema, condition: Any, x: Any, y: Any, dtype: Any = None, mask: Any = None
) -> nki_tensor:
    """x where the condition is nonzero, else y."""
    for name, operand in (("condition", condition), ("x", x), ("y", y)):
        require_operand(name, operand)
    promoted = promote_all([dtype_of(x), dtype_of(y)])
    picked = [value_of(sema, operand, promoted, mask) for operand in (x, y)]
    value = elementwise.select(truth(sema, condition, mask), *picked)
    return new_tile(sema, value, require_dtype(dtype) if dtype else promoted, mask=mask)


def unary(sema: Sema, name: str, x: nki_tensor) -> nki_tensor:
    """`-x` and `abs(x)`, in the type of x."""
    op = {"negative": elementwise.neg, "abs": elementwise.abs_}[name]
    with sema.ctx.nki_api_scope(name):
        require_reachable(sema, x)
        return exact_unary(sema, op, x)


def negated(sema: Sema, x: nki_tensor) -> nki_tensor:
    """`~x`: the logical complement of a comparison's result, the bits of other integers."""
    with sema.ctx.nki_api_scope("invert"):
        require_reachable(sema, x)
        value = access.read(sema, x)
        if x.root.dtype is not INT8:
            return sema.tile(elementwise.not_(value))
        truth = elementwise.not_(converted_value(value, BOOL))
        return sema.tile(converted_value(truth, INT8))


def converted(sema: Sema, x: nki_tensor, dtype: Any) -> nki_tensor:
    """`x.astype(dtype)`: always a new tile."""
    with sema.ctx.nki_api_scope("astype"):
        wanted = require_dtype(dtype)
        require_reachable(sema, x)
        return new_tile(sema, access.read(sema, x), wanted)


def update_in_place(sema: Sema, name: str, target: nki_tensor, other: Any) -> nki_tensor:
    """`target <op>= other`: the elements change where `other` is defined; the type stays."""
    with sema.ctx.nki_api_scope(name):
        require_reachable(sema, target, other)
        if name == "add" and _accumulate_product(sema, target, other):
            return target
        require_same_partitions(name, target, other)
        result = binary(sema, name, target, other)
        result.root.mask = access.defined_where(other, result.shape)
        access.assign(sema, target, result)
        return target


def _accumulate_product(sema: Sema, target: nki_tensor, other: Any) -> bool:
    """`target += lhs @ rhs` as one accumulating product; the product alone may then be unused."""
    if not isinstance(other, nki_tensor) or not (target.is_whole and other.is_whole):
        return False
    if other.root.mask is not None:
        return False
    product = other.root.version.op
    fits = other.shape == target.shape and target.root.dtype is other.root.dtype is FP32
    if product is None or product.opdef is not matmul.matmul or not fits or target.ndim != 2:
        return False
    sema.consumed.append(product)
    lhs, rhs = product.operands
    trans = {name: product.attrs[name] for name in ("a_trans", "b_trans")}
    version = access.accumulated_version(sema, target)
    sema.advance(target.root, matmul.acc(version, lhs, rhs, **trans))
    return True
