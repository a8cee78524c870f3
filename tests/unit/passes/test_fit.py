"""What fits a device, by hand-counted bytes, and at which lines limits are broken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tilewright.language as pl
import tilewright.nki as nki
import tilewright.nki.compiler as ncc
import tilewright.nki.language as nl
from tilewright.devices import get_device, get_model
from tilewright.errors import LimitExceeded, TilewrightError
from tilewright.frontend.text import parse_program
from tilewright.ir.affine import Symbol
from tilewright.ops import elementwise
from tilewright.passes.fitting import Fit, fit

X = np.ones((128, 512), np.float32)
ROW = 512 * 4
TRN2 = get_device("trn2")


def peaks(found: Fit) -> dict[str, int]:
    return {peak.memory.name: peak.nbytes for peak in found.peaks}


@nki.jit
def summed(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    a = nl.load(x)
    b = nl.load(x)
    c = nl.add(a, b)
    nl.store(out, c)
    return out


def test_operands_live_until_their_result_is_made() -> None:
    found = fit(summed.lower(X), "trn2")
    assert peaks(found) == {"SBUF": 3 * ROW}
    assert found.fits


def test_what_has_had_its_last_use_makes_room() -> None:
    @nki.jit
    def chained(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        for _ in nl.static_range(6):
            t = nl.exp(t)
        nl.store(out, t)
        return out

    assert peaks(fit(chained.lower(X), "trn2")) == {"SBUF": 2 * ROW}


def test_what_a_loop_reads_lives_to_its_end() -> None:
    @nki.jit
    def looped(x):
        out = nl.ndarray((4, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
        kept = nl.load(x)
        for i in nl.affine_range(4):
            twice = nl.add(kept, kept)
            more = nl.exp(twice)
            nl.store(out[i], nl.exp(more))
        return out

    assert peaks(fit(looped.lower(X), "trn2")) == {"SBUF": 3 * ROW}


def test_the_versions_of_an_accumulator_are_one_buffer_of_whole_banks() -> None:
    @nki.jit
    def product(a, b):
        out = nl.ndarray((64, 300), dtype=nl.float32, buffer=nl.shared_hbm)
        acc = nl.zeros((64, 300), dtype=nl.float32, buffer=nl.psum)
        for i in nl.affine_range(4):
            acc += nl.matmul(
                nl.load(a[nl.ds(i * 128, 128)]), nl.load(b[nl.ds(i * 128, 128)]), transpose_x=True
            )
        nl.store(out, acc)
        return out

    a, b = np.ones((512, 64), np.float32), np.ones((512, 300), np.float32)
    found = peaks(fit(product.lower(a, b), "trn2"))
    assert found["PSUM"] % TRN2.psum_bank_bytes == 0
    assert found["PSUM"] <= 2 * TRN2.psum_bank_bytes
    assert found["SBUF"] == (64 + 300) * 4


def test_a_broken_limit_names_the_authors_line_and_the_largest_tiles() -> None:
    small = replace(TRN2, name="small", sbuf_partition_bytes=2 * ROW, sbuf_reserved_bytes=0)
    found = fit(summed.lower(X), small)
    (error,) = found.broken
    first = summed.function.__code__.co_firstlineno
    assert error.span is not None and error.span.line == first + 5
    assert "6,144 bytes per partition" in error.message and "4,096" in error.message
    assert [text.split()[0] for text, _ in error.notes] == ["a", "b", "c"]
    assert not found.fits
    with pytest.raises(LimitExceeded):
        found.require()


@pl.program
class Wide:
    @pl.function(type=pl.FunctionType.InCore)
    def main(
        self, x: pl.Tensor[[256, 256], pl.FP32], y: pl.Out[pl.Tensor[[256, 256], pl.FP32]]
    ) -> pl.Tensor[[256, 256], pl.FP32]:
        t = pl.load(x, [0, 0], [256, 256])
        return pl.store(pl.exp(t), [0, 0], y)


def test_the_parsed_style_is_counted_when_a_device_is_chosen() -> None:
    found = fit(Wide, "a2a3")
    assert peaks(found)["Vec"] == 2 * 256 * 256 * 4
    (error,) = found.broken
    assert error.span is not None
    assert "a2a3 has 196,608" in error.message


def test_rows_beyond_the_partitions_are_a_broken_limit() -> None:
    narrow = replace(TRN2, name="narrow", pmax=64)
    messages = [error.message for error in fit(summed.lower(X), narrow).broken]
    assert any("128 rows" in message and "at most 64" in message for message in messages)


def test_the_report_is_a_few_lines() -> None:
    text = str(fit(summed.lower(X), "trn2"))
    assert text.splitlines()[0] == "fits trn2"
    assert "SBUF peaks at 6,144 of" in text


def test_an_unknown_device_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match=r"trn1.*a2a3"):
        get_model("tpu")


def test_an_extent_that_a_call_decides_counts_as_the_most_it_can_be() -> None:
    program = parse_program("""
@pl.program
class example:
    @pl.function
    def main(self, x: pl.Tile[[16, 64], pl.FP32]) -> pl.Tile[[16, 64], pl.FP32]:
        tile = pl.add(x, x)
        return tile
""")
    for bound, nbytes in ((7, (16 * 64 + 8 * 64) * 4), (None, 16 * 64 * 4)):
        (value,) = (op.result for op in program["main"].body.walk() if op.opdef is elementwise.add)
        value.type = replace(value.type, shape=(Symbol("n", 0, bound) + 1, 64))
        found = fit(program, "a2a3")
        assert peaks(found) == {"Vec": nbytes}
    assert [tile.name for tile in found.uncounted][:1] == ["tile"]
    text = str(found)
    assert text.startswith("fits, as far as extents are known, a2a3")
    assert "tile is not counted: an extent has no bound" in text
    assert "sizes are from: an assumption" in text


def huge(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = [nl.load(x) + float(i) for i in range(30)]
    total = tiles[0]
    for tile in tiles:
        total = total + tile
    nl.store(out, total)
    return out


def test_a_traced_kernel_is_refused_where_its_tiles_do_not_fit_together() -> None:
    x = np.ones((128, 4096), np.float32)
    assert not nki.jit(huge).fit(x).fits
    for kernel in (nki.jit(huge, check_capacity=True), ncc.enable_stack_allocator(nki.jit(huge))):
        with pytest.raises(TilewrightError) as caught:
            kernel(x)
        assert caught.value.code == "err_stack_overflow_sbuf"
        assert caught.value.span is not None and caught.value.span.line == LINE_OF_HUGE + 2
        assert any("takes 16,384 bytes per partition" in str(n) for n in caught.value.notes)
    small = nki.jit(ncc.enable_stack_allocator(log_level=10)(huge))
    assert np.array_equal(small(x[:, :64]), np.full((128, 64), 465 + 1, np.float32))


LINE_OF_HUGE = huge.__code__.co_firstlineno
