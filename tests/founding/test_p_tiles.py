# ruff: noqa: F821, RET504  (kernels are language, not Python)
"""Rows P-053 to P-081: Tile parameters of inline helpers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.language as p
import tilewright.language as pl
from tilewright import errors
from tilewright.jit.decorator import JITFunction
from tilewright.language import Tile

F32 = np.float32
R, C, DT, SPACE = 8, 64, pl.FP32, pl.MemorySpace.Vec
N = 3  # hidden by constexpr parameters of that name


def caller(helper: Any, rows: int = 8, columns: int = 64, *args: Any, kind: Any = pl.FP32) -> Any:
    """An entry that gives one loaded tile to a helper, and stores what it returns."""

    @pl.jit
    def k(x: pl.Tensor[[64, 64], kind], out: pl.Out[pl.Tensor[[64, 64], kind]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(helper(pl.load(x, [0, 0], [rows, columns])), [0, 0], out)
        return out

    return k


def run(k: JITFunction) -> np.ndarray[Any, Any]:
    x = np.arange(64 * 64, dtype=F32).reshape(64, 64)
    out = np.zeros_like(x)
    k(x, out)
    return out


@pl.jit.inline(auto_scope=False)
def keep(t: pl.Tile[[8, 64], pl.FP32, pl.MemorySpace.Vec]) -> pl.Tile:
    return t


def test_p053_p080_a_typed_tile_goes_through_a_helper_uncopied() -> None:
    k = caller(keep)
    x = np.arange(64 * 64, dtype=F32).reshape(64, 64)
    np.testing.assert_array_equal(run(k)[:8], x[:8])
    body = k.compile().program["k"].as_python()
    assert body.count("pl.load") == 1 and "move" not in body


@pl.jit.inline(auto_scope=False)
def by_constants(t: pl.Tile[[R, C], DT, SPACE]) -> pl.Tile:
    return pl.add(t, 1.0)


def test_p054_constants_in_the_annotation_fold() -> None:
    k = caller(by_constants)
    assert "pl.Tile[[8, 64], pl.FP32" in k.compile().program.as_python()
    assert "pl.Tile[[8, 64], pl.FP32" in k.source()


@pl.jit.inline(auto_scope=False)
def by_parameter(t: pl.Tile[[N, 16], pl.FP32], N: pl.constexpr) -> pl.Tile:
    return pl.mul(t, float(N))


@pl.jit
def two_sizes(x: pl.Tensor[[64, 16], pl.FP32], out: pl.Out[pl.Tensor[[64, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(by_parameter(pl.load(x, [0, 0], [8, 16]), N=8), [0, 0], out)
        pl.store(by_parameter(pl.load(x, [8, 0], [16, 16]), 16), [8, 0], out)
    return out


def test_p055_p056_constexpr_parameters_win_and_make_helpers_of_their_own() -> None:
    x = np.ones((64, 16), F32)
    out = np.zeros_like(x)
    two_sizes(x, out)
    assert (out[:8] == 8).all() and (out[8:24] == 16).all()
    names = set(two_sizes.compile().program.functions)
    assert {"by_parameter", "by_parameter__2"} <= names


@p.jit.inline(auto_scope=False)
def by_alias(t: p.Tile[[8, 64], p.FP32, p.Mem.Vec], u: Tile[[8, 64], p.FP32]) -> Tile:
    return p.add(t, u)


def test_p057_aliases_of_the_language_render_as_pl() -> None:
    @pl.jit
    def k(x: pl.Tensor[[8, 64], pl.FP32], out: pl.Out[pl.Tensor[[8, 64], pl.FP32]]):
        with p.at(level=p.Level.CORE_GROUP):
            t = p.load(x, [0, 0], [8, 64])
            p.store(by_alias(t, t), [0, 0], out)
        return out

    text = k.source()
    assert "p." not in text.replace("pl.", "").replace("tilewright.", "") and "pl.Tile" in text
    x = np.ones((8, 64), F32)
    out = np.zeros_like(x)
    k(x, out)
    assert (out == 2).all()


def test_p058_a_variable_called_pl_is_just_a_variable() -> None:
    def factory() -> Any:
        pl = 5

        @p.jit
        def k(x: p.Tensor[[16, 16], p.FP32], out: p.Out[p.Tensor[[16, 16], p.FP32]]):
            with p.at(level=p.Level.CORE_GROUP):
                p.store(p.mul(p.load(x, [0, 0], [16, 16]), float(pl)), [0, 0], out)
            return out

        return k

    x = np.ones((16, 16), F32)
    out = np.zeros_like(x)
    factory()(x, out)
    assert (out == 5).all()


def test_p059_p060_locals_of_a_factory_count_in_annotations() -> None:
    def factory(width: int) -> Any:
        @pl.jit.inline(auto_scope=False)
        def h(t: pl.Tile[[K, width], pl.FP32], K: pl.constexpr) -> pl.Tile:
            return pl.mul(t, float(K))

        @pl.jit
        def k(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
            with pl.at(level=pl.Level.CORE_GROUP):
                pl.store(h(pl.load(x, [0, 0], [8, 16]), K=8), [0, 0], out)
            return out

        return k

    factory(16).compile()
    with pytest.raises(errors.ShapeMismatch, match="'t'"):
        factory(32).compile()


def test_p061_a_memory_space_may_be_a_constexpr() -> None:
    @pl.jit.inline(auto_scope=False)
    def h(t: pl.Tile[[8, 16], pl.FP32, WHERE], WHERE: pl.constexpr) -> pl.Tile:
        return t

    def entry(where: Any) -> Any:
        @pl.jit
        def k(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
            with pl.at(level=pl.Level.CORE_GROUP):
                pl.store(h(pl.load(x, [0, 0], [8, 16]), where), [0, 0], out)
            return out

        return k

    entry(pl.Mem.Vec).compile()
    with pytest.raises(errors.ParserTypeError, match="memory space"):
        entry(pl.Mem.Mat).compile()
    with pytest.raises(errors.ParserTypeError, match="'t'"):  # P-062
        entry(5).compile()


def test_p063_a_mixture_with_an_uncaptured_local_names_the_way_out() -> None:
    def factory(width: int) -> Any:
        @pl.jit.inline(auto_scope=False)
        def h(t: pl.Tile[[8, K + width], pl.FP32], K: pl.constexpr) -> pl.Tile:
            return t

        return h

    h = factory(8)

    @pl.jit
    def k(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(h(pl.load(x, [0, 0], [8, 16]), K=8), [0, 0], out)
        return out

    with pytest.raises(errors.ParserTypeError, match="constexpr"):
        k.compile()


M = pl.dynamic("M")


@pl.jit.inline(auto_scope=False)
def twice_m(t: pl.Tile[[2 * M, 16], pl.FP32]) -> pl.Tile:
    return t


def test_p064_symbols_of_tile_types_alone_are_declared() -> None:
    text = caller(twice_m, 16, 16).source()
    assert 'M = pl.dynamic("M")' in text


def test_p065_a_symbol_may_have_a_parameters_name() -> None:
    x = pl.dynamic("t")

    @pl.jit.inline(auto_scope=False)
    def h(t: pl.Tile[[x, 16], pl.FP32]) -> pl.Tile:
        return t

    assert run(caller(h, 8, 16))[:8, :16].any()


def test_p066_a_free_symbol_and_a_scalar_of_one_label_are_ambiguous() -> None:
    free = pl.dynamic("n")

    @pl.jit.inline(auto_scope=False)
    def h(t: pl.Tile[[free, 16], pl.FP32], n: pl.Scalar[pl.INDEX]) -> pl.Tile:
        return t

    @pl.jit
    def k(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(h(pl.load(x, [0, 0], [8, 16]), 8), [0, 0], out)
        return out

    with pytest.raises(errors.ParserError, match=r"pl\.dynamic") as caught:
        k.compile()
    assert "constexpr" not in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "columns", "kind", "text"),
    [(8, 32, pl.FP32, "shape dimension 1 = 64"), (8, 64, pl.FP16, r"dtype pl\.FP32")],
)
def test_p067_shape_and_dtype_are_compared(rows: int, columns: int, kind: Any, text: str) -> None:
    with pytest.raises(errors.ArgumentError, match=text) as caught:
        caller(keep, rows, columns, kind=kind).compile()
    assert caught.value.span is not None and caught.value.span.file == __file__


def test_p067_memory_spaces_are_compared() -> None:
    @pl.jit
    def k(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [8, 64], target_memory=pl.Mem.Mat)
            pl.store(keep(t), [0, 0], out)
        return out

    with pytest.raises(errors.ParserTypeError, match="memory space"):
        k.compile()


def test_p068_generic_extents_are_solved() -> None:
    caller(twice_m, 16, 16).compile()
    with pytest.raises(errors.ShapeMismatch):
        caller(twice_m, 15, 16).compile()


ROWS = pl.dynamic("ROWS")


@pl.jit.inline(auto_scope=False)
def plus_rows(t: pl.Tile[[2 * ROWS, 16], pl.FP32]) -> pl.Tile:
    u = pl.full([ROWS + ROWS, 16], dtype=pl.FP32, value=0.0)
    for _ in pl.range(ROWS):
        u = pl.add(u, 1.0)
    return pl.add(t, u)


@pl.jit.inline(auto_scope=False)
def plus_common(pair: pl.Tuple[pl.Tile[[ROWS, 16], pl.FP32], pl.Tile[[ROWS, 16], pl.FP32]]):
    return pl.add(pair[0], pl.cast(ROWS, pl.FP32))


@pl.jit.inline(auto_scope=False)
def plus_either(a: pl.Tile[[ROWS, 16], pl.FP32], b: pl.Tile[[ROWS, 16], pl.FP32]):
    return pl.add(a, pl.cast(ROWS, pl.FP32))


def test_p068_a_helper_reads_the_dimensions_of_its_own_parameters() -> None:
    @pl.jit
    def k(x: pl.Tensor[[ROWS, 16], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(plus_rows(pl.load(x, [0, 0], [8, 16])), [0, 0], out)
            a, b = pl.load(x, [8, 0], [6, 16]), pl.load(x, [0, 0], [6, 16])
            pl.store(plus_common((a, b)), [8, 0], out)
            pl.store(pl.full([1, 16], dtype=pl.FP32, value=pl.cast(ROWS, pl.FP32)), [14, 0], out)
        return out

    out = np.zeros((20, 16), F32)
    k(np.zeros_like(out), out)
    assert [*out[[0, 8, 14], 0]] == [4, 6, 20]
    assert pl.parse_program(k.compile().program.as_python()) is not None


def test_p068_p071_a_dimension_that_tiles_bind_differently_is_ambiguous_in_the_body() -> None:
    @pl.jit
    def k(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            a, b = pl.load(x, [8, 0], [6, 16]), pl.load(x, [0, 0], [4, 16])
            pl.store(plus_either(a, b), [8, 0], out)
        return out

    with pytest.raises(errors.InvalidOperationError, match="'ROWS' may be another one in each"):
        k.compile()


def test_p068_no_dimension_is_negative() -> None:
    @pl.jit.inline(auto_scope=False)
    def h(t: pl.Tile[[ROWS + 20, 16], pl.FP32]) -> pl.Tile:
        return t

    caller(h, 20, 16).compile()
    with pytest.raises(errors.ShapeMismatch, match=r"dimension 0 = ROWS \+ 20, got 16"):
        caller(h, 16, 16).compile()


def test_p069_p076_valid_extents_do_not_constrain_physical_ones() -> None:
    @pl.jit
    def k(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [8, 64], valid_shape=[3, 64])
            pl.store(keep(t), [0, 0], out)
        return out

    out = run(k)
    assert out[:3].any() and not out[3:].any()


@pl.jit.inline(auto_scope=False)
def scalar_and_symbol(
    t: pl.Tile[[n + M, 16], pl.FP32], n: pl.Scalar[pl.INDEX], u: pl.Tile[[M, 16], pl.FP32]
) -> pl.Tile:
    return t


def with_scalar(n: int, rows: int) -> Any:
    @pl.jit
    def k(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t, u = pl.load(x, [0, 0], [16, 16]), pl.load(x, [0, 0], [rows, 16])
            pl.store(scalar_and_symbol(t, n, u), [0, 0], out)
        return out

    return k


def test_p070_p073_known_scalars_come_first_and_symbols_are_shared() -> None:
    with_scalar(8, 8).compile()
    with pytest.raises(errors.ShapeMismatch):
        with_scalar(8, 4).compile()


def test_p071_p072_separate_tiles_bind_separately_and_keep_their_types() -> None:
    K1, K2 = pl.dynamic("K1"), pl.dynamic("K2")

    @pl.jit.inline(auto_scope=False)
    def second(a: pl.Tile[[K1, 16], pl.FP32], b: pl.Tile[[K2, 16], pl.FP32]) -> pl.Tile:
        tmp = b
        return tmp

    @pl.jit
    def k(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            got = second(pl.load(x, [0, 0], [8, 16]), pl.load(x, [0, 0], [4, 16]))
            pl.static_assert(got.shape[0] == 4)
            pl.store(got, [0, 0], out)
        return out

    assert run(k)[:4, :16].any() and not run(k)[4:].any()


SAME = pl.dynamic("SAME")


@pl.jit.inline(auto_scope=False)
def of_two(a: pl.Tile[[SAME, 16], pl.FP32], b: pl.Tile[[SAME, 16], pl.FP32]):
    tmp = b
    return tmp


@pl.jit.inline(auto_scope=False)
def of_two_and_tensor(
    a: pl.Tile[[SAME, 16], pl.FP32],
    b: pl.Tile[[SAME, 16], pl.FP32],
    x: pl.Tensor[[SAME, 64], pl.FP32],
):
    return b


@pl.jit.inline(auto_scope=False)
def of_two_and_scalar(
    a: pl.Tile[[n, 16], pl.FP32], b: pl.Tile[[n, 16], pl.FP32], n: pl.Scalar[pl.INDEX]
):
    return b


@pytest.mark.parametrize("rows", [4, 8])
def test_p071_one_symbol_is_bound_by_each_tile_on_its_own(rows: int) -> None:
    @pl.jit
    def k(x: pl.Tensor[[8, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            got = of_two(pl.load(x, [0, 0], [8, 16]), pl.load(x, [0, 0], [rows, 16]))
            pl.static_assert(got.shape[0] == rows)
            pl.store(got, [0, 0], out)
        return out

    x, out = np.random.rand(8, 64).astype(np.float32), np.zeros((64, 64), np.float32)
    k(x, out)
    np.testing.assert_array_equal(out[:rows, :16], x[:rows, :16])
    assert not out[rows:].any()


def test_p073_what_tensors_and_scalars_mention_is_shared_by_tiles_too() -> None:
    @pl.jit
    def tensor(x: pl.Tensor[[8, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            got = of_two_and_tensor(pl.load(x, [0, 0], [8, 16]), pl.load(x, [0, 0], [4, 16]), x)
            pl.store(got, [0, 0], out)
        return out

    @pl.jit
    def scalar(
        x: pl.Tensor[[8, 64], pl.FP32],
        out: pl.Out[pl.Tensor[[64, 64], pl.FP32]],
        rows: pl.Scalar[pl.INDEX],
    ):
        with pl.at(level=pl.Level.CORE_GROUP):
            got = of_two_and_scalar(pl.load(x, [0, 0], [8, 16]), pl.load(x, [0, 0], [4, 16]), rows)
            pl.store(got, [0, 0], out)
        return out

    for kernel in (tensor, scalar):
        with pytest.raises(errors.ShapeMismatch, match="parameter 'b': expects shape dimension 0"):
            kernel.compile()


def with_offset(given: int) -> Any:
    @pl.jit.inline(auto_scope=False)
    def helper(
        t: pl.Tile[[8, 64], pl.FP32, pl.Mem.Vec, pl.TileView(start_offset=n)],
        n: pl.Scalar[pl.INDEX],
    ):
        return t

    @pl.jit
    def k(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(helper(pl.load(x, [0, 0], [8, 64]), given), [0, 0], out)
        return out

    return k


def test_p075_p076_an_omitted_offset_is_zero() -> None:
    assert run(with_offset(0))[:8].any()
    with pytest.raises(errors.ShapeMismatch, match="expects start offset 0 = 1, got 0"):
        with_offset(1).compile()


@pl.jit.inline(auto_scope=False)
def view_of_n(
    t: pl.Tile[[8, 64], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[n, 64])],
    n: pl.Scalar[pl.INDEX],
) -> pl.Tile:
    return t


@pl.jit.inline(auto_scope=False)
def view_of_n_less_one(
    t: pl.Tile[[8, 64], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[n - 1, 64])],
    n: pl.Scalar[pl.INDEX],
) -> pl.Tile:
    return t


def with_view(helper: Any, n: int, valid: int) -> Any:
    @pl.jit
    def k(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [8, 64], valid_shape=[valid, 64])
            pl.store(helper(t, n), [0, 0], out)
        return out

    return k


def test_p074_p075_scalars_constrain_views() -> None:
    with_view(view_of_n, 3, 3).compile()
    with_view(view_of_n_less_one, 4, 3).compile()
    with_view(view_of_n, 8, 8).compile()
    for helper, n, valid in ((view_of_n, 8, 3), (view_of_n_less_one, 3, 3)):
        with pytest.raises(errors.ShapeMismatch, match="valid extent"):
            with_view(helper, n, valid).compile()


def test_p077_a_stride_contract_of_scalars_needs_explicit_strides() -> None:
    @pl.jit.inline(auto_scope=False)
    def h(
        t: pl.Tile[[8, 64], pl.FP32, pl.Mem.Vec, pl.TileView(stride=[n, 1])],
        n: pl.Scalar[pl.INDEX],
    ) -> pl.Tile:
        return t

    with pytest.raises(errors.StrideMismatch, match="stride"):
        with_view(h, 64, 8).compile()


def test_p078_tuples_of_tiles_are_compared_item_by_item() -> None:
    @pl.jit.inline(auto_scope=False)
    def h(pair: pl.Tuple[pl.Tile[[8, 64], pl.FP32], pl.Tile[[8, 32], pl.FP32]]) -> pl.Tile:
        return pair[0]

    def entry(columns: int) -> Any:
        @pl.jit
        def k(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
            with pl.at(level=pl.Level.CORE_GROUP):
                a, b = pl.load(x, [0, 0], [8, 64]), pl.load(x, [0, 0], [8, columns])
                pl.store(h((a, b)), [0, 0], out)
            return out

        return k

    entry(32).compile()
    with pytest.raises(errors.ShapeMismatch, match="pair"):
        entry(64).compile()


@pytest.mark.parametrize("name", ["pl", "pld", "class", "1x", "a b", "ﬁ"])
def test_p079_symbols_have_assignable_names(name: str) -> None:
    with pytest.raises(errors.ParserError):
        pl.dynamic(name)


def test_p081_entries_reject_tiles() -> None:
    @pl.jit.incore
    def core(t: pl.Tile[[8, 64], pl.FP32, pl.MemorySpace.Vec]):
        return t

    with pytest.raises(errors.ParserTypeError, match=r"'t' is a pl\.Tile"):
        core.compile()
