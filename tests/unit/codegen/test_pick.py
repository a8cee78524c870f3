"""Small tables: every lane gets its own entry, by register or by memory."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.codegen.lanes import Lanes
from tilewright.codegen.pick import ENTRIES, pick
from unit.codegen.native_code import MapKernel, available_isas

TABLE = tuple(float(k * k) for k in range(ENTRIES))


def picked(isa: str, lanes: int) -> MapKernel:
    return MapKernel(
        isa, ["INT32"], "FP32", lanes, lambda t, v: pick(TABLE, Lanes(t, v[0], "i32", lanes)).ref
    )


@pytest.mark.parametrize("lanes", [1, 4, 16, 32])
@pytest.mark.parametrize("isa", available_isas())
def test_the_low_four_bits_of_an_index_pick_an_entry(isa: str, lanes: int) -> None:
    index = np.random.default_rng(2).integers(-(1 << 31), 1 << 31, 320).astype(np.int32)
    assert np.array_equal(picked(isa, lanes)(index), np.square(index & 15).astype(np.float32))


@pytest.mark.parametrize(("isa", "instruction"), [("avx512", "permvar"), ("avx2", "permps")])
def test_a_register_of_indices_takes_permutations(isa: str, instruction: str) -> None:
    if isa not in available_isas():
        pytest.skip(f"this machine has no {isa}")
    text = picked(isa, ENTRIES).text
    assert instruction in text
    assert "private" not in text


def test_equal_tables_in_memory_are_one() -> None:
    isa = available_isas()[-1]
    kernel = MapKernel(
        isa,
        ["INT32"],
        "FP32",
        1,
        lambda t, v: (
            (pick(TABLE, Lanes(t, v[0], "i32", 1)) + pick(TABLE, Lanes(t, v[0], "i32", 1))).ref
        ),
    )
    assert kernel.text.count("private unnamed_addr constant") == 1
    assert kernel(np.arange(4, dtype=np.int32)).tolist() == [0.0, 2.0, 8.0, 18.0]
