"""Derived from the pages: the structure of every op means what its reference says."""

from __future__ import annotations

import pytest

from ops.one_op import OneOp, cases, pairs, with_offsets
from tilewright.dtypes import DType
from tilewright.errors import ShapeMismatch, UnsupportedFeatureError
from tilewright.frontend.text import parse
from tilewright.ir.opdef import OPS
from tilewright.ops.sampling import Sample
from tilewright.testing import assert_same_ir, assert_same_values

UNDEFINED = ("memory.create",)


@pytest.mark.parametrize(("name", "sample", "dtype"), cases(refused=False))
def test_the_loops_of_an_op_give_what_its_reference_gives(
    name: str, sample: Sample, dtype: DType
) -> None:
    if name in UNDEFINED:
        pytest.skip("its elements are undefined")
    require_same_levels(OneOp(OPS[name], sample, dtype, known=True))


@pytest.mark.parametrize(("name", "sample", "dtype"), with_offsets())
def test_the_loops_agree_where_offsets_are_known_at_run_time_only(
    name: str, sample: Sample, dtype: DType
) -> None:
    try:
        one = OneOp(OPS[name], sample, dtype, known=False)
    except ShapeMismatch:
        pytest.skip("what cannot be shown equal is refused")
    require_same_levels(one)


def require_same_levels(one: OneOp) -> None:
    """The loop level gives the bits of the tile level."""
    try:
        found = one.lowered()
    except UnsupportedFeatureError as error:
        assert "cannot be compiled yet" in error.message
        pytest.skip(error.message)
    for position, given, wanted in pairs(found, one.interpreted()):
        assert_same_values(given, wanted, f"value {position}")


@pytest.mark.parametrize(("name", "sample", "dtype"), cases(refused=False, every_dtype=False))
def test_a_printed_op_reads_back_as_itself(name: str, sample: Sample, dtype: DType) -> None:
    one = OneOp(OPS[name], sample, dtype, known=True)
    text = one.program.as_python()
    if "access=Access(" in text:
        pytest.skip("accesses have no text yet")
    assert_same_ir(parse(text), one.program)
