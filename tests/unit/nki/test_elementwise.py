"""Element-wise functions of `nl`: meaning, promotion, types computed in."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.language as nl

RNG = np.random.default_rng(7)
X = (RNG.standard_normal((4, 24)) * 2).astype(np.float32)
Y = (RNG.standard_normal((4, 24)) + 3.0).astype(np.float32)
ERF = np.vectorize(math.erf)
BF16 = ml_dtypes.bfloat16


def run(body: Callable[..., Any], *arrays: Any, dtype: Any = np.float32) -> Any:
    """What `body(*tiles)` gives, stored as `dtype`."""

    @nki.jit
    def kernel(*tensors):
        out = nl.ndarray(tensors[0].shape, dtype=dtype, buffer=nl.shared_hbm)
        nl.store(out, value=body(*[nl.load(each) for each in tensors]))
        return out

    return kernel(*arrays)


def result_type(body: Callable[..., Any], *arrays: Any) -> Any:
    """The element type of what `body(*tiles)` gives."""
    found: list[Any] = []

    @nki.jit
    def kernel(*tensors):
        out = nl.ndarray(tensors[0].shape, dtype=nl.float32, buffer=nl.shared_hbm)
        result = body(*[nl.load(each) for each in tensors])
        found.append(result.dtype)
        nl.store(out, result)
        return out

    kernel.lower(*arrays)
    return found[0]


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softplus(x: Any) -> Any:
    return np.log1p(np.exp(x))


def derivative(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The symmetric difference quotient, in float64."""
    return lambda x: (function(x + 1e-5) - function(x - 1e-5)) / 2e-5


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + ERF(x / math.sqrt(2)))


UNARY: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs,
    "arctan": np.arctan,
    "ceil": np.ceil,
    "cos": np.cos,
    "erf": ERF,
    "erf_dx": derivative(ERF),
    "exp": np.exp,
    "floor": np.floor,
    "gelu": gelu,
    "gelu_apprx_sigmoid": lambda x: x * sigmoid(1.702 * x),
    "gelu_apprx_sigmoid_dx": derivative(lambda x: x * sigmoid(1.702 * x)),
    "gelu_apprx_tanh": lambda x: (
        0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "gelu_dx": derivative(gelu),
    "mish": lambda x: x * np.tanh(softplus(x)),
    "negative": np.negative,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": sigmoid,
    "sign": np.sign,
    "silu": lambda x: x * sigmoid(x),
    "silu_dx": derivative(lambda x: x * sigmoid(x)),
    "sin": np.sin,
    "softplus": softplus,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}
POSITIVE: dict[str, Callable[[Any], Any]] = {
    "log": np.log,
    "reciprocal": np.reciprocal,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mod": np.mod,
    "fmod": np.fmod,
}


@pytest.mark.parametrize("name", UNARY)
def test_a_function_of_one_tile_means_its_definition(name: str) -> None:
    want = UNARY[name](X.astype(np.float64))
    np.testing.assert_allclose(run(getattr(nl, name), X), want, rtol=3e-5, atol=2e-6)


@pytest.mark.parametrize("name", POSITIVE)
def test_a_function_of_a_positive_tile_means_its_definition(name: str) -> None:
    np.testing.assert_allclose(run(getattr(nl, name), np.abs(X)), POSITIVE[name](np.abs(X)), 3e-5)


@pytest.mark.parametrize("name", BINARY)
def test_a_function_of_two_tiles_means_its_definition(name: str) -> None:
    np.testing.assert_allclose(run(getattr(nl, name), X, Y), BINARY[name](X, Y), rtol=2e-5)


def test_powers_and_shifts() -> None:
    np.testing.assert_allclose(run(nl.power, Y, X), Y**X, rtol=1e-4)
    n = np.arange(96, dtype=np.int32).reshape(4, 24)
    assert np.array_equal(run(lambda t: nl.left_shift(t, 3), n, dtype=np.int32), n << 3)
    assert np.array_equal(run(lambda t: nl.right_shift(t, 2), n, dtype=np.int32), n >> 2)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bits_of_integers_combine(name: str) -> None:
    a = RNG.integers(-1000, 1000, (4, 24)).astype(np.int32)
    b = RNG.integers(-1000, 1000, (4, 24)).astype(np.int32)
    got = run(getattr(nl, name), a, b, dtype=np.int32)
    assert np.array_equal(got, getattr(np, name)(a, b))


@pytest.mark.parametrize(
    "name", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
)
def test_comparisons_give_booleans(name: str) -> None:
    y = np.where(X > 0, X, Y)
    got = run(getattr(nl, name), X, y, dtype=np.uint8)
    assert np.array_equal(got, getattr(np, name)(X, y))
    assert result_type(getattr(nl, name), X, y) == np.bool_


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logic_is_about_zero_and_nonzero(name: str) -> None:
    a, b = np.trunc(X), np.trunc(Y - 3)
    got = run(getattr(nl, name), a, b, dtype=np.uint8)
    assert np.array_equal(got, getattr(np, name)(a, b))


def test_the_complements() -> None:
    a = np.trunc(X)
    assert np.array_equal(run(nl.logical_not, a, dtype=np.uint8), np.logical_not(a))
    n = np.arange(96, dtype=np.int32).reshape(4, 24)
    assert np.array_equal(run(nl.invert, n, dtype=np.int32), ~n)


