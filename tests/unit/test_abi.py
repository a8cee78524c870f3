"""The ABI as data: slots, extents, scalars and side tables survive a trip through JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright import abi, dtypes
from tilewright.abi import Extent, Manifest, ScalarParam, Signature, Site, tensor
from tilewright.source import Span

SIGNATURE = Signature(
    (
        tensor("x", dtypes.FP32, ("M", 16), layout="strided"),
        ScalarParam("scale", dtypes.FP32),
        tensor("y", dtypes.BF16, (Extent(0, (("M", 2),)), "N"), "inout"),
        tensor("out", dtypes.FP32, (Extent(1, (("N", 1),), 2),), "out", implicit=True, zeroed=True),
        ScalarParam("n", dtypes.INT32),
    ),
    returns=(3, 2),
)


def test_words_come_as_pointers_symbols_strides_scalars() -> None:
    words = [(slot.kind, slot.name, slot.axis) for slot in SIGNATURE.slots]
    assert words == [
        ("pointer", "x", -1),
        ("pointer", "y", -1),
        ("pointer", "out", -1),
        ("symbol", "M", -1),
        ("symbol", "N", -1),
        ("stride", "x", 0),
        ("stride", "x", 1),
        ("scalar", "scale", -1),
        ("scalar", "n", -1),
    ]
    assert SIGNATURE.pointer_slot("out") == 2 and SIGNATURE.symbol_slot("N") == 4
    assert SIGNATURE.stride_slot("x", 1) == 6 and SIGNATURE.scalar_slot("n") == 8


def test_contiguous_tensors_have_no_stride_words() -> None:
    with pytest.raises(KeyError):
        SIGNATURE.stride_slot("y", 0)


def test_a_caller_passes_everything_but_implicit_outputs() -> None:
    assert [p.name for p in SIGNATURE.explicit] == ["x", "scale", "y", "n"]


def test_a_signature_survives_json() -> None:
    assert Signature.from_json(json.loads(json.dumps(SIGNATURE.to_json()))) == SIGNATURE


def test_a_symbol_that_no_argument_determines_is_refused() -> None:
    with pytest.raises(ValueError, match="determines K"):
        Signature((tensor("out", dtypes.FP32, ("K",), "out", implicit=True),))
    with pytest.raises(ValueError, match="determines M"):
        Signature((tensor("x", dtypes.FP32, (Extent(0, (("M", 1),), 2),)),))


@given(st.integers(-5, 5), st.integers(1, 7), st.integers(0, 100), st.sampled_from([1, 2, 3]))
def test_solving_undoes_evaluating(constant: int, scale: int, value: int, divisor: int) -> None:
    extent = Extent(constant, (("M", scale),), divisor)
    given_extent = extent.evaluate({"M": value})
    assert given_extent == (constant + scale * value) // divisor
    assert extent.solve(given_extent) == (value if divisor == 1 else None)


def test_an_extent_reads_like_arithmetic() -> None:
    assert str(Extent(7)) == "7"
    assert str(abi.as_extent("M")) == "M"
    assert str(Extent(-1, (("M", 2), ("N", 1)), 4)) == "(2*M + N - 1) // 4"


def test_context_fields_do_not_overlap() -> None:
    taken: set[int] = set()
    for field in abi.CTX.values():
        bytes_of_field = set(range(field.offset, field.offset + field.size))
        assert not taken & bytes_of_field and field.offset % min(8, field.size) == 0
        taken |= bytes_of_field
    assert taken == set(range(abi.CTX_SIZE))


SCALARS = [d for d in dtypes.ALL if d.kind in ("int", "uint", "bool", "index") or d.is_float()]


@pytest.mark.parametrize("dtype", SCALARS, ids=lambda d: d.name)
def test_a_scalar_survives_its_word(dtype: dtypes.DType) -> None:
    for value in (0, 1) if dtype is not dtypes.FP8E8M0 else (1, 2):
        assert abi.decode_scalar(abi.encode_scalar(value, dtype), dtype) == value
    if dtype.is_signed_int() or dtype.name in ("FP32", "FP64", "BF16"):
        assert abi.decode_scalar(abi.encode_scalar(-2, dtype), dtype) == -2


def test_an_integer_that_does_not_fit_is_refused() -> None:
    assert abi.encode_scalar(-128, dtypes.INT8) == 2**64 - 128
    with pytest.raises(OverflowError, match=r"-129 is not in \[-128, 127\]"):
        abi.encode_scalar(-129, dtypes.INT8)


def test_a_manifest_survives_json() -> None:
    manifest = Manifest(
        name="k",
        symbol="k_entry",
        sites={3: Site("a.py", 1, 2, 3, 4, "text")},
        prints={4: ("{0} {1}", ("INT64", "FP32"))},
        safe_overlaps=frozenset({("x", "out")}),
        work=((10.5, ()), (0.25, ("M", "N")), (abi.UNBOUNDED, ())),
        grid=Extent(0, (("M", 1),), 2),
        arena_bytes=4096,
        communicates=True,
        texts={3: "a tile of {0}"},
    )
    assert Manifest.from_json(json.loads(json.dumps(manifest.to_json()))) == manifest
    assert Manifest.from_json(json.loads(json.dumps(Manifest().to_json()))) == Manifest()


def test_work_is_a_sum_of_products() -> None:
    manifest = Manifest(work=((10.0, ()), (0.5, ("M", "N"))))
    assert manifest.estimate_ns({"M": 4, "N": 8}) == 26.0
    assert Manifest().estimate_ns({}) == abi.UNBOUNDED
    assert manifest.allows_overlap("a", "b") is False


def test_a_site_shows_its_own_text_once_the_file_has_changed(tmp_path: Path) -> None:
    source = tmp_path / "k.py"
    source.write_text("a = 1\nb = 2\n")
    site = Site.of(Span(str(source), 2, 1, 2, 6))
    assert site.text == "b = 2" and site.lines() is None
    assert Site(str(source), 2, 1, 2, 6, "b = 3").lines() == ["", "b = 3"]
    assert Site("gone.py", 1, 1, 1, 2, "x").span == Span("gone.py", 1, 1, 1, 2)
