"""C++ kernels called with numpy arrays: every dtype, any strides, faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright import errors
from tilewright.abi import ExternalKernel
from tilewright.dtypes import ALL, BF16, FP16, FP32, INDEX, DType
from tilewright.external import run
from tilewright.ops.external import CPP_TYPES
from unit.external.cpp import SCALE, needs_compiler, write

pytestmark = needs_compiler
SCALE_PARAMS = ("tw::Tensor<const float, 2>", "tw::Tensor<float, 2>", "float")


def call(
    source: str, params: tuple[str, ...], dtypes: list[DType], *args: Any, **more: Any
) -> None:
    around = (0, more.pop("lanes", 1), 0, 0)
    run(ExternalKernel(more.get("name", "f"), source, params), dtypes, around, args)


def test_strides_of_every_kind_arrive(tmp_path: Path) -> None:
    source = write(tmp_path, SCALE)
    base = np.arange(48, dtype=np.float32).reshape(6, 8)
    for x in (base[::2, ::2], base.T[::-1][:4, :3].T, np.broadcast_to(base[0, :4], (3, 4))):
        for out in (np.zeros((3, 4), np.float32), np.zeros((4, 3), np.float32).T):
            call(source, SCALE_PARAMS, [FP32] * 3, x, out, 2.5, name="scale")
            assert (out == x * np.float32(2.5)).all()


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_element_type_arrives_as_its_bytes(tmp_path: Path, dtype: DType) -> None:
    element = CPP_TYPES.get(dtype.name, "uint8_t")
    source = write(
        tmp_path,
        '#include "tilewright.h"\n'
        f"void f(tw::Tensor<const {element}, 1> x, tw::Tensor<{element}, 1> out) {{\n"
        "    for (int64_t i = 0; i < x.size(); ++i) out(i) = x(x.size() - 1 - i);\n}\n",
    )
    x = (np.arange(12) % 2).astype(dtype.numpy)
    x[3] = x[1]
    out = np.zeros(12, dtype.numpy)
    params = (f"tw::Tensor<const {element}, 1>", f"tw::Tensor<{element}, 1>")
    call(source, params, [dtype] * 2, x, out)
    assert out.tobytes() == x[::-1].tobytes()


@pytest.mark.parametrize("dtype", [d for d in ALL if d.name in CPP_TYPES], ids=str)
def test_scalars_of_every_type_arrive(tmp_path: Path, dtype: DType) -> None:
    element = CPP_TYPES[dtype.name]
    source = write(
        tmp_path,
        '#include "tilewright.h"\n'
        f"void f({element} a, tw::Tensor<double, 0> out) {{ *out.data() = double(a); }}\n",
    )
    for value in (1, -3) if dtype.kind in ("int", "float", "index", "task") else (1,):
        out = np.zeros((), np.float64)
        call(source, (element, "tw::Tensor<double, 0>"), [dtype, FP32], value, out)
        assert out == value


@pytest.mark.parametrize(("dtype", "element"), [(FP16, "tw::float16"), (BF16, "tw::bfloat16")])
def test_narrow_floats_round_as_numpy_does(tmp_path: Path, dtype: DType, element: str) -> None:
    source = write(
        tmp_path,
        '#include "tilewright.h"\n'
        f"void f(tw::Tensor<const float, 1> x, tw::Tensor<{element}, 1> y,\n"
        "       tw::Tensor<float, 1> back) {\n"
        "    for (int64_t i = 0; i < x.size(); ++i) back(i) = y(i) = x(i);\n}\n",
    )
    bits = np.random.default_rng(1).integers(0, 1 << 32, 100_000, dtype=np.uint32)
    near = (np.arange(1 << 16, dtype=np.uint32) << 13) + np.uint32(0x0FFF)
    x = np.concatenate([bits, near, near + np.uint32(1), near + np.uint32(2)]).view(np.float32)
    y, back = np.zeros(x.size, dtype.numpy), np.zeros_like(x)
    params = ("tw::Tensor<const float, 1>", f"tw::Tensor<{element}, 1>", "tw::Tensor<float, 1>")
    call(source, params, [FP32, dtype, FP32], x, y, back)
    with np.errstate(all="ignore"):
        wanted = x.astype(dtype.numpy)
        np.testing.assert_array_equal(back, wanted.astype(np.float32))
    kept = ~np.isnan(x)
    assert (y[kept].view(np.uint16) == wanted[kept].view(np.uint16)).all()


def test_an_input_that_is_also_written_is_copied_first(tmp_path: Path) -> None:
    source = write(
        tmp_path,
        '#include "tilewright.h"\n'
        "void f(tw::Tensor<const float, 1> x, tw::Tensor<float, 1> out) {\n"
        "    for (int64_t i = 0; i < x.size(); ++i) out(i) = x(x.size() - 1 - i);\n}\n",
    )
    x = np.arange(4, dtype=np.float32)
    call(source, ("tw::Tensor<const float, 1>", "tw::Tensor<float, 1>"), [FP32] * 2, x, x)
    assert (x == [3, 2, 1, 0]).all()


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("return c.fault(TW_INDEX_OUT_OF_BOUNDS, 9, 0, 4, 1);", errors.IndexOutOfBounds,
         r"f: index 9 is outside \[0, 4\) along dimension 1"),
        ("return c.fault(TW_DIVISION_BY_ZERO);", errors.DivisionByZero, "divided by zero"),
        ("return c.fault(TW_SHAPE_MISMATCH, 3, 4);", errors.RuntimeShapeMismatch, "is 3; it .* 4"),
        ("return 7;", errors.ExternalKernelFailed, "returned the status 7"),
        ("return TW_ASSERTION;", errors.ExternalKernelFailed, "returned the status 19"),
        ("throw 1;", errors.ExternalKernelFailed, "threw an exception"),
    ],
)  # fmt: skip
def test_faults_are_raised_by_name(
    tmp_path: Path, body: str, error: type[Exception], message: str
) -> None:
    text = f'#include "tilewright.h"\nint f(int64_t n, tw::Context c) {{ {body} }}\n'
    with pytest.raises(error, match=message) as caught:
        call(write(tmp_path, text), ("int64_t",), [INDEX], 3)
    assert type(caught.value) is error


def test_a_kernel_knows_its_lane(tmp_path: Path) -> None:
    text = (
        '#include "tilewright.h"\n'
        "void f(tw::Tensor<int64_t, 1> out, tw::Context c) {\n"
        "    out(c.lane) = 10 * c.lanes + c.lane;\n}\n"
    )
    out = np.zeros(2, np.int64)
    call(write(tmp_path, text), ("tw::Tensor<int64_t, 1>",), [INDEX], out, lanes=2)
    assert list(out) == [20, 21]
