"""Options of a run: what they accept."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.runtime import RunConfig


@pytest.mark.parametrize("name", ["ring_task_window", "ring_heap", "ring_dep_pool"])
def test_a_ring_is_a_power_of_two_or_four_of_them(name: str) -> None:
    fits: list[Any] = [None, 1024, [1024, 2048, 4096, 1024]]
    for size in fits:
        assert getattr(RunConfig(**{name: size}), name) == size
    misfits: list[Any] = [1025, 0, "x", [1024, 1024], [1024, 1024, 1024, 3]]
    for size in misfits:
        with pytest.raises(ValueError, match=name):
            RunConfig(**{name: size})
