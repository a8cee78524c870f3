"""Importing leaves nothing for the next collection to look at, and what the user froze frozen."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tilewright.garbage import importing, without_collections


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def generation_of(given: object) -> int:
    """The generation that an object is in; -1 for one that is frozen."""
    found = [n for n in range(3) if any(each is given for each in gc.get_objects(n))]
    return found[0] if found else -1


def test_what_is_made_while_importing_is_old() -> None:
    with importing():
        assert not gc.isenabled()
        made: list[object] = [[]]
        assert generation_of(made) == 0
    assert gc.isenabled() and generation_of(made) == 2 and not gc.get_freeze_count()


def test_what_is_frozen_stays_frozen() -> None:
    kept: list[object] = [[]]
    gc.freeze()
    with importing():
        made: list[object] = [[]]
    assert generation_of(kept) == -1 and generation_of(made) != -1


def test_who_collects_nothing_keeps_to_it() -> None:
    gc.disable()
    with importing(), without_collections():
        pass
    assert not gc.isenabled()
