"""The native entry: what it answers itself, what it leaves to Python, and that it leaks nothing."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright import dtypes, errors
from tilewright.abi import Extent, Manifest, ScalarParam, tensor
from tilewright.runtime.launch import Executable
from tilewright.runtime.native import missing_assumption
from unit.runtime.native_kernels import (
    arrays,
    counting,
    make,
    make_add,
    store_slot_text,
    strided_text,
)

F32 = np.float32

pytestmark = pytest.mark.skipif(bool(missing_assumption()), reason=missing_assumption())


def test_a_call_that_fits_reaches_no_python() -> None:
    x, y, out = arrays(4, 16)
    kernel = counting(make_add(), x, y, out)
    out[:] = -1
    assert kernel(x, y, out) is None
    np.testing.assert_array_equal(out, x + y)
    assert kernel.slow == 0


def test_python_sees_an_ordinary_callable() -> None:
    x, y, out = arrays(4, 16)
    kernel = counting(make_add(), x, y, out)
    assert callable(kernel)
    kernel(*(x, y), out=out)
    kernel.__call__(x, y, out)
    assert kernel.slow == 2
    kernel.attribute = 1
    assert kernel.attribute == 1


CHANGES: list[tuple[str, Any]] = [
    ("a keyword", lambda k, x, y, o: k(x, y, out=o)),
    ("a subclass", lambda k, x, y, o: k(x.view(np.memmap), y, o)),
    ("another layout", lambda k, x, y, o: k(np.asfortranarray(x), y, o)),
    ("a misaligned array", lambda k, x, y, o: k(misaligned(x), y, o)),
    ("a buffer", lambda k, x, y, o: k(memoryview(x), y, o)),
]


def misaligned(a: np.ndarray) -> np.ndarray:
    raw = bytearray(a.nbytes + 1)
    view = np.frombuffer(raw, np.uint8)[1:].view(a.dtype).reshape(a.shape)
    view[:] = a
    assert not view.flags.aligned
    return view


@pytest.mark.parametrize("change", [c for _, c in CHANGES], ids=[n for n, _ in CHANGES])
def test_what_only_python_can_answer_is_left_to_it(change: Any) -> None:
    x, y, out = arrays(4, 16)
    kernel = counting(make_add(), x, y, out)
    out[:] = -1
    change(kernel, x, y, out)
    np.testing.assert_array_equal(out, x + y)
    assert kernel.slow == 1


REFUSED: list[tuple[type[Exception], Any]] = [
    (errors.ArgumentCountMismatch, lambda x, y, o: (x, y)),
    (errors.ArgumentCountMismatch, lambda x, y, o: (x, y, o, o)),
    (errors.ArgumentTypeMismatch, lambda x, y, o: (x, None, o)),
    (errors.ArgumentTypeMismatch, lambda x, y, o: (x, 1.5, o)),
    (errors.DTypeMismatch, lambda x, y, o: (x, y, o.astype(np.float64))),
    (errors.ByteOrderMismatch, lambda x, y, o: (x, y.astype(">f4"), o)),
    (errors.RankMismatch, lambda x, y, o: (x, y.ravel(), o)),
    (errors.ShapeMismatch, lambda x, y, o: (x, y[:3], o)),
    (errors.ReadOnlyOutput, lambda x, y, o: (x, y, frozen(o))),
    (errors.OutputOverlap, lambda x, y, o: (x, o, o)),
]


def frozen(a: np.ndarray) -> np.ndarray:
    view = a.view()
    view.flags.writeable = False
    return view


@pytest.mark.parametrize(("error", "change"), REFUSED)
def test_a_warm_kernel_refuses_what_a_cold_one_refuses(error: type[Exception], change: Any) -> None:
    x, y, out = arrays(4, 16)
    kernel = counting(make_add(), x, y, out)
    out[:] = -1
    with pytest.raises(error):
        kernel(*change(x, y, out))
    assert kernel.slow == 1
    assert (out == -1).all()


def test_half_an_overlap_is_an_overlap() -> None:
    base = np.zeros(100, F32)
    _, y, _ = arrays(4, 16)
    kernel = counting(make_add(), *arrays(4, 16))
    with pytest.raises(errors.OutputOverlap):
        kernel(base[:64].reshape(4, 16), y, base[36:].reshape(4, 16))
    kernel(base[:64].reshape(4, 16), y, np.zeros((4, 16), F32))
    assert kernel.slow == 1


def test_a_safe_pair_may_be_the_same_array() -> None:
    executable = make_add(manifest=Manifest(name="add", safe_overlaps=frozenset({("x", "out")})))
    x, y, out = arrays(4, 16)
    kernel = counting(executable, x, y, out)
    expected = x + y
    kernel(x, y, x)
    np.testing.assert_array_equal(x, expected)
    assert kernel.slow == 0


@pytest.mark.parametrize("size", [0, 1, 7, 1000])
def test_a_dynamic_extent_needs_no_python(size: int) -> None:
    kernel = counting(make_add(("N",)), *arrays(3))
    x, y, out = arrays(size)
    kernel(x, y, out)
    np.testing.assert_array_equal(out, x + y)
    assert kernel.slow == 0
    with pytest.raises(errors.ShapeMismatch):
        kernel(x, np.zeros(size + 1, F32), out)


AFFINE: list[tuple[Extent, int, int | None]] = [
    (Extent(0, (("M", 2),)), 16, 8),
    (Extent(0, (("M", 2),)), 15, None),
    (Extent(1, (("M", 3),)), 1, 0),
    (Extent(1, (("M", 3),)), 0, None),
    (Extent(-1, (("M", 1),)), 4, 5),
]


@pytest.mark.parametrize(("extent", "given", "value"), AFFINE)
def test_affine_extents_are_solved_natively_as_in_python(
    extent: Extent, given: int, value: int | None
) -> None:
    executable = make(
        store_slot_text(2),
        tensor("out", dtypes.INT64, (1,), "out"),
        tensor("x", dtypes.FP32, (extent,)),
    )
    out = np.full(1, -1, np.int64)
    kernel = counting(executable, out, np.zeros(extent.evaluate({"M": 4}), F32))
    out[0] = -1
    if value is None:
        with pytest.raises(errors.ShapeMismatch):
            kernel(out, np.zeros(given, F32))
    else:
        kernel(out, np.zeros(given, F32))
        assert kernel.slow == 0 and out[0] == value


@pytest.mark.parametrize("size", [0, 1, 5, 6])
def test_a_rounded_extent_is_checked_natively(size: int) -> None:
    half = Extent(1, (("M", 1),), 2)
    executable = make(
        store_slot_text(3),
        tensor("x", dtypes.FP32, ("M",)),
        tensor("out", dtypes.INT64, (half,), "out", implicit=True),
        tensor("y", dtypes.FP32, (half,)),
        returns=(1,),
    )
    # slot 0 is x, so the kernel stores M into x's memory; only shapes matter here
    kernel = counting(executable, np.zeros(8, F32), np.zeros(4, F32))
    result = kernel(np.zeros(size + 2, F32)[:size] if size > 1 else np.zeros(2, F32)[:size],
                    np.zeros((size + 1) // 2, F32))  # fmt: skip
    assert result.shape == ((size + 1) // 2,) and result.dtype == np.int64
    assert kernel.slow == 0


def test_an_implicit_output_is_new_each_time_and_owned_by_the_caller() -> None:
    x, y, _ = arrays(4, 16)
    kernel = counting(make_add(implicit=True), x, y)
    first, second = kernel(x, y), kernel(x, y)
    assert kernel.slow == 0
    mine = object()
    assert first is not second and sys.getrefcount(first) == sys.getrefcount(mine)
    assert type(first) is np.ndarray and first.flags.owndata and first.dtype is np.dtype(F32)
    np.testing.assert_array_equal(first, x + y)


def test_a_zeroed_output_is_zero() -> None:
    executable = make(
        store_slot_text(0),
        tensor("x", dtypes.UINT64, (1,)),
        tensor("out", dtypes.FP32, (300,), "out", implicit=True, zeroed=True),
        returns=(1,),
    )
    x = np.zeros(1, np.uint64)
    kernel = counting(executable, x)
    for _ in range(20):
        result = kernel(x)
        assert (result == 0).all()
        result[:] = 5
    assert kernel.slow == 0


def test_several_results_are_a_tuple_with_the_callers_own_objects() -> None:
    executable = make(
        store_slot_text(0),
        tensor("x", dtypes.UINT64, (1,), "inout"),
        tensor("out", dtypes.FP32, (3,), "out", implicit=True),
        returns=(0, 1),
    )
    x = np.zeros(1, np.uint64)
    kernel = counting(executable, x)
    before = sys.getrefcount(x)
    result = kernel(x)
    assert type(result) is tuple and result[0] is x and result[1].shape == (3,)
    references = sys.getrefcount(result[1])
    del result
    assert references == 2 and sys.getrefcount(x) == before and kernel.slow == 0


def test_one_result_can_be_asked_for_as_a_tuple() -> None:
    executable = make(
        store_slot_text(0),
        tensor("x", dtypes.UINT64, (1,), "inout"),
        returns=(0,),
        returns_tuple=True,
    )
    x = np.zeros(1, np.uint64)
    kernel = counting(executable, x)
    assert kernel(x)[0] is x and kernel.slow == 0


SCALARS: list[tuple[dtypes.DType, Any, int, int]] = [
    (dtypes.INT32, -3, 2**64 - 3, 0),
    (dtypes.INT8, 127, 127, 0),
    (dtypes.INT8, np.int64(7), 7, 1),
    (dtypes.UINT64, 2**63 - 1, 2**63 - 1, 0),
    (dtypes.UINT64, 2**64 - 1, 2**64 - 1, 1),
    (dtypes.BOOL, True, 1, 0),
    (dtypes.BOOL, False, 0, 0),
    (dtypes.FP32, 1.0, 0x3F800000, 0),
    (dtypes.FP32, 0.1, 0x3DCCCCCD, 0),
    (dtypes.FP32, 3, 0x40400000, 1),
    (dtypes.FP64, -0.0, 1 << 63, 0),
]


@pytest.mark.parametrize(("dtype", "value", "bits", "slow"), SCALARS)
def test_a_native_number_needs_no_python(
    dtype: dtypes.DType, value: Any, bits: int, slow: int
) -> None:
    executable = make(
        store_slot_text(1), tensor("out", dtypes.UINT64, (1,), "out"), ScalarParam("s", dtype)
    )
    out = np.zeros(1, np.uint64)
    kernel = counting(executable, out, 1 if dtype.kind != "bool" else True)
    out[0] = 12345
    kernel(out, value)
    assert int(out[0]) == bits and kernel.slow == slow


BEYOND: list[tuple[dtypes.DType, Any]] = [
    (dtypes.INT8, 128),
    (dtypes.INT8, 2**80),
    (dtypes.UINT8, -1),
    (dtypes.INT32, True),
]


@pytest.mark.parametrize(("dtype", "value"), BEYOND)
def test_a_number_out_of_range_is_left_to_python(dtype: dtypes.DType, value: Any) -> None:
    executable = make(
        store_slot_text(1), tensor("out", dtypes.UINT64, (1,), "out"), ScalarParam("s", dtype)
    )
    out = np.zeros(1, np.uint64)
    kernel = counting(executable, out, 1)
    if value is True:
        kernel(out, value)
    else:
        with pytest.raises(errors.DTypeMismatch):
            kernel(out, value)
    assert kernel.slow == 1


def test_bfloat16_arrays_are_recognised() -> None:
    executable = make(store_slot_text(0), tensor("out", dtypes.BF16, (4,), "out"))
    out = np.zeros(4, ml_dtypes.bfloat16)
    kernel = counting(executable, out)
    kernel(np.zeros(4, dtype=ml_dtypes.bfloat16))
    kernel(np.zeros(4, F32).astype("bfloat16"))
    assert kernel.slow == 0


def strided(layout: Any) -> Executable:
    return make(
        strided_text(),
        tensor("x", dtypes.FP32, (3, 4), layout=layout),
        tensor("out", dtypes.FP32, (1,), "out"),
    )


def test_strides_are_passed_natively() -> None:
    x, out = np.arange(12, dtype=F32).reshape(4, 3).T, np.zeros(1, F32)
    kernel = counting(strided("strided"), x, out)
    for array in (x, x[::-1], np.arange(48, dtype=F32).reshape(6, 8)[::2, ::2]):
        kernel(array, out)
        assert out[0] == array[1, 1]
    assert kernel.slow == 0


def test_rows_are_passed_natively_and_columns_copied() -> None:
    wide, out = np.arange(30, dtype=F32).reshape(3, 10), np.zeros(1, F32)
    kernel = counting(strided("rows"), wide[:, :4], out)
    kernel(wide[:, 2:6], out)
    assert out[0] == wide[1, 3] and kernel.slow == 0
    kernel(wide[:, :8:2], out)
    assert out[0] == wide[1, 2] and kernel.slow == 1


def test_a_strided_view_does_not_hide_an_overlap() -> None:
    base = np.zeros((3, 8), F32)
    kernel = counting(strided("strided"), base[:, :4], np.zeros(1, F32))
    with pytest.raises(errors.OutputOverlap):
        kernel(base[::-1, :4], base[0, 2:3])
    kernel(base[:, :4], base[2, 4:5])
    assert kernel.slow == 1
