"""The math words of FP64 meet their ULP bounds against extended precision, alike on every ISA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.codegen.words import DOUBLE_WORDS, MATH_WORDS, word
from unit.codegen.native_code import MapKernel, available_isas, same_bits
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


def erf(x: Array) -> Array:
    """2/sqrt(pi) * e**(-x*x) * the sum of x * (2*x*x)**n / (1*3*...*(2*n+1)): no term cancels."""
    a = np.minimum(np.abs(x), 6.1)
    term = total = a
    for n in range(1, 140):
        term = term * (2 * a * a) / (2 * n + 1)
        total = total + term
    root = np.sqrt(2 * np.arccos(np.longdouble(0)))
    return np.copysign(total * np.exp(-a * a) * 2 / root, x)


BOUNDS: dict[str, tuple[Callable[[Array], Array], float]] = {
    "exp": (np.exp, 1.0),
    "exp2": (np.exp2, 1.0),
    "sigmoid": (sigmoid, 1.0),
    "tanh": (np.tanh, 1.0),
    "log": (np.log, 1.0),
    "log1p": (np.log1p, 1.0),
    "erf": (erf, 1.1),
    "sin": (np.sin, 1.0),
    "cos": (np.cos, 1.0),
    "tan": (np.tan, 3.0),
    "atan": (np.arctan, 1.0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.0),
}


def sample(count: int) -> Array:
    rng = np.random.default_rng(5)
    turns = np.rint(rng.uniform(-6e5, 6e5, count)) * (np.pi / 2)
    near = rng.uniform(-1, 1, count) * np.exp2(rng.integers(-60, 3, count))
    parts = [
        rng.integers(0, 1 << 64, count, dtype=np.uint64).view(np.float64),
        rng.uniform(-750, 715, count),
        rng.standard_normal(count),
        rng.uniform(0.5, 2, count),
        rng.uniform(-7, 7, count),
        turns,
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
    assert DOUBLE_WORDS.keys() == MATH_WORDS.keys()
    assert BOUNDS.keys() | {"pow"} == MATH_WORDS.keys() | {"rsqrt"}


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


def binary(isa: str, name: str, lanes: int = 16) -> MapKernel:
    """A kernel that applies one word to two operands."""
    dtypes = ["FP64", "FP64"]
    return MapKernel(isa, dtypes, "FP64", lanes, lambda t, v: word(t, name, "FP64", lanes, *v))


def pairs_of(values: Array) -> tuple[Array, Array]:
    left, right = np.meshgrid(values, values)
    return left.ravel(), right.ravel()


def test_pow_of_binary64_meets_its_bound() -> None:
    rng = np.random.default_rng(6)
    small = 1 + rng.uniform(-1, 1, 50_000) * np.exp2(-rng.uniform(2, 50, 50_000))
    x = np.concatenate([np.exp2(rng.uniform(-1074, 1023, 50_000)), small])
    y = rng.uniform(-1, 1, x.size) * 1070 / np.maximum(np.abs(np.log2(x)), 1e-300)
    exact = np.power(x.astype(np.longdouble), y)
    assert ulp_errors(binary(available_isas()[0], "pow")(x, y), exact).max() <= 1.0


@pytest.mark.parametrize("name", ["pow", "mod", "fmod"])
def test_words_on_two_numbers_of_binary64_are_those_of_numpy_in_special_cases(name: str) -> None:
    more = [3.0, -3.0, 2.5, 0.5, 2.0**53, 2.0**53 + 2, 1e-20]
    x, y = pairs_of(np.concatenate([SPECIAL, np.array(more)]))
    expected = getattr(np, {"pow": "power"}.get(name, name))(x, y)
    odd = ~np.isfinite(expected) | (expected == 0) | (np.abs(expected) == 1) | (name != "pow")
    for isa in available_isas():
        got = [binary(isa, name, lanes)(x, y) for lanes in (1, 16)]
        assert same_bits(got[0], got[1])
        assert same_bits(got[0][odd], expected[odd]), isa


@pytest.mark.parametrize("name", ["mod", "fmod"])
def test_remainders_of_binary64_are_exact(name: str) -> None:
    rng = np.random.default_rng(7)
    x, y = rng.integers(0, 1 << 64, (2, 20_000), dtype=np.uint64).view(np.float64)
    x, y = (
        np.concatenate([x, rng.normal(0, 9, 9_000)]),
        np.concatenate([y, rng.normal(0, 1, 9_000)]),
    )
    assert same_bits(binary(available_isas()[0], name)(x, y), getattr(np, name)(x, y))
