"""The ULP bounds of the math words over every float: minutes per word, run by `make test-long`."""

from __future__ import annotations

import numpy as np
import pytest

from unit.codegen.native_code import available_isas, chunks, ulp_errors
from unit.codegen.test_words_math import BOUNDS, unary

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::RuntimeWarning")]
PIECE = 1 << 15


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.timeout(3600)
def test_word_meets_its_ulp_bound_on_every_float(name: str) -> None:
    exact, bound = BOUNDS[name]
    kernel = unary(available_isas()[0], name, 16)
    for low, high in chunks(1 << 32, PIECE):
        x = np.arange(low, high, dtype=np.uint64).astype(np.uint32).view(np.float32)
        errors = ulp_errors(kernel(x), exact(x.astype(np.float64)))
        worst = int(errors.argmax())
        assert errors[worst] <= bound + 1e-3, (x[worst], errors[worst])
