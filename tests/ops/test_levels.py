"""Derived from the pages: run-time offsets change nothing; what prints reads back as itself.

That the loops and the native code of every op give what its reference gives is tested with the
passes and with code generation.
"""

from __future__ import annotations

import pytest

from ops.one_op import OneOp, cases, pairs, with_offsets
from tilewright.dtypes import DType
from tilewright.errors import ShapeMismatch
from tilewright.frontend.text import parse
from tilewright.ir.enums import Effect
from tilewright.ir.opdef import OPS
from tilewright.ops.sampling import Sample
from tilewright.testing import assert_same_ir, assert_same_values


@pytest.mark.parametrize(("name", "sample", "dtype"), with_offsets())
def test_the_loops_agree_where_offsets_are_known_at_run_time_only(
    name: str, sample: Sample, dtype: DType
) -> None:
    try:
        one = OneOp(OPS[name], sample, dtype, known=False)
    except ShapeMismatch:
        pytest.skip("what cannot be shown equal is refused")
    if OPS[name].effect is Effect.COMM:
        pytest.skip("ranks are tested together")
    for position, given, wanted in pairs(one.lowered(), one.interpreted()):
        assert_same_values(given, wanted, f"value {position}")


@pytest.mark.parametrize(("name", "sample", "dtype"), cases(refused=False, every_dtype=False))
def test_a_printed_op_reads_back_as_itself(name: str, sample: Sample, dtype: DType) -> None:
    one = OneOp(OPS[name], sample, dtype, known=True)
    assert_same_ir(parse(one.program.as_python()), one.program)
