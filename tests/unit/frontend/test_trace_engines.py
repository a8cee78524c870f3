"""Where operands of instructions may start: what an engine reaches, as the device model says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.compiler as ncc
import tilewright.nki.dst_first as dst_first
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.devices import DEVICES
from tilewright.errors import TilewrightError
from tilewright.frontend.trace.engines import ELSEWHERE
from tilewright.frontend.trace.ops import LANGUAGE

X = np.arange(128 * 8, dtype=np.float32).reshape(128, 8)
CODE = "err_start_partition_exceed_arch_limit"
Body = Callable[..., Any]


def starts_that(code: str | None, body: Body, starts: Any, **options: Any) -> list[int]:
    """The starts at which a traced kernel whose body gets one is refused with `code`."""

    def at(start: int) -> Body:
        return lambda t, out: body(t, start)

    return [start for start in starts if refused(at(start), **options) == code]


def refused(body: Body, **options: Any) -> str | None:
    """The code of the error with which a kernel of a tile and its output is refused, if any."""

    @nki.jit(predicated_if=True, **options)
    def kernel(x):
        out = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        t = nl.load(x)
        body(t, out)
        nl.store(out, t)
        return out

    try:
        kernel.specialize(X)
    except TilewrightError as error:
        return error.code
    return None


def written(t: Any, start: int, count: int) -> None:
    t[start : start + count] = nl.zeros((count, 8), dtype=nl.float32)


OPERANDS: dict[str, Callable[[Any, int, int], Any]] = {
    "function": lambda t, start, count: nl.exp(t[start : start + count]),
    "operator": lambda t, start, count: t[start : start + count] * 2.0,
    "sign": lambda t, start, count: -t[start : start + count],
    "conversion": lambda t, start, count: t[start : start + count].astype(nl.bfloat16),
    "range": lambda t, start, count: nl.copy(
        t[start + nl.arange(count)[:, None], nl.arange(8)[None, :]]
    ),
    "view of a view": lambda t, start, count: nl.square(t[16:128][start - 16 :][0:count]),
    "keyword": lambda t, start, count: nisa.max8(src=t[start : start + count]),
    "assignment": written,
    "destination": lambda t, start, count: dst_first.memset(t[start : start + count], 0.0),
}


@pytest.mark.parametrize("name", OPERANDS)
@pytest.mark.parametrize(("count", "legal"), [(1, (32, 64, 96)), (32, (32, 64, 96)), (33, (64,))])
def test_an_operand_starts_where_so_many_partitions_may(name: str, count: int, legal: Any) -> None:
    starts = [s for s in (17, 31, 32, 33, 48, 64, 95, 96) if s + count <= 128]
    made = starts_that(None, lambda t, start: OPERANDS[name](t, start, count), starts)
    assert made == [start for start in starts if start in legal]
    others = [start for start in starts if start not in legal]
    assert starts_that(CODE, lambda t, s: OPERANDS[name](t, s, count), others) == others


def test_more_than_half_of_the_partitions_start_at_the_first() -> None:
    assert starts_that(None, lambda t, start: nl.exp(t[start : start + 65]), (0, 32, 63)) == [0]


def test_transfers_and_views_reach_any_partition() -> None:
    def body(t, out):
        part = t[5:12]
        nl.store(out[1:8], part)
        part[...] = nl.load(out[2:9])
        nisa.dma_copy(dst=t[3:4], src=t[9:10])
        dst_first.dma_copy(t[3:4], out[9:10])
        nl.store(out[0:32], nl.broadcast_to(t[7:8], shape=(32, 8)))

    assert refused(body) is None
    assert {path.rpartition(".")[2] for path in LANGUAGE} > ELSEWHERE


def test_a_tile_that_an_engine_has_changed_is_no_transfer() -> None:
    def body(t, out):
        loaded = nl.load(out[0:8])
        loaded += 1.0
        t[5:13] = loaded

    assert refused(body) == CODE


def test_loop_variables_are_what_their_ranges_and_guards_allow() -> None:
    def quarters(t, out):
        for i in nl.affine_range(4):
            t[nl.ds(i * 32, 32)] *= 2.0

    def rows(t, out):
        for i in nl.sequential_range(128):
            t[i] = 1.0

    def guarded(t, out):
        for i in nl.sequential_range(128):
            if i == 64:
                t[i] = 1.0

    def halves(t, out):
        for i in nl.affine_range(3):
            t[nl.ds(i * 32, 64)] *= 2.0

    assert [refused(body) for body in (quarters, rows, guarded, halves)] == [None, CODE, None, CODE]


def test_what_the_run_knows_is_let_pass() -> None:
    def body(t, out):
        register = dst_first.register_alloc(5)
        nl.store(out[0:1], nl.exp(t[nl.ds(register, 1)]))

    assert refused(body) is None


def test_a_mask_may_leave_few_partitions() -> None:
    def body(t, out):
        p, f = nl.mgrid[0:96, 0:8]
        nl.exp(t[p + 32, f], mask=p < 32)

    assert refused(body) is None


def test_an_allocation_places_its_tensor() -> None:
    def placed(start: int) -> Any:
        @nki.jit
        def kernel(x):
            out = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.shared_hbm)
            place = ncc.sbuf.mod_alloc(base_addr=0, base_partition=start)
            t = nl.ndarray((8, 8), dtype=nl.float32, buffer=place)
            t[...] = nl.load(x[0:8])
            t[...] = nl.add(t, 1.0)
            nl.store(out, t)
            return out

        return kernel

    placed(64).specialize(X)
    with pytest.raises(TilewrightError) as caught:
        placed(8).specialize(X)
    assert caught.value.code == CODE


def test_the_device_model_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    eighths = replace(DEVICES["trn1"], start_partitions=((128, tuple(range(0, 128, 16))),))
    monkeypatch.setitem(DEVICES, "trn1", eighths)
    starts = (8, 16, 24, 48)
    made = starts_that(None, lambda t, s: nl.exp(t[s : s + 64]), starts, platform_target="trn1")
    assert made == [16, 48]
