"""The math words meet their ULP bounds, and give the same bits on every ISA and any lane count."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

from tilewright.codegen.machine import assembly
from tilewright.codegen.words import word
from unit.codegen.native_code import (
    NUMPY,
    MapKernel,
    available_isas,
    same_bits,
    target_for,
    ulp_errors,
)

Array = np.ndarray[Any, Any]
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

BOUNDS: dict[str, tuple[Callable[[Array], Array], float]] = {
    "exp": (np.exp, 1.0),
    "exp2": (np.exp2, 1.0),
    "sigmoid": (scipy.special.expit, 1.0),
    "tanh": (np.tanh, 0.7),
    "erf": (scipy.special.erf, 0.7),
    "log": (np.log, 1.0),
    "log1p": (np.log1p, 1.0),
    "sin": (np.sin, 1.0),
    "cos": (np.cos, 1.0),
    "tan": (np.tan, 1.0),
    "atan": (np.arctan, 1.0),
    "sqrt": (np.sqrt, 0.5),
    "rsqrt": (lambda x: 1.0 / np.sqrt(x), 0.51),
    "recip": (lambda x: 1.0 / x, 0.5),
}

SPECIAL = np.array(
    [
        0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1e-45,
        -1e-45,
        1e-40,
        -1e-40,
        1.17549435e-38,
        1,
        -1,
        0.5,
        -0.5,
    ]
    + [
        3.4e38,
        -3.4e38,
        88.7,
        88.73,
        -87.4,
        -103.97,
        -104,
        127.99,
        128,
        -126.5,
        -149,
        -150,
        2**23,
        1e22,
    ],
    np.float32,
)


def sample(count: int) -> Array:
    """Special values, every exponent, and the ranges where the words have their corners."""
    rng = np.random.default_rng(20)
    anything = rng.integers(0, 2**32, count, dtype=np.uint32).view(np.float32)
    return np.concatenate(
        [
            SPECIAL,
            anything,
            rng.normal(0, 3, count).astype(np.float32),
            rng.uniform(-110, 95, count).astype(np.float32),
            rng.uniform(-1, 2, count).astype(np.float32),
        ]
    )


def unary(isa: str, name: str, lanes: int, dtype: str = "FP32") -> MapKernel:
    """A kernel that applies one word."""
    return MapKernel(isa, [dtype], dtype, lanes, lambda t, v: word(t, name, dtype, lanes, *v))


@pytest.mark.parametrize("name", BOUNDS)
def test_word_meets_its_ulp_bound(name: str) -> None:
    exact, bound = BOUNDS[name]
    x = sample(100_000)
    got = unary(available_isas()[0], name, 16)(x)
    with np.errstate(all="ignore"):
        errors = ulp_errors(got, exact(x.astype(np.float64)))
    worst = int(errors.argmax())
    assert errors[worst] <= bound + 1e-3, (x[worst], got[worst])


@pytest.mark.parametrize("name", BOUNDS)
def test_word_has_the_special_values_of_numpy(name: str) -> None:
    exact, _ = BOUNDS[name]
    got = unary(available_isas()[0], name, 16)(SPECIAL)
    with np.errstate(all="ignore"):
        expected = exact(SPECIAL.astype(np.float64)).astype(np.float32)
    odd = ~np.isfinite(expected) | (expected == 0)
    assert same_bits(got[odd], expected[odd])


@pytest.mark.parametrize("name", BOUNDS)
def test_word_has_the_same_bits_everywhere(name: str) -> None:
    x = sample(2_000)
    first = unary(available_isas()[0], name, 16)(x)
    for isa in available_isas():
        for lanes in (1, 4, 16, 32):
            assert same_bits(unary(isa, name, lanes)(x), first), (isa, lanes)


@pytest.mark.parametrize("name", BOUNDS)
def test_word_needs_no_library(name: str) -> None:
    for isa in available_isas():
        for lanes in (1, 16):
            assert undefined_symbols(unary(isa, name, lanes).loaded.object) == []


@pytest.mark.parametrize("name", ["exp", "exp2", "sigmoid"])
def test_bounds_take_one_instruction_each(name: str) -> None:
    for isa in available_isas():
        written = assembly(unary(isa, name, 16).text, target_for(isa))
        assert {"minps", "maxps"} <= set(re.findall(r"\bv?(m(?:in|ax)ps)\b", written)), isa


def undefined_symbols(data: bytes) -> list[str]:
    """The names an ELF object expects from elsewhere."""
    header = np.frombuffer(data, np.uint8, 64)
    sections = int(header[40:48].view(np.uint64)[0])
    count = int(header[60:62].view(np.uint16)[0])
    table = np.frombuffer(data, np.uint64, count * 8, sections).reshape(count, 8)
    names: list[str] = []
    for row in table:
        if int(row[0]) >> 32 != 2:
            continue
        link = int(row[5]) & 0xFFFFFFFF
        strings = int(table[link][3])
        symbols = np.frombuffer(data, np.uint32, int(row[4]) // 4, int(row[3])).reshape(-1, 6)
        for symbol in symbols[1:]:
            if symbol[1] >> 16 == 0:
                start = strings + int(symbol[0])
                names.append(data[start : data.index(b"\0", start)].decode())
    return names


@pytest.mark.parametrize("dtype", ["FP16", "BF16"])
@pytest.mark.parametrize("name", BOUNDS)
def test_narrow_math_is_binary32_rounded_once(name: str, dtype: str) -> None:
    isa = available_isas()[0]
    kernel = unary(isa, name, 16, dtype)

    x = np.arange(65536, dtype=np.uint16).view(NUMPY[dtype])
    wide = unary(isa, name, 16)(x.astype(np.float32))
    with np.errstate(all="ignore"):
        assert same_bits(kernel(x), wide.astype(NUMPY[dtype]))


@pytest.mark.parametrize(("dtype", "bits", "least"), [("FP16", 11, -24), ("BF16", 8, -133)])
@pytest.mark.parametrize("name", BOUNDS)
def test_narrow_math_is_all_but_correctly_rounded(
    name: str, dtype: str, bits: int, least: int
) -> None:
    x = np.arange(65536, dtype=np.uint16).view(NUMPY[dtype])
    exact = BOUNDS[name][0](x.astype(np.float64))
    got = unary(available_isas()[0], name, 16, dtype)(x).astype(np.float64)
    kept = np.isfinite(got) & np.isfinite(exact)
    unit = np.exp2(np.maximum(np.frexp(exact)[1] - bits, least).astype(np.float64))
    assert (np.abs(got - exact)[kept] / unit[kept]).max() <= 0.502


POW_SPECIAL = np.array(
    [
        0,
        -0.0,
        1,
        -1,
        np.inf,
        -np.inf,
        np.nan,
        2,
        -2,
        0.5,
        -0.5,
        3,
        -3,
        2**24,
        1e-45,
        3e38,
        -1e-45,
        2.5,
    ],
    np.float32,
)


def binary_pow(isa: str, lanes: int) -> MapKernel:
    """A kernel that raises to a power."""
    return MapKernel(
        isa, ["FP32", "FP32"], "FP32", lanes, lambda t, v: word(t, "pow", "FP32", lanes, *v)
    )


def test_pow_meets_its_ulp_bound() -> None:
    rng = np.random.default_rng(5)
    x = np.exp2(rng.uniform(-140, 127, 300_000)).astype(np.float32)
    limit = 149 / np.maximum(np.abs(np.log2(x.astype(np.float64))), 1e-3)
    y = (rng.uniform(-1, 1, x.size) * limit).astype(np.float32)
    got = binary_pow(available_isas()[0], 16)(x, y)
    with np.errstate(all="ignore"):
        errors = ulp_errors(got, np.power(x.astype(np.float64), y.astype(np.float64)))
    assert errors.max() <= 1.0


def test_pow_has_the_special_values_of_ieee() -> None:
    x, y = (a.ravel() for a in np.meshgrid(POW_SPECIAL, POW_SPECIAL))
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
    for isa in available_isas():
        assert same_bits(binary_pow(isa, 16)(x, y), expected), isa
