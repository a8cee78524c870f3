"""Derived from the pages: the structure of every op means what its reference says."""

from __future__ import annotations

import pytest

from ops.one_op import OneOp, cases, pairs
from tilewright.dtypes import DType
from tilewright.errors import ShapeMismatch, UnsupportedFeatureError
from tilewright.ir.opdef import OPS
from tilewright.ops.sampling import Sample
from tilewright.testing import assert_same_values

UNDEFINED = ("memory.create",)


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize(("name", "sample", "dtype"), cases(refused=False))
def test_the_loops_of_an_op_give_what_its_reference_gives(
    name: str, sample: Sample, dtype: DType, known: bool
) -> None:
    if name in UNDEFINED:
        pytest.skip("its elements are undefined")
    try:
        one = OneOp(OPS[name], sample, dtype, known)
    except ShapeMismatch:
        assert not known, "a sample is accepted where its offsets are known"
        return
    try:
        found = one.lowered()
    except UnsupportedFeatureError as error:
        assert "cannot be compiled yet" in error.message
        pytest.skip(error.message)
    for position, given, wanted in pairs(found, one.interpreted()):
        assert_same_values(given, wanted, f"value {position}")
