"""Programs for the tests of passes, and the comparison of levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright import interp
from tilewright.dtypes import FP32, INDEX, DType
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Program, Value
from tilewright.ir.enums import ForKind, MemorySpace
from tilewright.ir.types import ScalarType, TensorType, TileType
from tilewright.ir.verifier import verify
from tilewright.ops import arith, control, elementwise, loop, memory
from tilewright.ops import reduce as reducing
from tilewright.passes.pipeline import lower
from unit.interp.build import IN, INOUT, OUT, Body, function, program

__all__ = ["IN", "INOUT", "OUT", "check", "kernel", "lowered", "tensor"]

Array = npt.NDArray[Any]


def tensor(*shape: Any, dtype: DType = FP32) -> TensorType:
    return TensorType(shape, dtype)


def tile(*shape: int, dtype: DType = FP32) -> TileType:
    return TileType(shape, dtype, MemorySpace.Vec)


def scalar(dtype: DType = INDEX) -> ScalarType:
    return ScalarType(dtype)


def kernel(params: Sequence[tuple[str, Any, Any]], body: Body) -> Program:
    """`body(*params)` gives the finals, or (returned, finals)."""

    def wrapped(*values: Value) -> Any:
        given = body(*values)
        return given if isinstance(given, tuple) else ([], given)

    return program(function("k", params, wrapped))


def lowered(given: Program) -> Function:
    return verify(lower(given, "k"))["k"]


def arrays(function: Function, seed: int = 0, dims: dict[str, int] | None = None) -> list[Any]:
    """Random arguments; symbolic extents by name."""
    rng = np.random.default_rng(seed)
    given: list[Any] = []
    for param in function.params:
        extents = getattr(param.type, "shape", ())
        shape = [e if isinstance(e, int) else (dims or {})[str(e)] for e in extents]
        given.append(random_array(rng, shape, param.type.dtype))
    return given


def random_array(rng: np.random.Generator, shape: Sequence[int], dtype: DType) -> Array:
    if dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_int():
        return rng.integers(0, 5, shape).astype(dtype.numpy)
    return rng.standard_normal(shape).astype(np.float32).astype(dtype.numpy)


def check(given: Program, args: Sequence[Any] | None = None, **options: Any) -> Function:
    """Both levels give equal bits; gives the lowered function."""
    low = lower(given, "k")
    verify(low)
    source, target = given["k"], low["k"]
    args = arrays(source, **options) if args is None else list(args)
    left = [np.array(a) if isinstance(a, np.ndarray) else a for a in args]
    right = [np.array(a) if isinstance(a, np.ndarray) else a for a in args]
    returned = interp.run(given, "k", left)
    results = target.attrs["results"]
    extra = [
        np.zeros([1] if kind == "scalar" else np.shape(value), target.params[p].type.dtype.numpy)
        for (kind, p), value in zip(results, returned)
        if p >= len(args)
    ]
    whole = [*right, *extra]
    interp.run(low, "k", whole, checked=True)
    for before, after in zip(left, right):
        same(before, after)
    for (kind, position), value in zip(results, returned):
        same(np.asarray(value), whole[position][0] if kind == "scalar" else whole[position])
    return target


def same(expected: Any, given: Any) -> None:
    expected, given = np.asarray(expected), np.asarray(given)
    assert expected.dtype == given.dtype
    if expected.dtype.kind in "iub":
        np.testing.assert_array_equal(given, expected)
    else:
        wide = np.float64
        np.testing.assert_array_equal(given.astype(wide), expected.astype(wide))


def count(function: Function, opdef: Any) -> int:
    return sum(op.opdef is opdef for op in function.body.walk())


add, sub, mul, div, exp = (getattr(elementwise, n) for n in ("add", "sub", "mul", "div", "exp"))


def load(x: Value, offsets: Sequence[Any], shape: tuple[int, ...]) -> Value:
    return memory.load(x, offsets, shapes=shape)


def store(value: Value, offsets: Sequence[Any], out: Value) -> Value:
    return memory.store(value, offsets, out)


def row_sum(x: Value) -> Value:
    return reducing.sum_(x, axes=(1,), keepdims=True)


def row_max(x: Value) -> Value:
    return reducing.max_(x, axes=(1,), keepdims=True)


def allocs(function: Function) -> int:
    return count(function, loop.alloc)


def lanes(function: Function) -> int:
    return loops(function, ForKind.Lanes)


def loops(function: Function, kind: ForKind) -> int:
    ops = function.body.walk()
    return sum(op.opdef is control.for_ and op.attrs["kind"] is kind for op in ops)


def const(value: Any, dtype: DType = FP32) -> Value:
    return Builder.current().constant(value, dtype)


def filled(value: float, *shape: int) -> Value:
    return memory.full(shape=shape, dtype=FP32, value=value, space=MemorySpace.Vec)


def times(index: Value, factor: int) -> Value:
    return arith.mul(index, const(factor, INDEX))
