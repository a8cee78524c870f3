"""The careful path: what is accepted, and how each refusal is named."""

from __future__ import annotations

import array
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from tilewright import dtypes, errors
from tilewright.abi import Manifest, ScalarParam, tensor
from unit.runtime.native_kernels import make, make_add, store_slot_text, strided_text

F32 = np.float32


def arrays(*shape: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    x, y = (rng.standard_normal(shape).astype(F32) for _ in range(2))
    return x, y, np.full(shape, -1, F32)


def test_an_add_kernel_adds() -> None:
    x, y, out = arrays(4, 16)
    assert make_add().run_checked((x, y, out)) is None
    np.testing.assert_array_equal(out, x + y)


def test_keywords_bind_by_name() -> None:
    x, y, out = arrays(4, 16)
    make_add()(out=out, y=y, x=x)
    np.testing.assert_array_equal(out, x + y)


def test_an_implicit_output_is_allocated_and_returned() -> None:
    x, y, _ = arrays(4, 16)
    result = make_add(implicit=True).run_checked((x, y))
    assert isinstance(result, np.ndarray) and result.dtype == F32
    np.testing.assert_array_equal(result, x + y)


@pytest.mark.parametrize("size", [0, 1, 5, 100])
def test_a_dynamic_extent_is_solved_from_the_arguments(size: int) -> None:
    x, y, out = arrays(size)
    make_add(("N",)).run_checked((x, y, out))
    np.testing.assert_array_equal(out, x + y)


REFUSALS: list[tuple[type[Exception], str, Any]] = [
    (errors.ArgumentCountMismatch, "missing: 'out'", lambda x, y, o: (x, y)),
    (errors.ArgumentCountMismatch, "takes 3 arguments", lambda x, y, o: (x, y, o, o)),
    (errors.ArgumentTypeMismatch, "'y' is None", lambda x, y, o: (x, None, o)),
    (
        errors.ArgumentTypeMismatch,
        "'y' is a masked array, whose mask a kernel would not see",
        lambda x, y, o: (x, np.ma.masked_array(y, np.zeros(y.shape, bool)), o),
    ),
    (errors.ArgumentTypeMismatch, "object of type list", lambda x, y, o: (x, [1.0], o)),
    (errors.ArgumentTypeMismatch, "'x' is str 'a'", lambda x, y, o: ("a", y, o)),
    (errors.ArgumentTypeMismatch, "numpy scalar", lambda x, y, o: (F32(1), y, o)),
    (errors.DTypeMismatch, "'x' is float64; FP32 ", lambda x, y, o: (x.astype("f8"), y, o)),
    (errors.ByteOrderMismatch, "'y' is '>f4'", lambda x, y, o: (x, y.astype(">f4"), o)),
    (errors.RankMismatch, "1 dimensions", lambda x, y, o: (x, y[0], o)),
    (errors.ShapeMismatch, "dimension 1 must be 16", lambda x, y, o: (x, y[:, :8].copy(), o)),
    (errors.ReadOnlyOutput, "'out' is read-only", lambda x, y, o: (x, y, read_only(o))),
    (errors.StrideMismatch, "repeats", lambda x, y, o: (x, y, repeated(o))),
    (errors.StrideMismatch, "repeats", lambda x, y, o: (x, y, as_strided(o, o.shape, (4, 4)))),
    (errors.StrideMismatch, "repeats", lambda x, y, o: (x, y, as_strided(o, o.shape, (60, 4)))),
    (errors.OutputOverlap, "'out' overlaps argument 'x'", lambda x, y, o: (o, y, o)),
]  # fmt: skip


def read_only(a: np.ndarray) -> np.ndarray:
    view = a.view()
    view.flags.writeable = False
    return view


def repeated(a: np.ndarray) -> np.ndarray:
    return np.ndarray(a.shape, a.dtype, a.data, 0, (0, 4))


@pytest.mark.parametrize(("error", "words", "change"), REFUSALS)
def test_a_refusal_names_the_argument_and_writes_nothing(
    error: type[Exception], words: str, change: Any
) -> None:
    x, y, out = arrays(4, 16)
    with pytest.raises(error, match=words):
        make_add()(*change(x, y, out))
    assert (out == -1).all()


def test_refusals_are_also_the_builtin_errors() -> None:
    with pytest.raises(TypeError):
        make_add()(1, 2, 3)
    with pytest.raises(ValueError, match="shape"):
        make_add()(*(np.zeros((4, 8), F32) for _ in range(3)))


def test_extents_with_one_symbol_must_agree() -> None:
    x, y, out = arrays(6)
    with pytest.raises(errors.ShapeMismatch, match="must be N = 6, as N = 6 in dimension 0 of 'x'"):
        make_add(("N",))(x, y[:5], out)


def test_an_affine_extent_is_solved_for_its_symbol() -> None:
    from tilewright.abi import Extent

    pair = Extent(0, (("M", 2),))
    kernel = make(
        store_slot_text(2),
        tensor("out", dtypes.INT64, (1,), "out"),
        tensor("x", dtypes.FP32, (pair,)),
        manifest=Manifest(name="half"),
    )
    out = np.zeros(1, np.int64)
    kernel(out, np.zeros(16, F32))
    assert out[0] == 8
    with pytest.raises(errors.ShapeMismatch, match=r"must be 2\*M for a whole M"):
        kernel(out, np.zeros(15, F32))


def test_a_strided_input_is_copied_in_and_an_output_copied_out() -> None:
    x, y, _ = arrays(16, 4)
    wide = np.full((4, 32), -1, F32)
    out = wide[:, ::2]
    make_add()(x.T, np.asfortranarray(y.T), out)
    np.testing.assert_array_equal(out, x.T + y.T)
    assert (wide[:, 1::2] == -1).all()


def test_copies_can_be_refused() -> None:
    x, y, out = arrays(4, 16)
    with pytest.raises(errors.StrideMismatch, match="'x' has strides"):
        make_add().run_checked((np.asfortranarray(x), y, out), copies=False)


def test_interleaved_arrays_do_not_overlap() -> None:
    base = np.arange(128, dtype=F32).reshape(4, 32)
    y = np.ones((4, 16), F32)
    expected = base[:, ::2] + 1
    make_add()(base[:, ::2], y, base[:, 1::2])
    np.testing.assert_array_equal(base[:, 1::2], expected)


def test_a_pair_marked_safe_may_be_the_same_array_but_not_shifted() -> None:
    kernel = make_add(manifest=Manifest(name="add", safe_overlaps=frozenset({("x", "out")})))
    x, y, _ = arrays(4, 16)
    expected = x + y
    kernel(x, y, x)
    np.testing.assert_array_equal(x, expected)
    base = np.zeros(80, F32)
    with pytest.raises(errors.OutputOverlap, match="very same"):
        kernel(base[:64].reshape(4, 16), y, base[16:].reshape(4, 16))


def test_passed_strides_reach_the_kernel_in_elements() -> None:
    kernel = make(
        strided_text(),
        tensor("x", dtypes.FP32, (3, 4), layout="strided"),
        tensor("out", dtypes.FP32, (1,), "out"),
    )
    x, out = np.arange(12, dtype=F32).reshape(4, 3).T, np.zeros(1, F32)
    kernel(x, out)
    assert out[0] == x[1, 1]


def test_rows_layout_copies_an_array_whose_last_stride_is_not_one() -> None:
    kernel = make(
        strided_text(),
        tensor("x", dtypes.FP32, (3, 4), layout="rows"),
        tensor("out", dtypes.FP32, (1,), "out"),
    )
    x, out = np.arange(12, dtype=F32).reshape(4, 3).T, np.zeros(1, F32)
    kernel(x, out)
    assert out[0] == x[1, 1]
    with pytest.raises(errors.StrideMismatch, match="a rows array"):
        kernel.run_checked((x, out), copies=False)


SCALARS: list[tuple[dtypes.DType, Any, int]] = [
    (dtypes.INT32, -3, 2**64 - 3),
    (dtypes.INT8, np.int64(7), 7),
    (dtypes.UINT64, 2**64 - 1, 2**64 - 1),
    (dtypes.BOOL, True, 1),
    (dtypes.FP32, 1.0, 0x3F800000),
    (dtypes.FP32, 3, 0x40400000),
    (dtypes.FP64, np.float32(1), 0x3FF0000000000000),
    (dtypes.BF16, 1.0, 0x3F80),
    (dtypes.BF16, ml_dtypes.bfloat16(2), 0x4000),
    (dtypes.INDEX, np.array(5), 5),
    (dtypes.FP32, 1e300, 0x7F800000),
    (dtypes.FP16, -1e5, 0xFC00),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("dtype", "value", "bits"), SCALARS)
def test_a_scalar_is_encoded_in_its_word(dtype: dtypes.DType, value: Any, bits: int) -> None:
    kernel = make(
        store_slot_text(1), tensor("out", dtypes.UINT64, (1,), "out"), ScalarParam("s", dtype)
    )
    out = np.zeros(1, np.uint64)
    kernel(out, value)
    assert int(out[0]) == bits


@pytest.mark.parametrize(
    ("dtype", "value", "error"),
    [
        (dtypes.INT32, 1.5, errors.ArgumentTypeMismatch),
        (dtypes.INT32, None, errors.ArgumentTypeMismatch),
        (dtypes.FP32, "1", errors.ArgumentTypeMismatch),
        (dtypes.BOOL, 1, errors.ArgumentTypeMismatch),
        (dtypes.INT8, 200, errors.DTypeMismatch),
        (dtypes.UINT8, -1, errors.DTypeMismatch),
        (dtypes.FP32, 10**400, errors.DTypeMismatch),
    ],
)
def test_a_scalar_that_does_not_fit_is_refused(
    dtype: dtypes.DType, value: Any, error: type[Exception]
) -> None:
    kernel = make(
        store_slot_text(1), tensor("out", dtypes.UINT64, (1,), "out"), ScalarParam("s", dtype)
    )
    out = np.zeros(1, np.uint64)
    with pytest.raises(error, match="'s' is"):
        kernel(out, value)
    assert out[0] == 0


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((4, 8), (32, 4)), ((4, 8), (4, 16)), ((2, 3), (12, 8)), ((4, 8), (-64, 8)), ((1, 8), (0, 4))],
)
def test_an_output_whose_elements_are_distinct_in_any_order_is_written(
    shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    memory = np.zeros(256, F32)
    x, out = np.ones(shape, F32), as_strided(memory[100:], shape, strides)
    make_add(shape)(x, x, out)
    assert memory.sum() == 2 * x.size


@pytest.mark.parametrize("strides", [(1, 1), (0, 1), (7, 1), (3, 2)])
def test_a_strided_output_that_repeats_elements_is_refused_when_warm_too(
    strides: tuple[int, int],
) -> None:
    kernel = make(store_slot_text(1), tensor("out", dtypes.INT64, (4, 8), "out", layout="strided"))
    kernel(np.zeros((4, 8), np.int64))
    kernel(np.zeros((8, 4), np.int64).T)
    out = as_strided(np.zeros(64, np.int64), (4, 8), tuple(8 * s for s in strides))
    for _ in range(2):
        with pytest.raises(errors.StrideMismatch, match="repeats"):
            kernel(out)


class Exporter:
    """What says that it has memory, and is wrong."""

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)


