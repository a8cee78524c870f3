"""Words mode: fused chains are exact, compiled words are what compiled programs use."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tilewright.dtypes import FP32
from tilewright.ops import elementwise
from tilewright.testing import check_op
from tilewright.testing.chains import fma32, fma_chain
from tilewright.testing.native import CompiledWords, run_native


def nearest_single(exact: Fraction) -> np.float32:
    """The float32 nearest to a rational number, ties to even."""
    low = np.float32(float(exact))
    around = [np.nextafter(low, np.float32(s * np.inf)) for s in (-1, 1)]
    choices = [low, *around]
    return min(choices, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.int32)) & 1))


def test_a_fused_step_rounds_once() -> None:
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal(400).astype(np.float32) for _ in range(2))
    z = (-(x.astype(float) * y) * (1 + rng.integers(-2, 3, 400) * 2.0**-24)).astype(np.float32)
    z[::3] *= np.float32(2.0**20)
    z[1::3] *= np.float32(2.0**-30)
    found = fma32(x, y, z)
    for a, b, c, given in zip(x, y, z, found, strict=True):
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        assert given == nearest_single(exact)


def test_a_double_rounding_is_avoided() -> None:
    x = np.array([1 + 2.0**-12], np.float32)
    z = np.array([-(2.0**-80)], np.float32)
    assert fma32(x, x, z)[0] == np.float32(1 + 2.0**-11)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_a_chain_follows_k(dtype: type) -> None:
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-9, 9, s).astype(dtype) for s in ((3, 7), (7, 5)))
    c = np.ones((3, 5), dtype)
    fma_chain(c, a, np.ascontiguousarray(b.T), b_trans=True, accumulate=True)
    np.testing.assert_array_equal(c, a @ b + 1)


def test_compiled_words_are_within_the_bound_of_their_page() -> None:
    x = np.linspace(-20, 20, 1001, dtype=np.float32)
    given = CompiledWords().word("arith.exp", FP32)(x.reshape(7, 143))
    wanted = np.exp(x.astype(float)).reshape(7, 143)
    assert given.shape == (7, 143)
    np.testing.assert_allclose(given, wanted, rtol=1.2e-7)


def test_check_op_compares_native_code() -> None:
    x = np.linspace(-3, 3, 91, dtype=np.float32).reshape(7, 13)
    check_op(elementwise.tanh, x, native=run_native)
    check_op(elementwise.mul, x, x, native=run_native)
