"""Entries on disk: whole or absent, checked, pruned, never written where that is forbidden."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from tilewright.cache import Entry, State, Store, cache_stats
from tilewright.cache.store import InvalidEntry, decode, encode

DIGEST = "ab" + "0" * 62


def entry(digest: str = DIGEST, body: bytes = b"code") -> Entry:
    return Entry(digest, State.READY, (("kernel", "k"),), {"object": body}, created=1.0)


def test_an_entry_comes_back_as_it_was_written(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.find(DIGEST, State.READY) is None
    assert store.publish(entry())
    assert store.find(DIGEST, State.READY) == entry()
    assert store.find(DIGEST, State.GENERATED) is None


@pytest.mark.parametrize("cut", [0, 5, 40, 60])
def test_a_truncated_entry_is_counted_and_ignored(tmp_path: Path, cut: int) -> None:
    store = Store(tmp_path)
    store.publish(entry())
    path = store.path(DIGEST, State.READY)
    path.write_bytes(path.read_bytes()[:cut])
    before = cache_stats().invalid_entries
    assert store.find(DIGEST, State.READY) is None
    assert cache_stats().invalid_entries == before + 1


def test_a_flipped_bit_is_noticed() -> None:
    data = bytearray(encode(entry()))
    data[-3] ^= 1
    with pytest.raises(InvalidEntry, match="checksum"):
        decode(bytes(data))


def test_an_entry_under_another_key_is_not_used(tmp_path: Path) -> None:
    store = Store(tmp_path)
    other = "cd" + "0" * 62
    store.publish(entry())
    store.path(other, State.READY).parent.mkdir()
    store.path(DIGEST, State.READY).rename(store.path(other, State.READY))
    assert store.find(other, State.READY) is None


def test_a_readonly_store_writes_neither_entries_nor_locks(tmp_path: Path) -> None:
    store = Store(tmp_path, readonly=True)
    with store.building(DIGEST):
        assert not store.publish(entry())
    assert list(tmp_path.iterdir()) == []


def test_a_root_that_cannot_be_written_is_counted_not_raised(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    store = Store(blocked)
    before = cache_stats().storage_errors
    with store.building(DIGEST):
        assert not store.publish(entry())
    assert cache_stats().storage_errors > before


def test_no_unfinished_file_stays_behind(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number in range(5):
        store.publish(entry(body=b"x" * number))
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [f"{DIGEST}.ready"]


def test_pruning_takes_the_longest_unused_first(tmp_path: Path) -> None:
    store = Store(tmp_path)
    digests = [f"{number:02x}" + "0" * 62 for number in range(4)]
    for age, digest in enumerate(reversed(digests)):
        store.publish(entry(digest, b"x" * 1000))
        used = time.time() - 100 * age
        os.utime(store.path(digest, State.READY), (used, used))
    size = store.path(digests[0], State.READY).stat().st_size
    removed = store.prune(max_bytes=2 * size)
    assert [path.stem for path in removed] == digests[:2]
    assert [path.stem for path in store.prune(max_age=50)] == digests[2:3]
    assert [path.stem for path in store.files()] == digests[3:]


def hold(root: str, seconds: float) -> None:
    with Store(root).building(DIGEST):
        time.sleep(seconds)


def test_one_process_builds_while_the_others_wait(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    other = context.Process(target=hold, args=(str(tmp_path), 0.5))
    other.start()
    lock = tmp_path / "locks" / f"{DIGEST}.lock"
    deadline = time.monotonic() + 30
    while not lock.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    start = time.monotonic()
    with Store(tmp_path).building(DIGEST):
        waited = time.monotonic() - start
    other.join()
    assert waited > 0.2
