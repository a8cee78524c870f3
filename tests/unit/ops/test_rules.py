"""What type rules share: broadcasting, valid regions, windows; messages name what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.dtypes import FP16, FP32, INDEX
from tilewright.errors import RankMismatch, ShapeMismatch
from tilewright.ir.affine import Symbol, as_expr
from tilewright.ir.builder import Builder
from tilewright.ir.core import Value
from tilewright.ir.enums import MemorySpace
from tilewright.ir.types import ScalarType, TensorType, TileType, Type
from tilewright.ops import elementwise, memory
from tilewright.ops.regions import clip, region, require_inside
from tilewright.ops.rules import (
    ByTypes,
    broadcast_shapes,
    computed_type,
    normal_axis,
    placed_type,
    tile_type,
    with_valid,
)


def tile(*shape: Any, valid: tuple[Any, ...] | None = None) -> TileType:
    return tile_type(shape, FP32, MemorySpace.Vec, valid)


def test_unit_and_missing_axes_broadcast() -> None:
    assert broadcast_shapes("add", [tile(4, 1), tile(8), tile(1, 8)]) == (4, 8)


def test_extents_that_may_differ_do_not_broadcast() -> None:
    n, m = Symbol("n", 1), Symbol("m", 1)
    with pytest.raises(ShapeMismatch, match="axis -1: n and m"):
        broadcast_shapes("add", [tile(as_expr(n)), tile(as_expr(m))])


def test_a_view_that_says_nothing_is_left_out() -> None:
    assert tile(4, 8, valid=(4, 8)) == tile(4, 8)
    assert with_valid(tile(4, 8, valid=(3, 8)), (4, 8)) == tile(4, 8)


def test_results_are_tiles_when_an_operand_is_one() -> None:
    tensor = TensorType((4,), FP32)
    assert isinstance(computed_type([tensor, tile(4)], (4,), FP32), TileType)
    assert isinstance(computed_type([tensor], (4,), FP32), TensorType)


def test_what_is_computed_from_an_accumulator_lives_beside_it() -> None:
    acc = tile_type((4,), FP32, MemorySpace.Acc)
    psum = tile_type((4,), FP32, MemorySpace.Psum)
    assert computed_type([acc], (4,), FP32) == tile_type((4,), FP32, MemorySpace.Vec)
    assert computed_type([psum], (4,), FP32) == tile_type((4,), FP32, MemorySpace.Sbuf)


def test_tiles_have_a_fixed_size() -> None:
    with pytest.raises(ShapeMismatch, match="not static"):
        placed_type((as_expr(Symbol("n")),), FP32, MemorySpace.Vec)
    assert isinstance(placed_type((as_expr(Symbol("n")),), FP32, MemorySpace.DDR), TensorType)


def test_axes_count_from_either_end() -> None:
    assert normal_axis("sum", -1, 3) == 2
    with pytest.raises(RankMismatch, match="axis 3"):
        normal_axis("sum", 3, 3)


def test_a_window_is_refused_only_where_it_certainly_leaves() -> None:
    n, i = Symbol("n", 1), Symbol("i", 0)
    require_inside("load", (as_expr(n),), (as_expr(i),), (64,))
    require_inside("load", (64,), (as_expr(i),), (64,))
    with pytest.raises(ShapeMismatch, match="negative"):
        require_inside("load", (64,), (-1,), (8,))
    with pytest.raises(ShapeMismatch, match="leave axis 0"):
        require_inside("load", (64,), (as_expr(i) + 60,), (8,))


def test_clipping_keeps_between_nothing_and_everything() -> None:
    assert (clip(8, 5), clip(8, 9), clip(8, -3)) == (5, 8, 0)


def test_windows_of_arrays_are_checked_when_they_run() -> None:
    assert region((1, 2), (3, 4), (8, 8)) == (slice(1, 4), slice(2, 6), ...)
    with pytest.raises(IndexError, match="elements 6 to 9 of axis 0"):
        region((6,), (4,), (8,))


def test_valid_extents_follow_the_source_through_a_load() -> None:
    with Builder():
        rows = Value(ScalarType(INDEX), "rows")
        x = Value(TensorType((128, 64), FP32), "x")
        loaded = memory.load(x, [0, 0], [rows, 64], shapes=(64, 64))
        assert isinstance(loaded.type, TileType)
        assert loaded.type.valid_shape == (as_expr(rows.symbol), 64)
        doubled = elementwise.add(loaded, loaded)
        assert doubled.type == loaded.type
        other = memory.load(x, [64, 0], shapes=(64, 64))
        with pytest.raises(ShapeMismatch, match="different regions"):
            elementwise.add(loaded, other)


def test_a_rule_by_types_is_applied_once_for_each() -> None:
    applied: list[Type] = []

    def rule(x: Value) -> Type:
        applied.append(x.type)
        return x.type

    known = ByTypes(rule)
    first, second = TileType((4, 8), FP32), TileType((4, 8), FP16)
    assert [known(Value(type_)) for type_ in (first, second, first)] == [first, second, first]
    assert applied == [first, second]


def test_what_a_rule_refuses_it_refuses_again() -> None:
    def rule(x: Value) -> Type:
        raise ShapeMismatch("no")

    known = ByTypes(rule)
    for _ in range(2):
        with pytest.raises(ShapeMismatch):
            known(Value(TileType((4, 8), FP32)))


def test_a_rule_by_types_forgets_before_it_remembers_too_much() -> None:
    def rule(x: Value) -> Type:
        return x.type

    known = ByTypes(rule)
    for extent in range(3 * ByTypes.MOST):
        type_ = TileType((extent + 1, 8), FP32)
        assert known(Value(type_)) is type_
    assert len(known.known) <= ByTypes.MOST
