"""Published elementwise names: promotion, numbers, modes, masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.dtypes import BF16, BOOL, FP16, FP32, INDEX, INT8, INT32, UINT8
from tilewright.errors import ArgumentTypeMismatch, DTypeMismatch, ShapeMismatch
from tilewright.ops.adapt import promoted
from unit.ops.calling import Call, run, scalar, tensor, tile

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


def test_a_number_adopts_the_dtype_of_the_tile() -> None:
    call = Call("pl.add", tile(X.astype(np.float16)), 2)
    assert call.type.dtype is FP16
    np.testing.assert_array_equal(call.run(), X.astype(np.float16) + np.float16(2))


def test_a_float_with_an_integer_tile_computes_in_fp32() -> None:
    call = Call("pl.mul", tile(X.astype(np.int32)), 0.5)
    assert call.type.dtype is FP32
    np.testing.assert_array_equal(call.run(), X * np.float32(0.5))


def test_an_index_scalar_with_a_float_tile_is_refused_with_advice() -> None:
    with pytest.raises(DTypeMismatch) as caught:
        Call("pl.add", tile(X), scalar(3, INDEX))
    assert "pl.cast" in (caught.value.hint or "")


def test_an_index_scalar_adopts_the_dtype_of_an_integer_tile() -> None:
    call = Call("pl.add", tile(X.astype(np.int32)), scalar(3, INDEX))
    assert call.type.dtype is INT32


def test_operands_are_promoted_to_the_wider_and_to_floats() -> None:
    assert promoted(FP16, FP32) is FP32
    assert promoted(INT32, FP16) is FP16
    assert promoted(INT8, INT32) is INT32
    assert promoted(UINT8, INT8) is INT8
    assert promoted(FP16, BF16) is FP32


def test_a_tensor_and_a_tile_do_not_mix() -> None:
    with pytest.raises(ArgumentTypeMismatch, match="tensor") as caught:
        Call("pl.add", tile(X), tensor(X))
    assert "pl.load" in (caught.value.hint or "")


def test_a_namespace_refuses_the_other_kind() -> None:
    with pytest.raises(ArgumentTypeMismatch, match="not a tile"):
        Call("pl.tile.exp", tensor(X))
    with pytest.raises(ArgumentTypeMismatch, match="not a tensor"):
        Call("pl.tensor.exp", tile(X))


@pytest.mark.parametrize("mode", ["round", 2])
def test_casts_round_halves_away_from_zero_by_default(mode: object) -> None:
    halves = np.array([[0.5, 1.5, -0.5, -2.5]], np.float32)
    wanted = np.array([[1, 2, -1, -3]], np.int32)
    np.testing.assert_array_equal(run("pl.cast", tile(halves), INT32), wanted)
    np.testing.assert_array_equal(run("pl.cast", tile(halves), INT32, mode), wanted)


def test_casts_take_modes_by_name_and_number() -> None:
    halves = np.array([[0.5, 1.5, -0.5, -2.5]], np.float32)
    for mode in ("rint", 1):
        found = run("pl.cast", tile(halves), INT32, mode)
        np.testing.assert_array_equal(found, np.array([[0, 2, 0, -2]], np.int32))
    with pytest.raises(ArgumentTypeMismatch, match="rounding mode"):
        Call("pl.cast", tile(halves), INT32, "nearest")


def test_comparison_of_tiles_gives_a_mask_and_of_tensors_numbers() -> None:
    assert Call("pl.cmp", tile(X), 0, cmp_type=2).type.dtype is BOOL
    call = Call("pl.cmp", tensor(X), 0, cmp_type=2)
    assert call.type.dtype is FP32
    np.testing.assert_array_equal(call.run(), (X < 0).astype(np.float32))


def test_sel_takes_the_mask_of_cmp() -> None:
    mask = tile(X < 0)
    np.testing.assert_array_equal(run("pl.sel", mask, tile(-X), tile(X)), np.abs(X))
    np.testing.assert_array_equal(run("pl.sels", mask, tile(X), None, 0.0), np.where(X < 0, X, 0))


def test_activations() -> None:
    np.testing.assert_array_equal(run("pl.relu", tile(X)), np.maximum(X, 0))
    np.testing.assert_array_equal(run("pl.lrelu", tile(X), 0.5), np.where(X > 0, X, X / 2))
    np.testing.assert_array_equal(run("pl.prelu", tile(X), tile(X)), np.where(X > 0, X, X * X))


def test_three_operand_forms() -> None:
    np.testing.assert_array_equal(run("pl.addc", tile(X), tile(X), tile(X)), 3 * X)
    np.testing.assert_array_equal(run("pl.subc", tile(X), tile(X), tile(X)), -X)
    np.testing.assert_array_equal(run("pl.addsc", tile(X), 1.0, tile(X)), 2 * X + 1)
    np.testing.assert_array_equal(run("pl.subsc", tile(X), 1.0, tile(X)), np.float32(-1) + 0 * X)


def test_vectors_expand_along_rows_and_columns() -> None:
    column, row = X[:, :1].copy(), X[:1].copy()
    np.testing.assert_array_equal(run("pl.row_expand_sub", tile(X), tile(column)), X - column)
    np.testing.assert_array_equal(run("pl.col_expand_mul", tile(X), tile(row)), X * row)
    np.testing.assert_array_equal(run("pl.row_expand", tile(X), tile(column)), 0 * X + column)
    found = run("pl.row_expand_expdif", tile(X), tile(column))
    np.testing.assert_allclose(found, np.exp(X - column), rtol=1e-6)
    with pytest.raises(ShapeMismatch, match=r"\[R, 1\]"):
        Call("pl.row_expand_add", tile(X), tile(row))


def test_remainders_follow_the_divisor_or_the_dividend() -> None:
    x = np.array([[-5, 5]], np.int32)
    np.testing.assert_array_equal(run("pl.rem", tile(x), tile(np.full_like(x, 3))), [[1, 2]])
    np.testing.assert_array_equal(run("pl.fmods", tile(x), 3), [[-2, 2]])


def test_max_of_scalars_and_of_numbers() -> None:
    assert run("pl.max", scalar(3, INDEX), 7) == 7
    builder = Call("pl.min", scalar(3, INDEX), scalar(2, INDEX))
    assert builder.run() == 2


def test_partial_ops_copy_where_one_operand_is_valid() -> None:
    found = run("pl.part_add", tile(X), tile(X, valid=(2, 4)))
    np.testing.assert_array_equal(found, np.concatenate([2 * X[:2], X[2:]]))


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("relu", 1),
        *[(name, 2) for name in ("rem", "rems", "maximums", "minimums", "lrelu", "prelu")],
        *[(name, 3) for name in ("addc", "subc", "addsc", "subsc")],
    ],
)
def test_names_of_tiles_refuse_tensors_in_both_their_places(name: str, count: int) -> None:
    second = 2.0 if name in ("rems", "maximums", "minimums", "lrelu") else X
    more = [2.0 if isinstance(second, float) else tile(X)] * min(count - 1, 1)
    more += [tile(X)] * (count - 2)
    for home in ("pl", "pl.tile"):
        Call(f"{home}.{name}", tile(X), *more)
        with pytest.raises(ArgumentTypeMismatch, match="not a tile"):
            Call(f"{home}.{name}", tensor(X), *more)


@pytest.mark.parametrize(
    ("path", "args", "options", "message"),
    [
        ("pl.row_sum", (tensor(X),), {"tmp_tile": tile(X)}, "row_sum: tmp_tile is not for tensors"),
        ("pl.row_argmax", (tensor(X), tile(X)), {}, "row_argmax: tmp_tile is not for tensors"),
        ("pl.row_expand_add", (tensor(X), tensor(X[:, :1]), tile(X)), {}, "tmp is not for tensors"),
        ("pl.xor", (tensor(X.astype(np.int32)),) * 2, {"tmp": tile(X)}, "xor: tmp is not"),
        ("pl.rsqrt", (tile(X), True), {}, "rsqrt: high_precision is not for tiles"),
    ],
)
def test_what_one_kind_of_operand_lacks_is_refused_for_it(
    path: str, args: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentTypeMismatch, match=message) as caught:
        Call(path, *args, **options)
    assert (caught.value.hint or "").startswith("Leave ")
    other = [tensor(g.array) if g.type.__class__.__name__ == "TileType" else g for g in args[:1]]
    if path == "pl.rsqrt":
        Call(path, *other, True)
    else:
        Call(path, *[tile(g.array) for g in args], **options)


@pytest.mark.parametrize("home", ["pl", "pl.tensor", "pl.tile"])
def test_some_names_take_some_dtypes_only(home: str) -> None:
    made = tile if home == "pl.tile" else tensor
    for name in ("sin", "cos"):
        Call(f"{home}.{name}", made(X))
        with pytest.raises(DTypeMismatch, match=f"{name}: input is of pl.FP16; pl.FP32 is"):
            Call(f"{home}.{name}", made(X.astype(np.float16)))
    for dtype in (np.int16, np.uint16, np.bool_):
        Call(f"{home}.not_", made(X.astype(dtype)))
    with pytest.raises(DTypeMismatch, match=r"not_: input is of pl\.INT32"):
        Call(f"{home}.not_", made(X.astype(np.int32)))


def test_a_predicate_is_no_number() -> None:
    mask = np.ones((3, 4), np.bool_)
    for args in ((tile(mask), tile(X)), (tile(X), tile(mask))):
        with pytest.raises(DTypeMismatch, match="a predicate is no number") as caught:
            Call("pl.add", *args)
        assert "pl.sel" in (caught.value.hint or "")


def test_padding_keeps_the_sign_of_zero() -> None:
    for fill in (0.0, -0.0):
        call = Call("pl.fillpad", tile(X, valid=(1, 2)), fill)
        shown = call.ops[-1].as_python()
        assert ("-0.0" in shown) is (str(fill) == "-0.0"), shown
        assert np.signbit(call.run()[2, 3]) == np.signbit(fill)
