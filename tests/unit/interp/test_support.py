from __future__ import annotations

import numpy as np
import pytest

from tilewright.interp.support import resolve
from tilewright.ir.affine import Access, Symbol


@pytest.mark.parametrize(
    "value", [7, np.int32(7), np.array(7, np.uint8)], ids=lambda v: str(type(v))
)
def test_what_runs_puts_plain_numbers_into_accesses(value: object) -> None:
    start = Symbol("start")
    found = resolve(Access.window([start * 2**31, 0], [4, 8]), {start: value})
    corner = found.map[0] - found.dims[0]
    assert not found.free_symbols and type(corner.const) is int
    assert hash(corner) == hash(7 * 2**31), "no element type bounds it"
