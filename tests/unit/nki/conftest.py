"""Every test of this directory runs twice: compiled, and by the interpreter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tilewright.nki import _entry, _launch


@pytest.fixture(scope="module", params=["compiled", "interpreted"], autouse=True)
def engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Makes `nki.jit` prepare kernels for one of the two engines."""
    compiled = _entry.prepare
    if request.param == "interpreted":
        _entry.prepare = _launch.interpret
    yield
    _entry.prepare = compiled
