"""Derived from the pages: each op, lowered and compiled, gives the bits of its loops."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any

import numpy as np
import pytest

import tilewright.ops  # noqa: F401  (fills the registry)
from tilewright import interp
from tilewright.dtypes import DType
from tilewright.ir.opdef import OPS
from tilewright.ops.sampling import Sample
from tilewright.passes.pipeline import lower
from tilewright.testing.compare import assert_same_values
from tilewright.testing.one_op import sample_program
from unit.codegen.kernels import native
from unit.codegen.native_code import available_isas

CONTRACTIONS = ("matmul.",)
OTHER_LEVELS = ("arith.", "control.", "host.", "loop.")


def cases() -> Iterator[Any]:
    """Every sample of every op in its first dtype, two in every dtype; the others are long."""
    for name, opdef in OPS.items():
        if name.startswith(OTHER_LEVELS) or name == "memory.create":
            continue
        samples = opdef.make_samples() if opdef.make_samples else ()
        for number, sample in enumerate(samples):
            for dtype in sample.dtypes if sample.error is None else ():
                is_short = number < 2 or dtype is sample.dtypes[0]
                marks = () if is_short else pytest.mark.long
                label = f"{name}-{number}-{dtype.name}"
                yield pytest.param(name, sample, dtype, id=label, marks=marks)


@pytest.mark.parametrize(("name", "sample", "dtype"), list(cases()))
def test_native_code_means_what_the_loops_say(name: str, sample: Sample, dtype: DType) -> None:
    program, arrays = sample_program(OPS[name], sample, dtype)
    low = lower(program, "main")
    given: list[Any] = list(arrays)
    for param in low["main"].params[len(arrays) :]:
        kind: Any = param.type
        given.append(np.zeros(kind.shape, kind.dtype.numpy))
    expected = [copy(a) for a in given]
    interp.run(low, "main", expected)
    found = [copy(a) for a in given]
    native(low, available_isas()[0])(*found)
    for left, right in zip(found, expected, strict=True):
        if isinstance(left, np.ndarray) and name.startswith(CONTRACTIONS):
            np.testing.assert_allclose(
                left, right, rtol=1e-3, atol=1e-5 * np.abs(right).max(initial=0)
            )
        elif isinstance(left, np.ndarray):
            assert_same_values(left, right, name, OPS[name].ulp)
