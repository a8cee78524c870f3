"""Casts round once, in every mode, between all dtypes with arithmetic."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tilewright.codegen.formats import FLOAT_FORMATS, INT_FORMATS, encode_constant, encode_float
from tilewright.codegen.words import cast
from tilewright.dtypes import DType
from tilewright.ir.enums import Rounding
from tilewright.ops import elementwise
from tilewright.testing import check_op
from tilewright.testing.native import run_native
from unit.codegen.native_code import NUMPY, MapKernel, available_isas, same_bits

Array = np.ndarray[Any, Any]
NARROW = list(FLOAT_FORMATS)
INTS = [name for name in INT_FORMATS if name not in ("INDEX", "TASK_ID")]
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
MODES = ["none", "rint", "round", "floor", "ceil", "trunc", "odd"]


def caster(isa: str, source: str, target: str, mode: str, lanes: int = 16) -> MapKernel:
    """A kernel of one cast."""
    return MapKernel(
        isa, [source], target, lanes, lambda t, v: cast(t, source, target, mode, lanes, *v)
    )


def all_patterns(dtype: str) -> Array:
    """Every value of a narrow format."""
    size = np.dtype(NUMPY[dtype]).itemsize
    count = 2 << FLOAT_FORMATS[dtype].sign_bit
    return np.arange(count, dtype=f"u{size}").view(NUMPY[dtype])


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("isa", available_isas())
def test_widening_is_exact_for_every_pattern(dtype: str, isa: str) -> None:
    x = all_patterns(dtype)
    for lanes in (1, 16):
        assert same_bits(caster(isa, dtype, "FP32", "rint", lanes)(x), x.astype(np.float32))


def hard_floats(dtype: str) -> Array:
    """Values, midpoints and their neighbours of a narrow format, and anything else."""
    values = all_patterns(dtype).astype(np.float64)
    values = np.unique(values[np.isfinite(values)])
    middles = (values[1:] + values[:-1]) / 2
    beyond = values[-1] + (values[-1] - values[-2]) * np.array([0.25, 0.5, 0.75, 1, 2])
    exact = np.concatenate([values, middles, beyond, -beyond]).astype(np.float32)
    near = np.concatenate([exact, np.nextafter(exact, 1e30), np.nextafter(exact, -1e30)])
    rng = np.random.default_rng(1)
    anything = rng.integers(0, 2**32, 20_000, dtype=np.uint32).view(np.float32)
    return np.concatenate([near.astype(np.float32), anything, np.float32([np.inf, -np.inf, -0.0])])


def rounded(x: Array, dtype: str, mode: str) -> Array:
    """The meaning of a cast to a narrow format: pick from the table of its values."""
    form = FLOAT_FORMATS[dtype]
    wide = x.astype(np.float64)
    table = np.arange(form.finite + 1, dtype=np.uint16).astype(
        f"u{np.dtype(NUMPY[dtype]).itemsize}"
    )
    values = table.view(NUMPY[dtype]).astype(np.float64)
    values = np.append(values, 2 * values[-1] - values[-2])
    size, negative = np.abs(wide), np.signbit(wide)
    finite = np.isfinite(size)
    low = np.searchsorted(values, np.where(finite, np.minimum(size, values[-1]), 0), "right") - 1
    high = np.minimum(low + (values[low] != size), len(values) - 1)
    middle = (values[low] + values[high]) / 2
    up = {
        "rint": (size > middle) | ((size == middle) & (low % 2 == 1)),
        "round": size >= middle,
        "floor": negative,
        "ceil": ~negative,
        "trunc": np.zeros_like(negative),
        "odd": low % 2 == 0,
    }["rint" if mode == "none" else mode]
    index = np.where(up, high, low)
    overflow = {"trunc": form.finite, "odd": form.finite}.get(mode, form.overflow)
    limit: Any = np.where(negative, form.overflow, form.finite) if mode == "floor" else overflow
    limit = np.where(negative, form.finite, form.overflow) if mode == "ceil" else limit
    index = np.where(index > form.finite, limit, index)
    index = np.where(np.isposinf(size), form.overflow, index)
    index = np.where(np.isnan(size), form.nan, index)
    bits = index | (negative.astype(np.int64) << form.sign_bit)
    return bits.astype(table.dtype).view(NUMPY[dtype])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", NARROW)
def test_narrowing_rounds_as_its_mode_says(dtype: str, mode: str) -> None:
    x = hard_floats(dtype)
    expected = rounded(x, dtype, mode)
    for isa in available_isas():
        assert same_bits(caster(isa, "FP32", dtype, mode)(x), expected), isa
    assert same_bits(caster(available_isas()[0], "FP32", dtype, mode, 1)(x), expected)


@pytest.mark.parametrize("dtype", NARROW)
def test_narrowing_to_even_agrees_with_numpy(dtype: str) -> None:
    x = hard_floats(dtype)
    x = x[~np.isnan(x)] if dtype == "FP4" else x  # which has no NaN
    with np.errstate(all="ignore"):
        assert same_bits(rounded(x, dtype, "rint"), x.astype(NUMPY[dtype]))


@pytest.mark.parametrize("mode", MODES)
def test_double_to_single_rounds_as_its_mode_says(mode: str) -> None:
    rng = np.random.default_rng(2)
    single = rng.integers(0, 2**32, 500, dtype=np.uint32).view(np.float32)
    single = single[np.isfinite(single)].astype(np.float64)
    following = np.nextafter(single.astype(np.float32), np.float32(3e38)).astype(np.float64)
    middle = (single + following) / 2
    x = np.concatenate([single, middle, np.nextafter(middle, 4e38), np.nextafter(middle, -4e38)])
    got = caster(available_isas()[0], "FP64", "FP32", mode)(x)
    for value, result in zip(x, got, strict=True):
        assert result == pick_single(float(value), mode), value


def pick_single(value: float, mode: str) -> float:
    """One double rounded to a single."""
    near = np.float32(value)
    if float(near) == value:
        return near
    low = near if float(near) < value else np.nextafter(near, np.float32(-np.inf))
    high = near if float(near) > value else np.nextafter(near, np.float32(np.inf))
    inner, outer = (low, high) if value > 0 else (high, low)
    if mode in ("none", "rint"):
        return near
    if mode == "round":
        tie = 2 * Fraction(value) == Fraction(float(low)) + Fraction(float(high))
        return outer if tie else near
    odd = inner if inner.view(np.uint32) & 1 else outer
    return {"floor": low, "ceil": high, "trunc": inner, "odd": odd}[mode]


WHOLE = {
    "none": np.trunc,
    "rint": np.rint,
    "round": lambda x: np.trunc(x) + np.copysign(np.abs(x - np.trunc(x)) >= 0.5, x),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "odd": lambda x: np.where(
        (np.trunc(x) != x) & (np.trunc(x) % 2 == 0), np.trunc(x) + np.sign(x), np.trunc(x)
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", INTS)
def test_float_to_integer_rounds_and_saturates(dtype: str, mode: str) -> None:
    rng = np.random.default_rng(3)
    halves = np.arange(-300, 300, 0.25)
    wild = rng.integers(0, 2**32, 3000, dtype=np.uint32).view(np.float32)
    x = np.concatenate(
        [halves, 2.0 ** np.arange(64), -(2.0 ** np.arange(64)), wild, [np.nan]]
    ).astype(np.float32)
    info = np.iinfo(NUMPY[dtype])
    with np.errstate(all="ignore"):
        whole = WHOLE[mode](x.astype(np.float64))
    expected = [0 if v != v else int(max(min(v, info.max), info.min)) for v in whole]
    expected = [min(e, int(info.max)) for e in expected]
    for isa in available_isas():
        assert caster(isa, "FP32", dtype, mode)(x).tolist() == expected, isa


@pytest.mark.parametrize("source", INTS)
@pytest.mark.parametrize("target", ["FP32", "FP64", *NARROW])
def test_integer_to_float_is_the_nearest(source: str, target: str) -> None:
    x = integers(source)
    wanted = [nearest(int(v), target) for v in x]
    for isa in available_isas():
        got = caster(isa, source, target, "round")(x)
        assert got.view(f"u{got.dtype.itemsize}").tolist() == wanted, isa


def nearest(value: int, dtype: str) -> int:
    """The bits of the float nearest to an integer, without rounding twice."""
    if dtype in FLOAT_FORMATS:
        size, sticky = abs(value), 0
        if size.bit_length() > 53:
            cut = size.bit_length() - 53
            sticky = int(size & ((1 << cut) - 1) != 0)
            size = (size >> cut | sticky) << cut
        return encode_float(float(size if value >= 0 else -size), FLOAT_FORMATS[dtype])
    if dtype == "FP64":
        return int(np.array(float(value)).view(np.uint64))
    exact = Fraction(value)
    near = np.float32(value)
    candidates = [near, np.nextafter(near, np.float32(3e38)), np.nextafter(near, np.float32(-3e38))]
    best = min(
        candidates, key=lambda c: (abs(Fraction(float(c)) - exact), int(c.view(np.uint32)) & 1)
    )
    return int(np.float32(best).view(np.uint32))


def integers(dtype: str) -> Array:
    """Corners and random values of an integer dtype."""
    info = np.iinfo(NUMPY[dtype])
    corners = [v for v in (0, 1, -1, info.min, info.max, info.max - 1) if info.min <= v <= info.max]
    for k in range(8, 64):
        corners += [
            v
            for d in (-1, 0, 1)
            for v in ((1 << k) + d, -(1 << k) + d)
            if info.min <= v <= info.max
        ]
    rng = np.random.default_rng(4)
    wild = rng.integers(info.min, info.max, 500, dtype=NUMPY[dtype], endpoint=True)
    return np.concatenate([np.array(corners, NUMPY[dtype]), wild])


@pytest.mark.parametrize("source", INTS)
def test_integer_casts_wrap(source: str) -> None:
    x = integers(source)
    for target in INTS:
        got = caster(available_isas()[0], source, target, "rint")(x)
        assert same_bits(got, x.astype(NUMPY[target])), target


def test_bool_casts_mean_not_zero() -> None:
    x = np.array([0.0, -0.0, 1e-45, 1, np.nan, np.inf], np.float32)
    isa = available_isas()[0]
    assert caster(isa, "FP32", "BOOL", "rint")(x).tolist() == [False, False, True, True, True, True]
    flags = np.array([True, False])
    for target in (*INTS, "FP32", *NARROW):
        assert caster(isa, "BOOL", target, "rint")(flags).astype(np.float32).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("dtype", NARROW)
def test_constants_are_encoded_as_numpy_does(dtype: str) -> None:
    values = hard_floats(dtype)[::7]
    for value in values[~np.isnan(values)].tolist():
        with np.errstate(all="ignore"):
            expected = np.array(value).astype(NUMPY[dtype])
        got = np.array(encode_constant(value, dtype)).astype(f"u{expected.dtype.itemsize}")
        assert same_bits(got.view(NUMPY[dtype]), expected), value


@pytest.mark.parametrize("dtype", ["INT4", "UINT4"])
def test_half_bytes_saturate_from_floats_and_wrap_from_integers(dtype: str) -> None:
    low, high = (-8, 7) if dtype == "INT4" else (0, 15)
    isa = available_isas()[0]
    x = np.arange(-20, 20, 0.5, np.float32)
    got = caster(isa, "FP32", dtype, "trunc")(x).astype(np.int32)
    assert got.tolist() == np.clip(np.trunc(x), low, high).tolist()
    whole = np.arange(-40, 40, dtype=np.int32)
    assert same_bits(
        caster(isa, "INT32", dtype, "rint")(whole).astype(np.int32), (whole - low) % 16 + low
    )
    raw = np.arange(256, dtype=np.uint8).view(NUMPY[dtype])
    assert same_bits(caster(isa, dtype, "INT32", "rint")(raw), raw.astype(np.int32))
    assert same_bits(caster(isa, dtype, "FP32", "rint")(raw), raw.astype(np.float32))


def test_powers_of_two_agree_with_numpy() -> None:
    isa = available_isas()[0]
    powers = np.arange(256, dtype=np.uint8).view(NUMPY["FP8E8M0"])
    assert same_bits(caster(isa, "FP8E8M0", "FP32", "rint")(powers), powers.astype(np.float32))
    x = np.abs(hard_floats("BF16"))
    x = np.concatenate([x[np.isfinite(x)], np.float32([0, -0.0, -1, np.inf, np.nan, 1e-45])])
    assert same_bits(caster(isa, "FP32", "FP8E8M0", "rint")(x), x.astype(NUMPY["FP8E8M0"]))


@pytest.mark.parametrize("mode", Rounding)
@pytest.mark.parametrize("target", ["FP4", "FP8E4M3", "FP8E4M3FN", "FP8E5M2"])
def test_the_meaning_of_a_cast_to_a_small_float_is_what_is_compiled(
    target: str, mode: Rounding
) -> None:
    wide = np.array([448, 464, 465, 1e4, 1e10, 0.1, 0.013, 2**-9, 2**-10, 0, np.inf, np.nan])
    given = [np.concatenate([wide, -wide]).astype(kind) for kind in (np.float32, np.float64)]
    small = ("FP4", "FP8E4M3", "FP8E4M3FN", "FP8E5M2", "FP8E8M0")
    for name in small:
        dtype = DType.from_name(name)
        given.append(np.arange(1 << dtype.bits, dtype=np.uint8).view(dtype.numpy))
    for x in given:
        check_op(elementwise.cast, x, dtype=DType.from_name(target), mode=mode, native=run_native)
