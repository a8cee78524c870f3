"""What every test shares: a private cache, reproducible hypothesis, optional packages."""

from __future__ import annotations

import importlib.util
import os
import tempfile

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("long", parent=settings.get_profile("default"), max_examples=5000)
settings.register_profile("random", parent=settings.get_profile("default"), derandomize=False, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Before any test imports tilewright: no test reads or fills the user's own cache.
os.environ["TILEWRIGHT_CACHE_DIR"] = tempfile.mkdtemp(prefix="tilewright-tests-")

OPTIONAL = {"torch": "torch", "mpi": "mpi4py"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, by name, the tests whose optional package is not installed."""
    missing = {m: p for m, p in OPTIONAL.items() if importlib.util.find_spec(p) is None}
    for item in items:
        for marker, package in missing.items():
            if marker in item.keywords:
                item.add_marker(pytest.mark.skip(reason=f"{package} is not installed"))
