# ruff: noqa: RET504  (kernels are language, not Python)
"""Rows P-044 to P-052: dynamic dimensions stay symbolic, through helpers too."""

from __future__ import annotations

import ast
import re

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import errors, ir
from tilewright.ir.affine import maximum
from tilewright.ir.types import TensorType
from tilewright.jit._tensor_meta import meta_of, snapshot_of
from tilewright.jit.specializer import DynDim, TensorMeta

F32 = np.float32
M = pl.dynamic("M")
N = pl.dynamic("N")


@pl.jit
def inc(x: pl.Tensor[[M, 16], pl.FP32], out: pl.Out[pl.Tensor[[M, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(x.shape[0]):
            pl.store(pl.add(pl.load(x, [i, 0], [1, 16]), 1.0), [i, 0], out)
    return out


def test_p044_one_artifact_serves_every_extent() -> None:
    made = []
    for rows in (3, 40, 1000):
        x = np.random.default_rng(rows).random((rows, 16), F32)
        out = np.zeros_like(x)
        made.append(inc.compile(x, out))
        inc(x, out)
        np.testing.assert_array_equal(out, x + 1)
    assert made[0] is made[1] is made[2]


def test_an_output_of_dynamic_shape_is_allocated_when_an_input_has_its_extent() -> None:
    x = np.ones((5, 16), F32)
    np.testing.assert_array_equal(inc(x), x + 1)


def test_extents_that_share_a_dimension_must_agree() -> None:
    with pytest.raises(errors.ShapeMismatch, match=r"out.*dimension 0"):
        inc(np.ones((4, 16), F32), np.ones((5, 16), F32))


@pl.jit.incore
def double(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.range(x.shape[0]):
        pl.store(pl.mul(pl.load(x, [i, 0], [1, 4]), 2.0), [i, 0], out)
    return out


@pl.jit
def through_helper(x: pl.Tensor[[M, 4], pl.FP32], out: pl.Out[pl.Tensor[[M, 4], pl.FP32]]):
    out = double(x, out)
    return out


def test_p045_p050_bare_parameters_take_the_argument_and_its_run_time_extent() -> None:
    for rows in (1, 7):
        x = np.random.default_rng(rows).random((rows, 4), F32)
        out = np.zeros_like(x)
        through_helper(x, out)
        np.testing.assert_array_equal(out, x * 2)


@pl.jit
def reshaped(x: pl.Tensor[[M, 8], pl.FP32], out: pl.Out[pl.Tensor[[M, 8], pl.FP32]]):
    rows = x.shape[0]
    flat = pl.reshape(x, [rows * 2, 4])
    wide = pl.reshape(out, [rows * 2, 4])
    wide = double(flat, wide)
    out[:] = pl.reshape(wide, [rows, 8])
    return out


def test_p048_p051_a_reshape_by_an_expression_reaches_a_bare_helper() -> None:
    x = np.random.default_rng(2).random((300, 8), F32)
    out = np.zeros_like(x)
    reshaped(x, out)
    np.testing.assert_array_equal(out, x * 2)


def test_p051_a_reshape_that_loses_elements_is_refused() -> None:
    @pl.jit
    def k(x: pl.Tensor[[16, 8], pl.FP32], out: pl.Out[pl.Tensor[[16, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.reshape(pl.reshape(x, [x.shape[0] * 3, 4]), [16, 8])
        return out

    with pytest.raises(errors.TilewrightError):
        k.compile()


@pl.jit
def bound(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows = pl.dynamic("rows")
    x.bind_dynamic(0, rows)
    out.bind_dynamic(0, rows)
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(x.shape[0]):
            pl.store(pl.add(pl.load(x, [i, 0], [1, 16]), 1.0), [i, 0], out)
    return out


def test_bind_dynamic_makes_an_axis_of_a_bare_parameter_dynamic() -> None:
    made = []
    for rows in (2, 9):
        x = np.zeros((rows, 16), F32)
        out = np.zeros_like(x)
        made.append(bound.compile(x, out))
        bound(x, out)
        assert (out == 1).all()
    assert made[0] is made[1] and "bind_dynamic" not in bound.source(x, out)


@pl.jit
def bare(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(x, 1.0)
    return out


def test_bare_parameters_make_one_artifact_per_shape_and_dtype() -> None:
    for shape in ((2, 16), (4, 16)):
        x = np.zeros(shape, F32)
        out = np.zeros_like(x)
        bare(x, out)
        assert (out == 1).all()
    assert bare.compile(x, out) is bare.compile(x, out)
    assert bare.compile(np.zeros((2, 16), F32), np.zeros((2, 16), F32)) is not bare.compile(x, out)


def test_a_bare_parameter_without_an_argument_is_named() -> None:
    with pytest.raises(TypeError, match=r"'x' has an annotation with no shape \(pl.Tensor\)"):
        bare.compile()


def test_p046_a_scalar_is_a_number_a_dimension_an_expression_or_unknown() -> None:
    n = pl.dynamic("n")
    width = n * 8
    assert snapshot_of(16) == 16 and snapshot_of(None) is None
    assert snapshot_of(n + 0) == DynDim(n)
    assert snapshot_of(width) == (ast.Mult, (DynDim(n), 8))
    assert snapshot_of(n // 2 + M) == (ast.Add, ((ast.FloorDiv, (DynDim(n), 2)), DynDim(M)))
    assert snapshot_of(n % 4) == (ast.Mod, (DynDim(n), 4))
    assert snapshot_of(n * 2 - 3) == (ast.Sub, ((ast.Mult, (DynDim(n), 2)), 3))
    assert snapshot_of(maximum(n, M)) is None


def test_p047_aliases_keep_a_snapshot_and_arithmetic_makes_another() -> None:
    n, other = pl.dynamic("n"), pl.dynamic("n")
    width = n * 8
    before = snapshot_of(width)
    alias, n = width, other
    assert snapshot_of(alias) == before != snapshot_of(n * 8)
    assert snapshot_of(alias + 1) == (ast.Add, (before, 1))


def test_p052_placeholders_say_that_they_are() -> None:
    meta = meta_of(TensorType((M * 8, 4), pl.FP32), "t")
    assert meta is not None and isinstance(meta.shape[0], DynDim)
    again = meta_of(meta.type, "u")
    assert again == meta and again.shape[0].synthesized, "where it goes, it stays a placeholder"
    assert not DynDim(M).synthesized
    declared = TensorMeta((DynDim(M), 4), pl.FP32)
    assert str(declared.type) == "pl.Tensor[[M, 4], pl.FP32]"


@pl.jit
def unannotated(x, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(x, 1.0)
    return out


def test_a_parameter_without_annotation_takes_its_argument() -> None:
    x = np.zeros((4, 16), F32)
    out = np.zeros_like(x)
    unannotated(x, out)
    assert (out == 1).all()


class Described:
    """What stands for an array that does not exist yet."""

    shape = (4, 16)
    dtype = pl.FP32


def test_a_sample_needs_no_memory() -> None:
    x = np.zeros((4, 16), F32)
    assert bare.compile(Described(), Described()) is bare.compile(x, x.copy())


@pl.jit.inline
def doubled_tensor(t: pl.Tensor):
    return pl.mul(t, 2.0)


@pl.jit.incore
def stored_tensor(t: pl.Tensor, out: pl.Out[pl.Tensor]):
    return pl.store(pl.load(t, [0, 0], [8, 8]), [0, 0], out)


def test_p045_what_is_no_tensor_gives_a_bare_parameter_nothing() -> None:
    @pl.jit
    def expanded(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = doubled_tensor(2.0)
        return out

    @pl.jit
    def called(
        x: pl.Tensor[[8, 8], pl.FP32],
        out: pl.Out[pl.Tensor[[8, 8], pl.FP32]],
        n: pl.Scalar[pl.INDEX],
    ):
        out = stored_tensor(n, out)
        return out

    for kernel, given in ((expanded, "2.0"), (called, "pl.Scalar[pl.INDEX]")):
        says = f"missing inferred tensor metadata for parameter 't': pl.Tensor is given {given}"
        with pytest.raises(TypeError, match=re.escape(says)):
            kernel.compile()


@pl.program
class Halves:
    @pl.function
    def gated(self, x: pl.Tensor[[M, 2 * N + 2], pl.FP32]) -> pl.Tensor[[M, N], pl.FP32]:
        y = pl.mul(x[:, 0:N], x[:, N + 2 : 2 * N + 2])
        return y

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[M, 2 * N + 2], pl.FP32]) -> pl.Tensor[[M, N], pl.FP32]:
        y = self.gated(x)
        return y


@pl.jit
def gated(x: pl.Tensor[[M, 2 * N], pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(x[:, 0:N], x[:, N : 2 * N])
    return out


@pytest.mark.parametrize("execution", ["native", "interpret"])
def test_p044_a_dimension_is_known_from_arithmetic_of_it(execution: str) -> None:
    program = pl.parse_program(Halves.as_python())
    ir.assert_structural_equal(program, Halves)
    for compiled in (ir.compile(Halves, execution=execution), ir.compile(program)):
        for n in (3, 8):
            x = np.random.rand(5, 2 * n + 2).astype(F32)
            np.testing.assert_array_equal(compiled(x), x[:, :n] * x[:, n + 2 :])
    with pytest.raises(errors.ShapeMismatch, match=r"must be 2\*N \+ 2 for a whole N"):
        ir.compile(Halves)(np.zeros((5, 7), F32))


def test_p044_every_parameter_must_agree_on_it() -> None:
    x = np.random.rand(4, 12).astype(F32)
    np.testing.assert_array_equal(gated(x), x[:, :6] * x[:, 6:])
    with pytest.raises(errors.ShapeMismatch, match="N"):
        gated(x, np.zeros((4, 5), F32))
