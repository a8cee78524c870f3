"""Every pass gives a program that means what the author's does; one that does not is named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import ir, passes
from tilewright.errors import InvalidOperationError, VerificationError
from tilewright.passes import pipeline

TEXT = """
@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def twice(self, a: pl.Tensor[[m, 16], pl.FP32], b: pl.InOut[pl.Tensor[[m, 16], pl.FP32]]):
        for i in pl.range(pl.tensor.dim(a, 0)):
            t = pl.load(a, [i, 0], [1, 16])
            pl.store(pl.add(pl.mul(t, 2.0), pl.load(b, [i, 0], [1, 16])), [i, 0], b)

    @pl.function
    def main(
        self, x: pl.Tensor[[m, 16], pl.FP32], y: pl.InOut[pl.Tensor[[m, 16], pl.FP32]], s: pl.INT32
    ) -> tuple[pl.Tensor[[m, 1], pl.FP32], pl.Scalar[pl.FP32], pl.Tensor[[m, 16], pl.FP32]]:
        self.twice(x, y)
        r = pl.row_sum(y)
        return r, pl.read(r, [0, 0]), y
"""


def test_each_pass_is_run_and_compared() -> None:
    found = ir.compile(pl.parse_program(TEXT)).validate_ir()
    assert [*found] == ["pipeline_input", *passes.PassManager().pass_names]
    assert max(found.values()) < 1e-5


def test_arguments_may_be_given() -> None:
    compiled = ir.compile(pl.parse_program(TEXT))
    x, y = np.ones((3, 16), np.float32), np.ones((3, 16), np.float32)
    assert set(compiled.validate_ir(rtol=0, atol=0, args=[x, y, np.int32(1)]).values()) == {0.0}
    np.testing.assert_array_equal(y, 1)


def test_the_first_pass_that_changes_what_is_computed_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = ir.compile(pl.parse_program(TEXT))

    def spoil(program: Any, entry: str) -> Any:
        text = program.as_python()
        assert "* 2.0" in text or "2.0)" in text
        return pl.parse_program(text.replace("2.0", "2.5"))

    steps: Sequence[Any] = pipeline.PIPELINE
    monkeypatch.setattr(pipeline, "PIPELINE", (*steps[:4], spoil, *steps[4:]))
    with pytest.raises(VerificationError, match="after spoil, output 0 differs") as caught:
        compiled.validate_ir()
    assert "main" in str(caught.value)
    assert compiled.validate_ir(rtol=100.0)["spoil"] > 0.1


def test_what_came_from_a_cache_has_nothing_to_validate() -> None:
    compiled = ir.compile(pl.parse_program(TEXT))
    compiled.artifact.program = None
    with pytest.raises(InvalidOperationError, match="restored from the cache"):
        compiled.validate_ir()
