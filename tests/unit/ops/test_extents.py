"""Integer scalars as extents: what is followed to its leaves, and what stands for itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tilewright.dtypes import FP32, INDEX, INT32, INT64, UINT32
from tilewright.errors import ArgumentTypeMismatch
from tilewright.ir.affine import Symbol, as_expr, simplify
from tilewright.ir.builder import Builder
from tilewright.ir.core import Value
from tilewright.ir.types import ScalarType, TensorType
from tilewright.ops import arith, memory
from tilewright.ops.cast import cast
from tilewright.ops.extents import as_dim, constant_of, same_dim, same_dims


@pytest.fixture(autouse=True)
def builder() -> Iterator[Builder]:
    with Builder() as active:
        yield active


def index(name: str, dtype: object = INDEX) -> Value:
    return Value(ScalarType(dtype), name)  # type: ignore[arg-type]


def test_constants_are_ints() -> None:
    seven = arith.const(value=7, dtype=INDEX)
    assert as_dim(seven) == 7
    assert constant_of(seven) == 7
    assert constant_of(index("n")) is None


def test_sums_products_and_divisions_are_followed() -> None:
    n = index("n")
    two = arith.const(value=2, dtype=INDEX)
    doubled = arith.add(arith.mul(n, two), arith.floordiv(n, two))
    assert as_dim(doubled) == simplify(2 * as_expr(n.symbol) + n.symbol // 2)
    assert as_dim(arith.sub(doubled, doubled)) == 0


def test_narrow_arithmetic_may_wrap_so_it_stands_for_itself() -> None:
    n = index("n", INT32)
    total = arith.add(n, n)
    assert as_dim(total) == as_expr(total.symbol)


def test_division_by_what_may_be_zero_stands_for_itself() -> None:
    n, m = index("n"), index("m")
    quotient = arith.floordiv(n, m)
    assert as_dim(quotient) == as_expr(quotient.symbol)


def test_exact_conversions_are_looked_through() -> None:
    n = index("n", INT32)
    assert as_dim(cast(n, dtype=INDEX)) == as_expr(n.symbol)
    narrow = cast(index("m", INT64), dtype=INT32)
    assert as_dim(narrow) == as_expr(narrow.symbol)
    unsigned = index("u", UINT32)
    assert as_dim(cast(unsigned, dtype=INT64)) == as_expr(unsigned.symbol)


def test_extents_of_tensors_come_from_their_types() -> None:
    rows = Symbol("N", 0)
    x = Value(TensorType((as_expr(rows), 64), FP32), "x")
    assert as_dim(memory.dim(x, axis=1)) == 64
    assert as_dim(memory.dim(x, axis=0)) == as_expr(rows)


def test_what_is_no_integer_is_refused() -> None:
    for given in (index("f", FP32), 1.5, True, "n"):
        with pytest.raises(ArgumentTypeMismatch, match="extent or offset"):
            as_dim(given)


def test_extents_compare_as_yes_no_or_unknown() -> None:
    n, m = Symbol("n", 1), Symbol("m", 1)
    assert same_dim(4, 4) is True
    assert same_dim(4, 5) is False
    assert same_dim(n + 1, 1 + as_expr(n)) is True
    assert same_dim(as_expr(n), as_expr(m)) is None
    assert not same_dims((4, as_expr(n)), (4, as_expr(m)))