def fail(**options: Any) -> Any:
    raise KeyError("not today")


@pytest.mark.parametrize(
    "value",
    [
        Exporter(__array_interface__=7),
        Exporter(__array_interface__={"shape": (4, 16)}),
        Exporter(__array_interface__={"shape": (1 << 62, 8), "typestr": "<f4", "data": (8, False)}),
        Exporter(__array_struct__=object()),
        Exporter(__dlpack__=fail, __dlpack_device__=lambda: (1, 0)),
        Exporter(__dlpack__=lambda **options: 3, __dlpack_device__=lambda: "cpu"),
    ],
)
def test_an_object_that_exports_nonsense_is_refused(value: Any) -> None:
    x, _, out = arrays(4, 16)
    with pytest.raises(errors.ArgumentTypeMismatch, match=r"'y' is an? (object|Exporter)"):
        make_add()(x, value, out)


def test_buffers_and_array_interfaces_are_arrays() -> None:
    class Interface:
        def __init__(self, a: np.ndarray) -> None:
            self.__array_interface__ = a.__array_interface__

    x, y, _ = arrays(4)
    out = array.array("f", [0, 0, 0, 0])
    make_add((4,))(Interface(x), memoryview(y), out)
    np.testing.assert_array_equal(np.frombuffer(out, F32), x + y)


