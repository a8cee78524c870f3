"""Every row of what the founding documents promise has a test that quotes it.

A row is quoted by the name of a test (`test_p_142_whole_write`, `test_p_125_to_p_131_...`) or by
its docstring (`P-142`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
ROWS = {"T": 125, "P": 195, "R": 42}
WITHOUT_TEST = {
    "P-042": "what is not supported while a kernel is compiled is documented, not tested",
}
ROW = r"(?<![a-z])([tpr])[_-]?(\d{3})(?!\d)"
RANGE = re.compile(rf"{ROW}_to_{ROW.replace('(?<![a-z])', '')}", re.IGNORECASE)
SINGLE = re.compile(ROW, re.IGNORECASE)


def rows_of(text: str) -> Iterator[str]:
    """ "test_p_125_to_p_131_x" -> P-125 ... P-131."""
    for kind, first, _, last in RANGE.findall(text):
        yield from (f"{kind.upper()}-{n:03}" for n in range(int(first), int(last) + 1))
    yield from (f"{kind.upper()}-{number}" for kind, number in SINGLE.findall(text))


def quoted() -> dict[str, set[str]]:
    """The tests that quote each row."""
    found: dict[str, set[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for row in rows_of(f"{node.name} {ast.get_docstring(node) or ''}"):
                    found.setdefault(row, set()).add(f"{path.name}::{node.name}")
    return found


def every_row() -> list[str]:
    return [f"{kind}-{number:03}" for kind, last in ROWS.items() for number in range(1, last + 1)]


def test_names_and_docstrings_are_read_for_rows() -> None:
    assert list(rows_of("test_p_125_to_p_127_types")) == [
        "P-125",
        "P-126",
        "P-127",
        "P-125",
        "P-127",
    ]
    assert set(rows_of("test_p006_p014_every_module")) == {"P-006", "P-014"}
    assert set(rows_of("test_p_140_and_more T-003, R-022")) == {"P-140", "T-003", "R-022"}
    assert set(rows_of("test_part_100_of_it")) == set()


def test_every_row_is_quoted_by_a_test() -> None:
    found = quoted()
    missing = [row for row in every_row() if row not in found and row not in WITHOUT_TEST]
    assert not missing, "rows without a test: " + ", ".join(missing)


@pytest.mark.parametrize("row", WITHOUT_TEST)
def test_rows_that_no_test_can_hold_stay_few(row: str) -> None:
    assert row not in quoted(), f"{row} has a test by now: strike it from the list"


def test_no_test_quotes_a_row_that_is_not_there() -> None:
    unknown = sorted(set(quoted()) - set(every_row()))
    assert not unknown, unknown
