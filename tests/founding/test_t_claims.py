"""Rows about the founding document: what is contract, what is detail, which claim is where."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilewright.dtypes import ALL, DType
from tilewright.frontend import calls
from tilewright.nki.trace import CompileOpts, TraceContext

HERE = Path(__file__).parent
TEXTS = {path.name: path.read_text() for path in sorted(HERE.glob("test_t_*.py"))}
CLAIMS = {
    "the order of the gates": ("T-007", "T-036", "T-043", "T-044", "T-045", "T-046"),
    "branches are refused by the type of the condition": ("T-062", "T-063", "T-072"),
    "four modules are excluded": ("T-018",),
    "tensors and masks are nki data": ("T-012", "T-013"),
    "a top-level kernel returns no Python value": ("T-109",),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_each_verified_claim_has_tests(claim: str) -> None:
    """T-123"""
    quoted = "\n".join(text for name, text in TEXTS.items() if name != Path(__file__).name)
    assert all(row in quoted for row in CLAIMS[claim])


def test_every_row_is_quoted() -> None:
    """T-123"""
    quoted = {row for text in TEXTS.values() for row in re.findall(r"T-\d{3}", text)}
    assert quoted >= {f"T-{number:03}" for number in range(1, 126)}


def test_addresses_are_not_part_of_the_contract() -> None:
    """T-011"""
    text = "\n".join(TEXTS.values())
    assert not re.search(r"0x[0-9a-f]{4,}", text) and "__pyx" + "_" not in text
    assert "function without nki data as input should not return nki data" in text


def test_inlining_and_the_return_check_are_internal() -> None:
    """T-048, T-049, T-058, T-124"""
    assert not hasattr(TraceContext, "inline_function")
    assert calls.GATES[-1][1] is calls.run and len(calls.GATES) == 5


def test_no_guard_against_sub_interpreters_is_relied_on() -> None:
    """T-106, T-124"""
    assert not hasattr(TraceContext, "main_interpreter_id")


def test_shadowing_is_told_from_scopes() -> None:
    """T-120"""
    ctx = TraceContext(CompileOpts())
    assert all(hasattr(ctx, name) for name in ("is_out_of_scope", "is_the_same_scope"))
    assert ctx.kernel_scope.parent_scope is None


@pytest.mark.parametrize("dtype", ALL, ids=lambda dtype: dtype.name)
def test_every_element_type_has_a_name_a_code_and_storage(dtype: DType) -> None:
    """R-028"""
    assert DType.from_name(dtype.name) is dtype and DType.from_code(dtype.code()) is dtype
    assert dtype.numpy.itemsize >= dtype.nbytes or dtype.bits < 8
