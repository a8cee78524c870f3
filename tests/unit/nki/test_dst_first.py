"""Instructions that write to the destination given first, and what ranks do together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.collectives as ncoll
import tilewright.nki.dst_first as new
import tilewright.nki.language as nl
from tilewright.errors import TilewrightError

RNG = np.random.default_rng(4)
X = RNG.standard_normal((64, 32)).astype(np.float32)
Y = RNG.standard_normal((64, 32)).astype(np.float32)
COLUMN = Y[:, :1]
P, F = np.mgrid[0:64, 0:32]


def run(
    body: Callable[..., Any], shape: tuple[int, ...], *arrays: Any, dtype: Any = np.float32
) -> Any:
    """What a kernel gives whose body fills a tile of `shape`."""

    @nki.jit(platform_target="trn2")
    def kernel(*tensors):
        out = nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)
        dst = nl.ndarray(shape, dtype=dtype)
        body(dst, *[nl.load(tensor) for tensor in tensors])
        nl.store(out, dst)
        return out

    return kernel(*arrays)


def normal(x: Any) -> Any:
    return (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any]] = {
    "tensor_copy": (lambda d, x: new.tensor_copy(d, x, name="a"), (X,), X),
    "memset": (lambda d, x: new.memset(d, 3.5), (X,), np.full_like(X, 3.5)),
    "tensor_tensor": (lambda d, x, y: new.tensor_tensor(d, x, y, nl.add), (X, Y), X + Y),
    "tensor_scalar": (
        lambda d, x, c: new.tensor_scalar(
            dst=d, data=x, op0=nl.subtract, operand0=c, op1=np.multiply, operand1=2.0
        ),
        (X, COLUMN),
        (X - COLUMN) * 2,
    ),
    "scalar_tensor_tensor": (
        lambda d, x, y: new.scalar_tensor_tensor(d, x, nl.multiply, 2.0, nl.add, y),
        (X, Y),
        X * 2 + Y,
    ),
    "activation": (lambda d, x: new.activation(d, nl.exp, x, scale=0.5), (X,), np.exp(X * 0.5)),
    "reciprocal": (lambda d, x: new.reciprocal(d, x), (X,), 1 / X),
    "tensor_reduce": (
        lambda d, x: new.tensor_reduce(d[:, 0:1], nl.max, x, axis=1), (X,), X.max(1, keepdims=True),
    ),
    "max8": (lambda d, x: new.max8(d[:, 0:8], x), (X,), -np.sort(-X, axis=1)[:, :8]),
    "tensor_tensor_scan": (
        lambda d, x, y: new.tensor_tensor_scan(d, y * 0.0 + 1.0, x, 0.0, nl.multiply, nl.add),
        (X, Y),
        np.cumsum(X, axis=1, dtype=np.float32),
    ),
    "select_reduce": (
        lambda d, x, y: new.select_reduce(d, nl.greater(x, 0.0, dtype=nl.uint8), x, -1.0),
        (X, Y),
        np.where(X > 0, X, -1),
    ),
    "iota": (
        lambda d, x: new.iota(d, [[3, 32]], offset=7, channel_multiplier=100), (X,),
        (100 * P + 3 * F + 7).astype(np.float32),
    ),
    "affine_select": (
        lambda d, x: new.affine_select(
            d, [[-1, 32]], 1, x, -5.0, cmp_op=nl.greater_equal, offset=-4
        ),
        (X,),
        np.where(P - F - 4 >= 0, X, -5),
    ),
    "dma_copy": (lambda d, x: new.dma_copy(d, x), (X,), X),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_instruction_writes_what_it_gives_elsewhere(name: str) -> None:
    body, arrays, want = CASES[name]
    got = run(body, (64, 32), *arrays)[:, : want.shape[1]]
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)


def test_products_accumulate_unless_told_to_overwrite() -> None:
    def body(dst, x, y):
        psum = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.psum)
        for _ in nl.affine_range(2):
            new.nc_matmul(psum, x, y)
        new.nc_matmul(psum, x, y, accumulate=True)
        other = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.psum)
        new.nc_matmul(other, y, y)
        new.nc_matmul(other, x, x, accumulate=False)
        new.tensor_tensor(dst, psum, nl.copy(other), nl.add)

    np.testing.assert_allclose(
        run(body, (32, 32), X, Y), 3 * X.T @ Y + X.T @ X, rtol=1e-4, atol=1e-4
    )


def test_the_result_is_computed_in_the_element_type_of_the_destination() -> None:
    def body(dst, x):
        new.activation(dst, nl.copy, x * 100.0)

    got = run(body, (64, 32), X, dtype=np.int32)
    assert np.array_equal(got, np.rint(X * np.float32(100)).astype(np.int32))


def test_a_destination_of_another_size_is_refused_at_the_authors_line() -> None:
    with pytest.raises(TilewrightError, match="tensor_copy") as caught:
        run(lambda dst, x: new.tensor_copy(dst, x[:, 0:1]), (64, 32), X)
    assert caught.value.code == "err_param_shape_mismatch"
    assert caught.value.span is not None and caught.value.span.file == __file__
    with pytest.raises(TypeError, match="missing a required argument: 'op'"):
        run(lambda dst, x: new.tensor_tensor(dst, x, x), (64, 32), X)


GROUP = ((0,),)
ALONE: dict[str, Callable[[Any, Any], Any]] = {
    "all_reduce": lambda s, d: ncoll.all_reduce([s], [d], GROUP, nl.add),
    "all_gather": lambda s, d: ncoll.all_gather([s], [d], GROUP, 0),
    "reduce_scatter": lambda s, d: ncoll.reduce_scatter([s], [d], GROUP, 0, np.maximum),
    "all_to_all": lambda s, d: ncoll.all_to_all([s], [d], GROUP, 1),
    "collective_permute": lambda s, d: ncoll.collective_permute([s], [d], [(0, 0)]),
    "collective_permute_implicit": lambda s, d: ncoll.collective_permute_implicit(
        [[s]], [[d]], GROUP
    ),
}


@pytest.mark.parametrize("name", ALONE)
def test_a_rank_that_is_alone_keeps_what_it_has(name: str) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        ALONE[name](x, out)
        assert ncoll.rank_id() == 0
        return out

    assert np.array_equal(kernel(X), X)


def test_a_ring_of_one_rank_combines_its_own_sources() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x) * 2.0
        ncoll.collective_permute_implicit_reduce([[x]], [[tile]], [[out]], GROUP, nl.add)
        rank = ncoll.collective_permute_implicit_current_processing_rank_id
        assert rank(0, GROUP) == rank(iteration_id=3, replica_group=GROUP, name="ring") == 0
        return out

    assert np.array_equal(kernel(X), 3 * X)


@pytest.mark.parametrize("collective", [ncoll.all_gather_v, ncoll.all_to_all_v])
def test_collectives_of_unequal_parts_say_what_is_not_known(collective: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        collective([x], [out], GROUP, metadata_tensor=x)
        return out

    with pytest.raises(NotImplementedError, match=f"{collective.__name__}: the layout of metad"):
        kernel(X)


def test_ranks_that_are_not_there_are_refused() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        ncoll.all_reduce([x], [out], ((0, 1),), nl.add)
        return out

    with pytest.raises(NotImplementedError, match=r"rank 0 alone.*\[0, 1\]"):
        kernel(X)
