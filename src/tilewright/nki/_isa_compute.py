"""`nisa`: arithmetic instructions on tiles."""

from __future__ import annotations

from typing import Any

from tilewright.dtypes import BF16, BOOL, FP16, FP32, INT32, DType
from tilewright.errors.nki_instructions import (
    ACTIVATION_BIAS,
    ACTIVATION_SCALE_SHAPE,
    ACTIVATION_SCALE_TYPE,
    BIAS_IN_ALLOCATION,
    ENGINE_OPS,
    INT32_ENGINE,
    UNSUPPORTED_OP,
)
from tilewright.frontend.trace.access import reshaped_to
from tilewright.frontend.trace.ambient import current_api, nki_ctx, refusal
from tilewright.frontend.trace.ops import nki_op
from tilewright.frontend.trace.tensors import nki_tensor
from tilewright.ir.core import Value
from tilewright.ir.enums import MemorySpace
from tilewright.nki._accumulators import registers, require_command, run_command, write_tile
from tilewright.nki._enums import engine as engines
from tilewright.nki._enums import reduce_cmd as commands
from tilewright.nki._operands import (
    arithmetic_dtype,
    in_allocated_kernel,
    is_scalar,
    is_unary,
    masked_value,
    operand_value,
    operation_name,
    require_dtypes,
    require_engine,
    require_one_in_sbuf,
    require_same_elements,
    require_tile,
    result_dtype,
    result_tile,
    scalar_or_vector,
    tile_value,
)
from tilewright.ops import elementwise as ew
from tilewright.ops.nki_alu import (
    ARITHMETIC,
    BITS,
    COMPARING,
    LOGICAL,
    UNARY,
    apply,
    apply_unary,
    is_bitvec,
    reduce_axes,
)
from tilewright.ops.nki_math import number

BINARY = frozenset({*ARITHMETIC, *COMPARING, *LOGICAL, *BITS})
ALU = BINARY | {"abs", "rsqrt", "reciprocal", "invert", "logical_not"}
ACTIVATIONS = frozenset(UNARY)
SCALAR_ENGINE_PAIRS = (("multiply", "add"), ("multiply", None), ("add", None))
SBUF = MemorySpace.Sbuf
VECTOR_DTYPES = (FP32, FP16, BF16)


def combined(name: str, x: Value, y: Value, *, reverse: bool = False) -> Value:
    """`x <name> y`, or `y <name> x`."""
    left, right = (y, x) if reverse else (x, y)
    if not is_unary(name):
        return apply(name, left, right)
    return apply_unary(name, left)


# ---------------------------------------------------------------------------- two tiles


@nki_op("nisa.tensor_tensor")
def tensor_tensor(
    data1: nki_tensor,
    data2: nki_tensor,
    op: Any,
    *,
    dtype: Any = None,
    mask: Any = None,
    engine: engines = engines.unknown,
    **kwargs: Any,
) -> nki_tensor:
    """`data1 <op> data2`, element by element; neither operand is broadcast."""
    name = operation_name(op, BINARY)
    require_same_elements(require_tile(data1, "data1"), require_tile(data2, "data2"))
    require_one_in_sbuf(data1, data2, "data2")
    require_engine(_pair_engine(name, (data1, data2), engine), name, None, data1=data1, data2=data2)
    inside = arithmetic_dtype([name], [data1, data2])
    right = reshaped_to(tile_value(data2, inside, mask), data1.shape)
    value = apply(name, tile_value(data1, inside, mask), right)
    return result_tile(value, result_dtype(dtype, data1, data2), mask)


def _pair_engine(name: str, operands: Any, engine: engines) -> engines:
    """The engine that computes; powers and exact arithmetic of int32 have one only."""
    exact = all(operand.root.dtype is INT32 for operand in operands)
    if name == "power" and engine is engines.unknown:
        return engines.gpsimd
    if name == "power" and engine is not engines.gpsimd:
        raise refusal(ENGINE_OPS, op=current_api(), op0=name, op1=None, engine=engine.name)
    if not exact or name not in ("add", "subtract", "multiply"):
        return engine
    if engine not in (engines.unknown, engines.gpsimd):
        raise refusal(INT32_ENGINE, op=current_api(), op0=name, engine=engine.name)
    return engines.gpsimd


@nki_op("nisa.scalar_tensor_tensor")
def scalar_tensor_tensor(
    *,
    data: nki_tensor,
    op0: Any,
    operand0: Any,
    op1: Any,
    operand1: nki_tensor,
    reverse0: bool = False,
    reverse1: bool = False,
    dtype: Any = None,
    mask: Any = None,
    **kwargs: Any,
) -> nki_tensor:
    """`(data <op0> operand0) <op1> operand1`: a number or vector first, then a tile."""
    names = [operation_name(op, ALU) for op in (op0, op1)]
    require_tile(data, "data")
    require_same_elements(data, require_tile(operand1, "operand1"))
    require_one_in_sbuf(data, operand1, "operand1")
    first = scalar_or_vector(operand0, "operand0", data)
    inside = arithmetic_dtype(names, [data, first, operand1])
    value = combined(
        names[0], tile_value(data, inside, mask), operand_value(first, inside), reverse=reverse0
    )
    second = reshaped_to(tile_value(operand1, inside, mask), data.shape)
    value = combined(names[1], value, second, reverse=reverse1)
    return result_tile(value, result_dtype(dtype, data, operand1), mask)


