"""The math words of FP64 meet their ULP bounds against extended precision, alike on every ISA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.codegen.math_double import DOUBLE_WORDS
from tilewright.codegen.words import MATH_WORDS
from tilewright.errors import UnsupportedFeatureError
from unit.codegen.native_code import available_isas, same_bits
from unit.codegen.test_words_math import unary

Array = np.ndarray[Any, Any]
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="no precision beyond FP64 here"),
]
SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e-310, -1e-310, 1.0, -1.0, 2.0]
    + [709.78, 709.79, -745.1, -745.2, -708.5, 1024.0, 1023.99, -1074.0, -1075.1, 1e300, -1e300]
    + [22.0, -22.0, 40.0, 1e-20, -1e-20, -0.5, -0.9999999999999999, 1.7976931348623157e308]
)


def sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


BOUNDS: dict[str, tuple[Callable[[Array], Array], float]] = {
    "exp": (np.exp, 1.0),
    "exp2": (np.exp2, 1.0),
    "sigmoid": (sigmoid, 2.5),
    "tanh": (np.tanh, 2.0),
    "log": (np.log, 1.0),
    "log1p": (np.log1p, 1.0),
}


def sample(count: int) -> Array:
    rng = np.random.default_rng(5)
    near = rng.uniform(-1, 1, count) * np.exp2(rng.integers(-60, 3, count))
    parts = [
        rng.integers(0, 1 << 64, count, dtype=np.uint64).view(np.float64),
        rng.uniform(-750, 715, count),
        rng.standard_normal(count),
        rng.uniform(0.5, 2, count),
        near,
        SPECIAL,
    ]
    return np.concatenate(parts)


def ulp_errors(got: Array, exact: Array) -> Array:
    """Errors in units of the last place of FP64, where the exact result is a finite FP64."""
    rounded = exact.astype(np.float64)
    unit = np.spacing(np.abs(rounded)).astype(np.longdouble)
    errors = np.abs(got.astype(np.longdouble) - exact) / unit
    return np.where(np.isfinite(rounded), errors, 0).astype(np.float64)


def test_each_word_of_binary64_has_a_bound() -> None:
    assert DOUBLE_WORDS.keys() == BOUNDS.keys()


@pytest.mark.parametrize("name", BOUNDS)
def test_word_of_binary64_meets_its_bound_and_special_values(name: str) -> None:
    function, bound = BOUNDS[name]
    x = sample(50_000)
    exact = function(x.astype(np.longdouble))
    got = unary(available_isas()[0], name, 16, "FP64")(x)
    errors = ulp_errors(got, exact)
    worst = int(errors.argmax())
    assert errors[worst] <= bound, (x[worst], got[worst])
    expected = exact.astype(np.float64)
    odd = ~np.isfinite(expected) | (expected == 0)
    assert same_bits(got[odd], expected[odd])


@pytest.mark.parametrize("name", BOUNDS)
def test_word_of_binary64_gives_the_same_bits_everywhere(name: str) -> None:
    x = sample(5_000)
    first, *others = (unary(isa, name, 16, "FP64")(x) for isa in available_isas())
    others.append(unary(available_isas()[0], name, 1, "FP64")(x))
    assert all(same_bits(first, other) for other in others)


@pytest.mark.parametrize("name", sorted(MATH_WORDS.keys() - DOUBLE_WORDS.keys()))
def test_other_words_are_refused_for_binary64(name: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="binary32"):
        unary(available_isas()[0], name, 16, "FP64")
