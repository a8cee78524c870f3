"""Loop-level programs that several tests use."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import FP32, DType
from tilewright.ir.core import Program, Value
from tilewright.ir.enums import ForKind
from tilewright.ops import arith, loop
from tilewright.ops.cast import cast
from unit.codegen.kernels import (
    IN,
    LANES,
    OUT,
    buffer,
    constant,
    index,
    kernel_program,
    lanes,
)
from unit.codegen.native_code import NUMPY
from unit.interp.build import for_loop

SIZES = [1, 15, 16, 17, 63, 64, 65, 100, 128, 200]


def data(*shape: int, dtype: DType = FP32, seed: int = 0) -> np.ndarray[Any, Any]:
    """Random contents."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(NUMPY[dtype.name])
    if kind.kind in "iu":
        return rng.integers(0, 100, shape).astype(kind)
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    return rng.normal(size=shape).astype(kind)


def elementwise(n: Any, dtype: DType = FP32) -> Program:
    """y = x * x + x."""

    def body(x: Value, y: Value) -> None:
        count = loop.extent(y, axis=0)

        def lane(i: Value) -> None:
            v = loop.load(x, (i,), None)
            loop.store(y, (i,), arith.add(arith.mul(v, v), v), None)

        lanes(count, lane)

    return kernel_program(
        [("x", buffer(n, dtype=dtype), IN), ("y", buffer(n, dtype=dtype), OUT)], body
    )


def reduction(n: Any, combine: str, dtype: DType, start: float) -> Program:
    """The fold of x * 1."""

    def body(x: Value, y: Value) -> None:
        count = loop.extent(x, axis=0)
        (total,) = for_loop(
            0,
            count,
            [constant(start, dtype)],
            lambda i, c: [loop.load(x, (i,), None)],
            kind=LANES,
            combine=(combine,),
        )
        loop.store(y, (index(0),), total, None)

    return kernel_program(
        [("x", buffer(n, dtype=dtype), IN), ("y", buffer(1, dtype=dtype), OUT)], body
    )


def extreme(n: Any, name: str, value: DType, place: DType) -> Program:
    """The first extreme of x and where it is."""

    def body(x: Value, y: Value, where: Value) -> None:
        start = {"argmax": -1e30, "argmin": 1e30}[name] if value.is_float() else 50
        best, found = for_loop(
            0,
            loop.extent(x, axis=0),
            [constant(start, value), constant(-1, place)],
            lambda i, v, k: [loop.load(x, (i,), None), cast(i, dtype=place)],
            kind=LANES,
            combine=(name, name),
        )
        loop.store(y, (index(0),), best, None)
        loop.store(where, (index(0),), found, None)

    return kernel_program(
        [
            ("x", buffer(n, dtype=value), IN),
            ("y", buffer(1, dtype=value), OUT),
            ("where", buffer(1, dtype=place), OUT),
        ],
        body,
    )


def softmax(rows: Any, columns: Any) -> Program:
    """The usual three passes over each row."""

    def body(x: Value, y: Value) -> None:
        m, n = loop.extent(x, axis=0), loop.extent(x, axis=1)

        def row(r: Value) -> list[Value]:
            (top,) = for_loop(
                0,
                n,
                [constant(-np.inf)],
                lambda i, c: [loop.load(x, (r, i), None)],
                kind=LANES,
                combine=("max",),
            )

            def exponent(i: Value, c: Value) -> list[Value]:
                v = arith.exp(arith.sub(loop.load(x, (r, i), None), top))
                loop.store(y, (r, i), v, None)
                return [v]

            (total,) = for_loop(0, n, [constant(0.0)], exponent, kind=LANES, combine=("add",))
            scale = arith.div(constant(1.0), total)
            lanes(
                n,
                lambda i: loop.store(y, (r, i), arith.mul(loop.load(y, (r, i), None), scale), None),
            )
            return []

        for_loop(0, m, [], row, kind=ForKind.Parallel)

    return kernel_program(
        [("x", buffer(rows, columns), IN), ("y", buffer(rows, columns), OUT)], body
    )
