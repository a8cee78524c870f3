"""What every test shares: a private cache, reproducible hypothesis, optional packages."""

from __future__ import annotations

import importlib.util
import os
import signal
import tempfile
from collections.abc import Iterator

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import HealthCheck, settings

settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
default = settings.get_profile("default")
settings.register_profile("random", parent=default, derandomize=False, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Before any test imports tilewright: the user's own settings and cache play no part.
for name in [name for name in os.environ if name.startswith(("TILEWRIGHT_", "PYPTO_"))]:
    del os.environ[name]
CACHE = tempfile.TemporaryDirectory(prefix="tilewright-tests-", ignore_cleanup_errors=True)
os.environ["TILEWRIGHT_CACHE_DIR"] = CACHE.name
os.environ["XDG_CACHE_HOME"] = CACHE.name

OPTIONAL = {"torch": "torch", "mpi": "mpi4py"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, by name, the tests whose optional package is not installed."""
    missing = {m: p for m, p in OPTIONAL.items() if importlib.util.find_spec(p) is None}
    for item in items:
        for marker, package in missing.items():
            if marker in item.keywords:
                item.add_marker(pytest.mark.skip(reason=f"{package} is not installed"))


@pytest.fixture(scope="session", autouse=True)
def elsewhere() -> Iterator[None]:
    """What a compilation writes beside its program goes with the cache."""
    before = os.getcwd()
    os.chdir(CACHE.name)
    yield
    os.chdir(before)


def pytest_sessionstart() -> None:
    """From here on every finished program is printed, parsed and compared."""
    import roundtrip

    roundtrip.install()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # a shell starts background jobs so; the tests of Ctrl-C need Python's own handler
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Shows which ops the random programs used, and which checks they passed."""
    from property.tally import RANDOM_PROGRAMS, Tally

    tally = Tally()
    for report in terminalreporter.getreports("passed"):
        for name, counts in report.user_properties:
            if name == RANDOM_PROGRAMS:
                tally.add(counts)
    if tally.programs:
        terminalreporter.section(RANDOM_PROGRAMS)
        for line in tally.table():
            terminalreporter.write_line(line)