def test_bytes_are_a_read_only_output() -> None:
    kernel = make(store_slot_text(0), tensor("out", dtypes.UINT8, (8,), "out"))
    with pytest.raises(errors.ReadOnlyOutput):
        kernel(b"12345678")


def test_a_subclass_of_ndarray_is_an_array() -> None:
    x, y, out = arrays(4, 16)
    make_add()(x.view(np.memmap), y, out.view(np.matrix))
    np.testing.assert_array_equal(out, x + y)


@pytest.mark.torch
def test_torch_tensors_share_their_memory() -> None:
    import torch

    x, y, out = torch.randn(4, 16), torch.randn(16, 4).T, torch.zeros(4, 16)
    make_add()(x, y, out)
    assert torch.equal(out, x + y)
    result = make_add(implicit=True).run_checked((x, y))
    assert isinstance(result, torch.Tensor) and torch.equal(result, x + y)


@pytest.mark.torch
def test_torch_bfloat16_is_bf16() -> None:
    import torch

    kernel = make(store_slot_text(0), tensor("out", dtypes.BF16, (4,), "out"))
    kernel(torch.zeros(4, dtype=torch.bfloat16))
    with pytest.raises(errors.DTypeMismatch, match="float16"):
        kernel(torch.zeros(4, dtype=torch.float16))


@pytest.mark.torch
def test_a_torch_tensor_that_requires_grad_is_refused() -> None:
    import torch

    kernel = make_add()
    y, out = torch.zeros(4, 16), torch.zeros(4, 16)
    kernel(y, y, out)
    for _ in range(2):
        with pytest.raises(errors.ArgumentTypeMismatch, match="detach"):
            kernel(torch.zeros(4, 16, requires_grad=True), y, out)


@pytest.mark.torch
def test_a_pending_negation_is_refused() -> None:
    import torch

    kernel = make_add()
    y, out = torch.zeros(4, 16), torch.zeros(4, 16)
    kernel(y, y, out)
    x = torch.ones(4, 16, dtype=torch.complex64).conj().imag
    for _ in range(2):
        with pytest.raises(errors.ArgumentTypeMismatch, match="resolve_neg"):
            kernel(x, y, out)
