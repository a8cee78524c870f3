"""`pl` names of matrix products.

Products of tiles give the accumulator, FP32 or INT32. Products of tensors are rounded, once, to
`out_dtype` or to the dtype of the operands.
"""

from __future__ import annotations

from typing import Any

from tilewright.dtypes import BOOL, DType
from tilewright.ir.builder import Builder
from tilewright.ir.core import Operation, Value
from tilewright.ir.enums import PadValue
from tilewright.ir.opdef import op_arguments
from tilewright.ops import elementwise as E
from tilewright.ops import matmul as M
from tilewright.ops import memory, shape
from tilewright.ops.adapt import (
    as_dtype,
    converted,
    is_tile,
    paired,
    promoted,
    publish,
    publish_tile,
    require_one_kind,
    require_shaped_value,
)
from tilewright.ops.pl_shape import padded, shaped_type
from tilewright.ops.rules import is_fully_valid
from tilewright.ops.words import dtype_of


def matrices(name: str, lhs: Any, rhs: Any) -> tuple[Value, Value, DType]:
    """Both operands in their promoted dtype, and that dtype."""
    left = require_shaped_value(name, "lhs", lhs)
    right = require_shaped_value(name, "rhs", rhs)
    require_one_kind(name, left, right)
    dtype = promoted(dtype_of(left), dtype_of(right))
    left, right = converted(left, dtype), converted(right, dtype)
    return with_zero_padding(left), with_zero_padding(right), dtype


def with_zero_padding(x: Value) -> Value:
    """x with zeros outside its valid region, so that its padding adds nothing to a product."""
    return x if has_zero_padding(x) else padded(x, PadValue.zero)


def has_zero_padding(x: Value) -> bool:
    """True for what is fully valid, or was loaded or padded with 0, perhaps moved since."""
    if is_fully_valid(shaped_type("matmul", "operand", x)):
        return True
    while x.op is not None and x.op.opdef in (memory.move, shape.transpose):
        x = x.op.operands[0]
    if x.op is None or x.op.opdef is not shape.fillpad:
        return x.op is not None and x.op.opdef is memory.load
    return x.op.attrs["fill"] == 0


def is_spelled(lhs: Value, rhs: Value) -> bool:
    """True when the published names take these operands as they are."""
    one_kind = is_tile(lhs) == is_tile(rhs)
    return one_kind and has_zero_padding(lhs) and has_zero_padding(rhs)


def matmul(
    lhs: Any,
    rhs: Any,
    out_dtype: Any = None,
    a_trans: bool = False,
    b_trans: bool = False,
    c_matrix_nz: bool = False,
) -> Value:
    """lhs · rhs. Of tiles: the accumulator, FP32 or INT32. Of tensors: rounded to `out_dtype`,
    by default the dtype of the operands. `a_trans` and `b_trans` transpose the operands.
    `c_matrix_nz` concerns the device only: elements keep their indices.
    """
    left, right, dtype = matrices("matmul", lhs, rhs)
    result = None if out_dtype is None and is_tile(left) else as_dtype(out_dtype or dtype)
    return M.matmul(left, right, a_trans=a_trans, b_trans=b_trans, dtype=result)


def _matmul_arguments(operation: Operation) -> dict[str, Any] | None:
    lhs, rhs = operation.operands
    if not is_spelled(lhs, rhs):
        return None
    dtype = operation.attrs["dtype"]
    trans = {name: operation.attrs[name] for name in ("a_trans", "b_trans")}
    if is_tile(operation.result):
        return {"lhs": lhs, "rhs": rhs, "out_dtype": dtype, **trans}
    if dtype is None or is_tile(lhs) or is_tile(rhs):
        return None
    shown = None if dtype is dtype_of(lhs) else dtype
    return {"lhs": lhs, "rhs": rhs, "out_dtype": shown, **trans}


publish(
    M.matmul,
    "matmul",
    matmul,
    tensor={},
    tile={},
    tile_without=("out_dtype", "a_trans", "b_trans", "c_matrix_nz"),
    render=_matmul_arguments,
)


def batch_matmul(lhs: Any, rhs: Any) -> Value:
    """lhs [..., M, K] times rhs [..., K, N]."""
    left, right, _ = matrices("batch_matmul", lhs, rhs)
    return M.matmul(left, right)


publish_tile(M.matmul, "batch_matmul", batch_matmul)


def matmul_acc(
    acc: Any,
    lhs: Any,
    rhs: Any,
    a_trans: bool = False,
    b_trans: bool = False,
    init_cond: Any = None,
) -> Value:
    """acc + lhs · rhs, in place of acc; where `init_cond` is true a new accumulation starts."""
    left, right, _ = matrices("matmul_acc", lhs, rhs)
    total = require_shaped_value("matmul_acc", "acc", acc)
    restart = as_condition(init_cond)
    return M.acc(total, left, right, restart, a_trans=a_trans, b_trans=b_trans)


def as_condition(given: Any) -> Value | None:
    """A Python or BOOL scalar condition as an operand; None and False are absent."""
    if isinstance(given, (bool, int)):
        return Builder.current().constant(True, BOOL) if given else None
    return given


def _acc_arguments(operation: Operation) -> dict[str, Any] | None:
    given = op_arguments(operation)
    return given if is_spelled(given["lhs"], given["rhs"]) else None


publish(
    M.acc,
    "matmul_acc",
    matmul_acc,
    tensor={},
    tile={},
    tile_without=("a_trans", "b_trans"),
    render=_acc_arguments,
)


def batch_matmul_acc(acc: Any, lhs: Any, rhs: Any) -> Value:
    """acc + lhs · rhs for each matrix of the batch."""
    return matmul_acc(acc, lhs, rhs)


publish_tile(M.acc, "batch_matmul_acc", batch_matmul_acc)


def matmul_bias(lhs: Any, rhs: Any, bias: Any) -> Value:
    """lhs · rhs + bias, with a bias of shape [1, N]."""
    left, right, _ = matrices("matmul_bias", lhs, rhs)
    return E.add(*paired("matmul_bias", M.matmul(left, right), bias))


publish_tile(M.matmul, "matmul_bias", matmul_bias)


def gemv(lhs: Any, rhs: Any, acc_phase: str = "unspecified") -> Value:
    """lhs [1, K] times rhs [K, N]; `acc_phase` concerns the device only."""
    return batch_matmul(lhs, rhs)


def gemv_acc(acc: Any, lhs: Any, rhs: Any, acc_phase: str = "unspecified") -> Value:
    """acc + lhs · rhs, with lhs of shape [1, K]."""
    return matmul_acc(acc, lhs, rhs)


def gemv_bias(lhs: Any, rhs: Any, bias: Any, acc_phase: str = "unspecified") -> Value:
    """lhs · rhs + bias, with lhs of shape [1, K]."""
    return matmul_bias(lhs, rhs, bias)


publish_tile(M.matmul, "gemv", gemv)
publish_tile(M.acc, "gemv_acc", gemv_acc)
publish_tile(M.matmul, "gemv_bias", gemv_bias)
