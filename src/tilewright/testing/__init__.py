"""Tests for kernels and ops: check one op against its page, compare IR, keep golden files."""

from tilewright.jit.comparing import Difference, find_difference
from tilewright.testing.compare import (
    assert_same_ir,
    assert_same_values,
    golden,
    same_values,
    ulp_distance,
)
from tilewright.testing.one_op import check_op, one_op_program

__all__ = [
    "Difference",
    "assert_same_ir",
    "assert_same_values",
    "check_op",
    "find_difference",
    "golden",
    "one_op_program",
    "same_values",
    "ulp_distance",
]