def test_operators_mean_their_functions() -> None:
    def body(x, y):
        t = (2.0 - x) * y / 3.0 + abs(-x)
        return t // 1.0 + t % 2.0 + y**2.0

    t = (2 - X) * Y / 3 + np.abs(X)
    np.testing.assert_allclose(run(body, X, Y), t // 1 + np.mod(t, 2) + Y**2, rtol=1e-4, atol=1e-5)


def test_operands_broadcast_along_both_dimensions() -> None:
    @nki.jit
    def kernel(x, row, column):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.add(nl.multiply(nl.load(x), nl.load(row)), nl.load(column)))
        return out

    row, column = X[:1] * 2, X[:, :1] + 1
    np.testing.assert_allclose(kernel(X, row, column), X * row + column, rtol=1e-6)


def test_where_selects_by_a_tile() -> None:
    got = run(lambda x, y: nl.where(x > 0, x, y), X, Y)
    assert np.array_equal(got, np.where(X > 0, X, Y))


INTS = np.arange(96).reshape(4, 24)
PROMOTIONS: list[tuple[Any, Any, Any]] = [
    (np.float16, np.float16, np.float16),
    (np.float16, BF16, np.float32),
    (np.float32, BF16, np.float32),
    (ml_dtypes.float8_e4m3, ml_dtypes.float8_e5m2, BF16),
    (ml_dtypes.float8_e4m3, np.float16, np.float16),
    (np.int8, np.float16, np.float16),
    (np.int8, np.uint8, np.int16),
    (np.int8, np.uint16, np.int32),
    (np.int32, np.uint32, np.float32),
    (np.uint8, np.uint16, np.uint16),
    (np.int16, np.int32, np.int32),
]


@pytest.mark.parametrize(("left", "right", "wanted"), PROMOTIONS)
def test_two_types_promote_to_a_wider_one(left: Any, right: Any, wanted: Any) -> None:
    a, b = INTS.astype(left), INTS.astype(right)
    assert result_type(nl.add, a, b) == np.dtype(wanted)
    assert result_type(nl.add, b, a) == np.dtype(wanted)


@pytest.mark.parametrize(
    ("dtype", "number", "wanted"),
    [
        (np.float16, 1.2, np.float32),
        (np.int8, 2, np.int32),
        (np.int8, True, np.int16),
        (np.int32, 1.5, np.float32),
        (np.float16, np.float16(2), np.float16),
        (np.float16, np.float64(1.2), np.float32),
        (np.int8, np.int64(2), np.int32),
        (np.int8, np.uint64(2), np.int32),
        (np.float16, 2, np.float16),
    ],
)
def test_python_numbers_are_wide(dtype: Any, number: Any, wanted: Any) -> None:
    assert result_type(lambda t: t + number, INTS.astype(dtype)) == np.dtype(wanted)


def test_arithmetic_rounds_once_to_the_type_that_is_asked_for() -> None:
    a, b = X.astype(np.float16), Y.astype(np.float16)
    wide = run(lambda x, y: nl.multiply(x, y, dtype=nl.float32), a, b)
    assert np.array_equal(wide, a.astype(np.float32) * b.astype(np.float32))
    narrow = run(lambda x, y: nl.multiply(x, y, dtype=nl.bfloat16), a, b)
    assert np.array_equal(narrow, wide.astype(BF16).astype(np.float32))


def test_conversion_to_integers_rounds_to_even_and_saturates() -> None:
    values = np.array([[0.5, 1.5, 2.5, -0.5, 300.0, -300.0, 126.7, np.nan]], np.float32)
    got = run(lambda t: t.astype(nl.int8), values, dtype=np.int8)
    assert got.tolist() == [[0, 2, 2, 0, 127, -128, 127, 0]]


def test_tensor_comparisons_are_int8_tiles() -> None:
    assert result_type(lambda t: t > 0, X) == np.int8
    assert np.array_equal(run(lambda t: t > 0, X, dtype=np.int8), X > 0)


def test_every_function_records_unknown_keywords() -> None:
    assert np.array_equal(run(lambda t: nl.add(t, 1.0, name="sum"), X), X + 1)


def test_extremes_of_magnitudes_and_a_leaky_rectifier() -> None:
    @nki.jit
    def kernel(x, y, slopes):
        out = nl.ndarray((5, 4, 6), dtype=x.dtype, buffer=nl.shared_hbm)
        a, b = nl.load(x), nl.load(y)
        nl.store(out[0], nl.abs_max(a, b))
        nl.store(out[1], nl.abs_min(a, b))
        nl.store(out[2], nl.abs_max(a, -1.5))
        nl.store(out[3], nl.prelu(a, 0.25))
        nl.store(out[4], nl.prelu(a, nl.load(slopes)))
        return out

    x, y = (np.linspace(-3, 3, 24, dtype=np.float32).reshape(4, 6) * s for s in (1, -0.7))
    slopes = np.arange(4, dtype=np.float32).reshape(4, 1)
    got = kernel(x, y.astype(np.float32), slopes)
    y = y.astype(np.float32)
    assert np.array_equal(got[0], np.maximum(np.abs(x), np.abs(y)))
    assert np.array_equal(got[1], np.minimum(np.abs(x), np.abs(y)))
    assert np.array_equal(got[2], np.maximum(np.abs(x), np.float32(1.5)))
    assert np.array_equal(got[3], np.where(x > 0, x, x * np.float32(0.25)))
    assert np.array_equal(got[4], np.where(x > 0, x, x * slopes))
