"""`nisa`: what each instruction computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl

RNG = np.random.default_rng(3)
A = RNG.standard_normal((128, 64)).astype(np.float32)
B = RNG.standard_normal((128, 32)).astype(np.float32)
LEAST = np.finfo(np.float32).min
COLUMN = np.arange(64)[None, :]


def run(
    body: Callable[..., Any],
    *arrays: Any,
    shape: tuple[int, ...] | None = None,
    dtype: Any = np.float32,
    **options: Any,
) -> Any:
    """What `body(*tiles)` gives, stored as `dtype`."""

    @nki.jit(**options)
    def kernel(*tensors):
        out = nl.ndarray(shape or tensors[0].shape, dtype=dtype, buffer=nl.shared_hbm)
        nl.store(out, value=body(*[nl.load(each) for each in tensors]))
        return out

    return kernel(*arrays)


def close(got: Any, want: Any, rtol: float = 1e-4, atol: float = 1e-4) -> None:
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


# ---------------------------------------------------------------------------- arithmetic


@pytest.mark.parametrize("op", [np.add, nl.add, "add"])
def test_an_operation_is_a_function_of_either_library_or_a_name(op: Any) -> None:
    close(run(lambda t: nisa.tensor_tensor(t, t, op), A), A + A)


def test_tensor_scalar_applies_two_operations_either_way_round() -> None:
    got = run(lambda t: nisa.tensor_scalar(t, nl.subtract, 2.0, True, nl.multiply, 3.0), A)
    close(got, (2 - A) * 3)
    got = run(lambda t, v: nisa.tensor_scalar(t, np.multiply, v, op1=np.max, operand1=0.0),
              A, A[:, :1])  # fmt: skip
    close(got, np.maximum(A * A[:, :1], 0))


def test_int32_sums_are_exact() -> None:
    n = np.full((4, 8), (1 << 24) + 1, np.int32)
    got = run(lambda t: nisa.tensor_tensor(t, t, np.add), n, dtype=np.int32)
    assert np.array_equal(got, n + n)
    got = run(lambda t: nisa.tensor_scalar(t, np.bitwise_and, 0xFF), n, dtype=np.int32)
    assert np.array_equal(got, n & 0xFF)


def test_scalar_tensor_tensor_chains() -> None:
    def body(t, u):
        return nisa.scalar_tensor_tensor(
            data=t, op0=np.multiply, operand0=2.0, op1=np.subtract, operand1=u, reverse1=True
        )

    close(run(body, A, A + 1), (A + 1) - 2 * A)


def test_tensor_scalar_reduce_writes_the_reduction() -> None:
    def body(t):
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar_reduce(
            data=t, op0=np.multiply, operand0=2.0, reduce_op=np.add, reduce_res=total
        )
        return total

    close(run(body, A, shape=(128, 1)), 2 * A.sum(1, keepdims=True))


def test_activation_scales_adds_and_applies() -> None:
    def body(t, v):
        return nisa.activation(np.exp, t, bias=v, scale=0.5)

    close(run(body, A, B[:, :1]), np.exp(A * 0.5 + B[:, :1]))
    close(run(lambda t, v: nisa.activation(nl.relu, t, scale=v), A, B[:, :1]),
          np.maximum(A * B[:, :1], 0))  # fmt: skip


def test_activation_accumulates_in_registers_by_command() -> None:
    def body(t):
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        command = nisa.reduce_cmd
        nisa.activation(np.copy, t, reduce_cmd=command.reset)
        for _ in nl.sequential_range(3):
            nisa.activation(np.copy, t, reduce_op=np.add, reduce_cmd=command.reduce)
        nisa.activation(np.copy, t, reduce_res=total)
        return total

    close(run(body, A, shape=(128, 1)), 3 * A.sum(1, keepdims=True))


def test_activation_reduce_gives_the_sum() -> None:
    def body(t):
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(np.exp, t, reduce_op=np.add, reduce_res=total)
        return total

    close(run(body, A, shape=(128, 1)), np.exp(A).sum(1, keepdims=True), rtol=1e-4, atol=1e-2)


def test_reciprocal_and_copies() -> None:
    close(run(lambda t: nisa.reciprocal(t), A + 10), 1 / (A + 10))
    assert np.array_equal(run(lambda t: nisa.tensor_copy(t), A), A)
    got = run(lambda t: nisa.tensor_copy(t, dtype=nl.bfloat16), A, dtype=nl.bfloat16)
    assert np.array_equal(got, A.astype(got.dtype))


# ---------------------------------------------------------------------------- tensor engine


def test_nc_matmul_contracts_partitions() -> None:
    close(run(lambda a, b: nisa.nc_matmul(a, b), A, B, shape=(64, 32)), A.T @ B)


def test_nc_matmul_accumulates_in_psum() -> None:
    @nki.jit
    def kernel(a, b):
        out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
        acc = nl.zeros((64, 32), dtype=nl.float32, buffer=nl.psum)
        for k in nl.affine_range(4):
            rows = nl.ds(k * 32, 32)
            acc[...] += nisa.nc_matmul(nl.load(a[rows, :]), nl.load(b[rows, :]))
        nl.store(out, acc)
        return out

    close(kernel(A, B), A.T @ B)


def test_the_first_write_of_an_accumulation_overwrites() -> None:
    def body(a, b):
        acc = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.psum)
        for _ in nl.sequential_range(2):
            acc[...] += nisa.nc_matmul(a, b)
        return acc

    close(run(body, A, B, shape=(64, 32)), 2 * (A.T @ B))


def test_sixteen_bit_products_accumulate_in_fp32() -> None:
    a, b = A.astype(np.float16), B.astype(np.float16)
    want = a.astype(np.float32).T @ b.astype(np.float32)
    close(run(lambda x, y: nisa.nc_matmul(x, y), a, b, shape=(64, 32)), want)


def test_transposes_exchange_partitions_and_free_elements() -> None:
    assert np.array_equal(run(lambda t: nisa.nc_transpose(t), A, shape=(64, 128)), A.T)
    assert np.array_equal(run(lambda t: nisa.dma_transpose(t), A, shape=(64, 128)), A.T)
    identity = run(lambda a, i: nisa.nc_matmul(a, i, is_transpose=True),
                   A, np.eye(128, dtype=np.float32), shape=(64, 128))  # fmt: skip
    assert np.array_equal(identity, A.T)


# ---------------------------------------------------------------------------- reductions


@pytest.mark.parametrize(("op", "reduce"), [(np.add, np.sum), (np.max, np.max), (np.min, np.min)])
def test_tensor_reduce_runs_along_free_axes(op: Any, reduce: Any) -> None:
    got = run(lambda t: nisa.tensor_reduce(op, t, axis=1), A, shape=(128, 1))
    close(got, reduce(A, axis=1, keepdims=True))


def test_tensor_reduce_of_bits_and_with_negation() -> None:
    n = RNG.integers(0, 1 << 20, (8, 13)).astype(np.int32)
    for op in (np.bitwise_and, np.bitwise_or, np.bitwise_xor):
        got = run(
            lambda t, op=op: nisa.tensor_reduce(op, t, axis=1), n, shape=(8, 1), dtype=np.int32
        )
        assert np.array_equal(got, op.reduce(n, axis=1, keepdims=True))
    got = run(lambda t: nisa.tensor_reduce(np.add, t, axis=[1], negate=True), A, shape=(128, 1))
    close(got, -A.sum(1, keepdims=True))


def test_partitions_are_reduced_too() -> None:
    got = run(lambda t: nisa.tensor_partition_reduce(np.max, t), A, shape=(1, 64))
    close(got, A.max(0, keepdims=True))


@pytest.mark.parametrize("ops", [("multiply", "add"), ("add", "maximum"), ("multiply", "greater")])
def test_a_scan_carries_its_state(ops: tuple[str, str]) -> None:
    got = run(lambda a, b: nisa.tensor_tensor_scan(a, b, 0.5, *ops), A, A[::-1].copy())
    first, second = (getattr(np, op) for op in ops)
    state, want = np.full(128, 0.5, np.float32), []
    for i in range(64):
        state = second(first(A[:, i], state), A[::-1][:, i]).astype(np.float32)
        want.append(state)
    close(got, np.stack(want, axis=1), rtol=1e-3)


def test_statistics_of_a_batch() -> None:
    stats = run(lambda t: nisa.bn_stats(t), A, shape=(128, 6))
    even, odd = A[:, ::2], A[:, 1::2]
    for k, part in enumerate((even, odd)):
        close(stats[:, 3 * k], np.full(128, 32))
        close(stats[:, 3 * k + 1], part.mean(1))
        close(stats[:, 3 * k + 2], part.var(1) * 32)
    both = run(lambda t: nisa.bn_aggr(nisa.bn_stats(t)), A, shape=(128, 2))
    close(both, np.stack([A.mean(1), A.var(1)], axis=1))


# ---------------------------------------------------------------------------- selection


def test_affine_select_keeps_where_the_comparison_holds() -> None:
    def body(t):
        i, j = nl.mgrid[0:128, 0:64]
        return nisa.affine_select(i >= j, t, -1.0)

    close(run(body, A), np.where(np.arange(128)[:, None] >= COLUMN, A, -1))


def test_range_select_and_its_maximum() -> None:
    def body(t):
        low = nl.full((128, 1), 10.0, dtype=nl.float32)
        high = nl.full((128, 1), 20.0, dtype=nl.float32)
        top = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        t[...] = nisa.range_select(
            on_true_tile=t, comp_op0=np.greater_equal, comp_op1=np.less, bound0=low, bound1=high,
            reduce_cmd=nisa.reduce_cmd.reset_reduce, reduce_res=top,
        )  # fmt: skip
        t[:, 0:1] = top
        return t

    want = np.where((COLUMN >= 10) & (COLUMN < 20), A, LEAST)
    want[:, 0] = want.max(1)
    assert np.array_equal(run(body, A), want)


def test_select_reduce_and_predicated_copies() -> None:
    def select(t):
        d = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.sbuf)
        positive = nl.greater(t, 0.0, dtype=nl.uint8)
        nisa.select_reduce(dst=d, predicate=positive, on_true=t, on_false=0.0)
        return d

    def copy(t):
        d = nl.full(t.shape, -5.0, dtype=t.dtype)
        positive = nl.greater(t, 0.0, dtype=nl.uint8)
        nisa.tensor_copy_predicated(src=t, dst=d, predicate=positive, reverse_pred=True)
        return d

    assert np.array_equal(run(select, A), np.maximum(A, 0))
    assert np.array_equal(run(copy, A), np.where(A > 0, -5, A))


def test_the_eight_largest_and_their_places() -> None:
    order = np.argsort(-A, axis=1)[:, :8]
    top = run(lambda t: nisa.max8(src=t), A, shape=(128, 8))
    assert np.array_equal(top, np.take_along_axis(A, order, axis=1))

    def places(t):
        return nisa.nc_find_index8(data=t, vals=nisa.max8(src=t))

    assert np.array_equal(run(places, A, shape=(128, 8), dtype=np.uint32), order)

    def replaced(t):
        return nisa.nc_match_replace8(data=t, vals=nisa.max8(src=t), imm=0.0)

    want = A.copy()
    np.put_along_axis(want, order, 0, axis=1)
    assert np.array_equal(run(replaced, A), want)


def test_a_value_that_is_not_there_has_no_place() -> None:
    def body(t):
        return nisa.nc_find_index8(data=t, vals=nl.full((128, 8), 99.0, dtype=nl.float32))

    assert (run(body, A, shape=(128, 8), dtype=np.uint32) == 0xFFFFFFFF).all()


def test_equal_values_are_found_one_after_the_other() -> None:
    ties = np.tile(np.array([[2.0, 1.0, 2.0, 0.0, 2.0, 1.0, 3.0, 0.5, 0.0]], np.float32), (4, 1))
    got = run(lambda t: nisa.max8(src=t), ties, shape=(4, 8))
    assert got[0].tolist() == [3, 2, 2, 2, 1, 1, 0.5, 0]


# ---------------------------------------------------------------------------- movement


def test_iota_is_an_affine_expression() -> None:
    def body(t):
        i, j = nl.arange(128)[:, None], nl.arange(64)[None, :]
        return nisa.iota(3 * i - 2 * j + j // 5 + 1, dtype=nl.int32)

    i = np.arange(128)[:, None]
    assert np.array_equal(run(body, A, dtype=np.int32), 3 * i - 2 * COLUMN + COLUMN // 5 + 1)


def test_a_shuffle_stays_in_its_quadrant() -> None:
    order = [1, 0, *range(2, 31), 255]

    def body(t):
        d = nl.zeros(t.shape, dtype=t.dtype)
        nisa.nc_stream_shuffle(t, d, order)
        return d

    want = A.reshape(4, 32, 64).copy()
    want[:, [0, 1]] = want[:, [1, 0]]
    want[:, 31] = 0
    assert np.array_equal(run(body, A), want.reshape(128, 64))


def test_dma_copies_between_any_memories_and_adds() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        t = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=out, src=x)
        nisa.dma_copy(dst=t, src=x)
        nisa.dma_copy(dst=out, src=t, dst_rmw_op=np.add)
        return out

    close(kernel(A.astype(np.float16)), 2 * A.astype(np.float16).astype(np.float32))


def test_local_gather_shares_indices_in_a_core() -> None:
    places = RNG.integers(0, 16, (32, 2)).astype(np.uint16)

    def body(t, index):
        return nisa.local_gather(t, index, num_elem_per_idx=4)

    got = run(body, A[:32], places, shape=(32, 128))
    for p in range(32):
        core = places[p // 16 * 16 : p // 16 * 16 + 16].T.ravel().astype(int)
        want = np.concatenate([A[p, 4 * k : 4 * k + 4] for k in core])
        assert np.array_equal(got[p], want)


def test_gather_flattened_reads_each_partition() -> None:
    places = RNG.integers(0, 64, (128, 5)).astype(np.uint32)
    got = run(lambda t, i: nl.gather_flattened(t, i), A, places, shape=(128, 5))
    assert np.array_equal(got, np.take_along_axis(A, places.astype(np.int64), axis=1))


def test_bounds_of_sequences() -> None:
    ids = np.array([[1, 1, 2, 2, 2, 0]], np.int32)
    got = run(lambda t: nisa.sequence_bounds(segment_ids=t), ids, shape=(1, 2, 6), dtype=np.int32)
    assert got.tolist() == [[[0, 0, 2, 2, 2, 6], [2, 2, 5, 5, 5, -1]]]


def test_dropout_keeps_the_rest_unscaled() -> None:
    assert np.array_equal(run(lambda t: nisa.dropout(t, 0.0), A), A)
    got = run(lambda t: nisa.dropout(t, 0.25), A)
    assert np.array_equal(got[got != 0], A[got != 0])
    assert abs((got == 0).mean() - 0.25) < 0.03


def test_the_generation_follows_the_target() -> None:
    versions: list[Any] = []

    def body(t):
        versions.append(nisa.get_nc_version())
        return t

    for target, version in (("trn1", nisa.nc_version.gen2), ("trn2", nisa.nc_version.gen3)):
        run(body, A, platform_target=target)
        assert versions[-1] is version


def test_memset_and_private_transfers() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        more = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        nisa._tiled_offloaded_memcpy(src=x, dst=out)
        nisa._tiled_offloaded_fma(x, x, scales=[1.0, 0.5], dst=more)
        nl.store(out[0:4, 0:4], nisa.memset((4, 4), 2.5, nl.float32))
        return out, more

    out, more = kernel(A)
    want = A.copy()
    want[:4, :4] = 2.5
    assert np.array_equal(out, want)
    close(more, A * 1.5)
