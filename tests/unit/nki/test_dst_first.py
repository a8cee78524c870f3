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


command = new.reduce_cmd
REDUCTIONS = {"add": np.sum, "multiply": np.prod, "maximum": np.max, "minimum": np.min}
STARTS: dict[str, tuple[Any, Any]] = {
    "number": (lambda c: 0.25, 0.25),
    "one for each partition": (lambda c: c, COLUMN[:, 0]),
}


def reduced(dst: Any, tile: Any, op: Any, result: Any = None, **options: Any) -> None:
    new.tensor_scalar_reduce(dst, tile, nl.multiply, 0.5, op, result, **options)


@pytest.mark.parametrize("op", REDUCTIONS)
def test_a_reduction_starts_over_or_goes_on_by_command(op: str) -> None:
    commands = (None, command.reduce, command.idle, command.reset, command.reduce)

    def body(dst, x, y):
        part = nl.ndarray((64, 32), nl.float32)
        for k, (tile, each) in enumerate(zip((x, y, x, x, y), commands)):
            given = {} if each is None else {"reduce_cmd": each}
            reduced(part, tile, op, dst[:, k : k + 1], **given)
        reduced(part, x, op)
        reduced(part, y, op, dst[:, 5:6], reduce_cmd=command.idle)

    meant = REDUCTIONS[op]
    first, second = meant(X / 2, 1), meant(Y / 2, 1)
    both = meant(np.stack([first, second]), 0)
    neutral = {"add": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}[op]
    want = [first, both, both, np.full(64, neutral), second, first]
    np.testing.assert_allclose(run(body, (64, 6), X, Y), np.stack(want, 1), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("op", REDUCTIONS)
def test_a_reduction_begins_with_what_it_loads(op: str, start: str) -> None:
    given, meant = STARTS[start]

    def body(dst, x, y, c):
        part = nl.ndarray((64, 32), nl.float32)
        loading = {"reduce_cmd": command.load_reduce, "reduce_init": given(c)}
        reduced(part, y, op, dst[:, 0:1])
        reduced(part, x, op, dst[:, 1:2], reduce_res_negate=True, **loading)
        reduced(part, y, op, dst[:, 2:3], reduce_cmd=command.reduce)

    begin = np.broadcast_to(np.float32(meant), 64)[:, None]
    rows = (Y / 2, np.hstack([begin, X / 2]), np.hstack([begin, X / 2, Y / 2]))
    want = np.stack([REDUCTIONS[op](each, 1) for each in rows], 1) * [1, -1, 1]
    np.testing.assert_allclose(run(body, (64, 3), X, Y, COLUMN), want, rtol=2e-5, atol=1e-6)


def test_a_reduction_in_a_loop_goes_on_from_what_was_loaded_before() -> None:
    @nki.jit(platform_target="trn2")
    def kernel(x):
        out = nl.ndarray((64, 32), dtype=x.dtype, buffer=nl.shared_hbm)
        part = nl.ndarray((64, 8), nl.float32)
        total = nl.ndarray((64, 1), nl.float32)
        first = nl.load(x[:, 0:8])
        reduced(part, first, "add", reduce_cmd=command.load_reduce, reduce_init=2.0)
        for i in nl.sequential_range(4):
            reduced(
                part,
                nl.load(x[:, nl.ds(i * 8, 8)]),
                "add",
                total,
                reduce_cmd=command.reduce,
                reduce_res_negate=True,
            )
            nl.store(out[:, nl.ds(i * 8, 8)], part + total)
        return out  # fmt: skip

    halves = X.reshape(64, 4, 8) / 2
    totals = 2 + halves[:, 0].sum(1, keepdims=True) + np.cumsum(halves.sum(2), 1)
    want = (halves - totals[:, :, None]).reshape(64, 32)
    np.testing.assert_allclose(kernel(X), want, rtol=2e-5, atol=2e-5)


MISUSED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "loads nothing": (
        "unexpected_type_of_operand", "reduce_cmd", {"reduce_cmd": command.load_reduce}
    ),
    "a start that is not loaded": (
        "unexpected_type_of_operand", "reduce_init", {"reduce_init": 0.0}
    ),
    "a start of another shape": (
        "param_shape_mismatch", "tensor_scalar_reduce",
        {"reduce_cmd": command.load_reduce, "reduce_init": ...},
    ),
    "a command by its number": ("unexpected_type_of_operand", "reduce_cmd", {"reduce_cmd": 3}),
    "registers that hold nothing": (
        "reduction_registers_not_set", "tensor_scalar_reduce", {"reduce_cmd": command.reduce}
    ),
    "a difference": ("instruction_unsupported_op", "subtract", {"reduce_op": nl.subtract}),
    "the negative of a truth": (
        "reduce_unsupported_negate", "logical_and",
        {"reduce_op": nl.logical_and, "reduce_res_negate": True},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", MISUSED)
def test_what_a_reduction_does_not_do_is_refused_by_name(what: str) -> None:
    code, named, options = MISUSED[what]

    def body(dst, x):
        given = {"reduce_op": nl.add, "reduce_res": dst[:, 0:1], **options}
        if given.get("reduce_init") is ...:
            given["reduce_init"] = x[:, 0:2]
        new.tensor_scalar_reduce(dst, x, nl.multiply, 0.5, **given)

    with pytest.raises(TilewrightError, match=named) as caught:
        run(body, (64, 32), X)
    assert caught.value.code == f"err_{code}"


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
