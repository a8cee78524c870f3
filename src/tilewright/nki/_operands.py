"""Operands of language functions: operations given by name or function, tiles, vectors, numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Container, Sequence
from typing import Any, cast

import numpy as np

from tilewright.dtypes import FP32, INT32, DType
from tilewright.errors.nki_instructions import (
    BITVEC_INTEGER,
    ENGINE_OPS,
    REDUCE_AXIS,
    SUPPORTED_DTYPES,
    UNSUPPORTED_OP,
)
from tilewright.errors.nki_tensors import (
    OPERAND_NONE,
    PARTITION_MISMATCH,
    SHAPE_MISMATCH,
    UNEXPECTED_OPERAND,
    UNSUPPORTED_MEMORY,
)
from tilewright.frontend.trace import access as trace_access
from tilewright.frontend.trace.access import require_dtype
from tilewright.frontend.trace.ambient import current_api, nki_ctx, refusal
from tilewright.frontend.trace.arith import (
    converted_value,
    dtype_of,
    new_tile,
    require_representable,
    value_of,
)
from tilewright.frontend.trace.ops import NKIFunc
from tilewright.frontend.trace.predicates import DynamicScalar
from tilewright.frontend.trace.sequences import as_items
from tilewright.frontend.trace.tensors import nki_tensor
from tilewright.frontend.trace.tiles import mask_tile
from tilewright.ir.core import Value
from tilewright.ir.enums import MemorySpace
from tilewright.nki._enums import engine as engines
from tilewright.ops.nki_alu import SYNONYMS, UNARY, is_bitvec, only_where
from tilewright.ops.nki_dtypes import dtype_name, promote_all


def operation_name(given: Any, allowed: Container[str] | None = None) -> str:
    """The name of an operation given as a language function, a numpy function or a string."""
    if isinstance(given, NKIFunc):
        name = cast("NKIFunc[..., Any]", given).path.rpartition(".")[2]
    elif isinstance(given, str):
        name = given
    else:
        name = str(getattr(given, "__name__", ""))
    name = SYNONYMS.get(name, name)
    if not name or (allowed is not None and name not in allowed):
        raise refusal(UNSUPPORTED_OP, op=current_api(), given=name or repr(cast(Any, given)))
    return name


def require_tile(given: Any, name: str) -> nki_tensor:
    """`given` if it is an on-chip tensor; refuses anything else."""
    if given is None:
        raise refusal(OPERAND_NONE, op=current_api(), name=name)
    if not isinstance(given, nki_tensor):
        kind = "an array" if isinstance(given, np.ndarray) else type(given).__name__
        raise refusal(UNEXPECTED_OPERAND, op=current_api(), name=name, given=kind, wanted="a tile")
    trace_access.require_on_chip(given)
    return given


def in_allocated_kernel() -> bool:
    """True where the author places the tensors of the kernel himself."""
    return nki_ctx().kernel.allocates is True


def tile_value(x: nki_tensor, dtype: DType, mask: Any = None) -> Value:
    """A tile as a value of `dtype`."""
    return converted_value(trace_access.read_operand(nki_ctx().sema, x, mask), dtype)


def inside(x: Any, name: str, mask: Any) -> nki_tensor:
    """The tile `x`, or what the mask leaves of it, where it has elements outside its tensor."""
    sema, tile = nki_ctx().sema, require_tile(x, name)
    if not trace_access.leaves_its_tensor(sema, tile, mask):
        return tile
    return sema.tile(trace_access.read_operand(sema, tile, mask))


def operand_value(x: Any, dtype: DType, mask: Any = None) -> Value:
    """A tile or a number as a value of `dtype`."""
    return value_of(nki_ctx().sema, x, dtype, mask)


def result_tile(value: Value, dtype: DType, mask: Any = None, **facts: Any) -> nki_tensor:
    """A new tile of `dtype`; `mask` is where it is defined, `facts` are those of its root."""
    return new_tile(nki_ctx().sema, value, dtype, mask=mask, **facts)


def result_dtype(given: Any, *operands: Any) -> DType:
    """`dtype=` if it is given, else what the operands promote to."""
    if given is not None:
        return require_dtype(given)
    return promote_all(dtype_of(operand) for operand in operands if operand is not None)


def arithmetic_dtype(names: Sequence[str], operands: Sequence[Any]) -> DType:
    """The type that an instruction computes in: integers for bits and int32, else FP32."""
    dtypes = [dtype_of(operand) for operand in operands]
    if any(map(is_bitvec, names)):
        for place, dtype in enumerate(dtypes):
            require_integer(names[0], f"operand {place}", dtype)
        return promote_all(dtypes)
    exact = all(dtype in (INT32,) for dtype in dtypes)
    plain = all(name in ("add", "subtract", "multiply") for name in names)
    return INT32 if exact and plain else FP32


def require_integer(op: str, name: str, dtype: DType) -> None:
    """Refuses elements whose bits are no operands."""
    if not dtype.is_int():
        raise refusal(BITVEC_INTEGER, op=op, name=name, given=dtype_name(dtype))


def require_dtypes(x: nki_tensor, name: str, supported: Sequence[DType]) -> None:
    """Refuses a tile of elements that the instruction does not take."""
    require_supported(x.root.dtype, name, supported)


def require_supported(given: DType, name: str, supported: Sequence[DType]) -> None:
    """Refuses an element type that the instruction does not have."""
    if given not in supported:
        names = ", ".join(map(dtype_name, supported))
        found = {"given": dtype_name(given), "target": nki_ctx().device.name, "supported": names}
        raise refusal(SUPPORTED_DTYPES, op=current_api(), name=name, **found)


def require_same_partitions(left: nki_tensor, right: nki_tensor) -> None:
    """Refuses operands with different numbers of partitions."""
    if left.shape[0] != right.shape[0]:
        raise refusal(
            PARTITION_MISMATCH,
            op=current_api(),
            left=f"'{left.name}' {list(left.shape)}",
            right=f"'{right.name}' {list(right.shape)}",
        )


def require_same_elements(left: nki_tensor, right: nki_tensor) -> None:
    """Refuses operands that differ in partitions or in elements per partition."""
    require_same_partitions(left, right)
    if np.prod(left.shape) != np.prod(right.shape):
        raise refusal(
            SHAPE_MISMATCH, op=current_api(), left=list(left.shape), right=list(right.shape)
        )


ENGINES = {
    "tensor_tensor": ("vector", "gpsimd"),
    "tensor_scalar": ("vector", "scalar", "gpsimd"),
    "tensor_copy": ("vector", "scalar", "gpsimd"),
    "tensor_copy_dynamic_src": ("vector", "scalar", "gpsimd"),
    "tensor_copy_dynamic_dst": ("vector", "scalar", "gpsimd"),
    "memset": ("vector", "gpsimd"),
    "nc_transpose": ("tensor", "vector"),
}
"""The engines that instructions run on, where the author can choose."""


def require_engine(engine: engines, op0: str, op1: str | None = None, **tiles: Any) -> None:
    """Refuses an engine that the instruction does not run on, or that does not reach its tiles."""
    if engine is engines.unknown:
        return
    if not isinstance(engine, engines):  # pyright: ignore[reportUnnecessaryIsInstance]
        wanted = "a member of nisa.engine"
        found = {"name": "engine", "given": repr(engine), "wanted": wanted}
        raise refusal(UNEXPECTED_OPERAND, op=current_api(), **found)
    if engine.name not in ENGINES[current_api()]:
        raise refusal(ENGINE_OPS, op=current_api(), op0=op0, op1=op1, engine=engine.name)
    if engine is engines.gpsimd:
        for name, tile in tiles.items():
            require_sbuf(tile, name)


def require_sbuf(given: Any, name: str) -> None:
    """Refuses a tile in PSUM."""
    if isinstance(given, nki_tensor) and given.root.space is MemorySpace.Psum:
        found = {"name": name, "wanted": "sbuf", "given": "psum"}
        raise refusal(UNSUPPORTED_MEMORY, op=current_api(), **found)


def require_psum(given: nki_tensor, name: str) -> None:
    """Refuses a tile that is not in PSUM, where products go."""
    if given.root.space is not MemorySpace.Psum:
        found = {"name": name, "wanted": "psum", "given": given.root.memory}
        raise refusal(UNSUPPORTED_MEMORY, op=current_api(), **found)


def require_one_in_sbuf(left: Any, right: Any, name: str) -> None:
    """Refuses two tiles in PSUM, of which an instruction reads one; `name` is of the second."""
    if isinstance(left, nki_tensor) and left.root.space is MemorySpace.Psum:
        require_sbuf(right, name)


def require_number(given: Any, name: str, dtype: DType) -> bool | int | float:
    """A host number as an element of `dtype`; refuses anything else, and NaN as an integer."""
    number = cast(Any, given) if isinstance(given, (bool, int, float, np.generic)) else None
    if number is None or not (dtype.is_float() or math.isfinite(number)):
        wanted = "a number" if dtype.is_float() else "a finite number"
        found = {"name": name, "given": repr(cast(Any, given)), "wanted": wanted}
        raise refusal(UNEXPECTED_OPERAND, op=current_api(), **found)
    if dtype.is_int():
        require_representable(int(number), name, dtype)
    return _element(number, dtype)


def _element(given: Any, dtype: DType) -> bool | int | float:
    if dtype.kind == "bool":
        return bool(given)
    return float(given) if dtype.is_float() else int(given)


def is_scalar(given: Any) -> bool:
    """True for numbers, and for scalars that only the run knows."""
    return isinstance(given, (bool, int, float, np.generic, DynamicScalar))


def scalar_or_vector(given: Any, name: str, data: nki_tensor) -> Any:
    """An operand that is a number or has one element per partition."""
    if given is None:
        raise refusal(OPERAND_NONE, op=current_api(), name=name)
    if is_scalar(given):
        return given
    vector = require_tile(given, name)
    if vector.shape[0] not in (1, data.shape[0]):
        require_same_partitions(vector, data)
    if int(np.prod(vector.shape[1:])) != 1:
        raise refusal(
            SHAPE_MISMATCH, op=current_api(), left=list(vector.shape), right=[data.shape[0], 1]
        )
    wanted = (vector.shape[0],) + (1,) * (data.ndim - 1)
    return vector if vector.shape == wanted else vector.reshape(wanted)


def free_axes(x: nki_tensor, axis: Any) -> tuple[int, ...]:
    """The axes of a reduction, counted from the front; refuses the partition axis."""
    axes = tuple(sorted(_axis(x, each) for each in as_items(axis)))
    if not axes or axes[0] == 0 or len(set(axes)) != len(axes):
        raise refusal(REDUCE_AXIS, op=current_api(), given=axis, shape=list(x.shape))
    return axes


def _axis(x: nki_tensor, axis: Any) -> int:
    if not isinstance(axis, (int, np.integer)) or not -x.ndim <= axis < x.ndim:
        raise refusal(REDUCE_AXIS, op=current_api(), given=axis, shape=list(x.shape))
    return operator.index(cast(Any, axis)) % x.ndim


def reduced_shape(x: nki_tensor, axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    """The shape of a reduction's result: a tile keeps a partition and a free dimension."""
    if keepdims:
        return tuple(1 if k in axes else extent for k, extent in enumerate(x.shape))
    kept = tuple(extent for k, extent in enumerate(x.shape) if k not in axes)
    return kept if len(kept) > 1 else (*kept, 1)


def masked_value(x: Value, extents: Sequence[int], mask: Any, name: str) -> Value:
    """`x` with what changes nothing under `name` where the mask does not hold."""
    if mask is None:
        return x
    return only_where(mask_tile(nki_ctx().sema, mask, extents), x, name)


def is_unary(name: str) -> bool:
    """True for operations of one operand."""
    return name in UNARY
