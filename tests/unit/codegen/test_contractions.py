"""Matmuls in kernels: views, transposes, dynamic extents, all threads."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.dtypes import BF16, FP32, INT8, INT32, DType
from tilewright.ir.affine import symbol
from tilewright.ir.core import Value
from tilewright.ops import loop
from unit.codegen.kernels import (
    IN,
    OUT,
    agree,
    buffer,
    index,
    kernel_program,
    native,
)
from unit.codegen.native_code import NUMPY, available_isas
from unit.codegen.sample_kernels import data
from unit.interp.build import INOUT

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.mark.parametrize("a_trans", [False, True])
@pytest.mark.parametrize("b_trans", [False, True])
def test_matmul_of_views(a_trans: bool, b_trans: bool) -> None:
    m, n, k = 13, 40, 21

    def body(a: Value, b: Value, c: Value) -> None:
        scratch = loop.alloc(shape=(m, n), dtype=FP32)
        loop.matmul(scratch, a, b, a_trans=a_trans, b_trans=b_trans)
        loop.matmul(scratch, a, b, a_trans=a_trans, b_trans=b_trans, accumulate=True)
        loop.copy(c, scratch)

    shapes = [(k, m) if a_trans else (m, k), (n, k) if b_trans else (k, n), (m, n)]
    params = [
        (name, buffer(*s), d) for name, s, d in zip("abc", shapes, (IN, IN, OUT), strict=True)
    ]
    a, b = (np.round(data(*s, seed=i) * 8).astype(np.float32) for i, s in enumerate(shapes[:2]))
    p = kernel_program(params, body)
    agree(p, a, b, np.zeros((m, n), np.float32))


def test_dynamic_matmul_into_a_transposed_view() -> None:
    m, n, k = (symbol(name, 0) + 0 for name in "mnk")

    def body(a: Value, b: Value, c: Value) -> None:
        turned = loop.view(c, (index(0), index(0)), shape=(m, n), strides=(1, m))
        loop.matmul(turned, a, b)

    params = [("a", buffer(m, k), IN), ("b", buffer(k, n), IN), ("c", buffer(n, m), OUT)]
    p = kernel_program(params, body)
    a, b = (np.round(data(*s) * 8).astype(np.float32) for s in ((9, 30), (30, 50)))
    for isa in available_isas():
        c = np.zeros((50, 9), np.float32)
        native(p, isa)(a, b, c)
        np.testing.assert_array_equal(c, (a @ b).T)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "shape", [(300, 500, 260), (512, 512, 300), (64, 2000, 70), (1, 5000, 700), (20, 4100, 70)]
)
def test_a_long_matmul_is_shared_and_changes_no_bit(shape: tuple[int, ...], dynamic: bool) -> None:
    m, n, k = (symbol(name, 0) + 0 for name in "mnk") if dynamic else shape

    def body(a: Value, b: Value, c: Value) -> None:
        loop.matmul(c, a, b)

    params = [("a", buffer(m, k), IN), ("b", buffer(k, n), IN), ("c", buffer(m, n), OUT)]
    p = kernel_program(params, body)
    a, b = (np.round(data(*s) * 8).astype(np.float32) for s in (shape[::2], (shape[2], shape[1])))
    for isa in available_isas()[:2]:
        kernel = native(p, isa)
        assert kernel.manifest.parallel
        c = np.full(shape[:2], -1, np.float32)
        kernel(a, b, c)
        np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("a_trans", [False, True])
@pytest.mark.parametrize("b_trans", [False, True])
@pytest.mark.parametrize("shape", [(37, 1, 50), (2100, 1, 40), (1, 1, 33), (20, 1, 300)])
def test_a_column_is_the_row_of_the_transposed_product(
    shape: tuple[int, int, int], a_trans: bool, b_trans: bool
) -> None:
    m, n, k = shape

    def body(a: Value, b: Value, c: Value) -> None:
        loop.matmul(c, a, b, a_trans=a_trans, b_trans=b_trans)
        loop.matmul(c, a, b, a_trans=a_trans, b_trans=b_trans, accumulate=True)

    shapes = [(k, m) if a_trans else (m, k), (n, k) if b_trans else (k, n), (m, n)]
    params = [
        (name, buffer(*s), d) for name, s, d in zip("abc", shapes, (IN, IN, OUT), strict=True)
    ]
    a, b = (np.round(data(*s, seed=i) * 8).astype(np.float32) for i, s in enumerate(shapes[:2]))
    agree(kernel_program(params, body), a, b, np.zeros((m, n), np.float32))


@pytest.mark.parametrize("dtype", [FP32, BF16, INT8])
def test_matmul_of_operands_that_are_nowhere_dense(dtype: DType) -> None:
    result = INT32 if dtype is INT8 else FP32

    def body(a: Value, b: Value, c: Value) -> None:
        left = loop.view(a, (index(0), index(0)), shape=(7, 9), strides=(40, 2))
        right = loop.view(b, (index(1), index(0)), shape=(9, 6), strides=(30, 3))
        target = loop.view(c, (index(0), index(0)), shape=(7, 6), strides=(24, 2))
        loop.matmul(target, left, right)
        loop.matmul(target, left, right, accumulate=True)

    params = [("a", buffer(7, 40, dtype=dtype), IN), ("b", buffer(10, 30, dtype=dtype), IN)]
    p = kernel_program([*params, ("c", buffer(7, 24, dtype=result), INOUT)], body)
    a, b = (np.round(data(*s, dtype=dtype).astype(np.float32) * 3) for s in ((7, 40), (10, 30)))
    a, b = a.astype(NUMPY[dtype.name]), b.astype(NUMPY[dtype.name])
    agree(p, a, b, np.full((7, 24), 5, result.numpy))