# ---------------------------------------------------------------------------- tile and scalar


@nki_op("nisa.tensor_scalar")
def tensor_scalar(
    data: nki_tensor,
    op0: Any,
    operand0: Any,
    reverse0: bool = False,
    op1: Any = None,
    operand1: Any = None,
    reverse1: bool = False,
    *,
    dtype: Any = None,
    mask: Any = None,
    engine: engines = engines.unknown,
    **kwargs: Any,
) -> nki_tensor:
    """`(data <op0> operand0) <op1> operand1`; operands are numbers or vectors by partition."""
    names = [operation_name(op, ALU) for op in (op0, op1) if op is not None]
    _require_pair(names, engine)
    pair = (names[0], names[1] if len(names) > 1 else None)
    require_engine(engine, *pair, data=require_tile(data, "data"))
    given = [(operand0, reverse0), (operand1, reverse1)][: len(names)]
    operands = [scalar_or_vector(each, f"operand{k}", data) for k, (each, _) in enumerate(given)]
    inside = _scalar_dtype(names, data, operands)
    value = tile_value(data, inside, mask)
    for name, operand, (_, reverse) in zip(names, operands, given):
        value = combined(name, value, operand_value(operand, inside), reverse=bool(reverse))
    return result_tile(value, result_dtype(dtype, data), mask)


def _require_pair(names: list[str], engine: engines) -> None:
    pair = (names[0], names[1] if len(names) > 1 else None)
    on_scalar = engine is engines.scalar and pair not in SCALAR_ENGINE_PAIRS
    on_gpsimd = engine is engines.gpsimd and pair != ("rsqrt", None)
    mixed = len(names) > 1 and is_bitvec(names[0]) != is_bitvec(names[1])
    if on_scalar or on_gpsimd or mixed:
        fields = {"op0": pair[0], "op1": pair[1], "engine": engine.name}
        raise refusal(ENGINE_OPS, op=current_api(), **fields)


def _scalar_dtype(names: list[str], data: nki_tensor, operands: list[Any]) -> DType:
    if any(map(is_bitvec, names)):
        arithmetic_dtype(names, [data, *operands])
        return data.root.dtype
    plain = all(name in ("add", "subtract", "multiply") for name in names)
    whole = all(is_scalar(each) and float(each).is_integer() for each in operands)
    return INT32 if data.root.dtype is INT32 and plain and whole else FP32


@nki_op("nisa.tensor_scalar_reduce")
def tensor_scalar_reduce(
    *,
    data: nki_tensor,
    op0: Any,
    operand0: Any,
    reduce_op: Any,
    reduce_res: nki_tensor,
    reverse0: bool = False,
    dtype: Any = None,
    mask: Any = None,
    **kwargs: Any,
) -> nki_tensor:
    """`data <op0> operand0`; its reduction along the free axes is written to `reduce_res`."""
    value, total = scalar_reduction(data, op0, operand0, reduce_op, bool(reverse0), mask)
    write_tile(reduce_res, total)
    return result_tile(value, result_dtype(dtype, data), mask)


def scalar_reduction(
    data: nki_tensor, op0: Any, operand0: Any, reduce_op: Any, reverse0: bool, mask: Any = None
) -> tuple[Value, Value]:
    """`data <op0> operand0` in FP32, and its reduction along all free axes, (P, 1)."""
    name = operation_name(op0, ARITHMETIC)
    require_tile(data, "data")
    operand = operand_value(scalar_or_vector(operand0, "operand0", data), FP32)
    value = combined(name, tile_value(data, FP32, mask), operand, reverse=reverse0)
    return value, _reduction(value, data, operation_name(reduce_op), mask)


def _reduction(value: Value, data: nki_tensor, name: str, mask: Any) -> Value:
    axes = tuple(range(1, data.ndim))
    total = reduce_axes(name, masked_value(value, data.shape, mask, name), axes)
    return reshaped_to(total, (data.shape[0], 1))


# ---------------------------------------------------------------------------- activation


