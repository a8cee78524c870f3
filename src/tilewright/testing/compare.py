"""Comparing IR, values and texts, with failures that say where the difference is."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.ir.equal import find_difference

Array = npt.NDArray[Any]
UPDATE = "TILEWRIGHT_UPDATE_GOLDEN"


def assert_same_ir(left: Any, right: Any) -> None:
    """Raises AssertionError, naming the first difference, unless two IR nodes mean the same.

    Names and spans do not count. Both texts are part of the message.
    """
    difference = find_difference(left, right)
    if difference is not None:
        raise AssertionError(f"different at {difference}\n--- left\n{left}\n--- right\n{right}")


def _bits(array: Array) -> Array:
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.itemsize in (1, 2, 4, 8) else array


def same_values(left: Any, right: Any, ulp: float = 0.0) -> Array:
    """Where two arrays of one dtype agree, as BOOL: equal bits, or at most `ulp` apart.

    Any NaN equals any NaN; zeros of different signs differ when `ulp` is 0.
    """
    a, b = np.asarray(left), np.asarray(right)
    if a.dtype.kind in "iub":
        return np.asarray(a == b)
    nan = np.isnan(a) & np.isnan(b)
    if ulp:
        return nan | (ulp_distance(a, b) <= ulp)
    return nan | (_bits(a) == _bits(b))


def ulp_distance(left: Any, right: Any) -> Array:
    """How far apart floats are, in units in the last place of the greater magnitude."""
    a, b = (np.asarray(side).astype(np.float64) for side in (left, right))
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(a), np.abs(b)).astype(np.asarray(left).dtype)
        unit = np.abs(np.spacing(size).astype(np.float64))
        distance = np.abs(a - b) / unit
    return np.where(a == b, 0.0, np.where(np.isnan(distance), np.inf, distance))


def assert_same_values(given: Any, wanted: Any, what: str = "value", ulp: float = 0.0) -> None:
    """Raises AssertionError unless shapes, dtypes and contents agree (see `same_values`)."""
    a, b = np.asarray(given), np.asarray(wanted)
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        raise AssertionError(
            f"{what}: {a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
        )
    differs = ~same_values(a, b, ulp)
    if differs.any():
        where = tuple(map(int, np.argwhere(differs)[0]))
        raise AssertionError(
            f"{what}: {int(differs.sum())} of {a.size} elements differ; "
            f"element {list(where)} is {a[where]!r} instead of {b[where]!r}"
        )


def golden(path: str | os.PathLike[str], text: str) -> None:
    """Raises AssertionError with a diff unless the file at `path` holds `text`.

    With TILEWRIGHT_UPDATE_GOLDEN=1 in the environment the file is written instead.
    """
    file = Path(path)
    if os.environ.get(UPDATE) == "1":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    elif not file.exists():
        raise AssertionError(f"there is no {file.name} yet: run with {UPDATE}=1")
    expected = file.read_text(encoding="utf-8")
    if expected != text:
        sides = (expected.splitlines(keepends=True), text.splitlines(keepends=True))
        diff = "".join(difflib.unified_diff(*sides, "golden", "now"))
        raise AssertionError(f"{file.name} has changed ({UPDATE}=1 accepts this)\n{diff}")
