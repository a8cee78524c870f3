"""Extents are those of the arguments, however empty or strided these are, and outlive writes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright.errors import IndexOutOfBounds
from tilewright.jit.driver import compile_program
from tilewright.runtime import RunConfig

M, N = pl.dynamic("M"), pl.dynamic("N")
F32 = np.float32
CONFIGS = {
    "native": None,
    "interpreted": RunConfig(execution="interpret"),
    "checked": RunConfig(execution="interpret", checked=True),
}


@pl.jit
def turned(
    x: pl.Tensor[[M, N], pl.FP32],
    out: pl.Out[pl.Tensor[[N, M], pl.FP32]],
    seen: pl.InOut[pl.Tensor[[2], pl.INT64]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.transpose(x, 0, 1)
        pl.write(seen, [0], pl.dim(x, 0))
        pl.write(seen, [1], N)
    return out


@pl.jit
def summed(x: pl.Tensor[[M, N], pl.FP32], out: pl.Out[pl.Tensor[[M, 1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_sum(x)
    return out


@pl.jit
def multiplied(
    x: pl.Tensor[[M, N], pl.FP32],
    y: pl.Tensor[[N, 8], pl.FP32],
    out: pl.Out[pl.Tensor[[M, 8], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(x, y)
    return out


@pl.jit
def counted(
    out: pl.Out[pl.Tensor[[M, 8], pl.FP32]],
    seen: pl.InOut[pl.Tensor[[2], pl.INT64]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.full([M, 8], dtype=pl.FP32, value=1.0)
        pl.write(seen, [0], M)
        out[:] = pl.full([M, 8], dtype=pl.FP32, value=2.0)
        pl.write(seen, [1], pl.dim(out, 0))
    return out


def arrays(m: int, n: int) -> Iterator[Any]:
    """Arrays of ones with the same shape and different strides."""
    yield np.ones((m, n), F32)
    yield np.ones((n, m), F32).T
    yield np.ones((m + 3, 2 * n + 4), F32)[:m, :n]
    yield np.ones((2 * m, n), F32)[::2]
    yield np.ones((m, n), F32)[::-1, ::-1]
    if m * n == 0:
        yield np.lib.stride_tricks.as_strided(np.ones(1, F32), (m, n), (1000, 12))


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_extents_are_those_of_the_shape_not_of_the_strides(config: RunConfig | None) -> None:
    for m, n in itertools.product((0, 1, 3), (0, 1, 70)):
        for x in arrays(m, n):
            seen = np.full(2, -1)
            assert turned(x, np.zeros((n, m), F32), seen, config=config).shape == (n, m)
            assert seen.tolist() == [m, n]
            assert (summed(x, config=config) == n).all()
            assert (multiplied(x, np.ones((n, 8), F32), config=config) == n).all()


@pl.jit
def part(
    x: pl.Tensor[[M, 8], pl.FP32],
    out: pl.InOut[pl.Tensor[[M, 8], pl.FP32]],
    rows: pl.Scalar[pl.INT64],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.load(x, [0, 0], [4, 8], valid_shape=[rows, 8]), [0, 0], out)
    return out


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("rows", [5, 10, 11, 2**40])
def test_a_tile_never_holds_more_valid_elements_than_it_has(
    rows: int, config: RunConfig | None
) -> None:
    out = np.zeros((10, 8), F32)
    with pytest.raises(IndexOutOfBounds):
        part(np.ones((10, 8), F32), out, rows, config=config)
    assert not np.nan_to_num(out).any()


@pl.jit
def far(
    x: pl.Tensor[[M, N], pl.FP32],
    out: pl.Out[pl.Tensor[[1], pl.FP32]],
    row: pl.Scalar[pl.INT64],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tensor([M * 1099511627776, N * 1048576], dtype=pl.FP32)
        for i in pl.range(2):
            t = pl.store(pl.load(x, [0, 0], [1, 4]), [i * row, 0], t)
        pl.write(out, [0], pl.read(t, [row, 1]))
    return out


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("extent", [4, 8, 64])
def test_scratch_of_2_to_the_64_bytes_is_not_to_be_had(
    extent: int, config: RunConfig | None
) -> None:
    """The product of the extents is 0 modulo 2**64."""
    with pytest.raises(MemoryError):
        far(np.ones((extent, extent), F32), np.zeros(1, F32), 5, config=config)


@pl.jit
def loaded(
    x: pl.Tensor[[10, 8], pl.FP32],
    rows: pl.Scalar[pl.INT64],
    out: pl.Out[pl.Tensor[[4, 8], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 8], valid_shape=[rows, 8])
        pl.store(pl.fillpad(t), [0, 0], out)
    return out


@pl.jit
def narrowed(
    x: pl.Tensor[[10, 8], pl.FP32],
    rows: pl.Scalar[pl.INT64],
    out: pl.Out[pl.Tensor[[4, 8], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.set_validshape(pl.load(x, [0, 0], [4, 8]), rows, 8)
        pl.store(pl.fillpad(t), [0, 0], out)
    return out


@pl.jit
def sliced(
    x: pl.Tensor[[10, 8], pl.FP32],
    rows: pl.Scalar[pl.INT64],
    out: pl.Out[pl.Tensor[[4, 8], pl.FP32]],
):
    out[:] = pl.tensor.fillpad(pl.slice(x, [4, 8], [0, 0], valid_shape=[rows, 8]))
    return out


@pl.jit
def assembled(
    x: pl.Tensor[[10, 8], pl.FP32],
    rows: pl.Scalar[pl.INT64],
    out: pl.Out[pl.Tensor[[4, 8], pl.FP32]],
):
    part = pl.slice(x, [4, 8], [0, 0], valid_shape=[rows, 8])
    out[:] = pl.assemble(pl.full([4, 8], dtype=pl.FP32, value=0.0), part, [0, 0])
    return out


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("kernel", [loaded, narrowed, sliced, assembled], ids=lambda k: k.name)
def test_no_more_is_valid_than_there_is(kernel: Any, config: RunConfig | None) -> None:
    x = np.ones((10, 8), F32)
    for rows in (-1, 0, 3, 4):
        assert kernel(x, rows, np.empty((4, 8), F32), config=config).sum() == 8 * max(0, rows)
    with pytest.raises(IndexOutOfBounds):
        kernel(x, 5, np.empty((4, 8), F32), config=config)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_an_extent_may_be_asked_for_after_its_tensor_is_written(config: RunConfig | None) -> None:
    out, seen = np.zeros((5, 8), F32), np.zeros(2, np.int64)
    assert (counted(out, seen, config=config) == 2).all()
    assert seen.tolist() == [5, 5]


SPREAD = pl.TensorView(stride=[16, 1], layout=pl.TensorLayout.ND)


@pl.program
class Spread:
    @pl.function
    def main(
        self,
        x: pl.Tensor[[4, 8], pl.FP32, SPREAD],
        out: pl.Out[pl.Tensor[[4, 8], pl.FP32, SPREAD]],
    ):
        out = pl.store(pl.add(pl.load(x, [0, 0], [4, 8]), 1.0), [0, 0], out)


@pytest.mark.parametrize("execution", ["native", "interpret", "checked"])
def test_elements_are_where_the_argument_has_them_whatever_strides_are_declared(
    execution: str,
) -> None:
    made = compile_program(Spread, execution=execution)
    wide = np.arange(64, dtype=F32).reshape(4, 16)
    for x in (wide[:, :8].copy(), wide[:, :8]):
        memory = np.zeros((4, 24), F32)
        for out in (memory[:, 8:16], np.zeros((4, 8), F32)):
            made(x, out)
            np.testing.assert_array_equal(out, x + F32(1))
        assert not memory[:, :8].any() and not memory[:, 16:].any()