@nki_op("nisa.activation")
def activation(
    op: Any,
    data: nki_tensor,
    *,
    bias: Any = None,
    scale: Any = 1.0,
    reduce_op: Any = None,
    reduce_res: nki_tensor | None = None,
    reduce_cmd: commands = commands.idle,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> nki_tensor:
    """`op(data * scale + bias)` in FP32; `reduce_cmd` accumulates its sum along the free axes.

    `reduce_res`, (P, 1), becomes what the registers then hold; `idle` adds nothing to them.
    """
    value = _activated(op, data, bias, scale, mask)
    _accumulate(value, data, reduce_op, reduce_res, reduce_cmd, mask)
    return result_tile(value, result_dtype(dtype, data), mask)


@nki_op("nisa.activation_reduce")
def activation_reduce(
    op: Any,
    data: nki_tensor,
    *,
    reduce_op: Any,
    reduce_res: nki_tensor,
    bias: Any = None,
    scale: Any = 1.0,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> nki_tensor:
    """`activation` with `reduce_cmd.reset_reduce`: `reduce_res` is the reduction of this tile."""
    value = _activated(op, data, bias, scale, mask)
    _accumulate(value, data, reduce_op, reduce_res, commands.reset_reduce, mask)
    return result_tile(value, result_dtype(dtype, data), mask)


def _activated(op: Any, data: nki_tensor, bias: Any, scale: Any, mask: Any) -> Value:
    name = operation_name(op, ACTIVATIONS)
    value = tile_value(require_tile(data, "data"), FP32, mask)
    if in_allocated_kernel() and bias is None:
        raise refusal(BIAS_IN_ALLOCATION, op=current_api())
    if not (is_scalar(scale) and float(scale) == 1.0):
        value = ew.mul(value, operand_value(_scale(scale, data), FP32))
    if bias is not None:
        value = ew.add(value, operand_value(_bias(bias, data), FP32))
    return apply_unary(name, value)


def _scale(given: Any, data: nki_tensor) -> Any:
    if not isinstance(given, nki_tensor):
        return given
    if given.root.dtype is not FP32:
        raise refusal(ACTIVATION_SCALE_TYPE, given=given.dtype)
    if given.shape[0] not in (1, data.shape[0]) or given.shape[0] == 1 != data.shape[0]:
        raise refusal(ACTIVATION_SCALE_SHAPE, given=list(given.shape))
    if any(extent != 1 for extent in given.shape[1:]):
        raise refusal(ACTIVATION_SCALE_SHAPE, given=list(given.shape))
    return scalar_or_vector(given, "scale", data)


def _bias(given: Any, data: nki_tensor) -> Any:
    if isinstance(given, nki_tensor) and given.root.dtype not in VECTOR_DTYPES:
        raise refusal(ACTIVATION_BIAS, given=given.dtype)
    return scalar_or_vector(given, "bias", data)


def _accumulate(
    value: Value,
    data: nki_tensor,
    op: Any,
    target: nki_tensor | None,
    command: commands,
    mask: Any,
) -> None:
    """The reduction registers of the scalar engine: one element per partition."""
    require_command(command)
    if command is commands.idle and target is None:
        return
    name = "add" if op is None else operation_name(op, ("add", "maximum", "minimum", "multiply"))
    if name != "add" and "activation_reduce.any_op" not in nki_ctx().device.instructions:
        raise refusal(UNSUPPORTED_OP, op=current_api(), given=name)
    rows = data.shape[0]
    if command is not commands.idle:
        run_command("activation", name, _reduction(value, data, name, mask), rows, command)
    if target is not None:
        write_tile(target, tile_value(registers("activation", rows), FP32))


# ---------------------------------------------------------------------------- one tile


@nki_op("nisa.reciprocal")
def reciprocal(
    data: nki_tensor, *, dtype: Any = None, mask: Any = None, **kwargs: Any
) -> nki_tensor:
    """1 / data, element by element."""
    value = ew.recip(tile_value(require_tile(data, "data"), FP32, mask))
    return result_tile(value, result_dtype(dtype, data), mask)


@nki_op("nisa.tensor_copy")
def tensor_copy(
    src: nki_tensor,
    *,
    mask: Any = None,
    dtype: Any = None,
    engine: engines = engines.unknown,
    **kwargs: Any,
) -> nki_tensor:
    """A copy of a tile; the scalar engine converts integers through FP32."""
    require_engine(engine, "copy", src=require_tile(src, "src"))
    inside = FP32 if engine is engines.scalar else src.root.dtype
    return result_tile(tile_value(src, inside, mask), result_dtype_like(dtype, src), mask)


def result_dtype_like(given: Any, src: nki_tensor) -> DType:
    """`dtype=` if it is given, else that of `src`, booleans included."""
    if given is None and src.root.dtype is BOOL:
        return BOOL
    return result_dtype(given, src)


@nki_op("nisa.dropout")
def dropout(
    data: nki_tensor,
    prob: Any,
    *,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> nki_tensor:
    """`data` with elements set to 0 with probability `prob`, by the kernel's random numbers.

    A tile of probabilities for integers is FP32.
    """
    require_tile(data, "data")
    chance = scalar_or_vector(prob, "prob", data)
    if isinstance(chance, nki_tensor) and not data.root.dtype.is_float():
        require_dtypes(chance, "prob", (FP32,))
    value = tile_value(data, FP32, mask)
    drops = ew.lt(nki_ctx().random.uniform(data.shape), operand_value(chance, FP32))
    kept = ew.select(drops, number(value, 0.0), value)
    return result_tile(kept, result_dtype(dtype, data), mask)
