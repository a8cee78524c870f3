"""Arithmetic words: IEEE floats, wrapping integers, defined corners."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.codegen.formats import INT_FORMATS
from tilewright.codegen.words import constant, word
from tilewright.errors import UnsupportedFeatureError
from unit.codegen.native_code import NUMPY, MapKernel, available_isas, same_bits

Array = np.ndarray[Any, Any]
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
INTS = [name for name in INT_FORMATS if name not in ("INDEX", "TASK_ID")]
FLOATS = ["FP32", "FP16", "BF16", "FP64"]


def binary(isa: str, name: str, dtype: str, result: str = "", lanes: int = 16) -> MapKernel:
    """A kernel of one word on two operands."""
    return MapKernel(
        isa, [dtype, dtype], result or dtype, lanes, lambda t, v: word(t, name, dtype, lanes, *v)
    )


def int_pairs(dtype: str) -> tuple[Array, Array]:
    """All pairs of corners, and random ones."""
    info = np.iinfo(NUMPY[dtype])
    corners = np.array(
        [
            v
            for v in (0, 1, 2, 3, 7, -1, -2, -7, info.min, info.max, info.max // 2)
            if info.min <= v <= info.max
        ],
        NUMPY[dtype],
    )
    left, right = (a.ravel() for a in np.meshgrid(corners, corners))
    rng = np.random.default_rng(0)
    wild = rng.integers(info.min, info.max, (2, 400), dtype=NUMPY[dtype], endpoint=True)
    small = rng.integers(0, 9, 400).astype(NUMPY[dtype])
    return np.concatenate([left, wild[0], wild[0]]), np.concatenate([right, wild[1], small])


def truncated(x: int, y: int) -> int:
    """Quotient toward zero."""
    return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


INT_MEANING: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda x, y, w: x + y,
    "sub": lambda x, y, w: x - y,
    "mul": lambda x, y, w: x * y,
    "div": lambda x, y, w: truncated(x, y),
    "floordiv": lambda x, y, w: x // y if y else 0,
    "mod": lambda x, y, w: x % y if y else 0,
    "fmod": lambda x, y, w: x - truncated(x, y) * y if y else 0,
    "min": lambda x, y, w: min(x, y),
    "max": lambda x, y, w: max(x, y),
    "and": lambda x, y, w: x & y,
    "or": lambda x, y, w: x | y,
    "xor": lambda x, y, w: x ^ y,
    "shl": lambda x, y, w: x << y if 0 <= y < w else 0,
    "shr": lambda x, y, w: x >> (y if 0 <= y < w else w),
    "pow": lambda x, y, w: pow(x, y, 1 << w) if y >= 0 else 0,
}


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("name", INT_MEANING)
def test_integer_word_wraps_and_has_no_traps(name: str, dtype: str) -> None:
    x, y = int_pairs(dtype)
    width = 8 * x.dtype.itemsize
    exact = [INT_MEANING[name](int(a), int(b), width) for a, b in zip(x, y, strict=True)]
    wanted = np.array([v & ((1 << width) - 1) for v in exact], f"u{width // 8}").view(x.dtype)
    for isa in available_isas():
        for lanes in (1, 16):
            got = binary(isa, name, dtype, lanes=lanes)(x, y)
            assert same_bits(got, wanted), (isa, lanes)


PREDICATES = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def float_pairs(dtype: str) -> tuple[Array, Array]:
    """All pairs of corners, and random ones."""
    corners = np.array([0, -0.0, 1, -1, 2.5, -3, np.inf, -np.inf, np.nan, 6e-5, 6e4, 1e-7, 1 / 3])
    rng = np.random.default_rng(0)
    left, right = (a.ravel() for a in np.meshgrid(corners, corners))
    x = np.concatenate([left, rng.normal(0, 10, 1000)]).astype(NUMPY[dtype])
    return x, np.concatenate([right, rng.normal(0, 3, 1000)]).astype(NUMPY[dtype])


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
@pytest.mark.parametrize("name", PREDICATES)
def test_comparison_agrees_with_numpy(name: str, dtype: str) -> None:
    x, y = float_pairs(dtype) if dtype in FLOATS else int_pairs(dtype)
    for isa in available_isas():
        got = binary(isa, name, dtype, "BOOL")(x, y)
        assert got.tolist() == PREDICATES[name](x, y).tolist(), isa


FLOAT_MEANING: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": lambda x, y: np.where((x == 0) & (y == 0), -(-x - y), np.minimum(x, y)),
    "max": lambda x, y: np.where((x == 0) & (y == 0), x + y, np.maximum(x, y)),
    "floordiv": lambda x, y: np.floor(x / y),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FLOAT_MEANING)
def test_float_word_rounds_once(name: str, dtype: str) -> None:
    x, y = float_pairs(dtype)
    wide = np.float64 if dtype == "FP64" else np.float32
    with np.errstate(all="ignore"):
        wanted = FLOAT_MEANING[name](x.astype(wide), y.astype(wide)).astype(NUMPY[dtype])
    for isa in available_isas():
        for lanes in (1, 16):
            assert same_bits(binary(isa, name, dtype, lanes=lanes)(x, y), wanted), (isa, lanes)


@pytest.mark.parametrize("dtype", ["FP32", "FP16", "BF16"])
@pytest.mark.parametrize("name", ["mod", "fmod"])
def test_float_remainder_is_exact(name: str, dtype: str) -> None:
    x, y = float_pairs(dtype)
    x = np.concatenate([x, np.array([3e38, -3e38, 1e30, 1e-45, 1]).astype(x.dtype)])
    y = np.concatenate([y, np.array([1e-44, 7e-41, 3, 1, 1e-45]).astype(x.dtype)])
    meaning = {"mod": np.mod, "fmod": np.fmod}[name]
    with np.errstate(all="ignore"):
        wanted = meaning(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)
    for isa in available_isas():
        for lanes in (1, 16):
            assert same_bits(binary(isa, name, dtype, lanes=lanes)(x, y), wanted), (isa, lanes)


UNARY_MEANING: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "round": lambda x: np.copysign(np.floor(np.abs(x)) + (np.abs(x) % 1 >= 0.5), x),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY_MEANING)
def test_unary_float_word_is_exact(name: str, dtype: str) -> None:
    x = np.concatenate([*float_pairs(dtype), np.arange(-5, 5, 0.25).astype(NUMPY[dtype])])
    wide = np.float64
    with np.errstate(all="ignore"):
        wanted = UNARY_MEANING[name](x.astype(wide)).astype(x.dtype)
    for isa in available_isas():
        kernel = MapKernel(isa, [dtype], dtype, 16, lambda t, v: word(t, name, dtype, 16, *v))
        assert same_bits(kernel(x), wanted), isa


def test_fma_rounds_once_even_without_the_instruction() -> None:
    rng = np.random.default_rng(9)
    x, y = (rng.integers(0, 2**32, 20_000, dtype=np.uint32).view(np.float32) for _ in range(2))
    with np.errstate(all="ignore"):
        product = (x.astype(np.float64) * y.astype(np.float64)).astype(np.float32)
    z = np.where(rng.integers(0, 2, x.size), -product, rng.normal(size=x.size)).astype(np.float32)
    results = [
        MapKernel(
            isa, ["FP32"] * 3, "FP32", lanes, lambda t, v, n=lanes: word(t, "fma", "FP32", n, *v)
        )(x, y, z)
        for isa in available_isas()
        for lanes in (1, 16)
    ]
    exact = np.array(
        [float_fma(*v) for v in zip(x[:2000], y[:2000], z[:2000], strict=True)], np.float32
    )
    assert same_bits(results[0][:2000], exact)
    assert all(same_bits(r, results[0]) for r in results)


def float_fma(x: np.float32, y: np.float32, z: np.float32) -> float:
    """x*y + z rounded once, through exact fractions."""
    from fractions import Fraction

    if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(z)):
        with np.errstate(all="ignore"):
            return float(np.float64(x) * np.float64(y) + np.float64(z))
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    if exact == 0:
        return float(np.float64(x) * np.float64(y) + np.float64(z))
    return float(nearest_single(exact))


def nearest_single(exact: Any) -> np.float32:
    """The single nearest to a fraction, half to even."""
    from fractions import Fraction

    sign, size = (-1 if exact < 0 else 1), abs(exact)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length() - 24, -149)
    while size / Fraction(2) ** exponent >= 2**24:
        exponent += 1
    whole = round(size / Fraction(2) ** exponent)
    return (
        np.float32(sign * np.ldexp(np.float64(whole), exponent))
        if exponent < 105
        else np.float32(sign * np.inf)
    )


def test_word_without_meaning_is_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="exp of INT32"):
        binary(available_isas()[0], "exp", "INT32")
    with pytest.raises(UnsupportedFeatureError, match="FP4"):
        MapKernel("avx2", ["FP32"], "FP32", 1, lambda t, v: word(t, "add", "FP4", 1, *v, *v))


def beside(isa: str, name: str, bound: float, lanes: int, order: int) -> MapKernel:
    """A kernel of an extreme of its operand and a constant, in this order or the other."""
    given = constant(bound, "FP32", lanes)
    return MapKernel(
        isa,
        ["FP32"],
        "FP32",
        lanes,
        lambda t, v: word(t, name, "FP32", lanes, *(v[0], given)[::order]),
    )


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("bound", [-1.0, 2.0, 0.0, -0.0, np.inf, np.nan])
def test_extremes_beside_a_constant_are_those_beside_a_value(bound: float, lanes: int) -> None:
    x = np.array([0, -0.0, 1, -1, 2, np.inf, -np.inf, np.nan, 1e-45, -1e-45] * 2, np.float32)
    for isa in available_isas():
        for name in ("min", "max"):
            expected = binary(isa, name, "FP32", lanes=lanes)(x, np.full_like(x, bound))
            for order in (1, -1):
                assert same_bits(beside(isa, name, bound, lanes, order)(x), expected)
