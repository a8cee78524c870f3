"""check_op accepts what a page says and names what it does not; comparisons say where."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tilewright import ir
from tilewright.dtypes import FP32, INT32
from tilewright.errors import DTypeMismatch, UnsupportedFeatureError
from tilewright.ir.core import Value
from tilewright.ir.opdef import OPS, op
from tilewright.ops import elementwise, reduce
from tilewright.testing import (
    assert_same_ir,
    assert_same_values,
    check_op,
    golden,
    one_op_program,
    ulp_distance,
)


@op("test.lies")
def lies(x: Value) -> Value:
    """Says FP32 and gives FP64."""


@lies.type_rule
def lies_type(x):  # type: ignore[no-untyped-def]
    return x.type


@lies.reference
def lies_numpy(x):  # type: ignore[no-untyped-def]
    return x.astype(np.float64)


LIES = OPS.pop("test.lies")


@op("test.twins")
def twins(x: Value) -> Value:
    """x, twice, with one structure for both."""


@twins.type_rule
def twins_type(x):  # type: ignore[no-untyped-def]
    return x.type, x.type


@twins.reference
def twins_numpy(x):  # type: ignore[no-untyped-def]
    return x.copy(), x.copy()


@twins.structure
def twins_loops(x):  # type: ignore[no-untyped-def]
    assert elementwise.neg.loops is not None
    return elementwise.neg.loops(x)


TWINS = OPS.pop("test.twins")


def test_a_correct_use_gives_its_results() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (given,) = check_op(elementwise.add, x, x)
    assert (given == 2 * x).all()


def test_attributes_are_keywords() -> None:
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    (given,) = check_op(reduce.max_, x, operand_kind="tensor", axes=(1,), keepdims=False)
    assert given.tolist() == [2, 5]


def test_an_operation_with_a_structure_has_one_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPS, TWINS.name, TWINS)
    with pytest.raises(UnsupportedFeatureError, match=r"test\.twins gives 2 results") as caught:
        ir.compile(one_op_program(TWINS, [np.ones((2, 3), np.float32)], {})[0])
    assert "an operation of its own" in str(caught.value)


def test_a_reference_that_disagrees_with_its_type_rule_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(OPS, LIES.name, LIES)
    with pytest.raises(AssertionError, match=r"test\.lies: result 0 has dtype float64"):
        check_op(LIES, np.ones((2, 3), np.float32))


def test_a_refused_use_raises_the_error_of_the_type_rule() -> None:
    with pytest.raises(DTypeMismatch):
        check_op(elementwise.add, np.ones(3, np.float32), np.ones(3, np.int32))


def test_native_code_that_disagrees_is_named() -> None:
    x = np.ones((2, 2), np.float32)
    with pytest.raises(AssertionError, match="native result 0: 4 of 4 elements differ"):
        check_op(elementwise.add, x, x, native=lambda program, entry, arrays: [x])


def test_equal_programs_are_equal_whatever_their_names() -> None:
    x = np.ones((2, 2), np.float32)
    left, _ = one_op_program(elementwise.add, (x, x), {})
    right, _ = one_op_program(elementwise.add, (x, x), {})
    assert_same_ir(left, right)


def test_different_programs_say_where_they_differ() -> None:
    x = np.ones((2, 2), np.float32)
    left, _ = one_op_program(elementwise.add, (x, x), {})
    right, _ = one_op_program(elementwise.sub, (x, x), {})
    with pytest.raises(AssertionError, match=r"elementwise\.add"):
        assert_same_ir(left, right)


@pytest.mark.parametrize(
    ("given", "wanted", "same"),
    [
        (np.nan, -np.nan, True),
        (0.0, -0.0, False),
        (1.0, np.nextafter(np.float32(1), np.float32(2)), False),
        (np.inf, np.inf, True),
    ],
)
def test_values_are_compared_by_bits(given: float, wanted: float, same: bool) -> None:
    sides = (np.array([given], np.float32), np.array([wanted], np.float32))
    if same:
        assert_same_values(*sides)
    else:
        with pytest.raises(AssertionError, match=r"element \[0\]"):
            assert_same_values(*sides)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_neighbours_are_one_ulp_apart(dtype: type) -> None:
    one = np.array([1, 2, 0], dtype)
    assert ulp_distance(one, np.nextafter(one, dtype(3))).max() <= 1
    assert ulp_distance(one, np.nextafter(one, dtype(3))).min() > 0


def test_a_golden_file_shows_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "text.txt"
    with pytest.raises(AssertionError, match=r"there is no text\.txt"):
        golden(file, "a\n")
    monkeypatch.setenv("TILEWRIGHT_UPDATE_GOLDEN", "1")
    golden(file, "a\n")
    monkeypatch.delenv("TILEWRIGHT_UPDATE_GOLDEN")
    golden(file, "a\n")
    with pytest.raises(AssertionError, match="-a"):
        golden(file, "b\n")
    assert (FP32.name, INT32.name) == ("FP32", "INT32")
