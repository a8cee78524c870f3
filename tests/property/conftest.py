"""Random programs are printed and read back by a check of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tilewright.ir.builder import FINISH_HOOKS


@pytest.fixture(autouse=True)
def no_observers() -> Iterator[None]:
    """Nobody watches finished programs: not every one of these can be written as text."""
    hooks = list(FINISH_HOOKS)
    FINISH_HOOKS.clear()
    yield
    FINISH_HOOKS.extend(hooks)
