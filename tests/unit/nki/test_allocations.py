"""Explicit allocations: where blocks lie, and which overlaps are refused when asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.compiler as ncc
import tilewright.nki.language as nl
from tilewright.errors import TilewrightError

X = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)


def test_blocks_go_round_the_tiles_there_are() -> None:
    allocation = ncc.sbuf.mod_alloc(base_addr=64, base_partition=32, num_free_tiles=(2,)).allocation
    assert [allocation.place_of((k,), 32, 256) for k in range(3)] == [(32, 64), (32, 320), (32, 64)]
    banks = ncc.psum.mod_alloc(base_bank=1, num_bank_tiles=(2, 3)).allocation
    places = [banks.place_of(block, 128, 2048) for block in ((0, 0), (0, 2), (1, 0), (2, 1))]
    assert places == [(1, 0, 0), (3, 0, 0), (4, 0, 0), (2, 0, 0)]
    chosen = ncc.sbuf.alloc(lambda idx, pdim, fdim: (idx[0] * pdim, 4 * fdim)).allocation
    assert chosen.place_of((2,), 32, 128) == (64, 512)


def sbuf(address: int, partition: int = 0) -> Any:
    return ncc.sbuf.mod_alloc(base_addr=address, base_partition=partition)


def tile(address: int, rows: int = 64, partition: int = 0) -> Any:
    return nl.ndarray((rows, 64), dtype=nl.float32, buffer=sbuf(address, partition))


for _helper in (sbuf, tile):
    _helper.__nki_dont_trace__ = True  # type: ignore[attr-defined]


def run(body: Callable[..., None], **options: Any) -> Any:
    @nki.jit(check_allocation=True, **options)
    def kernel(x):
        out = nl.ndarray((64, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        body(out, x)
        return out

    return kernel(X)


def two_at_once(out, x, b):
    a = tile(0)
    a[...] = nl.load(x[0:64])
    b[...] = nl.load(x[64:128])
    nl.store(out, nl.add(a, b))


@pytest.mark.parametrize("place", [(256, 0), (0, 64)], ids=["bytes", "partitions"])
def test_tensors_that_lie_apart_are_accepted(place: tuple[int, int]) -> None:
    got = run(lambda out, x: two_at_once(out, x, tile(place[0], partition=place[1])))
    assert np.array_equal(got, X[:64] + X[64:])


def test_a_tensor_that_is_overwritten_while_in_use_is_refused() -> None:
    with pytest.raises(TilewrightError) as caught:
        run(lambda out, x: two_at_once(out, x, tile(128)))
    error = caught.value
    assert error.code == "err_allocation_overlap"
    assert "where 'a' lies, which is read afterwards" in error.message
    assert "partitions 0 to 63, bytes 0 to 255" in error.message
    assert error.span is not None
    assert error.span.line == two_at_once.__code__.co_firstlineno + 3


def test_overlaps_are_looked_for_when_asked_only() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((64, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        two_at_once(out, x, tile(0))
        return out

    assert np.array_equal(kernel(X), X[:64] + X[64:])


def blocks_of(number: int, tiles: int) -> Any:
    buffer = ncc.sbuf.mod_alloc(base_addr=0, num_free_tiles=(tiles,))
    return nl.ndarray((number, nl.par_dim(64), 64), dtype=nl.float32, buffer=buffer)


blocks_of.__nki_dont_trace__ = True  # type: ignore[attr-defined]


def written_then_read(out, x, *, tiles, delay):
    blocks = blocks_of(4, tiles)
    total = tile(4096)
    total[...] = 0.0
    for i in nl.sequential_range(4 + delay):
        if i < 4:
            blocks[i] = nl.load(x[0:64])
        if i >= delay:
            total[...] = nl.add(total, blocks[i - delay])
    nl.store(out, total)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("tiles", "delay"), [(1, 0), (2, 1), (4, 3), (4, 4)])
def test_blocks_that_are_read_in_time_may_share_a_place(tiles: int, delay: int) -> None:
    got = run(
        lambda out, x: written_then_read(out, x, tiles=tiles, delay=delay), predicated_if=True
    )
    assert np.array_equal(got, 4 * X[:64])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("tiles", "delay"), [(1, 1), (2, 2), (3, 4), (2, 4)])
def test_a_block_that_is_read_after_another_took_its_place_is_refused(
    tiles: int, delay: int
) -> None:
    with pytest.raises(TilewrightError) as caught:
        run(lambda out, x: written_then_read(out, x, tiles=tiles, delay=delay), predicated_if=True)
    error = caught.value
    assert error.code == "err_allocation_overlap" and error.span is not None
    assert f"'blocks[{tiles}]' is written where 'blocks[0]' lies" in error.message
    assert error.span.line == written_then_read.__code__.co_firstlineno + 6


def test_a_place_may_be_used_again_after_the_last_read() -> None:
    def body(out, x):
        a = tile(0)
        a[...] = nl.load(x[0:64])
        total = nl.copy(a)
        b = tile(0)
        b[...] = nl.load(x[64:128])
        nl.store(out, nl.add(total, b))

    assert np.array_equal(run(body), X[:64] + X[64:])


def test_what_a_loop_reads_is_in_use_throughout_the_loop() -> None:
    def body(out, x):
        kept = tile(0)
        kept[...] = nl.load(x[0:64])
        total = tile(1024)
        total[...] = nl.load(x[64:128])
        for _ in nl.sequential_range(2):
            total[...] = nl.add(total, kept)
            scratch = tile(128)
            scratch[...] = nl.load(x[0:64])
            total[...] = nl.add(total, scratch)
        nl.store(out, total)

    with pytest.raises(TilewrightError, match="where 'kept' lies") as caught:
        run(body)
    assert "'scratch' is written" in caught.value.message


@pytest.mark.parametrize(
    "make",
    [
        lambda: tile(200 * 1024),
        lambda: tile(0, partition=96),
        lambda: nl.ndarray((64, 64), nl.float32, buffer=ncc.psum.mod_alloc(base_bank=8)),
        lambda: nl.ndarray((64, 64), nl.float32, buffer=ncc.sbuf.alloc(lambda *_: (-1, 0))),
    ],
)
def test_a_place_that_does_not_exist_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(TilewrightError) as caught:
        run(lambda out, x: make(), platform_target="trn1")
    assert caught.value.code == "err_allocation_out_of_range"


PLACED: dict[str, Callable[[Any], Any]] = {
    "err_bias_tensor_must_be_specified_in_allocation": nl.exp,
    "err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel": nl.transpose,
}


@pytest.mark.parametrize("code", PLACED)
def test_a_kernel_that_places_its_tensors_makes_no_others_unasked(code: str) -> None:
    def body(out, x):
        a = tile(0)
        a[...] = nl.load(x[0:64])
        nl.store(out, PLACED[code](nl.add(a, a)))

    with pytest.raises(TilewrightError) as caught:
        run(body)
    assert caught.value.code == code


def test_a_product_in_such_a_kernel_has_its_operand_transposed() -> None:
    def body(out, x, *, transposed):
        a = tile(0)
        a[...] = nl.load(x[0:64])
        nl.store(out, nl.matmul(a, a, transpose_x=transposed))

    got = run(lambda out, x: body(out, x, transposed=True))
    np.testing.assert_allclose(got, X[:64].T @ X[:64], rtol=1e-4, atol=1e-4)
    with pytest.raises(TilewrightError, match="identity of yours") as caught:
        run(lambda out, x: body(out, x, transposed=False))
    assert caught.value.code.endswith("transpose_on_tensor_engine_not_allowed_in_allocated_kernel")
