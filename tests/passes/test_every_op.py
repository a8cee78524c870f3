"""Derived from the pages: each op, lowered alone, means what its reference says."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any

import numpy as np
import pytest

import tilewright.ops  # noqa: F401  (fills the registry)
from tilewright import interp
from tilewright.dtypes import FP16, FP32, DType
from tilewright.ir.opdef import OPS
from tilewright.ir.verifier import verify
from tilewright.ops.sampling import Sample
from tilewright.passes.pipeline import lower
from tilewright.testing.compare import assert_same_values
from tilewright.testing.one_op import sample_program

OTHER_LEVELS = ("arith.", "control.", "host.", "loop.")


@pytest.fixture(autouse=True)
def no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of one op write In parameters, so their text reads back with other directions."""
    monkeypatch.setattr("tilewright.ir.builder.FINISH_HOOKS", [])


def cases() -> Iterator[Any]:
    for name, opdef in OPS.items():
        samples = opdef.make_samples() if opdef.make_samples else ()
        for number, sample in enumerate(samples):
            wanted = [d for d in sample.dtypes if d in (FP32, FP16)] or sample.dtypes[:1]
            for dtype in wanted if sample.error is None else ():
                yield pytest.param(name, sample, dtype, id=f"{name}-{number}-{dtype.name}")


@pytest.mark.parametrize(("name", "sample", "dtype"), list(cases()))
def test_loops_mean_what_the_page_says(name: str, sample: Sample, dtype: DType) -> None:
    if name.startswith(OTHER_LEVELS) or name == "memory.create":
        pytest.skip("no values of its own")
    program, arrays = sample_program(OPS[name], sample, dtype)
    expected = interp.run(program, "main", [copy(a) for a in arrays])
    low = verify(lower(program, "main"))
    function = low["main"]
    given: list[Any] = list(arrays)
    for param in function.params[len(arrays) :]:
        given.append(np.zeros(param.type.shape, param.type.dtype.numpy))
    interp.run(low, "main", given, checked=True)
    for (kind, position), value in zip(function.attrs["results"], expected, strict=True):
        found = given[position][0] if kind == "scalar" else given[position]
        assert_same_values(found, value, name)
