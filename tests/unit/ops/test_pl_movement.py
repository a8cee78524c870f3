"""Published names of rearrangements, memory, products, gathers and sorts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.dtypes import BF16, BOOL, FP8E4M3FN, FP8E8M0, FP16, FP32, INDEX, INT8, INT32, UINT32
from tilewright.errors import (
    ArgumentTypeMismatch,
    DTypeMismatch,
    InvalidOperationError,
    ShapeMismatch,
)
from tilewright.ir.enums import AtomicType, MemorySpace, PadValue
from tilewright.ir.types import TensorType, TileType
from unit.ops.calling import Call, run, scalar, tensor, tile

X = np.arange(48, dtype=np.float32).reshape(6, 8)


def test_reductions_keep_the_reduced_axis() -> None:
    np.testing.assert_array_equal(run("pl.row_sum", tile(X)), X.sum(1, keepdims=True))
    np.testing.assert_array_equal(run("pl.col_max", tensor(X)), X.max(0, keepdims=True))
    assert run("pl.row_argmax", tile(X)).dtype == np.int32


def test_load_is_a_window_and_the_rest_is_zero() -> None:
    call = Call("pl.load", tensor(X), [4, 0], [4, 8], valid_shape=[2, 8])
    assert isinstance(call.type, TileType)
    assert call.type.valid_shape == (2, 8)
    np.testing.assert_array_equal(call.run(), np.concatenate([X[4:], np.zeros((2, 8))]))


def test_load_leaves_the_tensor_only_with_clamp() -> None:
    with pytest.raises(ShapeMismatch, match="leave axis 0") as caught:
        Call("pl.load", tensor(X), [4, 0], [4, 8])
    assert "clamp" in (caught.value.hint or "")
    assert Call("pl.load", tensor(X), [4, 0], [4, 8], clamp=True).type.valid_shape == (2, 8)


def test_store_writes_the_valid_region_only() -> None:
    small = np.full((2, 4), -1, np.float32)
    found = run("pl.store", tile(small, valid=(1, 3)), [2, 2], tensor(X))
    wanted = X.copy()
    wanted[2, 2:5] = -1
    np.testing.assert_array_equal(found, wanted)


def test_store_narrows_accumulators_and_nothing_else() -> None:
    half = np.zeros((6, 8), np.float16)
    acc = tile(X, space=MemorySpace.Acc)
    np.testing.assert_array_equal(run("pl.store", acc, [0, 0], tensor(half)), X.astype(np.float16))
    with pytest.raises(DTypeMismatch):
        Call("pl.store", tile(X), [0, 0], tensor(half))


def test_atomic_stores_add() -> None:
    found = run("pl.store", tile(X), [0, 0], tensor(X), atomic=AtomicType.Add)
    np.testing.assert_array_equal(found, 2 * X)


def test_slices_shrink_with_clamp_and_drop_unit_axes() -> None:
    row = Call("pl.slice", tensor(X), [1, 8], [2, 0], drop_dims=[0])
    assert row.type.shape == (8,)
    clamped = Call("pl.slice", tile(X), [4, 8], [4, 0], clamp=True)
    assert clamped.type.shape == (4, 8)
    assert clamped.type.valid_shape == (2, 8)


def test_a_slice_pads_around_its_valid_region() -> None:
    call = Call("pl.slice", tile(X), [2, 8], [0, 0], valid_shape=[2, 5], pad_value=PadValue.zero)
    assert call.type.valid_shape == (2, 5)
    np.testing.assert_array_equal(call.run()[:, 5:], 0)


def test_padding_takes_the_extremes_of_the_dtype() -> None:
    found = run("pl.fillpad", tile(X, valid=(6, 5)), PadValue.min)
    assert np.isneginf(found[:, 5:]).all()
    whole = X.astype(np.int8)
    assert (run("pl.fillpad", tile(whole, valid=(6, 5)), PadValue.max)[:, 5:] == 127).all()
    grown = run("pl.fillpad_expand", tile(X), [8, 8], 1.0)
    np.testing.assert_array_equal(grown[6:], 1)


def test_elementwise_ops_need_equal_valid_regions() -> None:
    with pytest.raises(ShapeMismatch, match="different regions"):
        Call("pl.add", tile(X, valid=(3, 8)), tile(X))


def test_full_takes_its_memory_from_the_namespace() -> None:
    assert isinstance(Call("pl.tensor.full", [4, 4], FP32, 1).type, TensorType)
    assert isinstance(Call("pl.full", [4, 4], FP32, 1).type, TileType)


def test_counting_up_and_down_needs_one_row() -> None:
    np.testing.assert_array_equal(run("pl.arange", 3, [1, 4]), [[3, 4, 5, 6]])
    np.testing.assert_array_equal(run("pl.tensor.ci", 3, [1, 4], descending=True), [[3, 2, 1, 0]])
    with pytest.raises(ShapeMismatch):
        Call("pl.arange", 0, [2, 4])


def test_created_tensors_may_be_initialized() -> None:
    np.testing.assert_array_equal(run("pl.create_tensor", [2, 3], INT8, init_value=7), 7)


def test_single_elements_by_index_and_by_position() -> None:
    assert run("pl.read", tensor(X), [2, 3]) == X[2, 3]
    assert run("pl.read", tile(X), 19) == X[2, 3]
    assert run("pl.read", tile(X), scalar(19, INDEX)) == X[2, 3]
    assert run("pl.write", tensor(X), [2, 3], -1)[2, 3] == -1


def test_extents_are_index_scalars() -> None:
    assert run("pl.dim", tensor(X), 1) == 8
    assert run("pl.valid_dim", tile(X, valid=(6, 5)), 1) == 5


def test_rearrangements() -> None:
    np.testing.assert_array_equal(run("pl.transpose", tile(X), 0, 1), X.T)
    np.testing.assert_array_equal(run("pl.reshape", tensor(X), [8, 6]), X.reshape(8, 6))
    np.testing.assert_array_equal(run("pl.concat", tile(X), tile(X)), np.hstack([X, X]))
    np.testing.assert_array_equal(run("pl.reinterpret_view", tile(X), INT32), X.view(np.int32))
    assert Call("pl.reinterpret_view", tile(X), FP16).type.shape == (6, 16)
    np.testing.assert_array_equal(run("pl.expands", tile(X), 3), np.full_like(X, 3))
    column = X[:, :1].copy()
    np.testing.assert_array_equal(
        run("pl.tensor.expand_clone", tensor(column), tensor(X)), np.broadcast_to(column, X.shape)
    )


def test_assemble_grows_a_valid_rectangle_and_refuses_others() -> None:
    target, part = np.zeros((4, 8), np.float32), np.ones((2, 8), np.float32)
    grown = Call("pl.assemble", tile(target, valid=(2, 8)), tile(part), [2, 0])
    assert grown.type.valid_shape == (4, 8)
    with pytest.raises(ShapeMismatch, match="rectangle"):
        Call("pl.assemble", tile(target, valid=(1, 8)), tile(part), [2, 0])


def test_products_of_tiles_accumulate_and_of_tensors_round() -> None:
    half = np.ones((4, 4), np.float16)
    assert Call("pl.matmul", tile(half), tile(half)).type.dtype is FP32
    assert Call("pl.matmul", tensor(half), tensor(half)).type.dtype is FP16
    assert Call("pl.matmul", tensor(half), tensor(half), BF16).type.dtype is BF16
    assert (
        Call("pl.matmul", tile(half.astype(np.int8)), tile(half.astype(np.int8))).type.dtype
        is INT32
    )
    np.testing.assert_array_equal(run("pl.matmul", tensor(X), tensor(X), b_trans=True), X @ X.T)


def test_padding_adds_nothing_to_a_product() -> None:
    x = np.full((4, 4), np.nan, np.float32)
    x[:, :2] = 1
    found = run("pl.matmul", tile(x, valid=(4, 2)), tile(x.T.copy(), valid=(2, 4)))
    np.testing.assert_array_equal(found, 2)


def test_block_scaled_products_widen_first() -> None:
    rng = np.random.default_rng(3)
    narrow, power = FP8E4M3FN.numpy, FP8E8M0.numpy
    lhs = rng.integers(-4, 5, (4, 64)).astype(np.float32).astype(narrow)
    rhs = rng.integers(-4, 5, (64, 8)).astype(np.float32).astype(narrow)
    left = np.float32(2) ** rng.integers(-2, 3, (4, 2)).astype(np.float32)
    right = np.float32(2) ** rng.integers(-2, 3, (2, 8)).astype(np.float32)
    given = tile(lhs), tile(left.astype(power)), tile(rhs), tile(right.astype(power))
    wide = lhs.astype(np.float32) * np.repeat(left, 32, 1)
    wanted = wide @ (rhs.astype(np.float32) * np.repeat(right, 32, 0))
    np.testing.assert_allclose(run("pl.matmul_mx", *given), wanted, rtol=1e-6)
    acc = np.ones((4, 8), np.float32)
    np.testing.assert_allclose(run("pl.matmul_mx_acc", tile(acc), *given), wanted + 1, rtol=1e-6)
    with pytest.raises(ShapeMismatch, match="lhs_scale"):
        Call("pl.matmul_mx", given[0], given[3], *given[2:])


def test_accumulation_starts_anew_on_a_condition() -> None:
    acc, one = np.ones((4, 4), np.float32), np.eye(4, dtype=np.float32)
    np.testing.assert_array_equal(run("pl.matmul_acc", tile(acc), tile(one), tile(one)), acc + one)
    for condition in (True, scalar(True, BOOL)):
        found = run("pl.matmul_acc", tile(acc), tile(one), tile(one), init_cond=condition)
        np.testing.assert_array_equal(found, one)
    row = np.arange(4, dtype=np.float32).reshape(1, 4)
    np.testing.assert_array_equal(run("pl.matmul_bias", tile(one), tile(one), tile(row)), one + row)


def test_gather_by_index_and_by_pattern() -> None:
    index = np.array([[1, 0], [2, 2], [3, 1], [7, 0], [0, 0], [5, 4]], np.int32)
    wanted = np.take_along_axis(X, index.astype(np.int64), 1)
    np.testing.assert_array_equal(run("pl.gather", tensor(X), dim=-1, index=tensor(index)), wanted)
    np.testing.assert_array_equal(run("pl.gather", tile(X), tile(index)), wanted)
    np.testing.assert_array_equal(run("pl.gather_mask", tile(X), 1), X[:, 0::2])
    np.testing.assert_array_equal(run("pl.gather", tensor(X), mask_pattern=2), X[:, 1::2])
    with pytest.raises(InvalidOperationError):
        Call("pl.gather", tensor(X))


def test_gather_by_blocks_rows_and_tables() -> None:
    offsets = np.array([[32, 0]], np.uint32)
    flat = X.reshape(1, -1)
    np.testing.assert_array_equal(
        run("pl.gatherb", tile(X), tile(offsets)), np.hstack([flat[:, 8:16], flat[:, :8]])
    )
    rows = np.array([[4, 1]], np.int32)
    np.testing.assert_array_equal(run("pl.mgather", tensor(X), tile(rows)), X[[4, 1]])
    np.testing.assert_array_equal(run("pl.mgather", tensor(X), tile(rows), "elem"), [[4, 1]])
    table = np.array([[2, 0, 1]], np.int32)
    found = run("pl.paged_gather", tensor(X), tensor(rows), tensor(table), 2, 8, 2)
    np.testing.assert_array_equal(found, X[[1 * 2 + 0, 2 * 2 + 1]])


def test_compare_gather_gives_columns_and_counts() -> None:
    x = np.array([[3, 1, 3, 3], [0, 0, 3, 0]], np.float32)
    indices, counts = run("pl.gather_compare", tile(x), 3.0, out_cols=2)
    np.testing.assert_array_equal(indices, [[0, 2], [2, 0]])
    np.testing.assert_array_equal(counts, [[3], [1]])


@pytest.mark.parametrize(
    ("mode", "given", "indices", "counts"),
    [
        (None, {"out_cols": 2}, [[0, 2], [2, 0]], [[3], [1]]),
        ("lt", {"offset": 10}, [[11, 0, 0, 0], [10, 11, 13, 0]], [[1], [3]]),
        (5, {"count_dtype": UINT32}, [[0, 2, 3, 0], [2, 0, 0, 0]], [[3], [1]]),
    ],
)
def test_tensors_are_compared_by_gather_itself(
    mode: Any, given: dict[str, Any], indices: Any, counts: Any
) -> None:
    x = np.array([[3, 1, 3, 3], [0, 0, 3, 0]], np.float32)
    for name in ("pl.gather", "pl.tensor.gather"):
        found = run(name, tensor(x), kvalue=3.0, cmp_mode=mode, **given)
        np.testing.assert_array_equal(found[0], indices)
        np.testing.assert_array_equal(found[1], counts)
        assert found[1].dtype == (np.uint32 if "count_dtype" in given else np.int32)
    with pytest.raises(InvalidOperationError, match="none of index=, mask_pattern= and kvalue="):
        Call("pl.tensor.gather", tensor(x))


def test_scatter_by_position_row_and_pattern() -> None:
    target, src = np.zeros((2, 4), np.float32), np.array([[1, 2]], np.float32)
    at = np.array([[5, 0]], np.int32)
    found = run("pl.scatter", tile(target), tile(src), tile(at))
    np.testing.assert_array_equal(found, [[2, 0, 0, 0], [0, 1, 0, 0]])
    np.testing.assert_array_equal(run("pl.mscatter", tile(src), tile(at), tensor(target)), found)
    rows = run(
        "pl.scatter_update", tensor(X), -2, tensor(np.array([[3, 0]], np.int32)), tensor(-X[:2])
    )
    np.testing.assert_array_equal(rows[[3, 0]], -X[:2])
    masked = run("pl.scatter_mask", tile(target), tile(np.ones((2, 2), np.float32)), 2)
    np.testing.assert_array_equal(masked, [[0, 1, 0, 1]] * 2)


def test_sorts_descend_in_blocks_and_merge() -> None:
    rng = np.random.default_rng(0)
    x = rng.permutation(128).astype(np.float32).reshape(1, 128)
    x[0, 5] = x[0, 9]
    tags = np.arange(128, dtype=np.uint32).reshape(1, 128)
    found = run("pl.sort32", tile(x), tile(tags))
    blocks = x.reshape(4, 32)
    order = np.argsort(-blocks, axis=1, kind="stable")
    np.testing.assert_array_equal(
        found[0, 0::2].reshape(4, 32), np.take_along_axis(blocks, order, 1)
    )
    assert (
        found[0, 1::2].copy().view(np.uint32).reshape(4, 32) == order + 32 * np.arange(4)[:, None]
    ).all()
    merged = run("pl.mrgsort", tile(found), block_len=64)
    np.testing.assert_array_equal(merged[0, 0::2], np.sort(x[0])[::-1])
    two = run(
        "pl.mrgsort", tile(found[:, :64].copy()), tile(found[:, 64:128].copy()), None, None, None
    )
    np.testing.assert_array_equal(two[0, 0::2], np.sort(x[0, :64])[::-1])
    early = run("pl.mrgsort", tile(found[:, :64]), tile(found[:, 64:128]), exhausted=True)
    np.testing.assert_array_equal(early, two)  # more than is promised


def test_triangles_and_random_bits() -> None:
    np.testing.assert_array_equal(run("pl.tri", 0, [4, 4]), np.tri(4))
    np.testing.assert_array_equal(run("pl.tri", 1, [4, 4], upper=True), np.triu(np.ones((4, 4)), 1))
    bits = run("pl.tensor.random", 0, 0, 0, 0, 0, 0, [4])
    np.testing.assert_array_equal(
        bits, np.array([0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], np.uint32)
    )
    assert bits.dtype == UINT32.numpy


def test_arrays_are_values() -> None:
    call = Call("pl.array.create", 4, INT32)
    assert str(call.type) == "pl.Array[4, pl.INT32]"
    with pytest.raises(DTypeMismatch):
        Call("pl.array.create", 4, FP32)


def test_wrong_kinds_are_refused_by_name() -> None:
    with pytest.raises(ArgumentTypeMismatch, match="store: output_tensor"):
        Call("pl.store", tile(X), [0, 0], tile(X))
    with pytest.raises(ArgumentTypeMismatch, match="not a dtype"):
        Call("pl.cast", tile(X), "fp32")
